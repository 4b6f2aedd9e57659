package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// presumedDead is how long another host's process has shown no sign of life
// before its journal is taken: its lock may not be seen from here.
const presumedDead = 10 * Heartbeat

// Recover makes requests of the journals of dead processes. It returns how many
// spans those held.
func (s Spool) Recover() (spans int, evicted Evicted, err error) {
	dir := filepath.Join(s.Dir, openDir)
	entries, err := readDir(dir)
	errs := []error{err}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), waitingExt)
		if !ok {
			removeStale(dir, e)
			continue
		}
		n, err := s.recoverOne(filepath.Join(dir, base), &evicted)
		spans += n
		errs = append(errs, err)
	}
	return spans, evicted, errors.Join(errs...)
}

func (s Spool) recoverOne(base string, evicted *Evicted) (spans int, err error) {
	// Where there is no lock any more one is made: of two that recover at once
	// one has to be second.
	lock := flock.New(base+lockExt, flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		return 0, nil // it lives
	}
	defer lock.Close() //nolint:errcheck // nothing is lost by it

	b, err := os.ReadFile(base + waitingExt)
	if err != nil { // it has just ended, or was recovered by another
		if locked {
			os.Remove(base + lockExt)
		}
		return 0, nil
	}
	note, rest, err := decodeNote(b)
	if err != nil {
		if err = setAside(base+waitingExt, corruptDir); err == nil || errors.Is(err, fs.ErrNotExist) {
			os.Remove(base + lockExt)
			return 0, nil
		}
		return 0, err
	}
	// On a disk without locks nothing is sure.
	if host, _ := os.Hostname(); (!locked || note.Host != host) && s.age(base+waitingExt) < presumedDead {
		return 0, nil
	}
	for _, req := range split(recovered(rest)) {
		body, err := proto.Marshal(req)
		if err != nil {
			return spans, err
		}
		n := len(req.ResourceSpans[0].ScopeSpans[0].Spans)
		g, err := s.put(note.Destination, Request{body, n}, "its process was killed", "", "")
		evicted.Add(g)
		if err != nil {
			return spans, err // the journal stays
		}
		spans += n
	}
	os.Remove(base + waitingExt)
	os.Remove(base + lockExt)
	return spans, nil
}

// isUnsupported tells whether a disk knows no locks.
func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}

// age is how long ago a file was written, by the clock of the disk it is on:
// another host's may be wrong.
func (s Spool) age(path string) time.Duration {
	written, err := os.Stat(path)
	if err != nil {
		return 0
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return 0
	}
	return now.ModTime().Sub(written.ModTime())
}

// recovered reads a journal after its note. Its last bytes may be missing.
func recovered(b []byte) *tracepb.ResourceSpans {
	out := &tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{}}}
	into := out.ScopeSpans[0]
	place := map[string]int{}
	open := map[string]bool{}
	add := func(spans []*tracepb.Span, stillOpen bool) {
		for _, span := range spans {
			id := string(span.TraceId) + string(span.SpanId)
			i, known := place[id]
			if known && stillOpen { // it ended while the journal was written
				continue
			}
			open[id] = stillOpen
			if known { // it has ended since
				into.Spans[i] = span
				continue
			}
			place[id] = len(into.Spans)
			into.Spans = append(into.Spans, span)
		}
	}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 || typ != protowire.BytesType {
			break
		}
		_, _, tag := protowire.ConsumeTag(b)
		value, _ := protowire.ConsumeBytes(b[tag:])
		b = b[n:]
		rs, scope := new(tracepb.ResourceSpans), new(tracepb.ScopeSpans)
		switch {
		case num == fieldOpen && proto.Unmarshal(value, scope) == nil:
			add(scope.Spans, true)
		case num == fieldResourceSpans && proto.Unmarshal(value, rs) == nil:
			if rs.Resource != nil {
				out.Resource = rs.Resource
			}
			for _, ss := range rs.ScopeSpans {
				if ss.Scope != nil {
					into.Scope = ss.Scope
				}
				add(ss.Spans, false)
			}
		}
	}
	coverChildren(into.Spans, place, open)
	return out
}

// coverChildren ends what was open no sooner than what has ended in it since.
func coverChildren(spans []*tracepb.Span, place map[string]int, open map[string]bool) {
	for _, span := range spans {
		parent := string(span.TraceId) + string(span.ParentSpanId)
		if open[parent] {
			p := spans[place[parent]]
			p.EndTimeUnixNano = max(p.EndTimeUnixNano, span.EndTimeUnixNano)
		}
	}
}

// maxRequest is how large a recovered request may be: gRPC servers refuse 4 MiB.
const maxRequest = 3 << 20

// split cuts spans into requests of a size that receivers take.
func split(rs *tracepb.ResourceSpans) (reqs []*coltracepb.ExportTraceServiceRequest) {
	var scope *tracepb.ScopeSpans
	size := 0
	for _, span := range rs.ScopeSpans[0].Spans {
		n := proto.Size(span) + 8 // with its tag and length
		if scope == nil || size+n > maxRequest {
			scope = &tracepb.ScopeSpans{Scope: rs.ScopeSpans[0].Scope}
			req := &tracepb.ResourceSpans{Resource: rs.Resource, ScopeSpans: []*tracepb.ScopeSpans{scope}}
			reqs = append(reqs, &coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{req}})
			size = proto.Size(req)
		}
		scope.Spans = append(scope.Spans, span)
		size += n
	}
	return reqs
}
