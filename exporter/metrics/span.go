package metrics

import (
	"fmt"
	"math"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/mapping/semconv"
)

// Field numbers of an opentelemetry.proto.trace.v1.Span, its Status and an AnyValue.
const (
	fieldTraceID    protowire.Number = 1
	fieldSpanID     protowire.Number = 2
	fieldParentID   protowire.Number = 4
	fieldStart      protowire.Number = 7
	fieldEnd        protowire.Number = 8
	fieldAttributes protowire.Number = 9
	fieldEvents     protowire.Number = 11
	fieldStatus     protowire.Number = 15

	fieldStatusCode protowire.Number = 3

	fieldValue       protowire.Number = 2 // of a KeyValue
	fieldStringValue protowire.Number = 1
	fieldIntValue    protowire.Number = 3
	fieldDoubleValue protowire.Number = 4
)

// A span is what is counted of one, read from the wire: the first message that
// protobuf decodes costs more time than all metrics of a session.
type span struct {
	traceID, id, parent []byte
	start, end          uint64
	failed              bool
	facts               facts
	gaps                []float64 // in seconds, between the chunks of a model's answer
}

// seconds is how long it took.
func (s *span) seconds() float64 { return float64(s.end-s.start) / 1e9 }

// decode reads a span, of which s refers to parts until the next call.
func (s *span) decode(wire []byte) error {
	*s = span{facts: s.facts[:0]}
	var chunks chunks
	err := field.Each(wire, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldTraceID:
			s.traceID = v.Bytes
		case fieldSpanID:
			s.id = v.Bytes
		case fieldParentID:
			s.parent = v.Bytes
		case fieldStart:
			s.start = v.Number
		case fieldEnd:
			s.end = v.Number
		case fieldAttributes:
			s.facts = append(s.facts, decodeFact(v.Bytes))
		case fieldEvents:
			chunks.add(v.Bytes)
		case fieldStatus:
			_ = field.Each(v.Bytes, func(number protowire.Number, v field.Value) {
				s.failed = s.failed || number == fieldStatusCode && v.Number == uint64(tracepb.Status_STATUS_CODE_ERROR)
			})
		}
	})
	if err != nil {
		return fmt.Errorf("a span is not counted: %w", err)
	}
	s.gaps = chunks.gaps
	if s.failed && !s.facts.has(semconv.ErrorType) {
		s.facts = append(s.facts, fact{key: []byte(semconv.ErrorType), text: []byte(semconv.ErrorOther)}) // as the conventions want it
	}
	return nil
}

// facts are a span's attributes.
type facts []fact

// A fact is an attribute: a string, or a number.
type fact struct {
	key, text []byte
	number    int64
	float     float64
}

// find returns an attribute, empty if there is none.
func (f facts) find(key string) (found fact, ok bool) {
	for _, a := range f {
		if string(a.key) == key {
			return a, true
		}
	}
	return fact{}, false
}

func (f facts) has(key string) bool {
	_, ok := f.find(key)
	return ok
}

func (f facts) text(key string) []byte {
	a, _ := f.find(key)
	return a.text
}

func (f facts) int(key string) int64 {
	a, _ := f.find(key)
	return a.number
}

// decodeFact reads an encoded KeyValue.
func decodeFact(attribute []byte) (a fact) {
	_ = field.Each(attribute, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldKey:
			a.key = v.Bytes
		case fieldValue:
			_ = field.Each(v.Bytes, func(number protowire.Number, v field.Value) {
				switch number {
				case fieldStringValue:
					a.text = v.Bytes
				case fieldIntValue:
					a.number = int64(v.Number)
				case fieldDoubleValue:
					a.float = math.Float64frombits(v.Number)
				}
			})
		}
	})
	return a
}
