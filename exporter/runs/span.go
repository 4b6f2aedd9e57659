package runs

import (
	"fmt"
	"math"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/mapping/semconv"
)

// Field numbers of opentelemetry.proto.trace.v1 and common.v1.
const (
	fieldSpanTraceID    protowire.Number = 1
	fieldSpanID         protowire.Number = 2
	fieldSpanParentID   protowire.Number = 4
	fieldSpanName       protowire.Number = 5
	fieldSpanStart      protowire.Number = 7
	fieldSpanEnd        protowire.Number = 8
	fieldSpanAttributes protowire.Number = 9
	fieldSpanEvents     protowire.Number = 11
	fieldSpanStatus     protowire.Number = 15
	fieldSpanFlags      protowire.Number = 16

	fieldStatusMessage protowire.Number = 2
	fieldStatusCode    protowire.Number = 3

	fieldEventTime       protowire.Number = 1
	fieldEventName       protowire.Number = 2
	fieldEventAttributes protowire.Number = 3

	fieldKey   protowire.Number = 1
	fieldValue protowire.Number = 2

	fieldString protowire.Number = 1
	fieldBool   protowire.Number = 2
	fieldInt    protowire.Number = 3
	fieldDouble protowire.Number = 4
	fieldArray  protowire.Number = 5
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
	key, text, array []byte
	number           int64 // 1 for true
	float            float64
}

// Read reads the wire bytes of one opentelemetry.proto.trace.v1.Span.
func (s *Span) Read(wire []byte) error {
	*s = Span{Attributes: s.Attributes[:0], events: s.events[:0]}
	err := field.Each(wire, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldSpanTraceID:
			s.TraceID = v.Bytes
		case fieldSpanID:
			s.ID = v.Bytes
		case fieldSpanParentID:
			s.Parent = v.Bytes
		case fieldSpanName:
			s.Name = string(v.Bytes)
		case fieldSpanStart:
			s.Start = v.Number
		case fieldSpanEnd:
			s.End = v.Number
		case fieldSpanAttributes:
			s.Attributes = append(s.Attributes, readAttribute(v.Bytes))
		case fieldSpanEvents:
			s.events = append(s.events, v.Bytes)
		case fieldSpanStatus:
			s.readStatus(v.Bytes)
		case fieldSpanFlags:
			s.flags = v.Number
		}
	})
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
	_ = field.Each(status, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldStatusCode:
			s.Failed = v.Number == uint64(tracepb.Status_STATUS_CODE_ERROR)
		case fieldStatusMessage:
			s.Message = string(v.Bytes)
		}
	})
}

// readAttribute reads an encoded KeyValue.
func readAttribute(keyValue []byte) (a attribute) {
	_ = field.Each(keyValue, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldKey:
			a.key = v.Bytes
		case fieldValue:
			_ = field.Each(v.Bytes, func(number protowire.Number, v field.Value) {
				switch number {
				case fieldString:
					a.text = v.Bytes
				case fieldInt, fieldBool:
					a.number = int64(v.Number)
				case fieldDouble:
					a.float = math.Float64frombits(v.Number)
				case fieldArray:
					a.array = v.Bytes
				}
			})
		}
	})
	return a
}

func (as Attributes) find(key string) *attribute {
	for i := range as {
		if string(as[i].key) == key {
			return &as[i]
		}
	}
	return nil
}

// Has reports whether there is an attribute.
func (as Attributes) Has(key string) bool { return as.find(key) != nil }

// Bytes returns a text attribute without copying it, nil if there is none.
func (as Attributes) Bytes(key string) []byte {
	if a := as.find(key); a != nil {
		return a.text
	}
	return nil
}

// Text returns a text attribute, "" if there is none.
func (as Attributes) Text(key string) string { return string(as.Bytes(key)) }

// List returns the text of a list, nil if there is none.
func (as Attributes) List(key string) (list []string) {
	if a := as.find(key); a != nil {
		_ = field.Each(a.array, func(_ protowire.Number, item field.Value) {
			_ = field.Each(item.Bytes, func(number protowire.Number, v field.Value) {
				if number == fieldString {
					list = append(list, string(v.Bytes))
				}
			})
		})
	}
	return list
}

// Int returns a whole number, 0 if there is none.
func (as Attributes) Int(key string) int64 {
	if a := as.find(key); a != nil {
		return a.number
	}
	return 0
}

// Bool returns a bool, false if there is none.
func (as Attributes) Bool(key string) bool { return as.Int(key) != 0 }

// Number returns a number, whole or not, 0 if there is none.
func (as Attributes) Number(key string) float64 {
	a := as.find(key)
	switch {
	case a == nil:
		return 0
	case a.float != 0:
		return a.float
	}
	return float64(a.number)
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
	_ = field.Each(e.wire, func(number protowire.Number, v field.Value) {
		if number == fieldEventAttributes {
			list = append(list, readAttribute(v.Bytes))
		}
	})
	return list
}

// Events calls do with each event. A span may have hundreds of thousands.
func (s *Span) Events(do func(Event)) {
	for _, event := range s.events {
		do(readEvent(event))
	}
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
	_ = field.Each(event, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldEventTime:
			e.Time = v.Number
		case fieldEventName:
			e.Name = v.Bytes
		case fieldEventAttributes:
			if string(readKey(v.Bytes)) == semconv.DeltaCount {
				e.Deltas = readAttribute(v.Bytes).number
			}
		}
	})
	return e
}

// readKey returns the key of an encoded KeyValue if it comes first, as it does from
// every encoder.
func readKey(keyValue []byte) []byte {
	number, kind, n := protowire.ConsumeTag(keyValue)
	if n < 0 || number != fieldKey || kind != protowire.BytesType {
		return nil
	}
	key, _ := protowire.ConsumeBytes(keyValue[n:])
	return key
}
