package main

import (
	"errors"
	"fmt"
	"os"
)

// Exit statuses. The collector never matters.
const (
	statusFailed = 1
	statusUsage  = 2 // of spantee itself

	// Of an agent that could not be started, as in shells.
	statusNotExecutable = 126
	statusNotFound      = 127
)

// An exitStatus is how the process ends if not with status 0: with another one,
// or by the signal that ended the stream. What there is to say has been said.
type exitStatus struct {
	code   int
	signal os.Signal
}

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d, signal %v", s.code, s.signal) }

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
