package spool

import (
	"cmp"
	"slices"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A journal is a log in protobuf's wire format, so that every record has its
// length. It begins with a note; then come heads, each a ResourceSpans with a
// resource and a scope, and frames. A frame counts whole or not at all: a
// truncated frame is ignored.
//
//	frame = field 1004 {
//	    head   = field 1005, varint: the number of the head of what follows, 0 if absent
//	    first  = field 1003, varint: the number of the span that comes next
//	    ended  = field 2: a span that has ended, as it stands in a ScopeSpans
//	    open   = field 1001 { field 2: a span that has not ended, ... }; may be repeated
//	    done   = field 1002 { two varints }: spans of these numbers were delivered
//	}
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

// maxFrame is the longest frame that is written, or read.
const maxFrame = 64 << 20

// maxFrameHeader is the maximum length of a frame's header, in bytes.
const maxFrameHeader = 2 + 5

func appendFrameHeader(b []byte, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, fieldFrame, protowire.BytesType), uint64(size))
}

// appendFrame appends a frame of records.
func appendFrame(b []byte, records ...[]byte) []byte {
	size := sizeRecords(records)
	b = slices.Grow(appendFrameHeader(b, size), size)
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

func appendOpen(b, open []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, fieldOpen, protowire.BytesType), open)
}

func appendHead(b []byte, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, fieldHead, protowire.VarintType), uint64(n))
}

// encodeOpen returns the records that say which spans are open now.
func encodeOpen(open []OpenSpan) (b []byte) {
	b = appendOpen(b, nil) // there may be none
	for len(open) > 0 {
		head := open[0].Head
		var group []byte
		for len(open) > 0 && open[0].Head == head {
			group = AppendSpan(group, open[0].Wire)
			open = open[1:]
		}
		b = appendOpen(appendHead(b, head), group)
	}
	return b
}

func appendDone(b []byte, from, to uint64) []byte {
	done := protowire.AppendVarint(protowire.AppendVarint(nil, from), to)
	return protowire.AppendBytes(protowire.AppendTag(b, fieldDone, protowire.BytesType), done)
}

// A log is the contents of a journal.
type log struct {
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
	*tracepb.Span
}

type spanID struct{ trace, span string }

func idOf(s *tracepb.Span) spanID { return spanID{string(s.GetTraceId()), string(s.GetSpanId())} }

// add applies a frame. It skips what cannot be decoded, which a killed process does
// not write.
func (l *log) add(frame []byte) {
	head, replaced := uint64(0), false
	for len(frame) > 0 {
		num, typ, tag := protowire.ConsumeTag(frame)
		if tag < 0 {
			return
		}
		n := protowire.ConsumeFieldValue(num, typ, frame[tag:])
		if n < 0 {
			return
		}
		value := frame[tag : tag+n]
		frame = frame[tag+n:]
		if typ == protowire.VarintType {
			switch n, _ := protowire.ConsumeVarint(value); num {
			case fieldFirst:
				l.next = n
			case fieldHead:
				head = n
			}
		}
		if typ != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		switch num {
		case fieldSpans:
			s := new(tracepb.Span)
			if proto.Unmarshal(value, s) == nil {
				l.end(s, head)
			}
			l.next++
		case fieldOpen:
			scope := new(tracepb.ScopeSpans)
			if proto.Unmarshal(value, scope) != nil {
				continue
			}
			if !replaced {
				l.open, replaced = nil, true
			}
			for _, s := range scope.Spans {
				l.open = append(l.open, logged{head: head, Span: s})
			}
		case fieldDone:
			from, n := protowire.ConsumeVarint(value)
			if n < 0 {
				continue
			}
			if to, m := protowire.ConsumeVarint(value[n:]); m > 0 && from < to {
				l.done = append(l.done, interval{from, to})
			}
		}
	}
}

func (l *log) end(s *tracepb.Span, head uint64) {
	if l.place == nil {
		l.place = map[spanID]int{}
	}
	id := idOf(s)
	if i, known := l.place[id]; known {
		l.ended[i] = logged{l.next, head, s}
		return
	}
	l.place[id] = len(l.ended)
	l.ended = append(l.ended, logged{l.next, head, s})
}

// spans returns the spans that were lost with the process: first those that had
// ended and were not delivered, then those that were open.
func (l *log) spans() (spans []logged) {
	done := merge(l.done)
	for _, s := range l.ended {
		i, found := slices.BinarySearchFunc(done, s.number, func(d interval, n uint64) int { return cmp.Compare(d.from, n) })
		if found || i > 0 && s.number < done[i-1].to {
			continue
		}
		spans = append(spans, s)
	}
	parents := map[spanID]*tracepb.Span{}
	for _, s := range l.open {
		id := idOf(s.Span)
		if _, ended := l.place[id]; ended || parents[id] != nil {
			continue // it has ended since
		}
		parents[id] = s.Span
		spans = append(spans, s)
	}
	// An open span ends no earlier than the spans within it that have ended.
	for _, s := range spans {
		if p := parents[spanID{string(s.GetTraceId()), string(s.GetParentSpanId())}]; p != nil {
			p.EndTimeUnixNano = max(p.EndTimeUnixNano, s.EndTimeUnixNano)
		}
	}
	return spans
}

func (l *log) count() int { return len(l.spans()) }

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
