package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// tracing has what a command traces its stream with:
//
//	tee -> pump -> tracer.Stream -> exporter
//	                             -> consumers: limits, page, account, tree, metrics
type tracing struct {
	*options
	cfg    *config
	say    *reporter
	to     tracer.Config  // of each stream, except for the mapping
	stream *tracer.Stream // replay has another one for each recording

	metrics *meter
	tree    *tree.Writer // nil without --tree
	page    *page        // nil without --view
	account *account     // nil if nobody reads it
	limits  *limits      // nil without a limit
	open    *openSpans
	claims  *claims // nil unless follow must leave out the runs

	deadline time.Time // of everything at the end
	result   result
}

// startTracing sets up what the flags and the environment ask for.
func startTracing(o *options, stderr *os.File, from source) (*tracing, error) {
	say := newReporter(o, stderr)
	say.child, say.again = from.Process != nil, from.again
	live := from.again == ""
	piped := live && !from.grows
	cfg, err := o.resolve(live, say.problem)
	if err != nil {
		return nil, err
	}
	say.cfg = cfg
	t := &tracing{options: o, cfg: cfg, say: say, limits: newLimits(o.limitOptions)}
	t.to = tracer.Config{Live: live, Resources: services(cfg.detectors(), piped, from.Process, say.problem), Sampled: cfg.sampler.Keeps}
	if t.account, err = o.account(cfg); err != nil {
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
	if t.metrics = t.meter(client); cfg.metrics != nil && cfg.spool != nil {
		cfg.spool.Recovered = t.metrics.countKilled
	}
	if client != nil {
		t.to.Exporter = exporter.New(exporter.Config{Client: client, Scope: tracer.Scope(), Wait: !live, Spool: cfg.spool})
	}
	if o.tree {
		t.tree = tree.NewWriter(say.w, cfg.display.treeStyle(say.stderr))
	}
	if o.viewing {
		if t.page, err = o.startPage(say); err != nil {
			return nil, err
		}
	}
	t.addConsumers()
	if piped {
		t.claims = t.newClaims()
	} else {
		t.askViewer()
	}
	if t.stream, err = tracer.New(t.streamConfig(from.Options)); err != nil {
		return nil, err
	}
	t.open = t.newOpenSpans()
	return t, nil
}

// meter returns what counts for the metrics.
func (t *tracing) meter(spans exporter.Client) *meter {
	m := newMeter(t.cfg.metrics, t.say.problem)
	if m.to == nil {
		return m
	}
	for _, err := range slices.Concat(m.to.Ignored(), metrics.CheckEnvironment()) {
		t.say.problem(err)
	}
	m.spans, m.from, m.spool = spans, t.to.Resources, t.cfg.spool
	return m
}

// addConsumers adds who gets the spans besides the exporter.
func (t *tracing) addConsumers() {
	add := func(c tracer.Consumer) { t.to.Consumers = append(t.to.Consumers, c) }
	if t.limits != nil {
		add(t.limits.consume)
	}
	if t.page != nil {
		add(t.page.consume)
	}
	if t.account != nil {
		add(t.account.consume)
	}
	if t.tree != nil {
		add(func(s *tracer.Span) { t.tree.Export(s.Facts()) })
	}
	if t.metrics.to != nil {
		add(t.metrics.consume)
	}
}

// streamConfig returns the configuration of a stream. o has the options of that stream alone.
func (t *tracing) streamConfig(o mapping.Options) tracer.Config {
	to := t.to
	to.Mapping = t.mapping(o)
	to.Started, to.Ended = t.runStarted, t.say.runEnded
	return to
}

// mapping adds the options that all streams have.
func (t *tracing) mapping(o mapping.Options) mapping.Options {
	c := t.cfg.content
	o.Content, o.Redactor, o.MaxAttributeBytes = c.Content, c.Redactor, c.MaxAttributeBytes
	o.Agent, o.Deltas, o.MaxSpanEvents = t.agent, mapping.Deltas(t.deltas), t.maxSpanEvents
	o.Parent = t.cfg.parent
	return o
}

// runStarted is called when the ids of a run are known.
func (t *tracing) runStarted(run mapping.Run) {
	t.say.runStarted(run)
	t.claims.begun(run.Session, t.stream.Mapper.Stats().Runs)
}

// hasDestination reports whether anybody gets the spans.
func (t *tracing) hasDestination() bool {
	return t.to.Exporter != nil || t.tree != nil || t.page != nil || t.account != nil
}

// isNeeded reports whether anything is done with the spans.
func (t *tracing) isNeeded() bool { return t.to.Exporter != nil || len(t.to.Consumers) > 0 }

// setWait tells the exporter whether the mapper may wait for it.
func (t *tracing) setWait(wait bool) {
	if t.to.Exporter != nil {
		t.to.Exporter.SetWait(wait)
	}
}
