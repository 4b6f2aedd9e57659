package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/sessionlog"
)

const replayUsage = `replay traces recorded streams:

  spantee replay session.jsonl
  spantee replay -r recordings

FILEs may be compressed with gzip or zstd. In a DIR, replay reads the files whose
names end in .jsonl or .ndjson, optionally followed by .gz or .zst. A file that
cannot be read is skipped. The same recording and flags give the same trace ids, so
a recording can be sent again. The exit status is 1 if a file was skipped or a span
was not delivered.

It also traces the session logs that agents keep:

  spantee replay --since 7d ~/.claude/projects ~/.codex/sessions

Session logs in subfolders of a DIR are read even without -r. Logs of sub-agents and
forks are read together with the log that they belong to. Symbolic links in a DIR are
not followed.`

func replayCommand() *cobra.Command {
	var o options
	var recursive bool
	var since cli.Since
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
		RunE: func(_ *cobra.Command, args []string) error { return replay(&o, args, recursive, since.Time, os.Stderr) },
	}
	f := cmd.Flags()
	f.BoolVarP(&recursive, "recursive", "r", false, "also read recorded streams in subfolders of a DIR")
	f.Var(&since, "since", "leave out runs that began before `TIME`, such as 2026-11-01, 7d or 12h")
	f.BoolVar(&o.now, "now", false, "move each recording in time, so that its last run ends now")
	o.addFlags(cmd)
	o.addBaselineFlag(cmd)
	return cmd
}

// A replayer traces streams one after the other, and then groups of session logs, several
// at a time.
type replayer struct {
	sinks    *sinks
	say      *reporter
	opts     *options
	since    time.Time       // if set, the start of the earliest run
	progress *progress       // nil without a terminal
	ctx      context.Context // ends when a signal comes
	mu       sync.Mutex      // guards failed and what all groups of logs share
	failed   bool
}

func replay(o *options, names []string, recursive bool, since time.Time, stderr *os.File) error {
	signals := proc.CatchSignals()
	setup, err := setUp(o, stderr, source{again: "this command again"})
	if err != nil {
		return err
	}
	sinks, ending, say := setup.sinks, setup.ending, setup.sinks.say
	if !sinks.needed() {
		return errors.New("no spans are sent: " + say.whyNowhere())
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	r := &replayer{sinks: sinks, say: say, opts: o, since: since, ctx: ctx}
	var end proc.Status
	done := make(chan struct{})
	go func() {
		defer close(done)
		streams, groups, size := r.find(names, recursive)
		if !o.quiet {
			r.progress = newProgress(stderr, say.w, size, bytesText)
		}
		for _, f := range streams {
			if err := r.stream(f); err != nil {
				r.skip(f.name, err)
			}
		}
		r.logs(groups)
	}()
	select {
	case <-done:
		proc.DieOfNext(signals)
	case end.Signal = <-signals:
		proc.DieOfNext(signals)
		interrupt()
		sinks.endStream()
		<-done
	}
	say.w.Status("")
	ending.endBy(o.flushTimeout)
	ending.endAll()
	d := ending.result.delivery
	if end.Signal == nil && (r.failed || d.Delivered < d.Ended) {
		end.Code = proc.StatusFailed
	}
	end = ending.conclude(end)
	say.print(ending.result, sinks.any())
	return end.Err()
}

// A recordedFile is a file to replay.
type recordedFile struct {
	name  string
	named bool // by the user, not found in a DIR
	info  fs.FileInfo
}

// A logGroup is session logs that belong together.
type logGroup struct {
	logs  []sessionlog.Log
	first recordedFile
}

// find returns the recordings among names, and the total size of what will be read.
func (r *replayer) find(names []string, recursive bool) (streams []recordedFile, groups []logGroup, size int64) {
	files := map[string]recordedFile{} // of logs, by name
	var logs []sessionlog.Log
	count := func(f recordedFile) {
		if f.info.Mode().IsRegular() {
			size += f.info.Size()
		}
	}
	isOld := func(f recordedFile) bool { return f.info.Mode().IsRegular() && f.info.ModTime().Before(r.since) }
	add := func(f recordedFile, log *sessionlog.Log) {
		switch {
		case log != nil:
			files[f.name], logs = f, append(logs, *log)
		case !isOld(f):
			streams = append(streams, f)
			count(f)
		}
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			r.skip(name, err)
			continue
		}
		if !info.IsDir() {
			add(recordedFile{name, true, info}, r.logAt(name, info))
			continue
		}
		found := false
		dir := filepath.Clean(name)
		// The separator makes WalkDir follow a DIR that is a link.
		err = filepath.WalkDir(dir+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil && d.Type().IsRegular() && isRecording(path) {
				info, err = d.Info()
			}
			if err != nil {
				r.skip(path, err)
			} else if info != nil {
				if log := r.logAt(path, info); log != nil || recursive || filepath.Dir(path) == dir {
					found = true
					add(recordedFile{path, false, info}, log)
				}
			}
			return r.ctx.Err()
		})
		if err == nil && !found {
			r.skip(name, errors.New("no .jsonl or .ndjson file found"))
		}
	}
	if len(logs) > 1 {
		limitMemory(largeMemoryLimit)
	}
	slices.SortStableFunc(logs, func(a, b sessionlog.Log) int {
		return files[a.Path].info.ModTime().Compare(files[b.Path].info.ModTime())
	})
	for _, group := range sessionlog.Group(logs) {
		isNew := func(log sessionlog.Log) bool { return !isOld(files[log.Path]) }
		if !slices.ContainsFunc(group, isNew) { // a fork counts right only together with the log that it copies
			continue
		}
		groups = append(groups, logGroup{group, files[group[0].Path]})
		for _, log := range group {
			count(files[log.Path])
		}
	}
	if r.opts.now {
		size *= 2
	}
	return streams, groups, size
}

