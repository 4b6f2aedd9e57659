//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package spool

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// flock locks a file, unless another process has locked it.
func flock(f *os.File) (locked bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil, ignore(err, syscall.EWOULDBLOCK)
		}
	}
}
