package spool

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A journal is a log in protobuf's wire format, so that every record has its
// length. It begins with a note; then come frames. A frame counts whole or not at all: a
// truncated frame is ignored. The log of a process that has ended by itself ends with
// another note, which says why its spans were not delivered.
//
//	frame = field 1004 {
//	    ended  = field 1: a ResourceSpans of spans that have ended, as in a request
//	    open   = field 1001 { field 1: a ResourceSpans of spans that have not ended, ... }
//	    done   = field 1002 { varints }: the ended spans with these numbers were delivered
//	}
//
// The note has the format's number. A log of another format is set aside.
//
// The log of metrics has a request instead of frames.
//
// The open spans of a frame replace those of all earlier frames, because their ids
// may have changed since. The ended spans of a log are numbered from 0, as they come.
const (
	fieldOpen  = 1001
	fieldDone  = 1002
	fieldFrame = 1004
)

// logFormat is the number of the format.
const logFormat = 4

const (
	// maxFrame is the longest frame that is written, or read.
	maxFrame = 12 << 20

	// maxLog is the longest log. Whoever reads one has all its spans in memory.
	maxLog = 24 << 20

	// maxSpans is how many spans a file may have: reading one with many tiny spans
	// would take many times its size.
	maxSpans = 1 << 16
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

// recordsOf returns a ResourceSpans for each sequence of spans of one resource and scope. It
// does not copy spans, because there may be megabytes of them.
func recordsOf(spans []*Span) (records [][]byte) {
	for len(spans) > 0 {
		of, n, size := spans[0].Of, 0, 0
		for n < len(spans) && spans[n].Of == of {
			size += len(spans[n].Wire)
			n++
		}
		records = append(records, of.AppendHead(nil, size))
		for _, s := range spans[:n] {
			records = append(records, s.Wire)
		}
		spans = spans[n:]
	}
	return records
}

// A log is the contents of a journal.
type log struct {
	note   Note
	closed bool // its process ended by itself
	size   int64
	age    time.Duration // since it was written or touched
	points int           // data points, if the log is of metrics

	ended   []logged // by number
	open    []logged
	last    map[spanID]int // the number of the last span with an id
	origins map[origin]*Part
}

// An origin is what the spans of a Part share.
type origin struct{ resource, scope string }

// A logged is a span in a log.
type logged struct {
	of   *Part  // its resource and scope
	wire []byte // as it stands in a ScopeSpans
	done bool   // it was delivered

	id, parent spanID
	end        uint64
	malformed  bool // the other fields are not valid
}

// A spanID is a trace's id and a span's id.
type spanID [16 + 8]byte

// span returns the encoded span.
func (s logged) span() []byte {
	_, _, tag := protowire.ConsumeTag(s.wire)
	span, _ := protowire.ConsumeBytes(s.wire[tag:])
	return span
}

// newLogged reads whose a span is, and when it ends.
func newLogged(of *Part, wire []byte) logged {
	s := logged{of: of, wire: wire}
	var err error
	for number, v := range field.All(s.span(), &err) {
		switch number {
		case field.SpanTraceID:
			copy(s.id[:16], v.Bytes)
			copy(s.parent[:16], v.Bytes)
		case field.SpanID:
			copy(s.id[16:], v.Bytes)
		case field.SpanParentID:
			copy(s.parent[16:], v.Bytes)
		case field.SpanEnd:
			s.end = v.Number
		}
	}
	s.malformed = err != nil
	return s
}

// readLog reads a log up to the first record that makes no sense. It fails if not even
// the note is valid, or if the file is not this user's.
func readLog(path string) (l *log, err error) {
	f, info, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return &log{}, err
	}
	defer f.Close()
	if info.Size() > maxLog {
		return &log{size: info.Size()}, errCorrupt
	}
	l, err = decodeLog(f, info.Size())
	l.age = time.Since(info.ModTime())
	return l, err
}

// decodeLog reads a log of size bytes, one frame in memory at a time.
func decodeLog(r io.Reader, size int64) (l *log, err error) {
	l = &log{size: size, last: map[spanID]int{}, origins: map[origin]*Part{}}
	records := bufio.NewReader(r)
	l.note, err = nextNote(records, size)
	if err == nil && l.note.Format != logFormat {
		err = errCorrupt
	}
	for err == nil {
		num, value, err := nextRecord(records, size, maxFrame)
		if err != nil { // the end, or a frame that was cut short
			return l, nil
		}
		switch num {
		case fieldFrame:
			if err = l.add(value); err != nil {
				return l, err
			}
		case field.ResourceMetrics:
			m, _ := readMetrics(appendRecord(nil, num, value)) // as every reader of the request does
			l.points += m.Points
		case fieldNote:
			if last, err := decodeNote(value); err == nil {
				l.note.Reason, l.closed = last.Reason, true
			}
		}
	}
	return l, err
}

