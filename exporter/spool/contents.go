package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A log is in protobuf's wire format. It begins with a note. Then comes one frame after
// another. A frame counts whole or not at all: a truncated one, which a killed process or a
// full disk leaves, is ignored. The log of a process that has ended by itself ends with
// another note, which says why its spans were not delivered.
//
//	frame = field 1004 {
//	    ended   = field 1: a ResourceSpans of spans that have ended, as in a request
//	    open    = field 1001 { field 1: a ResourceSpans of spans that have not ended, ... }
//	    done    = field 1002 { varints }: the spans with these numbers need not be sent
//	    metrics = field 1005: an ExportMetricsServiceRequest, empty if none has to be sent
//	    shown   = field 1006: as open, for a viewer alone
//	}
//
// A file of rejected spans has frames with spans that have ended.
//
// The open spans of a frame replace those of all earlier frames, because their ids may have
// changed since. So do the metrics. The ended spans and then the open ones are numbered from
// 0, as they come.
const (
	fieldNote    = 1000
	fieldOpen    = 1001
	fieldDone    = 1002
	fieldFrame   = 1004
	fieldMetrics = 1005
	fieldShown   = 1006
)

// logFormat is the number of the format.
const logFormat = 6

const (
	// maxFrame is the longest frame that is written.
	maxFrame = 12 << 20

	// maxLog is the longest file. Whoever reads one has all of it in memory.
	maxLog = 24 << 20
)

// enclose returns records as one record with this number.
func enclose(number protowire.Number, records [][]byte) [][]byte {
	head := protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.BytesType), uint64(sizeRecords(records)))
	return append([][]byte{head}, records...)
}

func sizeRecords(records [][]byte) (size int) {
	for _, r := range records {
		size += len(r)
	}
	return size
}

// The contents of a log.
type contents struct {
	note    Note
	closed  bool         // its process ended by itself
	ended   []*Span      // by number
	open    []*Span      // whose numbers follow
	shown   []*Span      // to a viewer alone
	done    map[int]bool // by number: need not be sent
	metrics []byte
	age     time.Duration // since the last write
}

var (
	errCorrupt = errors.New("not a log of this version, or not as it was written")
	errEmpty   = errors.New("nothing was written") // by a process that was killed, or found no room
)

// read reads a log. It returns errCorrupt if the file is not as it was written, except that
// it may end anywhere, and an *Untrusted error if the file is not this user's.
func read(dir *os.Root, name string) (c *contents, err error) {
	c = new(contents)
	f, info, err := openIn(dir, name, os.O_RDONLY)
	if err != nil {
		return c, err
	}
	defer f.Close()
	if info.Size() > maxLog {
		return c, errCorrupt
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return c, err
	}
	c.age = time.Since(info.ModTime())
	return c, c.decode(b[:n])
}

func (c *contents) decode(b []byte) (err error) {
	c.done = map[int]bool{}
	var rest []byte
	c.note, rest, err = cutNote(b)
	switch {
	case err != nil:
		return err
	case c.note.Format != logFormat:
		return errCorrupt
	}
	for number, v := range field.All(rest, nil) {
		switch number {
		case fieldFrame:
			c.add(v.Bytes)
		case fieldNote:
			var last Note
			if json.Unmarshal(v.Bytes, &last) == nil {
				c.note.Reason, c.closed = last.Reason, true
			}
		}
		if len(c.ended)+len(c.open) > maxSpans {
			return errCorrupt
		}
	}
	return nil
}

// add applies a frame. It skips what cannot be decoded, which a killed process does
// not write.
func (c *contents) add(frame []byte) {
	for number, v := range field.All(frame, nil) {
		switch number {
		case field.ResourceSpans:
			c.ended = appendSpans(c.ended, v.Bytes)
		case fieldOpen:
			c.open = spansIn(v.Bytes)
		case fieldShown:
			c.shown = spansIn(v.Bytes)
		case fieldDone:
			c.markDone(v.Bytes)
		case fieldMetrics:
			c.metrics = v.Bytes
		}
	}
}

// spansIn returns the spans of a TracesData.
func spansIn(data []byte) (spans []*Span) {
	for resourceSpans := range field.Of(data, field.ResourceSpans) {
		spans = appendSpans(spans, resourceSpans.Bytes)
	}
	return spans
}

func (c *contents) markDone(numbers []byte) {
	for len(numbers) > 0 {
		number, n := protowire.ConsumeVarint(numbers)
		if n < 0 {
			return
		}
		if number < uint64(len(c.ended)+len(c.open)) { // open ones were sent by another process
			c.done[int(number)] = true
		}
		numbers = numbers[n:]
	}
}

