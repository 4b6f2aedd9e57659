package spool

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A span takes two bytes in a forged file, and many times as much in memory.
func TestTooManySpansInOneRecord(t *testing.T) {
	note, err := encodeNote(Note{Destination: here, Format: logFormat})
	must(t, err)
	spans := appendRecord(nil, field.ScopeSpans, bytes.Repeat(appendRecord(nil, field.Spans, nil), 10*maxSpans))
	record := appendRecord(nil, field.ResourceSpans, spans)
	for name, forged := range map[string][]byte{
		"request": record, "ended": appendRecord(nil, fieldFrame, record), "open": appendRecord(nil, fieldFrame, appendRecord(nil, fieldOpen, record)),
	} {
		l := new(log)
		if err := l.decode(append(bytes.Clone(note), forged...)); !errors.Is(err, errCorrupt) || len(l.ended)+len(l.open) > maxSpans+1 {
			t.Errorf("%s: %d and %d spans, %v", name, len(l.ended), len(l.open), err)
		}
	}
}

func TestALongResourceIsNotRead(t *testing.T) {
	for size, want := range map[int]int{maxResource: 1, maxResource + 1: 0} {
		of := &Origin{Resource: make([]byte, size)}
		if got := spansFrom(Encode([]*Span{{Wire: AppendSpan(nil, nil), Of: of}})); len(got) != want {
			t.Errorf("%d spans of a resource of %d bytes, want %d", len(got), size, want)
		}
	}
}

func BenchmarkRequestsOfManyOrigins(b *testing.B) {
	var spans []*Span
	for i := range maxSpans {
		spans = append(spans, &Span{Wire: AppendSpan(nil, nil), Of: &Origin{Resource: []byte(strconv.Itoa(1e6 + i))}})
	}
	for b.Loop() {
		Requests(spans)
	}
}

func TestOverheadIsOnlyComputed(t *testing.T) {
	o := &Origin{Resource: make([]byte, 600), Scope: make([]byte, 30)}
	if n := testing.AllocsPerRun(10, func() { o.Overhead() }); n > 0 {
		t.Errorf("%v allocations for each span", n)
	}
}
