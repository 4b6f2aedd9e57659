package main

import (
	"testing"
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// As long as a viewer may still be started, open spans are shown once a second. Before
// the first one, nothing wakes spantee.
func TestNothingTicksBeforeTheFirstSpan(t *testing.T) {
	feed := viewer.NewFeed("http://127.0.0.1:1", true, "spantee/test", nil, 0)
	defer feed.Close()
	stream, err := tracer.New(tracer.Config{
		Mapping: mapping.Options{Agent: "cursor"}, Live: true, Resources: func(string) *resourcepb.Resource { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	tr := &tracing{options: new(options), cfg: new(config), stream: stream}
	tr.open = &openSpans{tracing: tr, feed: feed}
	p := &pump{tracing: tr}
	tr.to.Resources = func(string) *resourcepb.Resource { return nil }
	if next := p.tick(); next != 0 {
		t.Errorf("ticks after %v, although nothing has begun", next)
	}
	p.consume([]byte(`{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}`+"\n"), time.Now())
	if next := p.tick(); next != time.Second {
		t.Errorf("ticks after %v while a span is open", next)
	}
}
