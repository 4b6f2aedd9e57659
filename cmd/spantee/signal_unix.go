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

// catchSignals makes SIGINT and SIGTERM values, and a write to a closed stdout
// an error: either would else end a Go program before it has flushed. Signals
// that are ignored, as by nohup, stay so.
func catchSignals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), brokenPipe)
	c := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// restoreSignals makes SIGINT and SIGTERM deadly again.
func restoreSignals() { signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) }

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// dieBy ends the process as the signal would have, so that a shell sees 130,
// 143 or 141.
func dieBy(s os.Signal) {
	signal.Reset(s)
	if s == brokenPipe {
		// The runtime ignores a SIGPIPE sent by kill, but dies of one that a
		// write to stdout brings about. A pipe of our own takes its place:
		// somebody may have opened the real one for reading again.
		if r, w, err := os.Pipe(); err == nil && unix.Dup2(int(w.Fd()), 1) == nil {
			r.Close()
			_, _ = os.NewFile(1, "stdout").Write([]byte{'\n'})
		}
	} else if sig, ok := s.(syscall.Signal); ok {
		if syscall.Kill(os.Getpid(), sig) == nil {
			select {} // until it arrives
		}
	}
	os.Exit(128 + int(s.(syscall.Signal)))
}
