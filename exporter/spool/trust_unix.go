//go:build unix

package spool

import (
	"io/fs"
	"syscall"
)

// checksMode is false where permission bits do not say who may write.
const checksMode = true

// openFlags keep an open from following a link and from waiting.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func owner(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
