package spool

import (
	"bufio"
	"cmp"
	"io"
	"maps"
	"os"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A journal is a log in protobuf's wire format, so that every record has its
// length. It begins with a note; then come heads, each a ResourceSpans with a
// resource and a scope, and frames. A frame counts whole or not at all: a
// truncated frame is ignored. The log of a process that has ended by itself ends with
// another note, which says why its spans were not delivered.
//
//	frame = field 1004 {
//	    head   = field 1005, varint: the number of the head of what follows, 0 if absent
//	    first  = field 1003, varint: the number of the span that comes next
//	    ended  = field 2: a span that has ended, as it stands in a ScopeSpans
//	    open   = field 1001 { head, field 2: a span that has not ended, ... }
//	    done   = field 1002 { two varints }: spans of these numbers were delivered
//	}
//
// The note has the format's number. A log of another format is set aside.
//
// The open spans of a frame replace those of all earlier frames, because their ids
// may have changed since. Spans are numbered in the order in which they ended.
const (
	fieldOpen  = 1001
	fieldDone  = 1002
	fieldFirst = 1003
	fieldFrame = 1004
	fieldHead  = 1005
)

// logFormat is the number of the format.
const logFormat = 2

const (
	// maxFrame is the longest frame that is written, or read.
	maxFrame = 12 << 20

	// maxLog is the longest log. Whoever reads one has all its spans in memory.
	maxLog = 24 << 20

	// maxSpans is how many spans a file may have: reading one with many tiny spans
	// would take many times its size.
	maxSpans = 1 << 16
)

func appendFrameHeader(b []byte, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, fieldFrame, protowire.BytesType), uint64(size))
}

// newFrame returns a frame of records.
func newFrame(records ...[]byte) []byte {
	size := sizeRecords(records)
	b := slices.Grow(appendFrameHeader(nil, size), size)
	for _, r := range records {
		b = append(b, r...)
	}
	return b
}

func sizeRecords(records [][]byte) (size int) {
	for _, r := range records {
		size += len(r)
	}
	return size
}

func appendFirst(b []byte, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, fieldFirst, protowire.VarintType), n)
}

func appendHead(b []byte, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, fieldHead, protowire.VarintType), uint64(n))
}

func appendSpans(b []byte, spans []Span) []byte {
	head := 0
	for _, s := range spans {
		if s.Head != head {
			b, head = appendHead(b, s.Head), s.Head
		}
		b = append(b, s.Wire...)
	}
	return b
}

// encodeEnded returns the records of spans that have ended, the first of which has this
// number.
func encodeEnded(first uint64, ended []Span) []byte {
	if len(ended) == 0 {
		return nil
	}
	return appendSpans(appendFirst(nil, first), ended)
}

// encodeOpen returns the record that says which spans are open now.
func encodeOpen(open []Span) []byte { return appendRecord(nil, fieldOpen, appendSpans(nil, open)) }

func appendDone(b []byte, done interval) []byte {
	return appendRecord(b, fieldDone, protowire.AppendVarint(protowire.AppendVarint(nil, done.from), done.to))
}

// A log is the contents of a journal.
type log struct {
	note   Note
	closed bool   // its process ended by itself
	heads  []Part // without spans
	size   int64

	next  uint64 // number of the next span
	ended []logged
	open  []logged
	done  []interval
	place map[spanID]int // in ended
}

// An interval is a range of span numbers; to is excluded.
type interval struct{ from, to uint64 }

type logged struct {
	number uint64
	head   uint64
	wire   []byte // as it stands in a ScopeSpans
}

// A spanID is a trace's id and a span's id.
type spanID [16 + 8]byte

// Field numbers of a Span.
const (
	fieldTraceID      = 1
	fieldSpanID       = 2
	fieldParentSpanID = 4
	fieldEndTime      = 8
)

// facts returns what the reader of a log has to know of a span.
func (s logged) facts() (id, parent spanID, end uint64, err error) {
	_, _, tag := protowire.ConsumeTag(s.wire)
	span, _ := protowire.ConsumeBytes(s.wire[tag:])
	err = field.Each(span, func(num protowire.Number, v field.Value) {
		switch num {
		case fieldTraceID:
			copy(id[:16], v.Bytes)
			copy(parent[:16], v.Bytes)
		case fieldSpanID:
			copy(id[16:], v.Bytes)
		case fieldParentSpanID:
			copy(parent[16:], v.Bytes)
		case fieldEndTime:
			end = v.Number
		}
	})
	return id, parent, end, err
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
	return decodeLog(f, info.Size())
}

// maxHeads is more than there are agents.
const maxHeads = 100

// decodeLog reads a log of size bytes, one frame in memory at a time.
func decodeLog(r io.Reader, size int64) (l *log, err error) {
	l = &log{size: size}
	records := bufio.NewReader(r)
	num, value, err := nextRecord(records, size, maxNote)
	if err != nil {
		return l, err
	}
	if num != fieldNote {
		return l, errCorrupt
	}
	l.note, _, err = decodeNote(appendRecord(nil, num, value))
	if err == nil && l.note.Format != logFormat {
		err = errCorrupt
	}
	l.note.Format = 0 // of no use in a list
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
		case fieldNote:
			if last, _, err := decodeNote(appendRecord(nil, num, value)); err == nil {
				l.note.Reason, l.closed = last.Reason, true
			}
		case fieldResourceSpans:
			head := Part{}
			if parts, err := readParts(appendRecord(nil, num, value)); err == nil && len(parts) > 0 {
				head = Part{Resource: parts[0].Resource, Scope: parts[0].Scope}
			}
			if len(l.heads) < maxHeads {
				l.heads = append(l.heads, head)
			}
		}
	}
	return l, err
}

