package metrics

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/mapping/semconv"
)

// Field numbers of an opentelemetry.proto.trace.v1.Span.Event, and of a KeyValue.
const (
	fieldEventTime       protowire.Number = 1
	fieldEventName       protowire.Number = 2
	fieldEventAttributes protowire.Number = 3
	fieldKey             protowire.Number = 1
)

// chunks collects the times between the chunks of a model's answer: the delta
// events of a span. It reads them from the wire format because there may be
// hundreds of thousands.
type chunks struct {
	gaps []float64 // in seconds
	last uint64    // the time of the delta before, zero if there is none
}

// add takes the next event.
func (c *chunks) add(event []byte) {
	var at uint64
	var delta, merged bool
	_ = field.Each(event, func(number protowire.Number, v field.Value) {
		switch number {
		case fieldEventTime:
			at = v.Number
		case fieldEventName:
			delta = string(v.Bytes) == semconv.EventTextDelta || string(v.Bytes) == semconv.EventThinkingDelta
		case fieldEventAttributes:
			merged = merged || string(key(v.Bytes)) == semconv.DeltaCount
		}
	})
	switch {
	case !delta:
	case merged: // stands for several deltas, whose times are unknown
		c.last = 0
	default:
		if c.last != 0 && at >= c.last {
			c.gaps = append(c.gaps, float64(at-c.last)/1e9)
		}
		c.last = at
	}
}

// key returns the key of an encoded KeyValue, which the mapper writes first.
func key(attribute []byte) []byte {
	number, kind, n := protowire.ConsumeTag(attribute)
	if n < 0 || number != fieldKey || kind != protowire.BytesType {
		return nil
	}
	k, _ := protowire.ConsumeBytes(attribute[n:])
	return k
}
