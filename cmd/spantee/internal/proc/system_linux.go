package proc

import (
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
