package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bigPipe is how much a pipe holds that is read from, or written to, in bulk.
const bigPipe = 1 << 20

// enlargePipe makes a pipe hold more: a writer and a reader on two processors
// then rarely wait for each other. What is no pipe, or the user's allowance
// does not cover, stays as it is.
func enlargePipe(file any) {
	if file, ok := file.(syscall.Conn); ok {
		if conn, err := file.SyscallConn(); err == nil { // File.Fd would make the pipe blocking
			_ = conn.Control(func(fd uintptr) {
				if size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil && size < bigPipe {
					_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bigPipe)
				}
			})
		}
	}
}

// lowerPriority makes the calling thread yield to the others of the process,
// and to those before and after it in the pipe.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) }
