package spool

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// All files are in protobuf's wire format. A file begins with a note. Then comes a
// request, or, in the log of a process, one frame after another. A frame counts whole or
// not at all: a truncated frame is ignored. The log of a process that has ended by itself
// ends with another note, which says why its spans were not delivered.
//
//	frame = field 1004 {
//	    ended  = field 1: a ResourceSpans of spans that have ended, as in a request
//	    open   = field 1001 { field 1: a ResourceSpans of spans that have not ended, ... }
//	    done   = field 1002 { varints }: the ended spans with these numbers were delivered
//	}
//
// The note of a request has its checksum, and of metrics, what it counts. The note of a log
// has the format's number: a log of another format is set aside.
//
// The open spans of a frame replace those of all earlier frames, because their ids
// may have changed since. The ended spans of a log are numbered from 0, as they come.
const (
	fieldNote  = 1000
	fieldOpen  = 1001
	fieldDone  = 1002
	fieldFrame = 1004
)

// logFormat is the number of the format.
const logFormat = 4

const (
	// maxFrame is the longest frame that is written.
	maxFrame = 12 << 20

	// maxLog is the longest file. Whoever reads one has all of it in memory.
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

// A log is what a file has: a request of spans or of metrics, or a process's log.
type log struct {
	note    Note
	closed  bool // its process ended by itself
	size    int64
	age     time.Duration // since it was written
	metrics Request

	ended []*Span // by number
	open  []*Span
}

// readLog reads a file. It returns errCorrupt if the file is not as it was written, except
// that a log may end anywhere, and an *Untrusted error if the file is not this user's.
func readLog(path string) (l *log, err error) {
	l = new(log)
	f, info, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return l, err
	}
	defer f.Close()
	l.size, l.age = info.Size(), time.Since(info.ModTime())
	if l.size > maxLog {
		return l, errCorrupt
	}
	b := make([]byte, l.size)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return l, err
	}
	return l, l.decode(b[:n])
}

func (l *log) decode(b []byte) (err error) {
	var rest []byte
	l.note, rest, err = cutNote(b)
	switch {
	case err != nil:
		return err
	case l.note.Sum != "" && l.note.Sum != checksum(rest), l.note.Format != 0 && l.note.Format != logFormat:
		return errCorrupt
	case l.note.Signal == Metrics && l.note.Points == 0:
		return errCorrupt
	case l.note.Signal == Metrics:
		l.metrics = Request{Body: rest, Points: l.note.Points, Delta: l.note.Delta}
		return nil
	}
	for number, v := range field.All(rest, nil) {
		switch number {
		case field.ResourceSpans:
			l.ended = appendSpans(l.ended, v.Bytes)
		case fieldFrame:
			if l.note.Format != logFormat {
				return errCorrupt
			}
			l.add(v.Bytes)
		case fieldNote:
			if last, err := decodeNote(v.Bytes); err == nil {
				l.note.Reason, l.closed = last.Reason, true
			}
		}
		if len(l.ended)+len(l.open) > maxSpans {
			return errCorrupt
		}
	}
	return nil
}

// add applies a frame. It skips what cannot be decoded, which a killed process does
// not write.
func (l *log) add(frame []byte) {
	for number, v := range field.All(frame, nil) {
		switch number {
		case field.ResourceSpans:
			l.ended = appendSpans(l.ended, v.Bytes)
		case fieldOpen:
			l.open = nil
			for resourceSpans := range field.Of(v.Bytes, field.ResourceSpans) {
				l.open = appendSpans(l.open, resourceSpans.Bytes)
			}
		case fieldDone:
			l.markDone(v.Bytes)
		}
	}
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

// A place says which span a span is, within which one, and when it ends.
type place struct {
	id, parent spanID
	end        uint64
}

// A spanID is a trace's id and a span's id.
type spanID [16 + 8]byte

func placeOf(s *Span) (p place) {
	for number, v := range field.All(s.Encoded(), nil) {
		switch number {
		case field.SpanTraceID:
			copy(p.id[:16], v.Bytes)
			copy(p.parent[:16], v.Bytes)
		case field.SpanID:
			copy(p.id[16:], v.Bytes)
		case field.SpanParentID:
			copy(p.parent[16:], v.Bytes)
		case field.SpanEnd:
			p.end = v.Number
		}
	}
	return p
}

// lost returns the spans that are lost with the file: those that had ended and were not
// delivered, and those that were open.
func (l *log) lost() (ended, open []*Span) {
	over := map[spanID]bool{}
	for _, s := range l.ended {
		if over[placeOf(s).id] = true; !s.done {
			ended = append(ended, s)
		}
	}
	ends := map[spanID]uint64{} // of open
	for _, s := range l.open {
		p := placeOf(s)
		if _, twice := ends[p.id]; !twice && !over[p.id] {
			ends[p.id] = p.end
			open = append(open, s)
		}
	}
	// An open span ends no earlier than the spans within it.
	for _, s := range slices.Concat(l.ended, open) {
		p := placeOf(s)
		if latest, isOpen := ends[p.parent]; isOpen {
			ends[p.parent] = max(latest, p.end, ends[p.id])
		}
	}
	for i, s := range open {
		open[i] = s.endingAt(ends[placeOf(s).id])
	}
	return ended, open
}

// endingAt returns the span with another end: of a field that occurs twice, the last one
// counts.
func (s *Span) endingAt(end uint64) *Span {
	span := protowire.AppendTag(slices.Clip(s.Encoded()), field.SpanEnd, protowire.Fixed64Type)
	return &Span{Wire: AppendSpan(nil, protowire.AppendFixed64(span, end)), Of: s.Of}
}

// spans returns all spans that are lost with the file.
func (l *log) spans() []*Span {
	ended, open := l.lost()
	return append(ended, open...)
}
