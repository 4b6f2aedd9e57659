package mapping

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// A span is a span that has ended. Its ids are derived when it is emitted, because
// they depend on the run's first instant, which may be known only later.
type span struct {
	ref, parent spanRef
	link        spanRef // a span that led to it; none without an operation
	caller      *caller // the same, in another trace
	subject     string  // follows the operation in its name
	program     string  // that a tool runs, the last part of its name
	start, end  moment
	attributes  attributes
	events      []event
	errorType   string // "" if it went well
	status      string // says more than errorType
	content     content.Attributes
}

// operationNames are what the names of spans begin with.
var operationNames = [...]string{
	invokeAgent: semconv.OperationInvokeAgent,
	chat:        semconv.OperationChat,
	deltas:      semconv.OperationDeltas,
	executeTool: semconv.OperationExecuteTool,
	background:  semconv.OperationBackground,
	approval:    semconv.OperationApproval,
	hook:        semconv.OperationHook,
}

// encode appends a span. Its end is a microsecond before the instant at which
// it ended: see quantum.
func (s *span) encode(b []byte, ids *ids, remote trace.SpanContext) []byte {
	start, end := max(s.start.at, quantum), s.end.at-microsecond
	end = max(end, start+microsecond)
	traceID, id := ids.traceID(remote), ids.span(s.ref)
	b = appendBytes(b, fieldTraceID, traceID[:])
	b = appendBytes(b, fieldSpanID, id[:])
	flags := uint32(flagsLocal)
	if state := remote.TraceState(); state.Len() > 0 {
		b = appendString(b, fieldTraceState, state.String())
	}
	switch {
	case s.ref != rootRef:
		parent := ids.span(s.parent)
		b = appendBytes(b, fieldParentID, parent[:])
	case remote.IsValid():
		parent := remote.SpanID()
		b = appendBytes(b, fieldParentID, parent[:])
		flags = flagsRemote
	}
	name := append(make([]byte, 0, 128), operationNames[s.ref.operation]...)
	for _, part := range [...]string{s.subject, s.program} {
		if part != "" {
			name = append(append(name, ' '), part...)
		}
	}
	b = appendBytes(b, fieldName, name)
	kind := uint64(kindInternal)
	if s.ref.operation == chat { // it waits for the model
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
	if start, end := s.start.word(), s.end.word(); start != printed || end != printed {
		a.str(semconv.TimeStart, start)
		a.str(semconv.TimeEnd, end)
		if start == inferred || end == inferred {
			a.bool(semconv.TimeEstimated, true)
		}
	}
	status := a.fit(s.status)
	a.strIfSet(semconv.ErrorType, s.errorType)
	if a.lost > 0 {
		a.int(semconv.Truncated, int64(a.lost))
	}
	b = a.wire
	for i := range s.events {
		b = s.events[i].append(b, a.max)
	}
	if s.link.operation != noOperation {
		b = appendLink(b, traceID, ids.span(s.link))
	}
	if s.caller != nil && s.caller.ids.known {
		b = appendLink(b, s.caller.ids.traceID(remote), s.caller.ids.span(s.caller.call))
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

func appendLink(b []byte, traceID [16]byte, id [8]byte) []byte {
	var scratch [64]byte
	link := appendBytes(scratch[:0], fieldLinkTraceID, traceID[:])
	link = appendBytes(link, fieldLinkSpanID, id[:])
	link = protowire.AppendTag(link, fieldLinkFlags, protowire.Fixed32Type)
	link = protowire.AppendFixed32(link, flagsLocal)
	return appendBytes(b, fieldLinks, link)
}

func appendStatus(b []byte, message string) []byte {
	var status []byte
	if message != "" {
		status = appendString(status, fieldStatusMessage, message)
	}
	return appendBytes(b, fieldStatus, append(status, fieldStatusCode<<3|byte(protowire.VarintType), statusError))
}

// textKind is what the model produces.
type textKind int

const (
	thinkingText textKind = iota
	answerText
)

// textNames are what a text is called: as part of a message, and as an event.
var textNames = [...]struct{ part, delta, message string }{
	thinkingText: {"reasoning", semconv.EventThinkingDelta, semconv.EventThinkingMessage},
	answerText:   {"text", semconv.EventTextDelta, semconv.EventTextMessage},
}

func (k textKind) event(mode Deltas) string {
	if mode == DeltasMessage {
		return textNames[k].message
	}
	return textNames[k].delta
}

// An event is an event of a span: something that happened between the agent and the
// model, or a text.
type event struct {
	name       string
	at         instant
	attributes []byte // in wire format
	textPart
}

// A textPart is what an event says of a text: of one delta, several, or all of it.
type textPart struct {
	kind                textKind
	index, bytes, count int // count is 0 if the event is not about a text

	piece content.Piece
	open  bool   // the text has not ended
	text  string // once the text has ended, if content is captured
}

// size returns about how many bytes an event takes.
func (e *event) size() int {
	const bare, key = 80, 16 // without and with a text
	if e.open {
		return bare + key + e.piece.Size()
	}
	return bare + len(e.attributes)
}

// append appends the event, in wire format.
func (e *event) append(b []byte, max int) []byte {
	start := len(b)
	b = append(b, fieldEventTime<<3|byte(protowire.Fixed64Type))
	b = protowire.AppendFixed64(b, uint64(e.at))
	b = appendString(b, fieldEventName, e.name)
	a := attributes{field: fieldEventAttributes, max: max, wire: append(b, e.attributes...)}
	if e.count > 0 {
		a.int(semconv.DeltaIndex, int64(e.index))
		a.int(semconv.DeltaBytes, int64(e.bytes))
	}
	if e.count > 1 {
		a.int(semconv.DeltaCount, int64(e.count))
	}
	a.strIfSet(semconv.DeltaText, e.text)
	var frame [16]byte
	return slices.Insert(a.wire, start, protowire.AppendVarint(append(frame[:0], fieldEvents<<3|byte(protowire.BytesType)), uint64(len(a.wire)-start))...)
}

func formatTime(t instant) string {
	return time.Unix(0, int64(t)).UTC().Format("2006-01-02T15:04:05.000Z")
}
