package exporter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// services is a receiver that denies codex.
type services struct {
	fake
	took []string
}

func (s *services) UploadTraces(_ context.Context, request []byte) error {
	full, err := decode(request)
	if err != nil {
		return err
	}
	service := ""
	for _, kv := range full.Resource.GetAttributes() {
		if kv.Key == "service.name" {
			service = kv.Value.GetStringValue()
		}
	}
	if service == "codex" {
		return errDenied
	}
	var names []string
	for _, span := range full.ScopeSpans[0].Spans {
		names = append(names, span.Name)
	}
	s.took = append(s.took, service+": "+strings.Join(names, " "))
	return nil
}

func service(name string) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: name}}}}}
}

// TestSpansOfTwoServices interleaves them: a request has one service's spans, in
// their order, and the log forgets those alone that were delivered.
func TestSpansOfTwoServices(t *testing.T) {
	cursor := spool.NewOrigin(service("cursor-agent"), nil)
	codex := spool.NewOrigin(service("codex"), nil)
	c := &services{}
	s := newSpool(t)
	e := New(Config{Client: c, Spool: s})
	var spans []*spool.Span
	for i := range 6 {
		from := cursor
		if i%2 != 0 {
			from = codex
		}
		spans = append(spans, spool.NewSpan(encode(sized(fmt.Sprint(i), 200)), from))
	}
	must(t, e.Export(spans, &spool.Snapshot{Open: []*spool.Span{spool.NewSpan(encode(sized("open", 200)), codex)}}))
	r := closeKeeping(t, e, time.Minute)
	if want := []string{"cursor-agent: 0 2 4"}; !slices.Equal(c.took, want) {
		t.Errorf("delivered %q, want %q", c.took, want)
	}
	if r.Delivered != 3 || r.Spooled != 3 {
		t.Errorf("%+v", r)
	}
}
