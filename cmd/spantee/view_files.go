package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/recording"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/resource"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// A fileReader reads traces from files: recorded streams or OTLP JSON lines.
type fileReader struct {
	content contentConfig // what to record of streams
	problem func(error)
}

// files adds the traces in files, and returns their ids and whether it skipped bad
// files. It is an error if all of them are bad.
func (f fileReader) files(store *viewer.Store, names []string) (added []string, skipped bool, err error) {
	before := store.Sequence()
	bad := 0
	for _, name := range names {
		if err = f.file(store, name); err != nil {
			if bad++; bad == len(names) {
				return nil, true, err
			}
			f.problem(errors.New(withHint(err) + " (skipped)"))
		}
	}
	return store.Since(before), bad > 0, nil
}

func (f fileReader) file(store *viewer.Store, name string) error {
	content, err := os.Open(name)
	if err != nil {
		return err
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	return f.read(store, name, content, info.ModTime())
}

// read adds the traces in content, a file that was last modified at modified.
func (f fileReader) read(store *viewer.Store, name string, content io.ReadSeeker, modified time.Time) error {
	r, err := recording.NewReader(content)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head, _ := r.Peek(512); recording.IsOTLP(head) {
		before := store.Sequence()
		bad, err := store.Read(r)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %s could not be read, the first: %w", name, count(bad, "line"), err)
		if store.Sequence() == before {
			return err
		}
		f.problem(err)
		return nil
	}

	p := &page{queue: viewer.NewQueue(store, false)}
	defer p.queue.Close()
	to := tracer.Config{Mapping: f.content.Options, Consumers: []tracer.Consumer{p}}
	to.Mapping.Source, to.Mapping.Written = mapping.Recording, modified
	to.Resources = services(resource.Sources{Host: true, Environment: true}, nil, func(error) {})
	stream, err := tracer.New(to)
	if err != nil {
		return err
	}
	stream.Read(stream.Mapper.Read(r), func(failed error) bool {
		err = failed
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if lost := p.queue.Close(); lost > 0 {
		return fmt.Errorf("%s: %s could not be stored", name, count(lost, "span"))
	}
	if stream.Mapper.Stats().Runs == 0 {
		return &exporter.Error{
			Err:  fmt.Errorf("%s: no session found", name),
			Hint: "a file must have the stream of an agent (" + strings.Join(mapping.Agents, ", ") + ") or OTLP JSON lines",
		}
	}
	return nil
}

// join hands the files to the viewer that already has the port.
func (o *viewOptions) join(read fileReader, files []string, stderr *os.File, reporter *reporter) error {
	page := "http://" + o.address + "/"
	if len(files) == 0 {
		return &exporter.Error{Err: fmt.Errorf("a viewer is running at %s", page), Hint: "open that page, or choose other ports with --listen, --otlp-grpc and --otlp-http; port 0 is any free one"}
	}
	store, err := viewer.NewStore(viewer.Retention{}, read.problem)
	if err != nil {
		return err
	}
	defer store.Close()
	added, _, err := read.files(store, files)
	if err != nil {
		return err
	}
	if err := store.SendTo(context.Background(), page); err != nil {
		return fmt.Errorf("the viewer at %s: %w", page, err)
	}
	if len(added) == 1 {
		page += "#/trace/" + added[0]
	}
	reporter.say("opened in the running viewer: %s", page)
	openPage(page, !o.noOpen && isTerminal(stderr))
	return nil
}

// exportFiles implements --export.
func (o *viewOptions) exportFiles(read fileReader, files []string) error {
	if len(files) == 0 {
		return cli.Usage(errors.New("--export needs a FILE to read"))
	}
	store, err := viewer.NewStore(viewer.Retention{}, read.problem)
	if err != nil {
		return err
	}
	defer store.Close()
	_, skipped, err := read.files(store, files)
	if err != nil {
		return err
	}
	write := store.ExportHTML
	if strings.HasSuffix(o.export, ".json") {
		write = store.ExportJSON
	}
	var content bytes.Buffer // a page that fails half-way leaves no file behind
	if err := write(context.Background(), &content); err != nil {
		return err
	}
	if err := os.WriteFile(o.export, content.Bytes(), 0o600); err != nil {
		return err
	}
	if skipped {
		return proc.Status{Code: proc.StatusFailed}
	}
	return nil
}

// openSessions opens the sessions that are kept, or a store in memory if none can be, or if
// the disk does not answer in time.
func openSessions(keep viewer.Retention, inTime <-chan time.Time, problem func(error)) (*viewer.Store, error) {
	if keep != (viewer.Retention{}) {
		var store *viewer.Store
		err, answered := proc.Unless(inTime, func() (err error) {
			store, err = openKept(keep, problem)
			return err
		})
		switch {
		case !answered:
			problem(errors.New("sessions are not kept: the state folder does not answer"))
		case err == nil:
			return store, nil
		default:
			problem(fmt.Errorf("sessions are not kept: %w", err))
		}
	}
	return viewer.NewStore(viewer.Retention{Bytes: maxUnkept}, problem)
}

// openKept opens the database of sessions.
func openKept(keep viewer.Retention, problem func(error)) (*viewer.Store, error) {
	path, err := sessionsPath()
	if err != nil {
		return nil, err
	}
	return viewer.Open(path, keep, problem)
}

// sessionsPath returns where sessions are kept.
func sessionsPath() (string, error) {
	dir, err := spool.StateDir()
	return filepath.Join(dir, "viewer", "sessions.db"), err
}

// A retention is the value of --keep.
type retention struct {
	viewer.Retention
	set bool // not the default
}

func (r *retention) Type() string { return "retention" }

func (r *retention) String() string {
	var parts []string
	if r.Age > 0 {
		parts = append(parts, strconv.Itoa(int(r.Age/day))+"d")
	}
	if r.Bytes > 0 {
		parts = append(parts, strings.ReplaceAll(bytesText(r.Bytes), " ", ""))
	}
	return strings.Join(parts, ",")
}

const day = 24 * time.Hour

func (r *retention) Set(text string) error {
	if !r.set {
		*r = retention{set: true}
	}
	for part := range strings.SplitSeq(text, ",") {
		days, isAge := strings.CutSuffix(part, "d")
		n, err := strconv.Atoi(days)
		bytes, isSize := cli.ParseSize(part)
		switch {
		case isAge && err == nil && n > 0 && n <= 36500:
			r.Age = time.Duration(n) * day
		case part == "0", !isAge && part != "" && !strings.ContainsAny(part[len(part)-1:], "0123456789.") && isSize: // 30 would be 30 bytes
			r.Bytes = bytes
		default:
			return errors.New("days such as 30d, a size such as 2GiB, or both with a comma between")
		}
	}
	return nil
}
