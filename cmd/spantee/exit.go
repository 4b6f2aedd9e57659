package main

import (
	"errors"
	"fmt"
	"os"
	"time"
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

// twinGrace is how soon after the end of a stream a signal is not yet the next one:
// timeout(1) sends its signal to the process and then to its group, and Ctrl-C in a
// pipe ends the agent, too.
const twinGrace = 100 * time.Millisecond

// dieOfNext makes the next signal after twinGrace end the process at once, until disarm
// is called. It does not restore the default actions, because the runtime switches
// threads twice for each signal, which takes a twentieth of the time of a short session.
func dieOfNext(signals <-chan os.Signal) (disarm func()) {
	armed := time.Now().Add(twinGrace)
	disarmed := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if isDeadly(s) && time.Now().After(armed) {
					dieBy(s)
				}
			case <-disarmed:
				return
			}
		}
	}()
	return func() { close(disarmed) }
}

func (s exitStatus) exit() {
	if s.signal != nil {
		dieBy(s.signal)
	}
	os.Exit(s.code)
}
