package spool

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// forgedRecords are journals that no process wrote.
func forgedRecords(t testing.TB) [][]byte {
	t.Helper()
	note, err := encodeNote(Note{Destination: Destination{Protocol: "file", Endpoint: "/home/victim/.profile"}, Format: logFormat})
	if err != nil {
		t.Fatal(err)
	}
	with := func(more ...byte) []byte { return append(bytes.Clone(note), more...) }
	frame := func(b []byte) []byte {
		return append(bytes.Clone(note), bytes.Join(enclose(fieldFrame, [][]byte{b}), nil)...)
	}
	request := func(name string) []byte { return Encode([]*Span{{Wire: wire(t, spanOf(name)), Of: new(Origin)}}) }
	huge := protowire.AppendVarint(protowire.AppendTag(nil, fieldFrame, protowire.BytesType), 1<<62)
	return [][]byte{
		nil,
		note,
		bytes.Repeat([]byte{0xff}, 100),
		make([]byte, 4096),
		protowire.AppendVarint(protowire.AppendTag(nil, fieldNote, protowire.BytesType), 1<<40),
		appendRecord(nil, fieldNote, []byte(`{"protocol":"grpc","endpoint":"http://a/\u001b[2J"}`)),
		appendRecord(nil, fieldNote, []byte(`[1,2]`)),
		with(huge...),
		with(bytes.Repeat([]byte{0xfa}, 50)...),
		frame(appendRecord(nil, fieldDone, protowire.AppendVarint(nil, 1<<63))),
		frame(appendRecord(nil, fieldDone, []byte{9, 0x80})),
		frame(appendRecord(nil, fieldOpen, bytes.Repeat([]byte{0x12}, 9))),
		frame(huge),
		append(frame(request("a")), frame(appendRecord(request("a"), fieldOpen, request("b")))...),
	}
}

// FuzzJournal reads any bytes as a journal: no panic, no open span twice, and every
// span in a request.
func FuzzJournal(f *testing.F) {
	s := newSpool(f, 1<<20)
	j := newJournal(f, s)
	child := spanOf("child")
	child.ParentSpanId = spanOf("root").SpanId
	end(f, j, spansOf("a", "b")...)
	checkpoint(f, j, spanOf("root"), child)
	commit(f, j, child)
	j.done(1, 2)
	b, err := os.ReadFile(j.file.path())
	if err != nil {
		f.Fatal(err)
	}
	j.Close(background, "")
	f.Add(b)
	f.Add(b[:len(b)/2])
	for _, b := range forgedRecords(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := new(log)
		if err := l.decode(b); err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		ended, open := l.lost()
		seen := map[spanID]bool{}
		for _, span := range ended {
			seen[placeOf(span).id] = true
		}
		for _, span := range open {
			id := placeOf(span).id
			if seen[id] {
				t.Errorf("span %x is there twice", id)
			}
			seen[id] = true
		}
		n, spans := 0, append(ended, open...)
		for _, r := range Requests(spans) {
			n += len(r)
			body := Encode(r)
			if again := spansFrom(body); len(body) > maxRequest+2*len(b) || len(again) != len(r) || !again[0].Of.equal(r[0].Of) {
				t.Errorf("a request of %d bytes has %d spans", len(body), len(again))
			}
		}
		if n != len(spans) {
			t.Errorf("%d spans of %d in requests", n, len(spans))
		}
	})
}

// FuzzRead reads any bytes as a request's file: it is one, or corrupt.
func FuzzRead(f *testing.F) {
	s := newSpool(f, 1<<20)
	put(f, s, here, "a")
	b, err := os.ReadFile(s.Dir + "/" + filesOf(f, s.Dir)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint16(0))
	f.Add(b[:len(b)-1], uint16(0))
	f.Add(b, uint16(1))
	for _, temporality := range []metricpb.AggregationTemporality{cumulative, delta} {
		r := metricsOf(f, temporality, 2, 1)
		note, err := encodeNote(Note{Destination: metricsHere, Points: r.Points, Delta: r.Delta})
		must(f, err)
		b := append(note, r.Body...)
		f.Add(b, uint16(0))
		f.Add(b[:len(b)-3], uint16(0))
	}
	f.Add(appendRecord(nil, fieldNote, []byte(`{"protocol":"grpc","endpoint":"http://a","signal":"logs\u0007"}`)), uint16(0))
	for _, b := range forgedRecords(f) {
		f.Add(b, uint16(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, more uint16) {
		n := name{at: time.Unix(0, 1), spans: 1, bytes: int64(len(b)) + int64(more), tail: "a"}
		file := file{dir: t.TempDir(), base: n.String(), name: n, state: Waiting}
		if err := os.WriteFile(file.path(), b, 0o600); err != nil {
			t.Fatal(err)
		}
		o := &Outbox{s: s, to: here, dirName: here.dir(), later: map[string]bool{}}
		c, err := o.claim(file)
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		if more > 0 || len(c.Spans) != 1 {
			t.Errorf("%d bytes more were not missed, %d spans", more, len(c.Spans))
		}
		if again := spansFrom(Encode(c.Spans)); len(again) != 1 || !bytes.Equal(again[0].Wire, c.Spans[0].Wire) {
			t.Errorf("%d spans when written again", len(again))
		}
	})
}
