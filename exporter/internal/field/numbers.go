package field

import "google.golang.org/protobuf/encoding/protowire"

// Numbers of the fields of OTLP, by message.
const (
	ResourceSpans protowire.Number = 1 // ExportTraceServiceRequest

	Resource   protowire.Number = 1 // ResourceSpans
	ScopeSpans protowire.Number = 2

	Scope protowire.Number = 1 // ScopeSpans
	Spans protowire.Number = 2

	ResourceAttributes protowire.Number = 1 // Resource

	SpanTraceID    protowire.Number = 1 // Span
	SpanID         protowire.Number = 2
	SpanParentID   protowire.Number = 4
	SpanName       protowire.Number = 5
	SpanStart      protowire.Number = 7
	SpanEnd        protowire.Number = 8
	SpanAttributes protowire.Number = 9
	SpanEvents     protowire.Number = 11
	SpanStatus     protowire.Number = 15
	SpanFlags      protowire.Number = 16

	StatusMessage protowire.Number = 2 // Status
	StatusCode    protowire.Number = 3

	EventTime       protowire.Number = 1 // Span.Event
	EventName       protowire.Number = 2
	EventAttributes protowire.Number = 3

	Key   protowire.Number = 1 // KeyValue
	Value protowire.Number = 2

	String protowire.Number = 1 // AnyValue
	Bool   protowire.Number = 2
	Int    protowire.Number = 3
	Double protowire.Number = 4
	Array  protowire.Number = 5
	Map    protowire.Number = 6
)
