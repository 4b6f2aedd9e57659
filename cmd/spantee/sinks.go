package main

import (
	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/limits"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/steplog"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// sinks are who gets the spans.
type sinks struct {
	opts     *options
	cfg      *config
	reporter *reporter
	to       tracer.Config // of each stream, except for the mapping

	metrics *meter
	tree    *tree.Writer   // nil without --tree
	log     *steplog.Log   // nil without --log
	usual   *usual         // nil without --baseline
	page    *page          // nil without --view
	receipt *receiptSink   // nil if nobody reads it
	limits  *limits.Limits // nil without a limit
	open    *openSpans
	claims  *follow.Claimer // nil unless follow must leave out the runs
}

// streamConfig returns the configuration of a stream. o has the options of that stream alone.
func (s *sinks) streamConfig(o mapping.Options) tracer.Config {
	to := s.to
	to.Mapping = s.mapping(o)
	to.Started, to.Ended = s.reporter.runStarted, s.reporter.runEnded
	return to
}

// mapping adds the options that all streams have.
func (s *sinks) mapping(o mapping.Options) mapping.Options {
	c := s.cfg.content
	o.Content, o.Redactor, o.MaxAttributeBytes, o.MaxSpanEvents = c.Content, c.Redactor, c.MaxAttributeBytes, c.MaxSpanEvents
	o.Agent, o.Deltas = s.opts.agent, mapping.Deltas(s.opts.deltas)
	o.Parent = s.cfg.parent
	return o
}

// any reports whether anybody gets the spans.
func (s *sinks) any() bool {
	return s.to.Exporter != nil || s.tree != nil || s.log != nil || s.page != nil || s.receipt != nil
}

// needed reports whether anything is done with the spans.
func (s *sinks) needed() bool { return s.to.Exporter != nil || len(s.to.Consumers) > 0 }

// endStream tells the exporter that the mapper may no longer wait for it.
func (s *sinks) endStream() {
	if s.to.Exporter != nil {
		s.to.Exporter.EndStream()
	}
}
