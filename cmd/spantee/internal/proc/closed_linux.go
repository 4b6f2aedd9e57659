package proc

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// WatchClosed calls gone once the pipe f has no reader any more. It does not watch
// other files, or named pipes, which may be opened again. The caller must stop the
// watch before closing f, because poll keeps f open.
func WatchClosed(f *os.File, gone func()) (stop func()) {
	var fd uintptr
	if conn, err := f.SyscallConn(); err != nil || conn.Control(func(own uintptr) { fd = own }) != nil { // Fd may make f blocking
		return func() {}
	}
	name, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
	if !strings.HasPrefix(name, "pipe:") {
		return func() {}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.Close()
		fds := []unix.PollFd{{Fd: int32(fd)}, {Fd: int32(r.Fd())}} // without events: errors only
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				break
			}
		}
		if fds[0].Revents&unix.POLLERR != 0 {
			gone()
		}
	}()
	return func() {
		w.Close()
		<-done
	}
}
