//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// setGroup gives a process a group of its own, which ends with it. A terminal
// would stop a group in the background that reads from it, so with one the process
// stays in spantee's.
func setGroup(cmd *exec.Cmd, stdin *os.File) {
	if !isTerminal(stdin) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
}

// hasGroup tells whether a process leads a group of its own.
func hasGroup(p *os.Process) bool {
	group, err := syscall.Getpgid(p.Pid)
	return err == nil && group == p.Pid
}

// endProcess ends a process, or its group: first kindly, and for good after delay.
func endProcess(p *os.Process, group bool, delay time.Duration) {
	target := p.Pid
	if group {
		target = -p.Pid
	}
	if delay > 0 {
		_ = syscall.Kill(target, syscall.SIGTERM) // it may have just ended
		time.Sleep(delay)
	}
	_ = syscall.Kill(target, syscall.SIGKILL)
}
