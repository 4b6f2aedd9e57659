package metrics

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/mapping/semconv"
)

// Field numbers of an opentelemetry.proto.trace.v1.Span.Event, and of a KeyValue.
const (
	fieldEventTime       protowire.Number = 1
	fieldEventName       protowire.Number = 2
	fieldEventAttributes protowire.Number = 3
	fieldKey             protowire.Number = 1
)

// chunks finds the times between the chunks of a model's answer. They are the
// deltas among a span's events, read from the wire because there may be hundreds
// of thousands.
type chunks struct {
	gaps []float64 // in seconds
	last uint64    // the time of the delta before, zero if there is none
}

// add takes the next event.
func (c *chunks) add(event []byte) {
	var at uint64
	var delta, merged bool
	for len(event) > 0 {
		number, kind, n := protowire.ConsumeTag(event)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, event[n:])
		if size < 0 {
			return
		}
		value := event[n : n+size]
		switch {
		case number == fieldEventTime && kind == protowire.Fixed64Type:
			at = binary.LittleEndian.Uint64(value)
		case number == fieldEventName && kind == protowire.BytesType:
			name, _ := protowire.ConsumeBytes(value)
			delta = string(name) == semconv.EventTextDelta || string(name) == semconv.EventThinkingDelta
		case number == fieldEventAttributes && kind == protowire.BytesType:
			attribute, _ := protowire.ConsumeBytes(value)
			merged = merged || string(key(attribute)) == semconv.DeltaCount
		}
		event = event[n+size:]
	}
	switch {
	case !delta:
	case merged: // it stands for several: when each of them came is not known
		c.last = 0
	default:
		if c.last != 0 && at >= c.last {
			c.gaps = append(c.gaps, float64(at-c.last)/1e9)
		}
		c.last = at
	}
}

// key is that of an encoded KeyValue. The mapper writes it first.
func key(attribute []byte) []byte {
	number, kind, n := protowire.ConsumeTag(attribute)
	if n < 0 || number != fieldKey || kind != protowire.BytesType {
		return nil
	}
	k, _ := protowire.ConsumeBytes(attribute[n:])
	return k
}
