package spool

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock locks a file, unless another process has locked it. What is locked cannot be read,
// so the lock is far past the end.
func flock(f *os.File) (locked bool, err error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	return err == nil, ignore(err, windows.ERROR_LOCK_VIOLATION)
}
