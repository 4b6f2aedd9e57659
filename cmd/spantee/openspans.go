package main

import (
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/steplog"
	"github.com/spantee/spantee/mapping"
)

// openSpans shows the spans that have not ended: on the page, in the log, in the status line,
// and in the metrics.
type openSpans struct {
	resources func(agent string) *resourcepb.Resource
	page      *page // nil without --view
	metrics   *meter
	reporter  *reporter
	log       *steplog.Log // nil without --log
	status    bool         // there is a status line
	saved     bool         // metrics are saved with the open spans

	silent time.Duration // how long the stream has been
	shown  bool          // the page has some
}

// watched reports whether open spans are shown as they grow.
func (o *openSpans) watched() bool { return o.page != nil || o.status || o.log != nil }

// show shows a snapshot, and returns the metrics that a killed process would lose.
func (o *openSpans) show(open []mapping.Output) (metrics []byte) {
	if o.page != nil && (len(open) > 0 || o.shown) {
		o.shown = len(open) > 0
		o.page.queue.Open(o.request(open))
	}
	if o.status || o.log != nil {
		o.print(open)
	}
	if o.metrics.settings != nil {
		metrics = o.metrics.setOpen(open, o.saved)
	}
	return metrics
}

// print prints what the agent does: in the log, and below it in the status line.
func (o *openSpans) print(spans []mapping.Output) {
	open := make([]*runs.Span, len(spans))
	for i, out := range spans {
		open[i] = new(runs.Span)
		_ = open[i].Read(out.Span) // the mapper's spans are valid
	}
	if o.log != nil {
		o.log.Open(open, o.silent)
	}
	if o.status {
		o.reporter.showStatus(open, o.silent)
	}
}

func (o *openSpans) request(spans []mapping.Output) (request []byte) {
	for _, out := range spans {
		request = append(request, wrap(o.resources(out.Agent), out.Span)...)
	}
	return request
}

// wrap returns an encoded TracesData with one encoded span.
func wrap(from *resourcepb.Resource, span []byte) []byte {
	return spool.Encode([]*spool.Span{{Wire: spool.AppendSpan(nil, span), Of: exporter.NewOrigin(from, tracer.Scope())}})
}
