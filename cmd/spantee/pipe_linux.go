package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bigPipe is the size of a pipe that is read or written in bulk.
const bigPipe = 1 << 20

// enlargePipe makes a pipe hold more, so that a writer and a reader on two
// processors rarely wait for each other. It does nothing if file is not a pipe, or
// if the user's allowance is used up.
func enlargePipe(file any) {
	onDescriptor(file, func(fd int) {
		if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && size < bigPipe {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, bigPipe)
		}
	})
}

// teePipe passes up to size of the next bytes of the pipe in to the pipe out. They
// stay in in, too. It returns how many they are: 0 if there is nothing to pass or no
// room, if out has no reader, or if in or out is not a pipe. It does not wait. Like
// pv(1), it passes memory pages: a program that gave them to the pipe with vmsplice(2)
// must not change them once in is empty.
func teePipe(in, out *os.File, size int) (n int) {
	onDescriptor(in, func(from int) {
		onDescriptor(out, func(to int) {
			if teed, err := unix.Tee(from, to, size, unix.SPLICE_F_NONBLOCK); err == nil {
				n = int(teed)
			}
		})
	})
	return n
}

// onDescriptor calls f with the descriptor of a file. It does nothing if file has none.
func onDescriptor(file any, f func(fd int)) {
	if file, ok := file.(syscall.Conn); ok {
		if conn, err := file.SyscallConn(); err == nil { // File.Fd would make the pipe blocking
			_ = conn.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}
