package otlpjson

import (
	"slices"
	"strings"
	"testing"

	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The table has every field that the generated types have, and nothing else.
func TestMessages(t *testing.T) {
	seen := map[kind]bool{}
	compareMessage(t, tracesData, (*tracepb.TracesData)(nil).ProtoReflect().Descriptor(), seen)
	compareMessage(t, metricsData, (*metricpb.MetricsData)(nil).ProtoReflect().Descriptor(), seen)
	for k := firstMessage; int(k) < len(messages); k++ {
		if !seen[k] {
			t.Errorf("message %d is part of no request", k)
		}
	}
}

func compareMessage(t *testing.T, k kind, want protoreflect.MessageDescriptor, seen map[kind]bool) {
	if seen[k] {
		return
	}
	seen[k] = true
	fields := messages[k]
	for i := range want.Fields().Len() {
		d := want.Fields().Get(i)
		if !ofProfiles(d) && !slices.ContainsFunc(fields, func(f field) bool { return f.number == d.Number() }) {
			t.Errorf("%s is missing", d.FullName())
		}
	}
	for _, f := range fields {
		d := want.Fields().ByNumber(f.number)
		if d == nil || d.JSONName() != f.name || d.IsList() != (f.label == many) || isChoice(d) != (f.label == choice) || protoKinds[min(f.kind, firstMessage)] != d.Kind() {
			t.Errorf("%s: %+v, want %v", want.FullName(), f, d)
			continue
		}
		if f.kind.isMessage() {
			compareMessage(t, f.kind, d.Message(), seen)
		}
	}
}

func isChoice(d protoreflect.FieldDescriptor) bool {
	return d.ContainingOneof() != nil && !d.ContainingOneof().IsSynthetic()
}

// ofProfiles reports whether a field refers to the dictionary of a request of profiles.
func ofProfiles(d protoreflect.FieldDescriptor) bool {
	return strings.HasSuffix(d.JSONName(), "Strindex")
}

var protoKinds = map[kind]protoreflect.Kind{
	text: protoreflect.StringKind, octets: protoreflect.BytesKind, traceID: protoreflect.BytesKind, spanID: protoreflect.BytesKind,
	boolean: protoreflect.BoolKind, uint32s: protoreflect.Uint32Kind, sint32s: protoreflect.Sint32Kind,
	fixed32s: protoreflect.Fixed32Kind, double: protoreflect.DoubleKind, int64s: protoreflect.Int64Kind,
	uint64s: protoreflect.Uint64Kind, fixed64s: protoreflect.Fixed64Kind, sfixed64s: protoreflect.Sfixed64Kind,
	spanKind: protoreflect.EnumKind, statusCode: protoreflect.EnumKind, temporality: protoreflect.EnumKind,
	firstMessage: protoreflect.MessageKind,
}
