package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUnlinked opens a file of mode 0600 that never has a name. NFS and FUSE
// have no such files.
func openUnlinked(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return createUnlinked(dir)
	}
	return os.NewFile(uintptr(fd), "spill"), nil
}

func reserveSpace(f spillFile, offset, size int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if closed := conn.Control(func(fd uintptr) {
		err = unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, offset, size)
	}); closed != nil {
		return closed
	}
	return err
}
