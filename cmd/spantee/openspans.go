package main

import (
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
)

// An openView is what the page, the log, the status line and the metrics show of the spans that
// have not ended.
type openView struct {
	status bool // there is a status line
	saved  bool // metrics are saved with the open spans

	silent time.Duration // how long the stream has been
	paged  bool          // the page has some
}

// watched reports whether open spans are shown as they grow.
func (s *sinks) watched() bool { return s.page != nil || s.open.status || s.log != nil }

// showOpen shows a snapshot, and returns the metrics that a killed process would lose.
func (s *sinks) showOpen(open []mapping.Output) (metrics []byte) {
	if s.page != nil && (len(open) > 0 || s.open.paged) {
		s.open.paged = len(open) > 0
		var request []byte
		for _, out := range open {
			request = append(request, wrap(s.common.Resources(out.Agent), out.Span)...)
		}
		s.page.queue.Open(request)
	}
	if s.open.status || s.log != nil {
		s.printOpen(open)
	}
	if s.metrics.settings != nil {
		metrics = s.metrics.setOpen(open, s.open.saved)
	}
	return metrics
}

// printOpen prints what the agent does: in the log, and below it in the status line.
func (s *sinks) printOpen(outputs []mapping.Output) {
	open := make([]*runs.Span, len(outputs))
	for i, out := range outputs {
		open[i] = new(runs.Span)
		_ = open[i].Read(out.Span) // the mapper's spans are valid
	}
	if s.log != nil {
		s.log.Open(open, s.open.silent)
	}
	if s.open.status {
		s.reporter.showStatus(open, s.open.silent)
	}
}

// wrap returns an encoded TracesData with one encoded span.
func wrap(from *resourcepb.Resource, span []byte) []byte {
	return spool.Encode([]*spool.Span{{Wire: spool.AppendSpan(nil, span), Of: exporter.NewOrigin(from, tracer.Scope())}})
}
