package main

import (
	"os"
)

// filter is what spantee does:
//
//	stdin -> passthrough -> stdout
//	              |
//	             tap -> mapper -> spans -> exporter, tree
//
// Only the upper line decides the exit status. An error other than an exitStatus
// means that no byte was read.
func filter(o *options, stdin, stdout, stderr *os.File) error {
	cfg, err := o.resolve()
	if err != nil {
		return err
	}
	signals := catchSignals()
	say := newReporter(o, cfg, stderr)
	rec, err := o.recordingOf(stdin)
	if err != nil {
		return err
	}
	tracing, err := startTracing(o, cfg, say, rec, nil)
	if err != nil {
		return err
	}
	if isTerminal(stdin) {
		say.awaiting()
	}

	tracing.status = newStatusLine(say, stdout)
	tracing.start()
	pass := newPassthrough(stdin, stdout, tracing.tap)
	copied := make(chan error, 1)
	go func() { copied <- pass.run() }()

	var end exitStatus
	select {
	case err := <-copied:
		end = endOfCopy(err)
		if end.code != 0 {
			say.line("%v", err)
		}
	case s := <-signals:
		end.signal = s
		pass.stop()
	}
	disarm := dieOfNext(signals)
	if end.signal == brokenPipe {
		stdin.Close() // so that the agent's next write fails
	} else if err := stdout.Close(); err != nil && end == (exitStatus{}) { // so that the next program in the pipe can finish
		say.line("%v", err)
		end.code = statusFailed
	}
	tracing.end(end.interrupted())
	say.print()
	disarm()
	tracing.stay(end, signals)
	if end == (exitStatus{}) {
		return nil
	}
	return end
}
