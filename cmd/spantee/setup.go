package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/limits"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// A source is where a stream comes from. The zero source is a live stream.
type source struct {
	mapping.Options        // the times of a recording, or the process of an agent
	again           string // the command that sends a recording again
	grows           bool   // it is session logs that are followed
}

// sourceOf returns what stdin is: a recording if it is a file.
func sourceOf(stdin *os.File) (from source) {
	from.Printed = true
	info, err := stdin.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return from
	}
	name := "FILE"
	if target, err := os.Readlink(fmt.Sprint("/proc/self/fd/", stdin.Fd())); err == nil {
		name = quoted(target)
	}
	from.Replay, from.again = info.ModTime(), "spantee replay "+name
	if len(os.Args) > 1 { // flags may hold secrets
		from.again += " with the same flags"
	}
	return from
}

// A setup is what a command traces with:
//
//	tee -> mapLoop -> tracer.Stream -> exporter
//	                                -> limits, page, receipt, tree, metrics
type setup struct {
	stream *tracer.Stream // replay has another one for each recording
	sinks  *sinks
	ending *ending
}

// setUp sets up what the flags and the environment ask for.
func setUp(o *options, stderr *os.File, from source) (*setup, error) {
	reporter := newReporter(o, stderr)
	reporter.child, reporter.again = from.Process != nil, from.again
	live := from.again == ""
	piped := live && !from.grows
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
	s.to = tracer.Config{Live: live, Resources: services(cfg.detectors(), from.Process, reporter.problem), Sampled: cfg.sampler.Keeps}
	add := func(c tracer.Consumer) { s.to.Consumers = append(s.to.Consumers, c) }
	if s.limits != nil {
		add(func(span *tracer.Span) { s.limits.Add(span.Facts()) })
	}
	if s.receipt, err = o.receiptSink(cfg, prices); err != nil {
		return nil, err
	}
	if s.receipt != nil {
		add(s.receipt.consume)
	}
	if s.usual, err = o.openBaseline(s.receipt, s.to.Resources); err != nil {
		return nil, err
	}
	if cfg.to.file != "" || o.viewing && !cfg.to.isSet() || cfg.sendsToViewer() {
		cfg.content.keepWhole() // only a file or a viewer gets these spans
	}
	client, err := cfg.to.open()
	if err != nil && strings.HasPrefix(cfg.to.source, "$") {
		reporter.problem(fmt.Errorf("no spans are sent: %w", err))
		client, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.metrics = newMeter(cfg.metrics, s.to.Resources, reporter.problem); s.metrics.to != nil {
		add(s.metrics.consume)
	}
	end := &ending{sinks: s, reporter: reporter, timeout: o.flushTimeout}
	if client != nil {
		to := exporter.Config{Client: client, Scope: tracer.Scope(), Spool: cfg.spool, LastMetrics: end.endMetrics}
		if !piped {
			to.Patience = time.Minute // no agent waits for it
		}
		if cfg.metrics != nil && cfg.spool != nil {
			to.Metrics = cfg.metrics.MetricsClient()
		}
		s.to.Exporter = exporter.New(to)
	}
	if o.tree {
		s.tree = tree.NewWriter(reporter.w, cfg.display.treeStyle(reporter.stderr))
		add(func(span *tracer.Span) { s.tree.Export(span.Facts()) })
	}
	if o.log {
		s.log = reporter.newLog(live, from.grows, s.usual.sentence)
		add(func(span *tracer.Span) { s.log.Export(span.Facts()) })
	}
	if o.viewing {
		if s.page, err = o.startPage(reporter); err != nil {
			return nil, err
		}
		add(s.page.consume)
	}
	if !from.grows && s.needed() && reporter.tellsDoubts() {
		add(reporter.consume)
	}
	if piped && s.to.Exporter != nil && cfg.spool != nil {
		s.claims = follow.NewClaimer(filepath.Dir(cfg.spool.Dir))
	}
	s.open = &openSpans{
		resources: s.to.Resources, page: s.page, metrics: s.metrics, reporter: reporter, log: s.log,
		saved: piped && s.to.Exporter != nil && cfg.metrics != nil && cfg.spool != nil,
	}
	s.to.Snapshot, s.to.Resumed = s.open.show, from.grows
	var stream *tracer.Stream
	streamConfig := s.streamConfig(from.Options)
	streamConfig.Started = func(run mapping.Run) { // its ids are known
		reporter.runStarted(run)
		s.claims.Begun(run.Session, stream.Mapper.Stats().Runs)
	}
	if stream, err = tracer.New(streamConfig); err != nil {
		return nil, err
	}
	return &setup{stream, s, end}, nil
}
