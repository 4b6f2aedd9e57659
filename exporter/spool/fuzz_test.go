package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// forgedLogs are logs that no process wrote.
func forgedLogs(t testing.TB) [][]byte {
	t.Helper()
	note := encodeNote(Note{Destination: Destination{Protocol: "file", Endpoint: "/home/victim/.profile"}, Format: logFormat})
	with := func(more ...byte) []byte { return append(bytes.Clone(note), more...) }
	frame := func(b []byte) []byte { return append(bytes.Clone(note), frameOf(b)...) }
	request := func(name string) []byte { return Encode(spansOf(t, name)) }
	huge := protowire.AppendVarint(protowire.AppendTag(nil, fieldFrame, protowire.BytesType), 1<<62)
	return [][]byte{
		nil,
		note,
		bytes.Repeat([]byte{0xff}, 100),
		make([]byte, 4096),
		protowire.AppendVarint(protowire.AppendTag(nil, fieldNote, protowire.BytesType), 1<<40),
		appendRecord(nil, fieldNote, []byte(`{"protocol":"grpc","endpoint":"http://a/\u001b[2J"}`)),
		appendRecord(nil, fieldNote, []byte(`{"format":6,"metrics":{"endpoint":"http://a/\u001b[2J"}}`)),
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

// FuzzLog reads any bytes as a log: no panic, no open span twice, and every span in a request.
func FuzzLog(f *testing.F) {
	s := newSpool(f, 1<<20)
	l := s.NewLog(here, &here)
	child := spanOf("child")
	child.ParentSpanId = spanOf("root").SpanId
	spans := append(spansOf(f, "a", "b"), wired(f, child))
	must(f, l.Append(spans, &Snapshot{Open: append(spansOf(f, "root"), wired(f, child)), Metrics: []byte("totals")}))
	l.Done(spans[:1])
	b, err := os.ReadFile(filepath.Join(s.Dir, l.name))
	must(f, err)
	l.Close("", nil)
	f.Add(b)
	f.Add(b[:len(b)/2])
	for _, b := range forgedLogs(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := new(contents)
		if err := c.decode(b); err != nil {
			if !errors.Is(err, errCorrupt) && !errors.Is(err, errEmpty) {
				t.Errorf("error %v", err)
			}
			return
		}
		spans, numbers := c.pending()
		open := map[[24]byte]bool{}
		for _, span := range spans {
			if id := refOf(span).id; numbers[span] >= len(c.ended) {
				if open[id] {
					t.Errorf("open span %x is there twice", id)
				}
				open[id] = true
			}
		}
		n := 0
		for _, r := range Requests(spans) {
			n += len(r)
			body := Encode(r)
			if again := spansIn(body); len(body) > maxRequest+2*len(b) || len(again) != len(r) || !again[0].Of.equal(r[0].Of) {
				t.Errorf("a request of %d bytes has %d spans", len(body), len(again))
			}
		}
		if n != len(spans) {
			t.Errorf("%d spans of %d in requests", n, len(spans))
		}
	})
}

// What was forged is set aside or ignored, costs little memory, and stops nothing.
func TestForgedLogs(t *testing.T) {
	s := newSpool(t, 64<<20)
	leave(t, s, "honest")
	for i, b := range forgedLogs(t) {
		must(t, os.WriteFile(filepath.Join(s.Dir, string(rune('a'+i))+logExt), b, 0o600))
	}
	large := filepath.Join(s.Dir, "large"+logExt)
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 1<<40)) // a hole
	found := false
	for c, err := range s.Claims(1000) {
		must(t, err)
		names := namesOf(t, c.Spans)
		found = found || len(names) == 1 && names[0] == "honest"
		must(t, c.Done(c.Spans))
		must(t, c.Close())
	}
	if !found {
		t.Error("the honest one was not found")
	}
	if _, err := os.Stat(large); err == nil {
		t.Error("the large one was not set aside")
	}
}