// logAt describes the session log in a file, and returns nil if it is none.
func (r *replayer) logAt(name string, info fs.FileInfo) *sessionlog.Log {
	if !info.Mode().IsRegular() {
		return nil
	}
	in, err := r.open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = in.Close() }()
	log, _ := follow.DescribeLog(name, in, sessionlog.HeadSize)
	if len(log.Kin) == 0 || r.opts.agent != "" && r.opts.agent != log.Agent {
		return nil
	}
	log.Open = func() (io.ReadCloser, error) { return r.open(name) }
	return &log
}

// isRecording reports whether a file's name is that of a recording.
func isRecording(name string) bool {
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(name))
}

// skip reports why a file is not traced, unless a signal came.
func (r *replayer) skip(name string, why error) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	var path *fs.PathError
	if errors.As(why, &path) {
		why = path.Err // the name is printed already
	}
	r.say.skipped(name, why)
}

// stream traces a stream.
func (r *replayer) stream(f recordedFile) error {
	if r.opts.now && f.info.Mode()&fs.ModeNamedPipe != 0 {
		return errors.New("--now reads a file twice, and this is a pipe")
	}
	outputs := func(m *mapping.Mapper) iter.Seq2[mapping.Output, error] {
		return func(yield func(mapping.Output, error) bool) {
			in, err := r.open(f.name)
			if err == nil {
				defer func() { _ = in.Close() }()
				if head, _ := in.Peek(512); isOTLP(head) {
					err = &exporter.Error{Err: errors.New("contains spans, not an agent's stream"), Hint: "spantee view shows them"}
				}
			}
			if err != nil {
				yield(mapping.Output{}, err)
				return
			}
			m.Read(in)(yield)
		}
	}
	var failed error
	stats, err := r.trace(f, func(run mapping.Run) { r.say.runInFile(f.name, run) }, outputs, func(err error) { failed = err })
	why := notAStream(stats)
	switch err = cmp.Or(err, failed); {
	case r.ctx.Err() != nil:
		return nil
	case err != nil || stats.Runs > 0:
		r.say.odd(f.name, stats)
		return err
	case why != "":
		return fmt.Errorf("no session found: %s", why)
	case stats.Lines == 0:
		return errors.New("no session found: the file is empty")
	}
	return errNoSession
}

var errNoSession = errors.New("no session found: no line begins one")

// logs traces session logs, a group of them on each processor.
func (r *replayer) logs(groups []logGroup) {
	next := make(chan logGroup)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for g := range next {
				r.group(g)
			}
		})
	}
	for _, g := range groups {
		next <- g
	}
	close(next)
	workers.Wait()
}

// group traces session logs that belong together.
func (r *replayer) group(g logGroup) {
	var sessions sessionLines
	outputs := func(m *mapping.Mapper) iter.Seq2[mapping.Output, error] { return m.ReadLogs(g.logs) }
	stats, err := r.trace(g.first, sessions.ended, outputs, func(err error) {
		if failed, ok := errors.AsType[*sessionlog.Error](err); ok {
			r.skip(failed.Path, failed.Err)
		}
	})
	name := g.first.name
	if len(g.logs) > 1 {
		name = filepath.Dir(name)
	}
	r.say.sessions(sessions.list)
	r.say.odd(name, stats)
	if err == nil && g.first.named && stats.Runs == 0 {
		err = errNoSession
	}
	if err != nil {
		r.skip(name, err)
	}
}

// trace traces recordings that belong together, which outputs maps.
func (r *replayer) trace(first recordedFile, ended func(mapping.Run), outputs outputsOf, failed func(error)) (stats mapping.Stats, err error) {
	if r.ctx.Err() != nil {
		return stats, nil
	}
	o := mapping.Options{Replay: first.info.ModTime(), Since: r.since}
	if r.opts.now {
		if o.Shift, err = r.opts.shiftToNow(o.Replay, outputs); err != nil {
			return stats, err
		}
	}
	to := r.sinks.streamConfig(o)
	to.Lock, to.Started, to.Ended = &r.mu, nil, ended
	stream, err := tracer.New(to)
	if err != nil {
		return stats, err
	}
	stream.Read(outputs(stream.Mapper), func(err error) bool {
		if err != nil {
			failed(err)
		}
		return r.ctx.Err() == nil
	})
	r.say.unknownTypes(stream.Mapper.UnknownTypes())
	return stream.Mapper.Stats(), nil
}

// An openRecording is read until a signal comes.
type openRecording struct {
	*bufio.Reader // of the unpacked contents, which may be thousands of times larger than the file
	file          *os.File
	ctx           context.Context
	stop          func() bool // ends the wait for a signal
}

// open opens a recording, but returns at the first signal without waiting, because opening
// a pipe without a writer cannot be interrupted.
func (r *replayer) open(name string) (*openRecording, error) {
	var f *os.File
	err, done := proc.Unless(r.ctx.Done(), func() (err error) {
		f, err = os.Open(name)
		return err
	})
	if !done {
		return nil, r.ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	in := &openRecording{file: f, ctx: r.ctx}
	in.stop = context.AfterFunc(r.ctx, func() { _ = f.SetReadDeadline(time.Unix(0, 0)) }) // only pipes have deadlines
	if in.Reader, err = unpack(bufio.NewReaderSize(io.TeeReader(f, r.progress), headSize)); err != nil {
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

func (in *openRecording) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	return in.Reader.Read(p)
}

func (in *openRecording) Close() error {
	in.stop()
	return in.file.Close()
}
