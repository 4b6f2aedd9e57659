package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bigPipe is the size of a pipe that is read or written in bulk.
const bigPipe = 1 << 20

// enlargePipe makes a pipe hold more, so that a writer and a reader on two
// processors rarely wait for each other. It does nothing if file is not a pipe, or
// if the user's allowance is used up.
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

// lowerPriority makes the calling thread yield to the process's other threads, and
// to the other processes in the pipe.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) }
