package main

import (
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/viewer"
)

// openSpans are the places that show spans that have not ended.
type openSpans struct {
	page *page        // nil if there is none
	feed *viewer.Feed // nil if no viewer can be at the endpoint

	whole bool // content is sent whole, to the viewer at the endpoint

	at         time.Time     // when they were last shown
	took       time.Duration // how long showing them took
	generation int           // of the runs then
}

// feed returns a Feed for a viewer at the endpoint, nil if none can be there. It uses
// the connection of the exporter's client.
func (t *tracing) feed(cfg *config, client exporter.Client) *viewer.Feed {
	if t.exporter == nil || !t.live || cfg.to.otlp == nil {
		return nil
	}
	to := cfg.to.otlp.Destination()
	var conn viewer.Conn
	if share := otlp.ShareConn(client); share != nil { // a nil *SharedConn would be a Conn that is not nil
		conn = share
	}
	delay := feedDelay
	if cfg.content.fitsViewer() { // from the beginning
		delay = 0
	}
	return viewer.NewFeed(to.Endpoint, to.Protocol == "grpc", userAgent(), conn, delay)
}

// feedDelay spares short sessions the question, which takes a few percent of their time.
// A viewer gets their spans just as early.
const feedDelay = 100 * time.Millisecond

// fitViewer sends whole content while a viewer is at the endpoint. A live stream
// learns that while it runs: nothing waits for the answer.
func (t *tracing) fitViewer() {
	whole := t.open.feed.Found()
	if whole == t.open.whole {
		return
	}
	t.open.whole = whole
	switch {
	case !t.say.cfg.content.fitsViewer():
	case whole:
		t.mapper.SetMaxAttributeBytes(wholeAttributeBytes)
	default:
		t.mapper.SetMaxAttributeBytes(defaultAttributeBytes)
	}
}

// askViewer does the same for a recording, which has time to ask first.
func (t *tracing) askViewer(cfg *config) {
	if t.exporter == nil || cfg.to.otlp == nil || !cfg.content.fitsViewer() {
		return
	}
	if to := cfg.to.otlp.Client().Destination(); viewer.Answers(to.Endpoint, to.Protocol == "grpc", userAgent()) {
		cfg.content.maxAttributeBytes = wholeAttributeBytes
		t.mapper.SetMaxAttributeBytes(wholeAttributeBytes)
	}
}

// maxOpenInterval is shorter than the silence after which a viewer assumes that a
// process is dead.
const maxOpenInterval = 4 * time.Second

// showOpen shows the open spans, and returns when to do so again: zero if not before
// more of the stream has come. If showing them takes long, it runs less often.
func (t *tracing) showOpen() (next time.Duration) {
	o := &t.open
	feed := o.feed.Wanted()
	if o.page == nil && !feed {
		return 0
	}
	if t.mapper.Stats().Generation == 0 {
		return 0 // nothing has begun
	}
	start := time.Now()
	if start.Sub(o.at) < min(20*o.took, maxOpenInterval) {
		return time.Second
	}
	if o.page != nil {
		o.page.store.Open("", t.openRequest(sampler{}))
	}
	if feed {
		o.feed.Show(t.openRequest(t.sampler)) // a second request, because the store modifies the first
	}
	o.at, o.took, o.generation = time.Now(), time.Since(start), t.mapper.Stats().Generation
	return time.Second
}

func (t *tracing) openRequest(of sampler) (request []*tracepb.ResourceSpans) {
	t.mapper.OpenAt(time.Now(), func(span []byte, agent string) {
		decoded := new(tracepb.Span)
		if of.keepsSpan(span) && proto.Unmarshal(span, decoded) == nil { // the mapper's spans are valid
			from, _ := t.services.of(agent)
			request = append(request, wrap(from, decoded)...)
		}
	})
	return request
}

// wrap returns a request with one span.
func wrap(from *resourcepb.Resource, span *tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource:   from,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope(), Spans: []*tracepb.Span{span}}},
	}}
}
