package spool

import (
	"errors"
	"os"
	"syscall"
)

// TryLock creates the file at path, and locks it for as long as it is open. It returns nil
// if another process holds the lock, and an error if the disk does not support locks.
func TryLock(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && trust(path, info, 0) != nil {
		_ = os.Remove(path)
	}
	onDisk("lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if locked, err := Lock(f); !locked {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isUnsupported reports whether an error means that the disk does not support
// locks.
func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}
