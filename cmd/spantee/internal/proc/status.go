package proc

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Exit statuses. They never depend on the collector.
const (
	StatusFailed = 1
	StatusUsage  = 2 // spantee's own usage error

	// The agent could not be started; the same values as in shells.
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// A Status says how a process ends: with an exit code, or by the signal that ended
// it or its stream. The zero Status is success. As an error, it has been reported.
type Status struct {
	Code   int
	Signal os.Signal
}

func (s Status) Error() string { return fmt.Sprintf("exit status %d, signal %v", s.Code, s.Signal) }

// Err returns nil for success.
func (s Status) Err() error {
	if s == (Status{}) {
		return nil
	}
	return s
}

// ShellStatus returns the exit status as a shell reports it.
func (s Status) ShellStatus() int {
	if sig, ok := s.Signal.(syscall.Signal); ok {
		return 128 + int(sig)
	}
	return s.Code
}

// Interrupted reports whether a signal ended the stream although it could have gone
// on.
func (s Status) Interrupted() bool { return s.Signal != nil && s.Signal != BrokenPipe }

// Exit ends this process.
func (s Status) Exit() {
	if s.Signal != nil {
		dieBy(s.Signal)
	}
	os.Exit(s.Code)
}

// Unless runs f, but does not wait for it once over has a value or is closed, because
// opening a pipe without a writer, for example, cannot be interrupted. Then done is false: f
// is still running.
func Unless[S, T any](over <-chan S, f func() T) (result T, done bool) {
	results := make(chan T, 1)
	go func() { results <- f() }()
	select {
	case result = <-results:
		return result, true
	case <-over:
		return result, false
	}
}

// TwinGrace is how long after the end of a stream signals are ignored, because they may be
// the one that ended it: timeout(1) sends its signal to the process and then to its group,
// and Ctrl-C in a pipe ends the agent, too.
const TwinGrace = 100 * time.Millisecond

// DieOfNext makes the next signal after TwinGrace end the process at once, until disarm
// is called. It does not restore the default actions, because the runtime switches
// threads twice for each signal, which takes a twentieth of the time of a short session.
func DieOfNext(signals <-chan os.Signal) (disarm func()) {
	armed := time.Now().Add(TwinGrace)
	disarmed := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if IsDeadly(s) && time.Now().After(armed) {
					dieBy(s)
				}
			case <-disarmed:
				return
			}
		}
	}()
	return func() { close(disarmed) }
}
