// Package mappingtest checks spans as the backends that read them do: it computes
// Jaeger's critical path, classifies and counts spans the way Jaeger, Langfuse and
// Phoenix do, and proves that no delta got lost on the way into a trace.
//
// It does not depend on how spans are made. Code modeled on another program names
// it and the commit.
package mappingtest

import (
	"cmp"
	"slices"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// value returns a span's attribute, or nil.
func value(attributes []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

func stringOf(span *tracepb.Span, key string) string {
	return value(span.Attributes, key).GetStringValue()
}

func intOf(span *tracepb.Span, key string) int64 {
	return value(span.Attributes, key).GetIntValue()
}

func has(span *tracepb.Span, key string) bool {
	return value(span.Attributes, key) != nil
}

// micros cuts an instant in nanoseconds to microseconds, as Jaeger stores it.
func micros(nanos uint64) int64 {
	return int64(nanos / 1000)
}

// family is the spans of one or more traces, by parent.
type family struct {
	spans    map[string]*tracepb.Span
	roots    []*tracepb.Span
	children map[string][]*tracepb.Span // in the order in which they start
}

// newFamily sorts spans by start. A root is a span whose parent is not there.
func newFamily(spans []*tracepb.Span) family {
	f := family{spans: map[string]*tracepb.Span{}, children: map[string][]*tracepb.Span{}}
	sorted := slices.Clone(spans)
	slices.SortStableFunc(sorted, func(a, b *tracepb.Span) int {
		return cmp.Compare(micros(a.StartTimeUnixNano), micros(b.StartTimeUnixNano))
	})
	for _, span := range sorted {
		f.spans[spanKey(span)] = span
	}
	for _, span := range sorted {
		if f.spans[parentKey(span)] == nil {
			f.roots = append(f.roots, span)
			continue
		}
		f.children[parentKey(span)] = append(f.children[parentKey(span)], span)
	}
	return f
}

func spanKey(span *tracepb.Span) string   { return string(span.TraceId) + string(span.SpanId) }
func parentKey(span *tracepb.Span) string { return string(span.TraceId) + string(span.ParentSpanId) }
