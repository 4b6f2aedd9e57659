package main

import (
	"errors"
	"os"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
)

// filter is what spantee does, in three goroutines:
//
//	stdin -> tee -> stdout                                 copies
//	          |
//	       mapLoop -> mapper -> spans -> log, tree, ...     maps, and writes the log
//	                             |
//	                          exporter                     sends
//
// Only the upper line decides the exit status. An error other than a proc.Status
// means that no byte was read.
func filter(o *options, stdin, stdout, stderr *os.File) error {
	signals := proc.CatchSignals()
	setup, err := setUp(o, stderr, sourceOf(stdin))
	if err != nil {
		return err
	}
	reporter := setup.sinks.reporter
	if isTerminal(stdin) {
		reporter.say("waiting for an agent's stream on stdin, for example from\n" +
			`  cursor-agent -p --output-format stream-json "fix the test" | spantee`)
	}

	loop := setup.start(stdin, stdout)
	copied := make(chan error, 1)
	go func() { copied <- loop.tee.Copy() }()

	var end proc.Status
	select {
	case err := <-copied:
		end = endOfCopy(err)
		if end.Code != 0 {
			reporter.failed(err)
		}
	case s := <-signals:
		end.Signal = s
		loop.tee.Stop()
	}
	disarm := proc.DieOfNext(signals)
	if end.Signal == proc.BrokenPipe {
		stdin.Close() // so that the agent's next write fails
	} else if err := stdout.Close(); err != nil && end == (proc.Status{}) { // so that the next program in the pipe can finish
		reporter.failed(err)
		end.Code = proc.StatusFailed
	}
	loop.end(end.Interrupted())
	return setup.ending.finish(end, signals, disarm)
}

// endOfCopy returns how to end after a copy that returned err.
func endOfCopy(err error) proc.Status {
	var out tee.OutputError
	switch {
	case err == nil:
		return proc.Status{}
	case errors.As(err, &out) && proc.IsBrokenPipe(err):
		return proc.Status{Signal: proc.BrokenPipe}
	}
	return proc.Status{Code: proc.StatusFailed}
}
