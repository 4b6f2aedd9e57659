package runs

import (
	"cmp"
	"fmt"
	"math"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/mapping/semconv"
)

// A Span is an encoded span whose fields are located but not copied: decoding a span with
// package proto takes longer than everything that this package reads. It refers to the
// bytes that it was read from. Read replaces its content, so one Span can read many.
type Span struct {
	TraceID, ID, Parent []byte
	Name                string
	Start, End          uint64 // in nanoseconds since 1970; End is never before Start
	Failed              bool
	Message             string // of the status

	Attributes

	flags  uint64
	events [][]byte
}

// Attributes are the attributes of a span or of an event.
type Attributes []attribute

// An attribute has the value of its type; other types are left out.
type attribute struct {
	key, text []byte
	nested    []byte // the encoded AnyValue of a list or a map
	number    int64  // 1 for true
	float     float64
}

// Read reads the wire bytes of one opentelemetry.proto.trace.v1.Span.
func (s *Span) Read(wire []byte) error {
	*s = Span{Attributes: s.Attributes[:0], events: s.events[:0]}
	var err error
	for number, v := range field.All(wire, &err) {
		switch number {
		case field.SpanTraceID:
			s.TraceID = v.Bytes
		case field.SpanID:
			s.ID = v.Bytes
		case field.SpanParentID:
			s.Parent = v.Bytes
		case field.SpanName:
			s.Name = string(v.Bytes)
		case field.SpanStart:
			s.Start = v.Number
		case field.SpanEnd:
			s.End = v.Number
		case field.SpanAttributes:
			s.Attributes = append(s.Attributes, readAttribute(v.Bytes))
		case field.SpanEvents:
			s.events = append(s.events, v.Bytes)
		case field.SpanStatus:
			s.readStatus(v.Bytes)
		case field.SpanFlags:
			s.flags = v.Number
		}
	}
	s.End = max(s.Start, s.End)
	if err != nil {
		return fmt.Errorf("read a span: %w", err)
	}
	return nil
}

// Of returns a decoded span as a Span. It is empty if the span has text that is not
// UTF-8.
func Of(span *tracepb.Span) *Span {
	s := new(Span)
	if wire, err := proto.Marshal(span); err == nil {
		_ = s.Read(wire) // it was encoded just now
	}
	return s
}

func (s *Span) readStatus(status []byte) {
	for number, v := range field.All(status, nil) {
		switch number {
		case field.StatusCode:
			s.Failed = v.Number == uint64(tracepb.Status_STATUS_CODE_ERROR)
		case field.StatusMessage:
			s.Message = string(v.Bytes)
		}
	}
}

// readAttribute reads an encoded KeyValue.
func readAttribute(keyValue []byte) (a attribute) {
	for number, v := range field.All(keyValue, nil) {
		switch number {
		case field.Key:
			a.key = v.Bytes
		case field.Value:
			value := v.Bytes
			for number, v := range field.All(value, nil) {
				switch number {
				case field.String:
					a.text = v.Bytes
				case field.Int, field.Bool:
					a.number = int64(v.Number)
				case field.Double:
					a.float = math.Float64frombits(v.Number)
				case field.Array, field.Map:
					a.nested = value
				}
			}
		}
	}
	return a
}

// none is the attribute that is found if there is none.
var none attribute

func (as Attributes) find(key string) *attribute {
	for i := range as {
		if string(as[i].key) == key {
			return &as[i]
		}
	}
	return &none
}

// Has reports whether there is an attribute.
func (as Attributes) Has(key string) bool { return as.find(key) != &none }

// Bytes returns a text attribute without copying it, nil if there is none.
func (as Attributes) Bytes(key string) []byte { return as.find(key).text }

// Text returns a text attribute, "" if there is none.
func (as Attributes) Text(key string) string { return string(as.Bytes(key)) }

// List returns the text of a list, nil if there is none.
func (as Attributes) List(key string) (list []string) {
	for array := range field.Of(as.find(key).nested, field.Array) {
		for _, item := range field.All(array.Bytes, nil) {
			for text := range field.Of(item.Bytes, field.String) {
				list = append(list, string(text.Bytes))
			}
		}
	}
	return list
}

// Each calls do with each attribute. Its value is text, or an encoded AnyValue if it is a
// list or a map, or neither.
func (as Attributes) Each(do func(key, text, nested []byte)) {
	for i := range as {
		do(as[i].key, as[i].text, as[i].nested)
	}
}

// Int returns a whole number, 0 if there is none.
func (as Attributes) Int(key string) int64 { return as.find(key).number }

// Bool returns a bool, false if there is none.
func (as Attributes) Bool(key string) bool { return as.Int(key) != 0 }

// Number returns a number, whole or not, 0 if there is none.
func (as Attributes) Number(key string) float64 {
	a := as.find(key)
	return cmp.Or(a.float, float64(a.number))
}

// An Event is an event of a span. It refers to the span's bytes.
type Event struct {
	Name []byte
	Time uint64 // in nanoseconds since 1970

	// Deltas is how many deltas the event stands for: neighbours may have been
	// merged. It is 1 for an event of another kind.
	Deltas int64

	wire []byte
}

// Attributes decodes the event's attributes.
func (e Event) Attributes() (list Attributes) {
	for v := range field.Of(e.wire, field.EventAttributes) {
		list = append(list, readAttribute(v.Bytes))
	}
	return list
}

// Events calls do with each event. A span may have hundreds of thousands.
func (s *Span) Events(do func(Event)) {
	for _, event := range s.events {
		do(readEvent(event))
	}
}

// LastHeard returns when the span's agent last said something: when the span started, or its
// latest event. What spantee notes itself is nothing that the agent said.
func (s *Span) LastHeard() uint64 {
	heard := s.Start
	s.Events(func(e Event) {
		if name := string(e.Name); name != semconv.EventStall && name != semconv.EventLimit {
			heard = max(heard, e.Time)
		}
	})
	return heard
}

// LastEvent returns the name of the last event, "" if there is none.
func (s *Span) LastEvent() string {
	if len(s.events) == 0 {
		return ""
	}
	return string(readEvent(s.events[len(s.events)-1]).Name)
}

func readEvent(event []byte) Event {
	e := Event{Deltas: 1, wire: event}
	for number, v := range field.All(event, nil) {
		switch number {
		case field.EventTime:
			e.Time = v.Number
		case field.EventName:
			e.Name = v.Bytes
		case field.EventAttributes:
			if a := readAttribute(v.Bytes); string(a.key) == semconv.DeltaCount {
				e.Deltas = a.number
			}
		}
	}
	return e
}
