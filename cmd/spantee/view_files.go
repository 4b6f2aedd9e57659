package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// A fileReader reads traces from files: recorded streams or OTLP JSON lines.
type fileReader struct {
	content contentConfig // what to record of streams
	say     func(format string, args ...any)
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
			f.say("%s (skipped)", withHint(err))
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
func (f fileReader) read(store *viewer.Store, name string, content io.Reader, modified time.Time) error {
	r := bufio.NewReader(content)
	r, err := unpack(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head, _ := r.Peek(512); isOTLP(head) {
		before := store.Sequence()
		bad, err := store.Read(r)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %s could not be read, the first: %w", name, count(bad, "line"), err)
		if store.Sequence() == before {
			return err
		}
		f.say("%v", err)
		return nil
	}

	p := newPage(store)
	opts := mapping.Options{Replay: modified}
	f.content.applyTo(&opts)
	m, err := mapping.New(opts)
	if err != nil {
		return err
	}
	for out, err := range m.Read(r) {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if out.Span != nil {
			p.takeOf(out.Span, out.Agent)
		}
	}
	if m.Stats().Runs == 0 {
		return &exporter.Error{
			Err:  fmt.Errorf("%s: no session found", name),
			Hint: "a file must have the stream of an agent (" + strings.Join(mapping.Agents, ", ") + ") or OTLP JSON lines",
		}
	}
	return nil
}

// isOTLP reports whether a file begins like OTLP JSON: as written by spantee, by a
// collector, or formatted by hand.
func isOTLP(head []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(bytes.TrimPrefix(head, file.ByteOrderMark)), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`"resourceSpans"`))
}

// join hands the files to the viewer that already has the port.
func (o *viewOptions) join(read fileReader, files []string, inUse error, terminal bool) error {
	page := "http://" + o.page + "/"
	if len(files) == 0 {
		return &exporter.Error{Err: inUse, Hint: "a viewer is running at " + page}
	}
	store := viewer.NewStore(int(o.maxMemory.bytes))
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
	read.say("opened in the running viewer: %s", page)
	if !o.noOpen && terminal {
		openBrowser(page)
	}
	return nil
}

// exportFiles implements --export.
func (o *viewOptions) exportFiles(read fileReader, files []string) error {
	if len(files) == 0 {
		return usageError{errors.New("--export needs a FILE to read")}
	}
	store := viewer.NewStore(int(o.maxMemory.bytes))
	_, skipped, err := read.files(store, files)
	if err != nil {
		return err
	}
	write := store.ExportHTML
	if strings.HasSuffix(o.export, ".json") {
		write = store.ExportJSON
	}
	var content bytes.Buffer // a page that fails half-way leaves no file behind
	if err := write(&content); err != nil {
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

// keptSessions returns the folder in which received sessions survive a restart, nil
// if there is none.
func keptSessions(limit int64) (*viewer.Kept, error) {
	if limit == 0 {
		return nil, nil
	}
	dir, err := spool.StateDir()
	if err != nil {
		return nil, err
	}
	return &viewer.Kept{Dir: filepath.Join(dir, "sessions"), Max: limit}, nil
}

// checkedSessions is like keptSessions, but also fails if other users can write to the
// folder. It waits for the disk, so the filter must not use it.
func checkedSessions(limit int64) (*viewer.Kept, error) {
	kept, err := keptSessions(limit)
	if kept != nil {
		err = kept.Check()
	}
	if err != nil {
		return nil, err
	}
	return kept, nil
}
