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
func (a *activity) Span(s *tracer.Span) {
	if a.log != nil {
		a.log.Export(s.Facts())
	}
}

// Piece prints what is open.
func (a *activity) Piece(open *tracer.Snapshot) error {
	if open == nil || a.log == nil && !a.status {
		return nil
	}
	spans := make([]*runs.Span, len(open.Open))
	for i, s := range open.Open {
		spans[i] = s.Facts()
	}
	if a.log != nil {
		a.log.Open(spans, a.silent)
	}
	if a.status {
		a.reporter.showStatus(spans, a.silent)
	}
	return nil
}
