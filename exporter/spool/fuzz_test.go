package spool

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// FuzzRecovered reads any bytes as a journal: no panic, no span twice, and
// every span in a request.
func FuzzRecovered(f *testing.F) {
	s := newSpool(f, 1<<20)
	j := s.NewJournal(here)
	child := spanOf("child")
	child.ParentSpanId = spanOf("root").SpanId
	checkpoint(f, j, requestOf(f, "a", "b"), spanOf("root"), child)
	j.Append(wire(f, child))
	b, err := os.ReadFile(j.path(waitingExt))
	if err != nil {
		f.Fatal(err)
	}
	j.Close(false)
	_, rest, _ := decodeNote(b)
	f.Add(rest)
	f.Add(rest[:len(rest)/2])
	f.Add(bytes.Repeat([]byte{0xfa}, 100))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		rs := recovered(b)
		spans := rs.ScopeSpans[0].Spans
		seen := map[string]bool{}
		for _, span := range spans {
			id := string(span.TraceId) + string(span.SpanId)
			if seen[id] {
				t.Errorf("span %x is there twice", id)
			}
			seen[id] = true
		}
		n := 0
		for _, req := range split(rs) {
			n += len(req.ResourceSpans[0].ScopeSpans[0].Spans)
			if body, err := proto.Marshal(req); err != nil || len(body) > maxRequest+len(b) {
				t.Errorf("a request of %d bytes, %v", len(body), err)
			}
		}
		if n != len(spans) {
			t.Errorf("%d spans of %d in requests", n, len(spans))
		}
		// What comes last may be missing, and changes nothing of what it is not.
		for _, span := range recovered(b[:len(b)/2]).ScopeSpans[0].Spans {
			if !seen[string(span.TraceId)+string(span.SpanId)] {
				t.Errorf("%v is in the first half only", span)
			}
		}
	})
}

// FuzzRead reads any bytes as a request's file: it is one, or corrupt.
func FuzzRead(f *testing.F) {
	s := newSpool(f, 1<<20)
	put(f, s, here, "a", "b")
	b, err := os.ReadFile(s.Dir + "/" + filesOf(f, s.Dir)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint16(0))
	f.Add(b[:len(b)-1], uint16(0))
	f.Add(b, uint16(1))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, more uint16) {
		n := name{at: time.Unix(0, 1), spans: 1, bytes: int64(len(b)) + int64(more), tail: "a"}
		file := file{dir: t.TempDir(), name: n, state: Waiting}
		if err := os.WriteFile(file.path(), b, 0o600); err != nil {
			t.Fatal(err)
		}
		note, req, err := file.read()
		if err != nil {
			if !errors.Is(err, errCorrupt) || req != nil {
				t.Errorf("request %v, error %v", req, err)
			}
			return
		}
		if more > 0 {
			t.Errorf("%d bytes more were not missed", more)
		}
		if head, err := file.readNote(); len(b) < maxNote && (err != nil || head != note) {
			t.Errorf("note %+v, %v, was %+v", head, err, note)
		}
		if _, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: req.ResourceSpans}); err != nil {
			t.Error(err)
		}
	})
}
