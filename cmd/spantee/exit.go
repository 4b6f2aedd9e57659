package main

import (
	"errors"
	"fmt"
	"os"
)

// Exit statuses. They never depend on the collector.
const (
	statusFailed = 1
	statusUsage  = 2 // spantee's own usage error

	// The agent could not be started; the same values as in shells.
	statusNotExecutable = 126
	statusNotFound      = 127
)

// An exitStatus says how the process ends if not with status 0: with another
// status, or by the signal that ended the stream. Everything has been reported by
// then.
type exitStatus struct {
	code   int
	signal os.Signal
}

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d, signal %v", s.code, s.signal) }

// interrupted reports whether a signal ended the stream although it could have gone
// on.
func (s exitStatus) interrupted() bool { return s.signal != nil && s.signal != brokenPipe }

// endOfCopy returns how to end after a copy that returned err.
func endOfCopy(err error) exitStatus {
	var out errOutput
	switch {
	case err == nil:
		return exitStatus{}
	case errors.As(err, &out) && isBrokenPipe(err):
		return exitStatus{signal: brokenPipe}
	}
	return exitStatus{code: statusFailed}
}

// unlessSignaled runs f, but returns at the first signal without waiting for f,
// because opening a pipe without a writer, for example, cannot be interrupted. The
// caller must then exit: f is still running.
func unlessSignaled(signals <-chan os.Signal, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case s := <-signals:
		return exitStatus{signal: s}
	}
}

func (s exitStatus) exit() {
	if s.signal != nil {
		dieBy(s.signal)
	}
	os.Exit(s.code)
}
