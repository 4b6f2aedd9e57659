package exporter

import (
	"cmp"
	"path/filepath"

	"github.com/spantee/spantee/exporter/spool"
)

// release leaves spans on disk for another process, or drops them.
func (e *Exporter) release(spans []*spool.Span, why *UploadError) {
	if len(spans) > 0 {
		kept := e.log != nil && e.log.Release(spans, why.Error())
		e.count(func(r *Report) *int { return &r.Spooled }, len(spans), kept, why)
	}
}

// reject keeps and counts spans that the receiver will never accept.
func (e *Exporter) reject(spans []*spool.Span, why *UploadError) {
	kept := e.log != nil && e.log.Reject(spans, why.Error())
	e.count(func(r *Report) *int { return &r.Rejected }, len(spans), kept, why)
}

// count counts spans that are not delivered: in a field of the report, or as dropped if
// nothing kept them.
func (e *Exporter) count(field func(*Report) *int, spans int, kept bool, why *UploadError) {
	e.tally.count(func(r *Report) {
		r.blame(why)
		if kept {
			*field(r) += spans
			return
		}
		r.Dropped += spans
		if e.log != nil && r.NotKept == nil {
			r.NotKept = cmp.Or(e.log.Err(), spool.ErrFrozen)
		}
	})
}

// lost counts spans of a file that was evicted.
func (e *Exporter) lost(file string, spans int) {
	e.tally.count(func(r *Report) {
		switch {
		case !e.log.Owns(file):
			r.Earlier.Dropped += spans
			return
		case filepath.Ext(file) == spool.RejectedExt:
			r.Rejected -= spans
		default:
			r.Spooled -= spans
		}
		r.Dropped += spans
	})
}
