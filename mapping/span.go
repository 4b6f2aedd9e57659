package mapping

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// MaxAttribute is the longest string that a span may be allowed to have, in
// bytes: some of them have to fit into a request.
const MaxAttribute = 256 << 10

func str(key, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: clean(v)}}}
}

func num[N int | int64](key string, v N) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}}
}

func float(key string, v float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}}
}

func boolean(key string, v bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}}
}

// merge adds attributes to a list, of which a newer one replaces an older.
func merge(list []*commonpb.KeyValue, newer ...*commonpb.KeyValue) []*commonpb.KeyValue {
	for _, kv := range newer {
		i := slices.IndexFunc(list, func(old *commonpb.KeyValue) bool { return old.Key == kv.Key })
		if i < 0 {
			list = append(list, kv)
		} else {
			list[i] = kv
		}
	}
	return list
}

// clean makes s fit for a span: one string that is not UTF-8 would make
// proto.Marshal refuse the whole request.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return s[:runes(s, MaxAttribute)]
}

// limit cuts the strings of a span to longest, and says how many bytes went:
// these and lost, which went before. Tempo cuts at 2048 without a mark.
func limit(span *tracepb.Span, longest, lost int) {
	for i, kv := range span.Attributes {
		if v, ok := kv.Value.Value.(*commonpb.AnyValue_StringValue); ok && len(v.StringValue) > longest {
			n := runes(v.StringValue, longest)
			lost += len(v.StringValue) - n
			span.Attributes[i] = str(kv.Key, v.StringValue[:n]) // the old one may be another span's, too
		}
	}
	if message := span.GetStatus().GetMessage(); len(message) > longest {
		n := runes(message, longest)
		lost += len(message) - n
		span.Status.Message = message[:n]
	}
	if lost > 0 {
		span.Attributes = append(span.Attributes, num(keyTruncated, lost))
	}
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// enum returns s if it could be one of a few names, as variants and statuses
// are, and else "". Only such strings may be error types: what a hostile or
// broken stream puts in their place is content.
func enum(s []byte) string { return madeOf(s, letters+"0123456789_-") }

// word is enum for the names of tools, which have more in them.
func word(s []byte) string { return madeOf(s, letters+"0123456789_-.:") }

func madeOf(s []byte, allowed string) string {
	if len(s) > 64 || len(bytes.Trim(s, allowed)) > 0 {
		return ""
	}
	return string(s)
}

// label is for what may have spaces in it, as models have.
func label(s []byte) string {
	for _, c := range s {
		if len(s) > 64 || c < ' ' || c > '~' {
			return ""
		}
	}
	return string(s)
}

// failed marks a span as failed. message says more than errorType, or is "".
func failed(span *tracepb.Span, errorType, message string) {
	span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: clean(message)}
	span.Attributes = append(span.Attributes, str(keyErrorType, errorType))
}

// Field numbers of opentelemetry.proto.trace.v1 and common.v1.
const (
	fieldSpanEvents      = 11
	fieldEventTime       = 1
	fieldEventName       = 2
	fieldEventAttributes = 3
	fieldKey             = 1
	fieldValue           = 2
	fieldStringValue     = 1
	fieldIntValue        = 3
)

// encodedEvents are span events in wire format. An agent streams deltas by the
// hundred thousand: appended here, one costs a tenth of a generated struct.
type encodedEvents struct {
	wire []byte
	n    int
}

// add appends an event of a delta, or of count of them.
func (e *encodedEvents) add(name string, at instant, index, bytes, count int, text string) {
	var scratch [128]byte
	b := scratch[:0]
	b = protowire.AppendTag(b, fieldEventTime, protowire.Fixed64Type) // first, see shift
	b = protowire.AppendFixed64(b, uint64(at))
	b = protowire.AppendTag(b, fieldEventName, protowire.BytesType)
	b = protowire.AppendString(b, name)
	b = appendInt(b, keyDeltaIndex, index)
	b = appendInt(b, keyDeltaBytes, bytes)
	if count > 1 {
		b = appendInt(b, keyDeltaCount, count)
	}
	if text != "" {
		b = appendText(b, keyDeltaText, text)
	}
	e.wire = protowire.AppendTag(e.wire, fieldSpanEvents, protowire.BytesType)
	e.wire = protowire.AppendBytes(e.wire, b)
	e.n++
}

func appendInt(b []byte, key string, v int) []byte {
	var scratch [16]byte
	value := protowire.AppendTag(scratch[:0], fieldIntValue, protowire.VarintType)
	return appendAttribute(b, key, protowire.AppendVarint(value, uint64(v)))
}

func appendText(b []byte, key, v string) []byte {
	value := make([]byte, 0, protowire.SizeTag(fieldStringValue)+protowire.SizeBytes(len(v)))
	value = protowire.AppendTag(value, fieldStringValue, protowire.BytesType)
	return appendAttribute(b, key, protowire.AppendString(value, v))
}

func appendAttribute(b []byte, key string, value []byte) []byte {
	b = protowire.AppendTag(b, fieldEventAttributes, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(fieldKey)+protowire.SizeBytes(len(key))+
		protowire.SizeTag(fieldValue)+protowire.SizeBytes(len(value))))
	b = protowire.AppendTag(b, fieldKey, protowire.BytesType)
	b = protowire.AppendString(b, key)
	b = protowire.AppendTag(b, fieldValue, protowire.BytesType)
	return protowire.AppendBytes(b, value)
}

// shift puts every event's time through f.
func (e *encodedEvents) shift(f func(instant) instant) {
	for b := e.wire; len(b) > 0; {
		_, _, tag := protowire.ConsumeTag(b)
		event, size := protowire.ConsumeBytes(b[tag:])
		at := event[protowire.SizeTag(fieldEventTime):]
		binary.LittleEndian.PutUint64(at, uint64(f(instant(binary.LittleEndian.Uint64(at)))))
		b = b[tag+size:]
	}
}

// attach gives the events to a span, as unknown fields: proto.Marshal writes
// those after the known ones as they are, and whoever reads what it wrote finds
// ordinary events.
func (e *encodedEvents) attach(span *tracepb.Span) {
	if e.n > 0 {
		span.ProtoReflect().SetUnknown(e.wire)
	}
}
