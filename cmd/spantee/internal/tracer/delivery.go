package tracer

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// A Delivery is the Consumer that sends spans.
type Delivery struct {
	Exporter *exporter.Exporter
	Sampled  func(trace.TraceID) bool // whether a trace is sent; nil if all are
	Resumed  bool                     // another process will go on with the open spans
	Metrics  func(*Snapshot) []byte   // that a killed process would lose; nil if there are none

	ended []*spool.Span // of the current piece
}

// Span takes a span for the end of the piece.
func (d *Delivery) Span(s *Span) { d.ended = d.add(d.ended, s) }

func (d *Delivery) add(to []*spool.Span, s *Span) []*spool.Span {
	if d.Sampled != nil && !d.Sampled(s.TraceID) {
		return to
	}
	return append(to, spool.NewSpan(s.Wire, s.From))
}

// Piece exports the spans of a piece, and what is open if that has changed.
func (d *Delivery) Piece(open *Snapshot) (unprotected error) {
	var snapshot *spool.Snapshot
	if open != nil && open.Changed {
		snapshot = &spool.Snapshot{Resumed: d.Resumed}
		for _, s := range open.Open {
			snapshot.Open = d.add(snapshot.Open, s)
		}
		if d.Metrics != nil {
			snapshot.Metrics = d.Metrics(open)
		}
	}
	ended := d.ended
	d.ended = nil
	return d.Exporter.Export(ended, snapshot)
}
