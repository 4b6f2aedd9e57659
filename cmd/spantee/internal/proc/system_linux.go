package proc

import (
	"fmt"
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