// add applies a frame. It skips what cannot be decoded, which a killed process does
// not write. It fails if the log has more than any process writes.
func (l *log) add(frame []byte) error {
	ended, err := l.read(frame)
	for _, s := range ended {
		if !s.malformed {
			l.last[s.id] = len(l.ended)
		}
		l.ended = append(l.ended, s)
	}
	for number, v := range field.All(frame, nil) {
		switch number {
		case fieldOpen:
			l.open, err = l.read(v.Bytes)
		case fieldDone:
			l.markDone(v.Bytes)
		}
		if err != nil || len(l.ended) > maxSpans {
			return errCorrupt
		}
	}
	return nil
}

func (l *log) markDone(numbers []byte) {
	for len(numbers) > 0 {
		number, n := protowire.ConsumeVarint(numbers)
		if n < 0 {
			return
		}
		if number < uint64(len(l.ended)) {
			l.ended[number].done = true
		}
		numbers = numbers[n:]
	}
}

// read returns the spans in a frame, or in its record of open spans.
func (l *log) read(b []byte) (spans []logged, err error) {
	for resourceSpans := range field.Of(b, field.ResourceSpans) {
		parts, err := readParts(resourceSpans.Whole)
		if errors.Is(err, errTooMany) {
			return nil, err
		}
		for _, p := range parts {
			of := l.origin(p)
			for _, wire := range p.Spans {
				spans = append(spans, newLogged(of, wire))
			}
		}
		if len(spans) > maxSpans {
			return nil, errTooMany
		}
	}
	return spans, nil
}

// origin returns the one Part that stands for all with its resource and scope.
func (l *log) origin(p Part) *Part {
	key := origin{string(p.Resource), string(p.Scope)}
	if l.origins[key] == nil {
		l.origins[key] = &Part{Resource: p.Resource, Scope: p.Scope}
	}
	return l.origins[key]
}

var errTooMany = errors.New("more spans than any process writes")

// lost returns the spans that were lost with the process: first those that had
// ended and were not delivered, then those that were open. Of two that have ended with one
// id, the later one counts.
func (l *log) lost() (spans []logged, ended int) {
	for i, s := range l.ended {
		if !s.malformed && !s.done && l.last[s.id] == i {
			spans = append(spans, s)
		}
	}
	ended = len(spans)
	if len(l.open) == 0 {
		return spans, ended
	}
	// An open span ends no earlier than the spans within it that have ended.
	ends := map[spanID]uint64{}
	for _, s := range l.open {
		_, since := l.last[s.id] // ended since
		if _, twice := ends[s.id]; !s.malformed && !since && !twice {
			ends[s.id] = s.end
			spans = append(spans, s)
		}
	}
	for _, s := range spans {
		if latest, open := ends[s.parent]; open {
			ends[s.parent] = max(latest, s.end, ends[s.id])
		}
	}
	for i, s := range spans {
		if end, open := ends[s.id]; open {
			spans[i].wire = s.endingAt(end)
		}
	}
	return spans, ended
}

// endingAt returns the span with another end: of a field that occurs twice, the last one
// counts.
func (s logged) endingAt(end uint64) []byte {
	span := protowire.AppendTag(slices.Clip(s.span()), field.SpanEnd, protowire.Fixed64Type)
	return AppendSpan(nil, protowire.AppendFixed64(span, end))
}

// spans returns all spans that were lost.
func (l *log) spans() []logged {
	spans, _ := l.lost()
	return spans
}

// partsOf splits the spans of a log into requests that receivers accept.
func partsOf(spans []logged) (parts []Part) {
	var sizes []int
	last := map[*Part]int{} // of the parts of a resource and scope
	for _, s := range spans {
		i, known := last[s.of]
		if !known || sizes[i]+len(s.wire) > maxRequest {
			i = len(parts)
			last[s.of] = i
			parts, sizes = append(parts, *s.of), append(sizes, s.of.Overhead())
		}
		parts[i].Spans = append(parts[i].Spans, s.wire)
		sizes[i] += len(s.wire)
	}
	return parts
}

func appendRecord(b []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
}

// nextRecord reads one record of at most limit bytes. A length beyond the end of
// the file is not believed.
func nextRecord(r *bufio.Reader, size, limit int64) (num protowire.Number, value []byte, err error) {
	tag, err := readVarint(r)
	if err != nil {
		return 0, nil, err
	}
	num, typ := protowire.DecodeTag(tag)
	length, err := readVarint(r)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case num < 1 || typ != protowire.BytesType || length > uint64(limit):
		return 0, nil, errCorrupt
	case length > uint64(size):
		return 0, nil, io.ErrUnexpectedEOF
	}
	value = make([]byte, length)
	_, err = io.ReadFull(r, value)
	return num, value, err
}

func readVarint(r *bufio.Reader) (uint64, error) {
	head, err := r.Peek(10)
	v, n := protowire.ConsumeVarint(head)
	if n < 0 {
		if err == nil {
			err = errCorrupt
		}
		return 0, err
	}
	_, _ = r.Discard(n) // it was peeked at
	return v, nil
}
