//go:build unix && !linux

package main

import "syscall"

// setDefault tells whether a signal does what the system has it do once it is
// reset. On those of a crash Go prints all stacks and exits by 2, and on SIGPIPE
// it does nothing.
func setDefault(s syscall.Signal) bool {
	switch s {
	case syscall.SIGPIPE, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGFPE,
		syscall.SIGBUS, syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGEMT:
		return false
	}
	return true
}
