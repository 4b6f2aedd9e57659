package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
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
	var since sinceFlag
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
	f.BoolVarP(&recursive, "recursive", "r", false, "also read recorded streams in subfolders of a DIR; session logs are always read there")
	f.Var(&since, "since", "leave out runs that began before `TIME`: a date, or a duration such as 7d or 12h before now")
	f.BoolVar(&o.now, "now", false, "shift the times of each recording, or group of related session logs, so that its last run ends now")
	o.addFlags(cmd)
	return cmd
}

// A replayer traces streams one after the other, and then groups of session logs, several
// at a time.
type replayer struct {
	*tracing
	since    time.Time       // if set, the start of the earliest run
	progress *progress       // nil without a terminal
	ctx      context.Context // ends when a signal comes
	mu       sync.Mutex      // guards the fields below and what all groups of logs share
	failed   bool
}

func replay(o *options, names []string, recursive bool, since time.Time, stderr *os.File) error {
	signals := proc.CatchSignals()
	t, err := startTracing(o, stderr, &recording{again: "this command again"}, nil)
	if err != nil {
		return err
	}
	say := t.say
	if !t.isNeeded() {
		return errors.New("no spans are sent: " + say.whyNowhere())
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	r := &replayer{tracing: t, since: since, ctx: ctx}
	var end proc.Status
	done := make(chan struct{})
	go func() {
		defer close(done)
		files, size := r.find(names, recursive)
		if !r.quiet {
			r.progress = newProgress(stderr, say.w, size, bytesText)
		}
		r.logs(r.streams(files))
	}()
	select {
	case <-done:
		proc.DieOfNext(signals)
	case end.Signal = <-signals:
		proc.DieOfNext(signals)
		interrupt()
		t.setWait(false) // Export must not wait any more
		<-done
	}
	r.progress.clear()
	t.endBy(t.flushTimeout)
	t.endAll()
	d := t.result.delivery
	if end.Signal == nil && (r.failed || d.Delivered < d.Ended) {
		end.Code = proc.StatusFailed
	}
	end = t.conclude(end)
	say.print(t.result, t.hasDestination())
	return end.Err()
}

// A recordedFile is a file to replay.
type recordedFile struct {
	name  string
	named bool // by the user, not found in a DIR
	info  fs.FileInfo
	log   *mapping.Log // nil if it is a stream
}

// isOld reports whether a file was last written before a time.
func (f *recordedFile) isOld(since time.Time) bool { return f.info.ModTime().Before(since) }

// find returns the recordings among names, and their total size.
func (r *replayer) find(names []string, recursive bool) (files []recordedFile, size int64) {
	add := func(f recordedFile) {
		if f.info.Mode().IsRegular() {
			if f.log == nil && f.isOld(r.since) {
				return
			}
			size += f.info.Size()
		}
		files = append(files, f)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			r.skip(name, err)
			continue
		}
		if !info.IsDir() {
			add(recordedFile{name, true, info, r.logAt(name, info)})
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
					add(recordedFile{path, false, info, log})
				}
			}
			return r.ctx.Err()
		})
		if err == nil && !found {
			r.skip(name, errors.New("no .jsonl or .ndjson file found"))
		}
	}
	return files, size
}

// logAt describes the session log in a file, and returns nil if it is none.
func (r *replayer) logAt(name string, info fs.FileInfo) *mapping.Log {
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	in, err := unpack(bufio.NewReader(f))
	if err != nil {
		return nil
	}
	head := make([]byte, mapping.LogHead)
	n, _ := io.ReadFull(in, head)
	log, ok := mapping.FindLog(name, head[:n])
	if !ok || r.agent != "" && r.agent != log.Agent {
		return nil
	}
	log.Open = func() (io.ReadCloser, error) { return r.openLog(name, r.read) }
	return &log
}

// openLog opens a session log. read is called with how many bytes of the file were read.
func (r *replayer) openLog(name string, read func(n int)) (io.ReadCloser, error) {
	f, err := r.open(name)
	if err != nil {
		return nil, err
	}
	in, err := unpack(bufio.NewReaderSize(&counter{f, read}, 16<<10))
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{in, f}, nil
}

// isRecording reports whether a file's name is that of a recording.
func isRecording(name string) bool {
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(name))
}

// skip reports why a file is not traced.
func (r *replayer) skip(name string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	var path *fs.PathError
	if errors.As(why, &path) {
		why = path.Err // the name is printed already
	}
	r.say.skipped(name, why)
}

// streams traces the streams among files, and returns the session logs.
func (r *replayer) streams(files []recordedFile) (logs []recordedFile) {
	for _, f := range files {
		switch {
		case r.ctx.Err() != nil:
			return nil
		case f.log != nil:
			logs = append(logs, f)
		default:
			if err := r.one(f.name); err != nil && r.ctx.Err() == nil {
				r.skip(f.name, err)
			}
		}
	}
	return logs
}

