//go:build !unix

package spool

import "io/fs"

// On Windows a user's profile is closed to others by its access control list.
const (
	checksMode = false
	openFlags  = 0
)

func owner(fs.FileInfo) (uid int, ok bool) { return 0, false }
