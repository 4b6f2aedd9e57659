package main

import (
	"errors"
	"fmt"
	"os"
)

// Exit statuses. A collector never has a part in them.
const (
	statusFailed = 1 // stdin or stdout failed
	statusUsage  = 2

	// Of an agent that could not be started, as shells have it.
	statusNotExecutable = 126
	statusNotFound      = 127
)

// An exitStatus is how the process is to end when it is not by 0: by a status,
// or by the signal that ended the stream.
type exitStatus struct {
	code   int
	signal os.Signal
}

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d, signal %v", s.code, s.signal) }

// A failure is an error that is not of usage: it ends a command by status 1.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// interrupted tells whether a signal ended the stream while it could have gone on.
func (s exitStatus) interrupted() bool { return s.signal != nil && s.signal != brokenPipe }

// endOfCopy says how to end after a copy that returned err.
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

func (s exitStatus) exit() {
	if s.signal != nil {
		dieBy(s.signal)
	}
	os.Exit(s.code)
}
