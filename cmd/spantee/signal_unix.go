//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// brokenPipe is the signal of a program whose stdout nobody reads any more.
const brokenPipe = syscall.SIGPIPE

// catchSignals delivers the signals that end a process, and makes a write to a
// closed stdout an error. By default either ends a Go program before it has
// flushed, and SIGQUIT prints its goroutines. Signals that are ignored, for
// example by nohup, stay ignored.
func catchSignals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), brokenPipe)
	keepIgnored()
	c := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// catchForwarded makes values of the signals that an agent is to be told of.
// Those of the terminal's own keys reach it by themselves.
func catchForwarded() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), brokenPipe)
	keepIgnored()
	c := make(chan os.Signal, 16)
	for _, s := range []os.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT,
	} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// keepIgnored ignores SIGQUIT if SIGINT was ignored at the start. A shell without
// job control ignores both for what it runs in the background, but Go keeps only
// the latter, and SIGHUP, that way.
func keepIgnored() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// isDeadly tells whether whoever sends a signal wants an end.
func isDeadly(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

// fromTerminal tells whether a signal was most likely a key: then every process
// in the foreground has it. Go does not tell who sent a signal.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	return inForeground(tty)
}

// inForeground tells whether the shell has left the terminal to this process. One
// in the background may be stopped if it writes there.
func inForeground(tty *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == syscall.Getpgrp()
}

// endOfProcess tells how a process ended.
func endOfProcess(state *os.ProcessState) exitStatus {
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return exitStatus{signal: ws.Signal()}
	}
	return exitStatus{code: state.ExitCode()}
}

// signalName is the one of signal.h, "" for none.
func signalName(s os.Signal) string {
	if sig, ok := s.(syscall.Signal); ok {
		return unix.SignalName(sig)
	}
	return ""
}

// restoreSignals makes signals deadly again. An ignored one stays ignored.
func restoreSignals() {
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Reset(syscall.SIGQUIT)
		setDefault(syscall.SIGQUIT) // else the second one prints goroutines
	}
}

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// dieBy ends the process as the signal would have, so that a shell sees 130,
// 143 or 141.
func dieBy(s os.Signal) {
	signal.Reset(s)
	sig := s.(syscall.Signal)
	if setDefault(sig) {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, new(unix.Rlimit)) // a core of spantee's would help nobody
		if syscall.Kill(os.Getpid(), sig) == nil {
			select {} // until it arrives
		}
	}
	if sig == brokenPipe {
		breakStdout()
	}
	os.Exit(128 + int(sig))
}

// breakStdout dies of SIGPIPE. The runtime ignores one that was sent by kill, but
// dies of one that a write to stdout brings about. A pipe of our own takes its
// place: somebody may have opened the real one for reading again.
func breakStdout() {
	r, w, err := os.Pipe()
	if err != nil || unix.Dup2(int(w.Fd()), 1) != nil {
		return
	}
	if r.Fd() != 1 { // as it is where stdout was closed; then dup2 has closed it
		r.Close()
	}
	_, _ = os.NewFile(1, "stdout").Write([]byte{'\n'})
}
