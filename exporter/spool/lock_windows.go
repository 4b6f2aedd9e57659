package spool

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock locks a file, unless another process has locked it.
func flock(f *os.File) (locked bool, err error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	return err == nil, ignore(err, windows.ERROR_LOCK_VIOLATION)
}
