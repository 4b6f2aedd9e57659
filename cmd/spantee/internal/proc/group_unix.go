//go:build unix

package proc

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// setGroup gives a process a group of its own, so that the whole group can be
// ended. If stdin is a terminal, the process stays in spantee's group, because a
// terminal stops background groups that read from it.
func setGroup(cmd *exec.Cmd, stdin *os.File) {
	if _, terminal := TerminalWidth(stdin); !terminal {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
}

// hasGroup reports whether a process leads a group of its own.
func hasGroup(p *os.Process) bool {
	group, err := syscall.Getpgid(p.Pid)
	return err == nil && group == p.Pid
}

// endProcess ends a process, or its group: with SIGTERM, and with SIGKILL after
// delay.
func endProcess(p *os.Process, group bool, delay time.Duration) {
	target := p.Pid
	if group {
		target = -p.Pid
	}
	if delay > 0 {
		_ = syscall.Kill(target, syscall.SIGTERM) // the process may have just ended
		time.Sleep(delay)
	}
	_ = syscall.Kill(target, syscall.SIGKILL)
}
