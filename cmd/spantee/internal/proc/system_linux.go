package proc

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setDefault restores a signal's default action. signal.Reset would restore Go's
// own action for crash signals: print all stacks and exit with status 2.
func setDefault(s syscall.Signal) bool {
	var action [64]byte // a struct sigaction: SIG_DFL, no flags, an empty mask
	const sizeofSigset = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, sizeofSigset, 0, 0)
	return errno == 0 || s == syscall.SIGKILL
}

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

const (
	minFiles   = 16      // Go's runtime alone dies with less than 8
	minAddress = 1 << 30 // Go's runtime reserves 800 MB of it at the start
)

// LowLimits describes the limits of the process with which it may not be able to run.
func LowLimits() (low []string) {
	var files, address unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur < minFiles {
		low = append(low, fmt.Sprintf("%d open files (ulimit -n; want %d or more)", files.Cur, minFiles))
	}
	if unix.Getrlimit(unix.RLIMIT_AS, &address) == nil && address.Cur < minAddress {
		low = append(low, fmt.Sprintf("%d KiB of address space (ulimit -v; want %d or more)", address.Cur>>10, minAddress>>10))
	}
	return low
}
