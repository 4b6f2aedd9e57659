package spool

import (
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks a file for as long as it is open. It returns false if another process holds the
// lock, and an error if the disk does not support locks. What is locked cannot be read,
// so the lock is far past the end.
func Lock(f *os.File) (locked bool, err error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	return err == nil, ignore(err, windows.ERROR_LOCK_VIOLATION)
}
