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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter"
)

const replayUsage = `replay traces recorded streams:

  spantee replay session.jsonl
  spantee replay -r recordings

FILEs may be compressed with gzip or zstd. In a DIR, replay reads the files whose
names end in .jsonl or .ndjson, optionally followed by .gz or .zst. A file that
cannot be read is skipped. The same recording and flags give the same trace ids, so
a recording can be sent again. The exit status is 1 if a file was skipped or a span
was not delivered.`

func replayCommand() *cobra.Command {
	var o options
	var recursive bool
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
		RunE: func(_ *cobra.Command, args []string) error { return replay(&o, args, recursive, os.Stderr) },
	}
	add(cmd.Flags(), groupStream, func(f *pflag.FlagSet) {
		f.BoolVarP(&recursive, "recursive", "r", false, "also read the folders in a DIR")
		f.BoolVar(&o.now, "now", false, "shift the times of each recording so that it ends now")
	})
	o.addFlags(cmd.Flags())
	return cmd
}

// A replayer traces one file after another.
type replayer struct {
	*tracing
	progress *progress       // nil without a terminal
	ctx      context.Context // ends when a signal comes
	failed   bool
}

func replay(o *options, names []string, recursive bool, stderr *os.File) error {
	cfg, err := o.resolve()
	if err != nil {
		return err
	}
	signals := proc.CatchSignals()
	say := newReporter(o, cfg, stderr)
	t, err := startTracing(o, cfg, say, &recording{again: "this command again"}, nil)
	if err != nil {
		return err
	}
	if !t.hasDestination() && t.metrics == nil {
		return errors.New("no spans are sent: " + say.whyNowhere())
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	r := &replayer{tracing: t, ctx: ctx}
	var end proc.Status
	done := make(chan struct{})
	go func() {
		defer close(done)
		files, size := r.find(names, recursive)
		if !r.quiet {
			r.progress = newProgress(stderr, say.w, size, bytesText)
		}
		r.all(files)
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
	r.finish()
	d := t.result.delivery
	if end.Signal == nil && (r.failed || d.Delivered < d.Ended) {
		end.Code = proc.StatusFailed
	}
	end = t.conclude(end)
	say.print(t.result, t.hasDestination())
	return end.Err()
}

// find returns the recordings among names, and their total size.
func (r *replayer) find(names []string, recursive bool) (files []string, size int64) {
	add := func(name string, info fs.FileInfo) {
		files = append(files, name)
		if info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			r.skip(name, err)
			continue
		}
		if !info.IsDir() {
			add(name, info)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			switch {
			case r.ctx.Err() != nil:
				return r.ctx.Err()
			case err != nil:
				r.skip(path, err)
			case d.IsDir() && path != name && !recursive:
				return fs.SkipDir
			case d.Type().IsRegular() && isRecording(path):
				info, err := d.Info()
				if err != nil {
					r.skip(path, err)
					return nil
				}
				add(path, info)
			}
			return nil
		})
		if err == nil && len(files) == before {
			r.skip(name, errors.New("no .jsonl or .ndjson file found"))
		}
	}
	return files, size
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
	r.failed = true
	var path *fs.PathError
	if errors.As(why, &path) {
		why = path.Err // the name is printed already
	}
	r.say.skipped(name, why)
}

func (r *replayer) all(files []string) {
	for _, name := range files {
		if r.ctx.Err() != nil {
			return
		}
		if err := r.one(name); err != nil && r.ctx.Err() == nil {
			r.skip(name, err)
		}
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
	rec := &recording{written: info.ModTime()}
	if r.now {
		if err := r.endFileNow(rec, f); err != nil {
			return err
		}
	}
	if err := r.newStream(rec, nil); err != nil {
		return err
	}
	r.say.setFile(name)
	defer r.say.setFile("")
	in, err := unpack(bufio.NewReaderSize(&counter{f, r}, readSize))
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

// readSize is how much of a file is read at once. Each file has a buffer of its own,
// so a larger one makes thousands of short recordings slower.
const readSize = 128 << 10

// endFileNow shifts the times of a recording so that it ends now, which takes
// reading the file twice.
func (r *replayer) endFileNow(rec *recording, f *os.File) error {
	in, err := unpack(bufio.NewReaderSize(f, readSize))
	if err == nil {
		err = r.endNow(rec, r.untilSignal(in))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return err
}

// finish delivers the remaining spans.
func (r *replayer) finish() {
	r.progress.clear()
	r.endBy(r.flushTimeout)
	r.endAll()
}

// A counter reads a file and shows the progress.
type counter struct {
	f *os.File
	r *replayer
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	c.r.progress.add(n)
	return n, err
}

// open opens a file, but returns at the first signal without waiting, because opening
// a pipe without a writer cannot be interrupted.
func (r *replayer) open(name string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	select {
	case o := <-opened:
		return o.f, o.err
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
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
