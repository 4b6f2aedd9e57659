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
//	         pump -> mapper -> spans -> journal, tree, ... maps, and writes the journal
//	                             |
//	                          exporter                     sends
//
// Only the upper line decides the exit status. An error other than a proc.Status
// means that no byte was read.
func filter(o *options, stdin, stdout, stderr *os.File) error {
	signals := proc.CatchSignals()
	from, err := o.sourceOf(stdin)
	if err != nil {
		return err
	}
	tracing, err := startTracing(o, stderr, from)
	if err != nil {
		return err
	}
	say := tracing.say
	if isTerminal(stdin) {
		say.awaiting()
	}

	pump := tracing.start(stdin, stdout)
	copied := make(chan error, 1)
	go func() { copied <- pump.tee.Copy() }()

	var end proc.Status
	select {
	case err := <-copied:
		end = endOfCopy(err)
		if end.Code != 0 {
			say.failed(err)
		}
	case s := <-signals:
		end.Signal = s
		pump.tee.Stop()
	}
	disarm := proc.DieOfNext(signals)
	if end.Signal == proc.BrokenPipe {
		stdin.Close() // so that the agent's next write fails
	} else if err := stdout.Close(); err != nil && end == (proc.Status{}) { // so that the next program in the pipe can finish
		say.failed(err)
		end.Code = proc.StatusFailed
	}
	pump.end(end.Interrupted())
	return tracing.finish(end, signals, disarm)
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
