package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setDefault makes a signal do what the system has it do. signal.Reset would
// bring back what Go does on those of a crash: print all stacks and exit by 2.
func setDefault(s syscall.Signal) bool {
	var action [64]byte // a struct sigaction: SIG_DFL, no flags, an empty mask
	const sizeofSigset = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, sizeofSigset, 0, 0)
	return errno == 0 || s == syscall.SIGKILL
}
