//go:build unix

package proc

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BrokenPipe is the signal for writing to a stdout without a reader.
const BrokenPipe = syscall.SIGPIPE

// starting gets a SIGQUIT that arrives before signals are caught, or in a command
// that catches none.
var starting = make(chan os.Signal, 1)

// QuitQuietly makes SIGQUIT end the process as it ends other programs: by default,
// Go prints its goroutines.
func QuitQuietly() {
	keepIgnored()
	if signal.Ignored(syscall.SIGQUIT) {
		return
	}
	signal.Notify(starting, syscall.SIGQUIT)
	go func() { dieBy(<-starting) }()
}

// CatchSignals delivers the signals that end a process, and turns a write to a
// closed stdout into an error. By default either ends a Go program before it has
// flushed, and SIGQUIT prints its goroutines. Ignored signals, such as those of
// nohup, stay ignored.
func CatchSignals() <-chan os.Signal { return catch(deadly) }

// CatchForwarded delivers the signals to forward to an agent. The agent gets
// signals from the terminal's keys by itself.
func CatchForwarded() <-chan os.Signal { return catch(Forwarded) }

var (
	deadly = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

	// Forwarded are the signals that exec passes on.
	Forwarded = append(deadly, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT)
)

func catch(signals []os.Signal) <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), BrokenPipe)
	keepIgnored()
	c := make(chan os.Signal, 16)
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	signal.Stop(starting)
	return c
}

// keepIgnored ignores SIGQUIT if SIGINT was ignored at the start. A shell without
// job control ignores both in background processes, but Go preserves only SIGINT
// and SIGHUP.
func keepIgnored() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// IsDeadly reports whether a signal asks for the process to end.
func IsDeadly(s os.Signal) bool { return slices.Contains(deadly, s) }

// fromTerminal reports whether a signal most likely came from a key: then every
// foreground process gets it. Go does not report the sender of a signal.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	return InForeground(tty)
}

// InForeground tells whether the shell has left the terminal to this process. One
// in the background may be stopped if it writes there.
func InForeground(tty *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == syscall.Getpgrp()
}

// EndOf returns how a process ended.
func EndOf(state *os.ProcessState) Status {
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return Status{Signal: ws.Signal()}
	}
	return Status{Code: state.ExitCode()}
}

// SignalName returns the name of a signal in signal.h, "" if there is none.
func SignalName(s os.Signal) string {
	if sig, ok := s.(syscall.Signal); ok {
		return unix.SignalName(sig)
	}
	return ""
}

// IsBrokenPipe reports whether a write failed because nobody reads any more.
func IsBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// dieBy ends the process as the signal would have. Of signals that Go does not leave to the
// system, it exits with the status that a shell shows, such as 141.
func dieBy(s os.Signal) {
	signal.Reset(s)
	sig := s.(syscall.Signal)
	if setDefault(sig) {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, new(unix.Rlimit)) // a core dump of spantee is of no use
		if syscall.Kill(os.Getpid(), sig) == nil {
			select {} // until the signal arrives
		}
	}
	os.Exit(128 + int(sig))
}

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
