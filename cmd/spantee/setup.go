package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// A setup is what a command traces with:
//
//	tee -> mapLoop -> tracer.Stream -> exporter
//	                                -> limits, page, receipt, tree, metrics
type setup struct {
	stream *tracer.Stream // replay has another one for each recording
	sinks  *sinks
	ending *ending
}

// sinks are who gets the spans.
type sinks struct {
	opts *options
	cfg  *config
	say  *reporter
	to   tracer.Config // of each stream, except for the mapping

	metrics   *meter
	tree      *tree.Writer // nil without --tree
	page      *page        // nil without --view
	receipt   *receiptSink // nil if nobody reads it
	limits    *limits      // nil without a limit
	snapshots *openSpans
	claims    *claims // nil unless follow must leave out the runs
}

// setUp sets up what the flags and the environment ask for.
func setUp(o *options, stderr *os.File, from source) (*setup, error) {
	say := newReporter(o, stderr)
	say.child, say.again = from.Process != nil, from.again
	live := from.again == ""
	piped := live && !from.grows
	cfg, err := o.resolve(live, say.problem)
	if err != nil {
		return nil, err
	}
	say.cfg = cfg
	s := &sinks{opts: o, cfg: cfg, say: say, limits: newLimits(o.limitOptions)}
	s.to = tracer.Config{Live: live, Resources: services(cfg.detectors(), piped, from.Process, say.problem), Sampled: cfg.sampler.Keeps}
	if s.receipt, err = o.receiptSink(cfg); err != nil {
		return nil, err
	}
	if cfg.content.maxIsDefault && (cfg.to.file != "" || o.viewing && !cfg.to.isSet()) {
		cfg.content.MaxAttributeBytes = wholeAttributeBytes // only a file or the viewer gets these spans
	}
	client, err := cfg.to.open()
	if err != nil && strings.HasPrefix(cfg.to.source, "$") {
		say.problem(fmt.Errorf("no spans are sent: %w", err))
		client, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.metrics = s.meter(client); cfg.metrics != nil && cfg.spool != nil {
		cfg.spool.Recovered = s.metrics.countKilled
	}
	if client != nil {
		s.to.Exporter = exporter.New(exporter.Config{Client: client, Scope: tracer.Scope(), Wait: !live, Spool: cfg.spool})
	}
	if o.tree {
		s.tree = tree.NewWriter(say.w, cfg.display.treeStyle(say.stderr))
	}
	if o.viewing {
		if s.page, err = o.startPage(say); err != nil {
			return nil, err
		}
	}
	s.addConsumers()
	if piped {
		s.claims = s.newClaims()
	} else {
		s.askViewer()
	}
	var stream *tracer.Stream
	streamConfig := s.streamConfig(from.Options)
	streamConfig.Started = func(run mapping.Run) { // its ids are known
		say.runStarted(run)
		s.claims.begun(run.Session, stream.Mapper.Stats().Runs)
	}
	if stream, err = tracer.New(streamConfig); err != nil {
		return nil, err
	}
	s.snapshots = s.newOpenSpans(stream)
	return &setup{stream, s, &ending{sinks: s, say: say, timeout: o.flushTimeout}}, nil
}

// meter returns what counts for the metrics.
func (s *sinks) meter(spans exporter.Client) *meter {
	m := newMeter(s.cfg.metrics, s.say.problem)
	if m.to == nil {
		return m
	}
	for _, err := range slices.Concat(m.to.Ignored(), metrics.CheckEnvironment()) {
		s.say.problem(err)
	}
	m.spans, m.from, m.spool = spans, s.to.Resources, s.cfg.spool
	return m
}

// addConsumers adds who gets the spans besides the exporter.
func (s *sinks) addConsumers() {
	add := func(c tracer.Consumer) { s.to.Consumers = append(s.to.Consumers, c) }
	if s.limits != nil {
		add(s.limits.consume)
	}
	if s.page != nil {
		add(s.page.consume)
	}
	if s.receipt != nil {
		add(s.receipt.consume)
	}
	if s.tree != nil {
		add(func(span *tracer.Span) { s.tree.Export(span.Facts()) })
	}
	if s.metrics.to != nil {
		add(s.metrics.consume)
	}
}

// streamConfig returns the configuration of a stream. o has the options of that stream alone.
func (s *sinks) streamConfig(o mapping.Options) tracer.Config {
	to := s.to
	to.Mapping = s.mapping(o)
	to.Started, to.Ended = s.say.runStarted, s.say.runEnded
	return to
}

// mapping adds the options that all streams have.
func (s *sinks) mapping(o mapping.Options) mapping.Options {
	c := s.cfg.content
	o.Content, o.Redactor, o.MaxAttributeBytes = c.Content, c.Redactor, c.MaxAttributeBytes
	o.Agent, o.Deltas, o.MaxSpanEvents = s.opts.agent, mapping.Deltas(s.opts.deltas), s.opts.maxSpanEvents
	o.Parent = s.cfg.parent
	return o
}

// any reports whether anybody gets the spans.
func (s *sinks) any() bool {
	return s.to.Exporter != nil || s.tree != nil || s.page != nil || s.receipt != nil
}

// needed reports whether anything is done with the spans.
func (s *sinks) needed() bool { return s.to.Exporter != nil || len(s.to.Consumers) > 0 }

// setWait tells the exporter whether the mapper may wait for it.
func (s *sinks) setWait(wait bool) {
	if s.to.Exporter != nil {
		s.to.Exporter.SetWait(wait)
	}
}