// add applies a frame. It skips what cannot be decoded, which a killed process does
// not write.
func (l *log) add(frame []byte) error {
	_ = eachSpan(frame, &l.next, func(s logged) error {
		l.end(s)
		return l.check()
	})
	_ = fields(frame, func(num protowire.Number, value, _ []byte) error {
		switch num {
		case fieldOpen:
			l.open = nil
			_ = eachSpan(value, new(uint64), func(s logged) error {
				l.open = append(l.open, s)
				return l.check()
			})
		case fieldDone:
			from, n := protowire.ConsumeVarint(value)
			if n < 0 {
				break
			}
			if to, m := protowire.ConsumeVarint(value[n:]); m > 0 && from < to {
				l.done = append(l.done, interval{from, to})
			}
		}
		return l.check()
	})
	return l.check()
}

// check fails if the log has more than any process writes.
func (l *log) check() error {
	if max(len(l.ended), len(l.open), len(l.done)) > maxSpans {
		return errCorrupt
	}
	return nil
}

// eachSpan calls visit with every span of a frame, or of the open spans in one. next is
// the number of the next span.
func eachSpan(b []byte, next *uint64, visit func(logged) error) error {
	head := uint64(0)
	return fields(b, func(num protowire.Number, value, whole []byte) error {
		switch num {
		case fieldFirst, fieldHead:
			_, typ, tag := protowire.ConsumeTag(whole)
			n, _ := protowire.ConsumeVarint(whole[tag:])
			switch {
			case typ != protowire.VarintType:
			case num == fieldHead:
				head = n
			default:
				*next = n
			}
		case fieldSpans:
			number := *next
			*next++
			if value != nil {
				return visit(logged{number, head, whole})
			}
		}
		return nil
	})
}

func (l *log) end(s logged) {
	id, _, _, err := s.facts()
	if err != nil {
		return
	}
	if l.place == nil {
		l.place = map[spanID]int{}
	}
	if i, known := l.place[id]; known {
		l.ended[i] = s
		return
	}
	l.place[id] = len(l.ended)
	l.ended = append(l.ended, s)
}

// spans returns the spans that were lost with the process: first those that had
// ended and were not delivered, then those that were open.
func (l *log) spans() (spans []logged) {
	done := merge(l.done)
	for _, s := range l.ended {
		if !includes(done, s.number) {
			spans = append(spans, s)
		}
	}
	if len(l.open) == 0 {
		return spans
	}
	// An open span ends no earlier than the spans within it that have ended.
	ends := map[spanID]uint64{}
	for _, s := range l.open {
		id, _, end, err := s.facts()
		_, ended := l.place[id] // since
		if _, twice := ends[id]; err == nil && !ended && !twice {
			ends[id] = end
			spans = append(spans, s)
		}
	}
	for _, s := range spans {
		id, parent, end, _ := s.facts()
		if latest, open := ends[parent]; open {
			ends[parent] = max(latest, end, ends[id])
		}
	}
	for i, s := range spans {
		id, _, _, _ := s.facts()
		if end, open := ends[id]; open {
			spans[i].wire = s.endingAt(end)
		}
	}
	return spans
}

// endingAt returns the span with another end: of a field that occurs twice, the last one
// counts.
func (s logged) endingAt(end uint64) []byte {
	_, _, tag := protowire.ConsumeTag(s.wire)
	span, _ := protowire.ConsumeBytes(s.wire[tag:])
	span = protowire.AppendTag(slices.Clip(span), fieldEndTime, protowire.Fixed64Type)
	return AppendSpan(nil, protowire.AppendFixed64(span, end))
}

func (l *log) count() int { return len(l.spans()) }

// parts splits the spans of a log into requests that receivers accept.
func (l *log) parts() (parts []Part) {
	byHead := map[uint64][][]byte{}
	for _, s := range l.spans() {
		byHead[s.head] = append(byHead[s.head], s.wire)
	}
	for _, n := range slices.Sorted(maps.Keys(byHead)) {
		head := Part{}
		if n < uint64(len(l.heads)) {
			head = l.heads[n]
		}
		parts = append(parts, split(head, byHead[n])...)
	}
	return parts
}

func split(head Part, spans [][]byte) (parts []Part) {
	size := 0
	for _, span := range spans {
		if len(parts) == 0 || size+len(span) > maxRequest {
			parts = append(parts, head)
			size = head.Overhead()
		}
		part := &parts[len(parts)-1]
		part.Spans = append(part.Spans, span)
		size += len(span)
	}
	return parts
}

// includes reports whether one of the sorted ranges has n.
func includes(ranges []interval, n uint64) bool {
	i, found := slices.BinarySearchFunc(ranges, n, func(r interval, n uint64) int { return cmp.Compare(r.from, n) })
	return found || i > 0 && n < ranges[i-1].to
}

// merge sorts ranges and joins those that overlap.
func merge(ranges []interval) (merged []interval) {
	slices.SortFunc(ranges, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	for _, r := range ranges {
		if last := len(merged) - 1; last >= 0 && r.from <= merged[last].to {
			merged[last].to = max(merged[last].to, r.to)
			continue
		}
		merged = append(merged, r)
	}
	return merged
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
