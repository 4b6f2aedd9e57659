//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package spool

import (
	"errors"
	"os"
)

// Lock fails: this system has no locks that end with their process and belong to an
// open file.
func Lock(*os.File) (locked bool, err error) { return false, errors.ErrUnsupported }
