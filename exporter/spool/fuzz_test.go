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
	request := func(name string) []byte { return Part{Spans: [][]byte{wire(t, spanOf(name))}}.AppendTo(nil) }
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

// FuzzJournal reads any bytes as a journal: no panic, no span twice, and every
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
		l, err := decodeLog(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		spans := l.spans()
		seen := map[spanID]bool{}
		for _, span := range spans {
			if seen[span.id] {
				t.Errorf("span %x is there twice", span.id)
			}
			seen[span.id] = true
		}
		n := 0
		for _, p := range partsOf(l.spans()) {
			n += len(p.Spans)
			body := p.AppendTo(nil)
			again, err := readParts(body)
			if len(body) > maxRequest+2*len(b) || err != nil || len(again) != 1 || len(again[0].Spans) != len(p.Spans) {
				t.Errorf("a request of %d bytes, %v", len(body), err)
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
	put(f, s, here, "a", "b")
	b, err := os.ReadFile(s.Dir + "/" + filesOf(f, s.Dir)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint16(0))
	f.Add(b[:len(b)-1], uint16(0))
	f.Add(b, uint16(1))
	note, err := encodeNote(Note{Destination: metricsHere})
	if err != nil {
		f.Fatal(err)
	}
	for _, temporality := range []metricpb.AggregationTemporality{cumulative, delta} {
		b := append(bytes.Clone(note), metricsOf(f, temporality, 2, 1).Body...)
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
		note, body, err := readRequest(file.path(), n.bytes)
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		if more > 0 {
			t.Errorf("%d bytes more were not missed", more)
		}
		if head, err := readNote(file.path()); len(b) < maxNote && (err != nil || head != note) {
			t.Errorf("note %+v, %v, was %+v", head, err, note)
		}
		if m, err := readMetrics(body); err == nil && (m.Points == 0 || !bytes.Equal(m.Body, body)) {
			t.Errorf("%d data points, %d bytes of %d", m.Points, len(m.Body), len(body))
		}
		parts, err := readParts(body)
		if err != nil {
			return
		}
		var again []byte
		for _, p := range parts {
			again = p.AppendTo(again)
		}
		if same, err := readParts(again); err != nil || len(same) != len(parts) {
			t.Errorf("%d parts are %d when written again, %v", len(parts), len(same), err)
		}
	})
}
