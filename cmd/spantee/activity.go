package main

import (
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/steplog"
)

// activity prints what the agent does: in the log, and below it in the status line.
type activity struct {
	reporter *reporter
	log      *steplog.Log // nil without --log
	status   bool         // there is a status line

	silent time.Duration // how long the stream has been
}

// Span prints a step.
func (p *activity) Span(s *tracer.Span) {
	if p.log != nil {
		p.log.Export(s.Facts())
	}
}

// Piece prints what is open.
func (p *activity) Piece(open *tracer.Snapshot) error {
	if open == nil || p.log == nil && !p.status {
		return nil
	}
	spans := make([]*runs.Span, len(open.Open))
	for i, s := range open.Open {
		spans[i] = s.Facts()
	}
	if p.log != nil {
		p.log.Open(spans, p.silent)
	}
	if p.status {
		p.reporter.showStatus(spans, p.silent)
	}
	return nil
}