// logs traces session logs, a group of them on each processor.
func (r *replayer) logs(files []recordedFile) {
	slices.SortStableFunc(files, func(a, b recordedFile) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	var logs []mapping.Log
	written := map[string]recordedFile{}
	for _, f := range files {
		logs = append(logs, *f.log)
		written[f.name] = f
	}
	if len(logs) > 1 {
		limitMemory(memoryForLogs)
	}
	groups := make(chan []mapping.Log)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for group := range groups {
				r.group(group, written[group[0].Path])
			}
		})
	}
	for _, group := range mapping.GroupLogs(logs) {
		isNew := func(log mapping.Log) bool { f := written[log.Path]; return !f.isOld(r.since) }
		if slices.ContainsFunc(group, isNew) { // a fork counts right only together with the log that it copies
			groups <- group
			continue
		}
		for _, log := range group {
			r.read(int(written[log.Path].info.Size()))
		}
	}
	close(groups)
	workers.Wait()
}

// group traces session logs that belong together.
func (r *replayer) group(logs []mapping.Log, first recordedFile) {
	if r.ctx.Err() != nil {
		return
	}
	rec := &recording{written: first.info.ModTime(), since: r.since}
	var sessions sessionLines
	err := r.endLogsNow(rec, logs)
	to := r.streamConfig(rec, nil)
	to.Lock, to.Started, to.Ended = &r.mu, nil, sessions.ended
	var stream *tracer.Stream
	if err == nil {
		stream, err = tracer.New(to)
	}
	if err != nil {
		r.skip(first.name, err)
		return
	}
	stream.ReadLogs(logs, func(err error) bool {
		if failed, ok := errors.AsType[*mapping.LogError](err); ok && r.ctx.Err() == nil {
			r.skip(failed.Path, failed.Err)
		}
		return r.ctx.Err() == nil
	})
	stats := stream.Mapper.Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	name := logs[0].Path
	if len(logs) > 1 {
		name = filepath.Dir(name)
	}
	r.say.sessions(sessions.list)
	r.say.odd(name, stats)
	if first.named && stats.Runs == 0 {
		r.failed = true
		r.say.skipped(name, errors.New("no session found: no line begins one"))
	}
}

// one traces a file.
func (r *replayer) one(name string) error {
	f, err := r.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	defer context.AfterFunc(r.ctx, func() { _ = f.SetReadDeadline(time.Unix(0, 0)) })() // only pipes have deadlines
	info, err := f.Stat()
	if err != nil {
		return err
	}
	rec := &recording{written: info.ModTime(), since: r.since}
	if r.now {
		if err := r.endFileNow(rec, f); err != nil {
			return err
		}
	}
	to := r.streamConfig(rec, nil)
	to.Ended = func(run mapping.Run) { r.say.runInFile(name, run) }
	if r.stream, err = tracer.New(to); err != nil {
		return err
	}
	in, err := unpack(bufio.NewReaderSize(&counter{f, r.read}, readSize))
	if err != nil {
		return err
	}
	if head, _ := in.Peek(512); isOTLP(head) {
		return &exporter.Error{Err: errors.New("contains spans, not an agent's stream"), Hint: "spantee view shows them"}
	}
	_, err = r.stream.ReadFrom(r.untilSignal(in))
	cut := r.ctx.Err() != nil
	_ = r.stream.Close(err != nil)
	stats := r.stream.Mapper.Stats()
	if why := notAStream(stats); stats.Runs == 0 && err == nil {
		switch {
		case why != "":
		case stats.Lines == 0:
			why = "the file is empty"
		default:
			why = "no line begins one"
		}
		return fmt.Errorf("no session found: %s", why)
	}
	if cut {
		return nil
	}
	r.say.odd(name, stats)
	return err
}

// endFileNow shifts the times of a recording so that it ends now, which takes
// reading the file twice.
func (r *replayer) endFileNow(rec *recording, f *os.File) error {
	in, err := unpack(bufio.NewReaderSize(f, readSize))
	if err != nil {
		return err
	}
	m, err := r.unshifted(rec)
	if err == nil {
		err = rec.endNow(m.Read(r.untilSignal(in)))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return err
}

// endLogsNow shifts the times of logs so that the last of their runs ends now, which takes
// reading them twice.
func (r *replayer) endLogsNow(rec *recording, logs []mapping.Log) error {
	if !r.now {
		return nil
	}
	m, err := r.unshifted(rec)
	if err != nil {
		return err
	}
	logs = slices.Clone(logs)
	for i := range logs {
		logs[i].Open = func() (io.ReadCloser, error) { return r.openLog(logs[i].Path, func(int) {}) }
	}
	return rec.endNow(func(yield func(mapping.Output, error) bool) {
		for out, err := range m.ReadLogs(logs) {
			if err == nil && !yield(out, r.ctx.Err()) { // errors are reported when the logs are traced
				return
			}
		}
	})
}

// A counter reads a file, and calls read with how many bytes it read.
type counter struct {
	f    *os.File
	read func(n int)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	c.read(n)
	return n, err
}

// read notes that bytes were read, or need not be.
func (r *replayer) read(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.add(n)
}

// open opens a file, but returns at the first signal without waiting, because opening
// a pipe without a writer cannot be interrupted.
func (r *replayer) open(name string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	o, _, done := proc.Unless(r.ctx.Done(), func() opened {
		f, err := os.Open(name)
		return opened{f, err}
	})
	if !done {
		return nil, r.ctx.Err()
	}
	return o.f, o.err
}

// untilSignal returns a reader of in that fails once a signal has come. It wraps
// the unpacked data, which may be thousands of times larger than the file.
func (r *replayer) untilSignal(in io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		return in.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
