//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package spool

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lock locks a file for as long as it is open. It returns false if another process holds the
// lock, and an error if the disk does not support locks.
func Lock(f *os.File) (locked bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil, ignore(err, syscall.EWOULDBLOCK)
		}
	}
}
