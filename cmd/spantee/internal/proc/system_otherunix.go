//go:build unix && !linux

package proc

import "syscall"

// setDefault reports whether a signal has the system's default action once it is
// reset. For crash signals Go prints all stacks and exits with status 2, and it
// ignores SIGPIPE.
func setDefault(s syscall.Signal) bool {
	switch s {
	case syscall.SIGPIPE, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGFPE,
		syscall.SIGBUS, syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGEMT:
		return false
	}
	return true
}
