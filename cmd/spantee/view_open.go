package main

import (
	"iter"
	"slices"
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/steplog"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// openSpans shows the spans that have not ended: on the page, in a viewer at the endpoint, in
// the status line, and in the metrics.
type openSpans struct {
	stream    *tracer.Stream
	resources func(agent string) *resourcepb.Resource
	content   contentConfig
	sampler   tracer.Sampler
	live      bool
	page      *page // nil without --view
	metrics   *meter
	reporter  *reporter
	log       *steplog.Log                                 // nil without --log
	openAt    func(now time.Time) iter.Seq[mapping.Output] // as they would end now
	feed      *viewer.Feed                                 // nil if no viewer can be at the endpoint
	status    bool                                         // there is a status line

	whole bool // content is sent whole, to the viewer at the endpoint

	at    time.Time     // when they were last collected
	took  time.Duration // how long collecting them took
	shown bool          // the viewers have some
}

// feedDelay spares short sessions the question, which takes a few percent of their time.
// A viewer gets their spans just as early.
const feedDelay = 100 * time.Millisecond

// fitViewer sends whole content while a viewer is at the endpoint. A live stream
// learns that while it runs: nothing waits for the answer.
func (o *openSpans) fitViewer() {
	whole := o.content.fitsViewer() && o.feed.Found()
	if whole == o.whole {
		return
	}
	o.whole = whole
	limit := defaultAttributeBytes
	if whole {
		limit = wholeAttributeBytes
	}
	o.stream.Mapper.SetMaxAttributeBytes(limit)
}

// maxOpenInterval is shorter than the silence after which a viewer assumes that a
// process is dead.
const maxOpenInterval = 4 * time.Second

// tick shows the open spans everywhere. It is called every second, and when a run has begun
// or got its final ids. idle is how long the stream has been silent.
func (o *openSpans) tick(now time.Time, idle time.Duration) {
	measured := o.live && o.metrics.to != nil // what a recording has open is not open now
	seen := o.page != nil || o.feed.Wanted() || o.status || o.log != nil && o.live
	if !seen && (!measured || now.Sub(o.at) < tickInterval/2) { // metrics are sent less often than runs begin
		return
	}
	if spans, ok := o.collect(now); ok {
		o.show(spans)
		if o.status || o.log != nil {
			o.print(spans, idle)
		}
		if measured {
			o.metrics.setOpen(spans)
		}
	}
}

// print prints what the agent does: in the log, and below it in the status line.
func (o *openSpans) print(spans []mapping.Output, idle time.Duration) {
	open := make([]*runs.Span, len(spans))
	for i, out := range spans {
		open[i] = new(runs.Span)
		_ = open[i].Read(out.Span) // the mapper's spans are valid
	}
	if o.log != nil {
		o.log.Open(open, idle)
	}
	if o.status {
		o.reporter.showStatus(open, idle)
	}
}

// collect returns the open spans, as they would end now. If that takes long, it does so less
// often than every second, and returns false in between.
func (o *openSpans) collect(now time.Time) (spans []mapping.Output, ok bool) {
	start := time.Now()
	if start.Sub(o.at) < min(20*o.took, maxOpenInterval) {
		return nil, false
	}
	for out := range o.openAt(now) {
		out.Span = slices.Clone(out.Span)
		spans = append(spans, out)
	}
	o.at, o.took = time.Now(), time.Since(start)
	return spans, true
}

// show shows open spans in the viewers, and once also that there are none any more.
func (o *openSpans) show(spans []mapping.Output) {
	if len(spans) == 0 && !o.shown {
		return
	}
	o.shown = len(spans) > 0
	if o.page != nil {
		o.page.queue.Open(o.request(spans, tracer.Sampler{}))
	}
	if o.feed.Wanted() {
		o.feed.Show(o.request(spans, o.sampler))
	}
}

func (o *openSpans) request(spans []mapping.Output, of tracer.Sampler) (request []byte) {
	for _, out := range spans {
		if of.Keeps(out.TraceID) {
			request = append(request, wrap(o.resources(out.Agent), out.Span)...)
		}
	}
	return request
}

// wrap returns an encoded TracesData with one encoded span.
func wrap(from *resourcepb.Resource, span []byte) []byte {
	spans := &tracepb.ScopeSpans{Scope: tracer.Scope()}
	spans.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, spansField, protowire.BytesType), span))
	request, _ := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{Resource: from, ScopeSpans: []*tracepb.ScopeSpans{spans}}}}) // all text is UTF-8
	return request
}

const spansField = 2 // of a ScopeSpans
