package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/recording"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

const replayUsage = `replay traces recorded streams:

  spantee replay session.jsonl
  spantee replay -r recordings

FILEs may be compressed with gzip or zstd. In a DIR, replay reads the files
whose names end in .jsonl or .ndjson, optionally followed by .gz or .zst. A file
that cannot be read is skipped. The same recording and flags give the same trace
ids, so a recording can be sent again. The exit status is 1 if a file was
skipped or a span was not delivered.

It also traces the session logs that agents keep:

  spantee replay --since 7d ~/.claude/projects ~/.codex/sessions

Session logs in subfolders of a DIR are read even without -r. Logs of sub-agents
and forks are read together with the log that they belong to. Symbolic links in
a DIR are not followed.`

func replayCommand() *cobra.Command {
	var o options
	var recursive bool
	var since time.Time
	cmd := &cobra.Command{
		Use:   "replay FILE|DIR...",
		Short: "Trace recorded streams",
		Long:  replayUsage,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &exporter.Error{Err: errors.New("no file to replay"), Hint: "spantee replay FILE"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return replay(&o, args, recursive, since, os.Stderr) },
	}
	f := cmd.Flags()
	f.BoolVarP(&recursive, "recursive", "r", false, "also read recorded streams in subfolders of a DIR")
	cli.AddSince(f, &since, "leave out runs that began before `TIME`, such as 2026-11-01, 7d or 12h")
	f.BoolVar(&o.now, "now", false, "move each recording in time, so that its last run ends now")
	o.addFlags(cmd)
	o.addBaselineFlag(cmd)
	return cmd
}

// A replayer traces recordings one after the other, and then groups of session logs, several
// at a time.
type replayer struct {
	sinks    *sinks
	reporter *reporter
	opts     *options
	finder   recording.Finder // its context ends when a signal comes
	mu       sync.Mutex       // guards failed and what all groups of logs share
	failed   bool
}

func replay(o *options, names []string, recursive bool, since time.Time, stderr *os.File) error {
	signals := proc.CatchSignals()
	setup, err := setUp(o, stderr, source{Options: mapping.Options{Source: mapping.Recording}, again: "this command again"})
	if err != nil {
		return err
	}
	sinks, ending, reporter := setup.sinks, setup.ending, setup.sinks.reporter
	if !sinks.needed {
		return errors.New("no spans are sent: " + reporter.whyNowhere())
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	r := &replayer{sinks: sinks, reporter: reporter, opts: o}
	r.finder = recording.Finder{Recursive: recursive, Since: since, Agent: o.agent, Skip: r.skip, Ctx: ctx}
	var end proc.Status
	done := make(chan struct{})
	go func() {
		defer close(done)
		recordings, groups, size := r.finder.Find(names)
		if o.now { // all is read twice
			size *= 2
		} else {
			for _, f := range recordings { // session logs are read once
				size += f.Info.Size()
			}
		}
		if !o.quiet {
			r.finder.Progress = newProgress(stderr, reporter.w, size, bytesText)
		}
		for _, f := range recordings {
			if err := r.recording(f); err != nil {
				r.skip(f.Name, err)
			}
		}
		r.logs(groups)
	}()
	select {
	case <-done:
	case end.Signal = <-signals:
		interrupt()
		sinks.endStream()
	}
	disarm := proc.DieOfNext(signals)
	<-done
	reporter.w.Status("")
	ending.endAll(0)
	d := ending.result.delivery
	if end.Signal == nil && (r.failed || d.Delivered < d.Ended) {
		end.Code = proc.StatusFailed
	}
	return ending.finish(end, nil, disarm)
}

// skip reports why a file is not traced, unless a signal came.
func (r *replayer) skip(name string, why error) {
	if r.finder.Ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(why, errNothing) {
		r.reporter.say("%s: %v", tree.Printable(name), why)
		return
	}
	r.failed = true
	var path *fs.PathError
	if errors.As(why, &path) {
		why = path.Err // the name is printed already
	}
	r.reporter.skipped(name, why)
}

// recording traces a recorded stream.
func (r *replayer) recording(f recording.File) error {
	in, err := r.finder.Open(f.Name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if head, _ := in.Peek(512); recording.IsOTLP(head) {
		return &exporter.Error{Err: errors.New("contains spans, not an agent's stream"), Hint: "spantee view shows them"}
	}
	var failed error
	outputs := func(m *mapping.Mapper) iter.Seq2[mapping.Output, error] { return m.Read(in) }
	stats, err := r.trace(f, func(run mapping.Run) { r.reporter.runInFile(f.Name, run) }, outputs, func(err error) { failed = err })
	why := notAStream(stats)
	switch err = cmp.Or(err, failed); {
	case r.finder.Ctx.Err() != nil:
		return nil
	case err != nil || stats.Runs > 0:
		r.reporter.odd(f.Name, stats)
		return err
	case stats.Lines == 0 || stats.HeaderOnly:
		return errNothing
	case why != "":
		return fmt.Errorf("no session found: %s", why)
	}
	return errors.New("no session found: no line begins one")
}

// errNothing says that a file is an agent's, but no run had begun when it was written: an agent
// that is killed early leaves such a log.
var errNothing = errors.New("nothing in it")

// logs traces session logs, a group of them on each processor.
func (r *replayer) logs(groups []recording.LogGroup) {
	if len(groups) > 1 {
		limitMemory(largeMemoryLimit)
	}
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for _, g := range groups {
		processors <- struct{}{}
		all.Go(func() {
			defer func() { <-processors }()
			r.group(g)
		})
	}
	all.Wait()
}

// group traces session logs that belong together.
func (r *replayer) group(g recording.LogGroup) {
	var sessions sessionLines
	outputs := func(m *mapping.Mapper) iter.Seq2[mapping.Output, error] { return m.ReadLogs(g.Logs) }
	stats, err := r.trace(g.First, sessions.ended, outputs, func(err error) {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			r.skip(failed.Path, failed.Err)
		}
	})
	name := g.First.Name
	if len(g.Logs) > 1 {
		name = filepath.Dir(name)
	}
	r.reporter.sessions(sessions)
	r.reporter.odd(name, stats)
	if err == nil && g.First.Named && stats.Runs == 0 {
		err = errNothing
	}
	if err != nil {
		r.skip(name, err)
	}
}

// trace traces recordings that belong together, which outputs maps.
func (r *replayer) trace(first recording.File, ended func(mapping.Run), outputs func(*mapping.Mapper) iter.Seq2[mapping.Output, error], failed func(error)) (stats mapping.Stats, err error) {
	if r.finder.Ctx.Err() != nil {
		return stats, nil
	}
	to := r.sinks.streamConfig(mapping.Options{
		Source: mapping.Recording, Written: first.Info.ModTime(), Since: r.finder.Since, EndNow: r.opts.now,
	})
	to.Lock, to.Started, to.Ended = &r.mu, nil, ended
	stream, err := tracer.New(to)
	if err != nil {
		return stats, err
	}
	stream.Read(outputs(stream.Mapper), func(err error) bool {
		if err != nil {
			failed(err)
		}
		return r.finder.Ctx.Err() == nil
	})
	r.reporter.unknownTypes(stream.Mapper.UnknownTypes())
	return stream.Mapper.Stats(), nil
}