// A spanRef says which span a span is, within which one, and when it ends.
type spanRef struct {
	id, parent [16 + 8]byte // a trace's id and a span's
	end        uint64
}

func refOf(s *Span) (r spanRef) {
	for number, v := range field.All(s.Encoded(), nil) {
		switch number {
		case field.SpanTraceID:
			copy(r.id[:16], v.Bytes)
			copy(r.parent[:16], v.Bytes)
		case field.SpanID:
			copy(r.id[16:], v.Bytes)
		case field.SpanParentID:
			copy(r.parent[16:], v.Bytes)
		case field.SpanEnd:
			r.end = v.Number
		}
	}
	return r
}

// pending returns the spans that are to be sent: those that ended and, if the process was
// killed, those that were open.
func (c *contents) pending() (pending []*Span, numbers numbers) {
	numbers = map[*Span]int{}
	add := func(s *Span, number int) {
		pending, numbers[s] = append(pending, s), number
	}
	seen := map[[24]byte]bool{}
	for i, s := range c.ended {
		if seen[refOf(s).id] = true; !c.done[i] {
			add(s, i)
		}
	}
	if c.closed {
		return pending, numbers
	}
	ends := map[[24]byte]uint64{} // of open
	var open []*Span
	for i, s := range c.open {
		if r, number := refOf(s), len(c.ended)+i; !seen[r.id] && !c.done[number] {
			seen[r.id], ends[r.id], numbers[s] = true, r.end, number
			open = append(open, s)
		}
	}
	// An open span ends no earlier than the spans within it.
	for _, s := range slices.Concat(c.ended, open) {
		r := refOf(s)
		if latest, isOpen := ends[r.parent]; isOpen {
			ends[r.parent] = max(latest, r.end, ends[r.id])
		}
	}
	for _, s := range open {
		add(s.endingAt(ends[refOf(s).id]), numbers[s])
		delete(numbers, s)
	}
	return pending, numbers
}

// endingAt returns the span with another end: of a field that occurs twice, the last one
// counts.
func (s *Span) endingAt(end uint64) *Span {
	span := protowire.AppendTag(slices.Clip(s.Encoded()), field.SpanEnd, protowire.Fixed64Type)
	return NewSpan(protowire.AppendFixed64(span, end), s.Of)
}

// frameOf returns records as a frame.
func frameOf(records ...[]byte) []byte { return bytes.Join(enclose(fieldFrame, records), nil) }

func recordDone(numbers []int) []byte {
	var varints []byte
	for _, n := range numbers {
		varints = protowire.AppendVarint(varints, uint64(n))
	}
	return appendRecord(nil, fieldDone, varints)
}

// A Note is the metadata of a log.
type Note struct {
	Destination
	Reason string `json:"reason,omitempty"` // why its spans were not delivered
	Format int    `json:"format,omitempty"`

	Metrics *Destination `json:"metrics,omitempty"` // of the metrics; nil if there are none
	Host    string       `json:"host,omitempty"`    // of the process that wrote it
	PID     int          `json:"pid,omitempty"`
}

func encodeNote(note Note) []byte {
	note.Reason = note.Reason[:min(len(note.Reason), maxReason)]
	text, _ := json.Marshal(note) // which cannot fail for strings and numbers
	return appendRecord(nil, fieldNote, text)
}

// maxReason is how much of a reason a note has.
const maxReason = 1 << 10

// cutNote returns the note at the head of a log, and what follows it.
func cutNote(b []byte) (note Note, rest []byte, err error) {
	head := protowire.AppendTag(nil, fieldNote, protowire.BytesType)
	switch {
	case bytes.HasPrefix(head, b):
		return note, nil, errEmpty
	case !bytes.HasPrefix(b, head):
		return note, nil, errCorrupt
	}
	text, n := protowire.ConsumeBytes(b[len(head):])
	switch {
	case n < 0 && len(b) < maxNote:
		return note, nil, errEmpty
	case n < 0:
		return note, nil, errCorrupt
	}
	if json.Unmarshal(text, &note) != nil {
		return Note{}, nil, errCorrupt
	}
	return note, b[len(head)+n:], nil
}

// maxNote is more than a note has.
const maxNote = 64 << 10

// isLocal reports whether a note is of this host.
func (n *Note) isLocal() bool {
	host, _ := os.Hostname()
	return n.Host == host
}
