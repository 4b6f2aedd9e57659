package mapping

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A span is a span that has ended. Its ids are derived when it is emitted, because
// they depend on the run's first instant, which may be known only later.
type span struct {
	ref, parent spanRef
	link        spanRef // a span that led to it; none without an operation
	name        spanName
	client      bool // it is a client span: it waits for the model
	start, end  instant
	attributes  attributes
	events      encodedEvents
	errorType   string // "" if it went well
	status      string // says more than errorType
	estimated   bool   // its start or its end was inferred
	content     content.Attributes
	turn        *turn       // of a chat, see settle
	times       *invocation // a sub-agent whose times become final with its run
	texts       []textEvent // events that wait for their texts
}

// newSpan returns a span without times.
func (r *run) newSpan(ref, parent spanRef, inv *invocation, name spanName) *span {
	return &span{ref: ref, parent: parent, name: name, attributes: inv.common(r, ref.operation)}
}

// A spanName is an operation, its subject and, as the conventions allow for tools,
// the program that it runs.
type spanName struct{ operation, subject, program string }

// appendTo appends the name of a span as a field of the span.
func (n *spanName) appendTo(b []byte) []byte {
	size := len(n.operation)
	for _, s := range [...]string{n.subject, n.program} {
		if s != "" {
			size += 1 + len(s)
		}
	}
	b = appendLength(append(b, fieldName<<3|byte(protowire.BytesType)), size)
	b = append(b, n.operation...)
	for _, s := range [...]string{n.subject, n.program} {
		if s != "" {
			b = append(append(b, ' '), s...)
		}
	}
	return b
}

// operationNames are the values of gen_ai.operation.name.
var operationNames = [...]string{
	invokeAgent: semconv.OperationInvokeAgent,
	chat:        semconv.OperationChat,
	executeTool: semconv.OperationExecuteTool,
	deltas:      "", background: "", approval: "",
}

// emit emits a span as soon as its times are settled.
func (r *run) emit(s *span) {
	if r.timesPending(s) {
		s.attributes.wire = slices.Clone(s.attributes.wire) // no more room than it needs: there may be many
		r.held = append(r.held, s)
		return
	}
	if t := s.turn; t != nil {
		s.settleTurn(r, t)
	}
	if s.times != nil {
		s.times.addTimes(&s.attributes)
	}
	switch {
	case s.errorType != errIncomplete || s.status != "":
	case s.ref == rootRef:
		s.status = "the stream ended without a result"
	default:
		s.status = "the stream does not show its end"
	}
	r.counts.spans++
	r.m.stats.Spans++
	r.lastEnd = max(r.lastEnd, s.end)
	r.settleKey()
	r.m.results = append(r.m.results, result{run: r, span: s})
}

// timesPending reports whether the times of a span are not settled yet. In a
// recording, the start of a run and of its first turn is known only with the result;
// without a single timestamp, no time is.
func (r *run) timesPending(s *span) bool {
	if !r.clock.recording() || r.ended {
		return false
	}
	return !r.clock.stamped && r.clock.replay || (r.startGuessed() || !r.began) && r.ownFirst && s.ref == (spanRef{chat, 1})
}

// shortestTurn is less than any model takes. The stream does not show when a shorter
// turn began or ended.
const shortestTurn = agent.Milliseconds

// settleTurn adds the attributes of a chat that depend on its start.
func (s *span) settleTurn(r *run, t *turn) {
	s.estimated = s.estimated || s.end-s.start < shortestTurn
	if r.startGuessed() && r.ownFirst && t.n == 1 {
		s.start, s.estimated = min(r.start, s.start), true
		return
	}
	s.addFirstChunk(s.start, t.firstChunk)
}

// encode appends a span. Its end is a microsecond before the instant at which
// it ended: see quantum.
func (r *run) encode(b []byte, s *span) []byte {
	start, end := max(s.start, quantum), s.end-microsecond
	end = max(end, start+microsecond)
	traceID, id := r.traceID(), r.ids.span(s.ref)
	b = appendBytes(b, fieldTraceID, traceID[:])
	b = appendBytes(b, fieldSpanID, id[:])
	flags := uint32(flagsLocal)
	remote := r.m.opts.Parent
	if r.m.traceState != "" {
		b = appendString(b, fieldTraceState, r.m.traceState)
	}
	switch {
	case s.ref != rootRef:
		parent := r.ids.span(s.parent)
		b = appendBytes(b, fieldParentID, parent[:])
	case remote.IsValid():
		parent := remote.SpanID()
		b = appendBytes(b, fieldParentID, parent[:])
		flags = flagsRemote
	}
	b = s.name.appendTo(b)
	kind := uint64(kindInternal)
	if s.client {
		kind = kindClient
	}
	b = append(b, fieldKind<<3|byte(protowire.VarintType), byte(kind))
	b = append(b, fieldStart<<3|byte(protowire.Fixed64Type))
	b = protowire.AppendFixed64(b, uint64(start))
	b = append(b, fieldEnd<<3|byte(protowire.Fixed64Type))
	b = protowire.AppendFixed64(b, uint64(end))

	// The attributes may be shared with a copy of the span, see Open.
	a := attributes{wire: append(b, s.attributes.wire...), field: fieldAttributes, max: s.attributes.max, lost: s.attributes.lost + s.content.Lost}
	for _, c := range s.content.List {
		a.str(c.Key, c.Text)
	}
	if s.estimated {
		a.bool(semconv.TimeEstimated, true)
	}
	status := a.fit(s.status)
	a.strIfSet(semconv.ErrorType, s.errorType)
	if a.lost > 0 {
		a.int(semconv.Truncated, int64(a.lost))
	}
	b = append(a.wire, s.events.wire...)
	if s.link.operation != noOperation {
		b = r.appendLink(b, s.link)
	}
	if s.errorType != "" {
		b = appendStatus(b, status)
	}
	b = protowire.AppendTag(b, fieldFlags, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, flags)
}

// Span flags: sampled, and whether the parent is known to be remote.
const (
	flagsLocal  = 0x101
	flagsRemote = 0x301
)

func (r *run) traceID() [16]byte {
	if p := r.m.opts.Parent; p.IsValid() {
		return p.TraceID()
	}
	return r.ids.trace
}

func (r *run) appendLink(b []byte, to spanRef) []byte {
	traceID, id := r.traceID(), r.ids.span(to)
	var scratch [64]byte
	link := appendBytes(scratch[:0], fieldLinkTraceID, traceID[:])
	link = appendBytes(link, fieldLinkSpanID, id[:])
	link = protowire.AppendTag(link, fieldLinkFlags, protowire.Fixed32Type)
	link = protowire.AppendFixed32(link, flagsLocal)
	return appendBytes(b, fieldLinks, link)
}

func appendStatus(b []byte, message string) []byte {
	size := 2
	if message != "" {
		size += 1 + protowire.SizeBytes(len(message))
	}
	b = append(b, fieldStatus<<3|byte(protowire.BytesType))
	b = protowire.AppendVarint(b, uint64(size))
	if message != "" {
		b = appendString(b, fieldStatusMessage, message)
	}
	return append(b, fieldStatusCode<<3|byte(protowire.VarintType), statusError)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

func appendString(b []byte, field protowire.Number, v string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, v)
}

// shift puts the times of a span through f.
func (s *span) shift(f func(instant) instant) {
	s.start, s.end = f(s.start), f(s.end)
	s.events.wire = slices.Clone(s.events.wire) // a copy of the span may share it
	s.events.shift(f)
	shiftTexts(s.texts, f)
}
