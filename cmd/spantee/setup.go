package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/limits"
	"github.com/spantee/spantee/cmd/spantee/internal/receipts"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// A source is where a stream comes from. The zero source is a pipe.
type source struct {
	mapping.Options           // the kind of the source, and what it says of the mapping
	again           string    // the command that sends a recording again
	ahead           io.Reader // of a recording on stdin: all of it, to be read before
}

// sourceOf returns what stdin is: a recording if it is a file.
func sourceOf(stdin *os.File) (from source) {
	from.Printed = true
	info, err := stdin.Stat()
	if err != nil || !info.Mode().IsRegular() {
		from.ReadLog = follow.ReadLog
		return from
	}
	name := "FILE"
	if target, err := os.Readlink(fmt.Sprint("/proc/self/fd/", stdin.Fd())); err == nil {
		name = quoted(target)
	}
	from.Source, from.Written, from.again = mapping.Recording, info.ModTime(), "spantee replay "+name
	if at, err := stdin.Seek(0, io.SeekCurrent); err == nil { // what is appended from now on comes after it
		from.ahead = io.NewSectionReader(stdin, at, info.Size()-at)
	}
	if len(os.Args) > 1 { // flags may hold secrets
		from.again += " with the same flags"
	}
	return from
}

// A setup is what a command traces with:
//
//	tee -> mapLoop -> tracer.Stream -> limits, receipts, metrics, delivery, tree, page, activity
type setup struct {
	stream *tracer.Stream // replay has another one for each recording
	sinks  *sinks
	ending *ending
	ahead  io.Reader // see source
}

// setUp sets up what the flags and the environment ask for.
func setUp(o *options, stderr *os.File, from source) (*setup, error) {
	reporter := newReporter(o, stderr)
	reporter.child, reporter.again = from.Process != nil, from.again
	live, piped := from.Source != mapping.Recording, from.Source == mapping.Pipe
	cfg, err := o.resolve(live, reporter.problem)
	if err != nil {
		return nil, err
	}
	reporter.cfg = cfg
	prices, err := readPrices(o.prices)
	if err != nil {
		return nil, err
	}
	s := &sinks{opts: o, cfg: cfg, reporter: reporter, limits: limits.New(o.limits, prices)}
	s.common = tracer.Config{Live: live, Resources: services(cfg.resourceSources(piped), from.Process, reporter.problem)}
	add := func(c tracer.Consumer) { s.common.Consumers = append(s.common.Consumers, c) }
	if s.limits != nil {
		add(tracer.Func(func(span *tracer.Span) { s.limits.Add(span.Facts()) }))
	}
	s.receipts, err = receipts.New(receipts.Options{
		File: o.receipt, FailIf: o.failIf, Baseline: o.baseline, Quiet: o.quiet, MaxCost: o.limits.MaxCost,
		Prices: prices, Resources: s.common.Resources, TraceLink: cfg.traceLink,
	})
	if err != nil {
		return nil, err
	}
	if s.receipts != nil {
		add(tracer.Func(s.receipts.Add))
	}
	if cfg.destination.file != "" || o.viewing && !cfg.destination.isSet() || cfg.sendsToViewer() {
		cfg.content.keepWhole() // only a file or a viewer gets these spans
	}
	client, err := cfg.destination.open()
	if err != nil && strings.HasPrefix(cfg.destination.source, "$") {
		reporter.problem(fmt.Errorf("no spans are sent: %w", err))
		client, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.metrics = newMeter(cfg.metrics, s.common.Resources, reporter.problem); s.metrics.settings != nil {
		add(s.metrics)
	}
	end := &ending{sinks: s, reporter: reporter, timeout: o.flushTimeout}
	if client != nil {
		to := exporter.Config{Client: client, Spool: cfg.spool, LastMetrics: end.endMetrics}
		if !piped {
			to.Patience = time.Minute // no agent waits for it
		}
		if cfg.metrics != nil && cfg.spool != nil {
			to.Metrics = cfg.metrics.MetricsClient()
		}
		s.exporter = exporter.New(to)
		delivery := &tracer.Delivery{Exporter: s.exporter, Sampled: cfg.sampler.Keeps, Resumed: from.Source == mapping.Followed}
		if piped && to.Metrics != nil {
			delivery.Metrics = s.metrics.ifKilled
		}
		add(delivery)
	}
	if o.tree {
		s.tree = tree.NewWriter(reporter.w, cfg.display.treeStyle(reporter.stderr))
		add(tracer.Func(func(span *tracer.Span) { s.tree.Export(span.Facts()) }))
	}
	if o.viewing {
		if s.page, err = o.startPage(reporter); err != nil {
			return nil, err
		}
		add(s.page)
	}
	if s.needed = o.log || len(s.common.Consumers) > 0; s.needed && from.Source != mapping.Followed && !o.quiet && !o.tree && !o.log { // the tree and the log say doubts
		add(tracer.Func(reporter.addDoubts))
	}
	s.activity.reporter = reporter
	if o.log {
		s.activity.log = reporter.newLog(from.Source, s.receipts.Unusual)
	}
	add(&s.activity)
	if piped && s.exporter != nil && cfg.spool != nil {
		s.claims = follow.NewClaimer(filepath.Dir(cfg.spool.Dir))
	}
	var stream *tracer.Stream
	streamConfig := s.streamConfig(from.Options)
	streamConfig.Started = func(run mapping.Run) { // its ids are known
		reporter.runStarted(run)
		s.claims.Begun(run.Session, stream.Mapper.Stats().Runs)
	}
	if stream, err = tracer.New(streamConfig); err != nil {
		return nil, err
	}
	return &setup{stream, s, end, from.ahead}, nil
}

// sinks are who gets the spans.
type sinks struct {
	opts     *options
	cfg      *config
	reporter *reporter
	common   tracer.Config // of all streams, except for the mapping

	exporter *exporter.Exporter // nil if no spans are sent
	metrics  *meter
	tree     *tree.Writer   // nil without --tree
	page     *page          // nil without --view
	receipts *receipts.Sink // nil if nobody reads them
	limits   *limits.Limits // nil without a limit
	activity activity
	claims   *follow.Claimer // nil unless follow must leave out the runs
	needed   bool            // anything is done with the spans
}

// streamConfig returns the configuration of a stream. o has the options of that stream alone.
func (s *sinks) streamConfig(o mapping.Options) tracer.Config {
	cfg := s.common
	cfg.Mapping = s.mapping(o)
	cfg.Started, cfg.Ended = s.reporter.runStarted, s.reporter.runEnded
	return cfg
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
	return s.exporter != nil || s.tree != nil || s.activity.log != nil || s.page != nil || s.receipts != nil
}

// watched reports whether open spans are shown as they grow.
func (s *sinks) watched() bool { return s.page != nil || s.activity.status || s.activity.log != nil }

// endStream tells the exporter that the mapper may no longer wait for it.
func (s *sinks) endStream() {
	if s.exporter != nil {
		s.exporter.EndStream()
	}
}
