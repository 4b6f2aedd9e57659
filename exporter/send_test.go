package exporter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

// Requests are as proto.Marshal encodes them, in place or in a buffer of their own.
func TestRequestsAreAsProtobufEncodesThem(t *testing.T) {
	number := &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1}}
	resources := []*resourcepb.Resource{
		nil,
		{},
		{Attributes: []*commonpb.KeyValue{{Key: "a", Value: text("b")}, {Key: "", Value: text("")}, {Key: strings.Repeat("ü", 100), Value: text("c")}}},
		{Attributes: []*commonpb.KeyValue{{Key: "a", Value: text("b")}, {Key: "n", Value: number}}},
		{Attributes: []*commonpb.KeyValue{{Key: "a"}}},
		{Attributes: []*commonpb.KeyValue{{KeyStrindex: 1, Value: text("b")}}},
		{DroppedAttributesCount: 1},
		{EntityRefs: []*commonpb.EntityRef{{Type: "host"}}},
	}
	scopes := []*commonpb.InstrumentationScope{
		nil,
		{},
		{Name: "spantee"},
		{Name: "spantee", Version: "1.2"},
		{Attributes: []*commonpb.KeyValue{{Key: "a", Value: text("b")}}},
		{DroppedAttributesCount: 1},
	}
	spans := [][]*tracepb.Span{{everything("a")}, {sized("b", 100), sized("c", 300_000)}}
	for i, resource := range resources {
		for j, scope := range scopes {
			for k, spans := range spans {
				name := fmt.Sprintf("resource %d, scope %d, spans %d", i, j, k)
				want, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{
					{Resource: resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope, Spans: spans}}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				o := spool.NewOrigin(resource, scope)
				if got := spool.Encode(spooled(o, spans...)); !bytes.Equal(got, want) {
					t.Errorf("%s:\n%q, want\n%q", name, got, want)
				}
				most := o.Overhead()
				for _, span := range spans {
					most += len(spool.AppendSpan(nil, encode(span)))
				}
				if len(want) > most {
					t.Errorf("%s: %d bytes, want %d at most", name, len(want), most)
				}
			}
		}
	}
}
