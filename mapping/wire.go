package mapping

import (
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/mapping/content"
)

// Spans are encoded in OTLP's wire format from the start, because agents produce
// hundreds of thousands of tool calls and deltas, and a generated struct costs
// twenty times as much.

// Field numbers of opentelemetry.proto.trace.v1 and common.v1.
const (
	fieldTraceID    = 1
	fieldSpanID     = 2
	fieldTraceState = 3
	fieldParentID   = 4
	fieldName       = 5
	fieldKind       = 6
	fieldStart      = 7
	fieldEnd        = 8
	fieldAttributes = 9
	fieldEvents     = 11
	fieldLinks      = 13
	fieldStatus     = 15
	fieldFlags      = 16

	fieldEventTime       = 1
	fieldEventName       = 2
	fieldEventAttributes = 3

	fieldLinkTraceID = 1
	fieldLinkSpanID  = 2
	fieldLinkFlags   = 6

	fieldStatusMessage = 2
	fieldStatusCode    = 3

	fieldKey         = 1
	fieldValue       = 2
	fieldStringValue = 1
	fieldBoolValue   = 2
	fieldIntValue    = 3
	fieldDoubleValue = 4
	fieldArrayValue  = 5
	fieldValues      = 1
)

const (
	kindInternal = 1
	kindClient   = 3
	statusError  = 2
)

// attributes are key-value pairs in wire format, for a span or event message in
// which they have the given field number. Strings are cut to max bytes.
type attributes struct {
	wire  []byte
	field protowire.Number
	max   int
	lost  int // bytes that were cut
}

// value appends the frame of an attribute whose AnyValue has size bytes.
func (a *attributes) value(key string, size int) {
	frame := 2 + len(key) + 1 + protowire.SizeBytes(size)
	b := append(a.wire, byte(a.field)<<3|byte(protowire.BytesType)) // fields below 16 take a byte
	b = protowire.AppendVarint(b, uint64(frame))
	b = append(b, fieldKey<<3|byte(protowire.BytesType), byte(len(key))) // and so do keys below 128
	b = append(b, key...)
	b = append(b, fieldValue<<3|byte(protowire.BytesType))
	a.wire = protowire.AppendVarint(b, uint64(size))
}

// add appends other attributes.
func (a *attributes) add(b *attributes) {
	a.wire = append(a.wire, b.wire...)
	a.lost += b.lost
}

func (a *attributes) int(key string, n int64) {
	a.value(key, 1+protowire.SizeVarint(uint64(n)))
	a.wire = append(a.wire, fieldIntValue<<3|byte(protowire.VarintType))
	a.wire = protowire.AppendVarint(a.wire, uint64(n))
}

func (a *attributes) bool(key string, v bool) {
	a.value(key, 2)
	a.wire = append(a.wire, fieldBoolValue<<3|byte(protowire.VarintType), byte(protowire.EncodeBool(v)))
}

func (a *attributes) float(key string, v float64) {
	a.value(key, 9)
	a.wire = append(a.wire, fieldDoubleValue<<3|byte(protowire.Fixed64Type))
	a.wire = protowire.AppendFixed64(a.wire, math.Float64bits(v))
}

func (a *attributes) str(key, v string) {
	v = a.fit(v)
	a.value(key, 1+protowire.SizeBytes(len(v)))
	a.wire = append(a.wire, fieldStringValue<<3|byte(protowire.BytesType))
	a.wire = protowire.AppendString(a.wire, v)
}

// strIfSet appends a string that is not empty.
func (a *attributes) strIfSet(key, v string) {
	if v != "" {
		a.str(key, v)
	}
}

// words appends an array of strings.
func (a *attributes) words(key string, vs ...string) {
	var element, scratch [64]byte
	list := scratch[:0]
	for _, v := range vs {
		list = appendBytes(list, fieldValues, appendString(element[:0], fieldStringValue, a.fit(v)))
	}
	a.value(key, 1+protowire.SizeBytes(len(list)))
	a.wire = appendBytes(a.wire, fieldArrayValue, list)
}

// fit makes a string valid for a span: a single string that is not UTF-8 would make
// a receiver reject the whole request.
func (a *attributes) fit(v string) string {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	if len(v) > a.max {
		n := content.Prefix(v, a.max)
		a.lost += len(v) - n
		v = v[:n]
	}
	return v
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

func appendString(b []byte, field protowire.Number, v string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, v)
}
