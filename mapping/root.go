package mapping

import (
	"math"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// endRoot finishes the run's root span and the spans held for it. took is the
// duration of the run that the result reports. If the root was emitted before, a
// result is a span below it.
func (r *run) endRoot(at instant, errorType string, took instant) {
	ref, spread := rootRef, quantize(took)
	if r.part > 0 {
		ref, spread = spanRef{invokeAgent, r.counts.invocations + 1}, 0
	}
	at = r.settle(at, spread)
	r.ended = true
	r.m.stats.Generation++
	for _, s := range r.held {
		r.emit(s)
	}
	r.held = nil
	if r.part > 0 && !r.hasResult {
		return
	}

	s := r.newSpan(ref, rootRef, r.main, spanName{operation: semconv.OperationInvokeAgent, subject: r.main.name})
	s.start, s.end = r.start, max(at, r.lastEnd, r.start+quantum)
	s.errorType, s.status, s.estimated = errorType, r.errorText, r.estimated
	if s.status == "" && r.reportedError {
		s.status = "the agent reported an error"
	}
	a := &s.attributes
	if r.main.model != "" {
		a.str(semconv.RequestModel, r.main.model)
	}
	for i := range r.facts {
		r.m.fact(a, &r.facts[i], nil)
	}
	if took > 0 {
		a.int(semconv.DurationReported, int64(took/agent.Milliseconds))
	}
	r.addTotals(a)
	c := &r.counts
	a.int(semconv.Turns, int64(c.turns-r.before.turns))
	a.int(semconv.Tools, int64(c.tools-r.before.tools))
	a.int(semconv.ToolErrors, int64(c.toolErrors))
	a.int(semconv.Deltas, int64(c.deltas))
	c.text.add(a, semconv.TextDeltas, semconv.TextBytes)
	c.thinking.add(a, semconv.ThinkingDeltas, semconv.ThinkingBytes)
	a.int(semconv.BadLines, int64(r.m.stats.BadLines-r.badLines))
	for _, n := range []struct {
		key   string
		count int
	}{
		{semconv.UntracedBytes, int(r.m.untracedBytes)},
		{semconv.UntracedLines, int(r.m.untracedLines)},
		{semconv.HiddenNames, r.m.names.hidden - r.hidden},
		{semconv.Retries, c.retries},
		{semconv.Reconnects, c.reconnects},
		{semconv.Compactions, c.compactions},
	} {
		if n.count > 0 {
			a.int(n.key, int64(n.count))
		}
	}
	if n := r.maxRepeats(); n > 1 {
		a.int(semconv.MaxRepeats, int64(n))
	}
	r.main.addTimes(a)
	s.addFirstChunk(r.start, r.main.firstChunk, r.main.estimated)
	r.main.captureAnswer(r.m.capture)
	r.content.Merge(r.main.content)
	s.content = r.content
	for _, n := range r.rootNotices() {
		s.events.add(n.name, min(max(n.at, s.start), s.end-microsecond), n.attributes)
	}
	r.m.endRoot(root{run: r, span: s})
}

// maxRepeats returns the longest repetition by the agent or a sub-agent.
func (r *run) maxRepeats() (most int) {
	for _, inv := range r.order {
		most = max(most, inv.repeats.max)
	}
	return most
}

// addTotals adds the usage of a run. If model calls have usage of their own, the
// root's totals have names that no backend sums up.
func (r *run) addTotals(a *attributes) {
	u := r.reported
	if !r.usage.Known && !r.usage.CostKnown {
		if u != nil {
			a.usage(u)
		}
		return
	}
	total := r.usage
	if u != nil && u.Known {
		cost, known := total.Cost, total.CostKnown
		total = *u
		if !total.CostKnown {
			total.Cost, total.CostKnown = cost, known
		}
	}
	if total.Known {
		if !total.OutputUnknown {
			a.int(semconv.UsageOutput, total.Output)
		}
		if !total.OutputOnly {
			a.int(semconv.UsageInput, total.Input)
			a.int(semconv.UsageCacheRead, total.CacheRead)
			a.int(semconv.UsageCacheWrite, total.CacheWrite)
		}
		if total.Reasoning > 0 {
			a.int(semconv.UsageReasoning, total.Reasoning)
		}
	}
	if total.CostKnown {
		a.float(semconv.UsageTotalCost, total.Cost)
	}
}

// usage adds token counts and cost.
func (a *attributes) usage(u *agent.Usage) {
	if u.Known {
		if !u.OutputUnknown {
			a.int(semconv.OutputTokens, u.Output)
		}
		if !u.OutputOnly {
			a.int(semconv.InputTokens, u.Input)
			a.int(semconv.CacheReadTokens, u.CacheRead)
			a.int(semconv.CacheWriteTokens, u.CacheWrite)
			a.int(semconv.CacheCreateTokens, u.CacheWrite)
		}
		if u.Reasoning > 0 {
			a.int(semconv.ReasoningTokens, u.Reasoning)
		}
	}
	if u.CostKnown {
		a.float(semconv.UsageCost, u.Cost)
	}
}

// addUsage adds a model call's usage to the run's.
func (r *run) addUsage(u *agent.Usage) {
	t := &r.usage
	t.OutputOnly = u.OutputOnly && (t.OutputOnly || !t.Known)
	t.Input += u.Input
	t.Output += u.Output
	t.CacheRead += u.CacheRead
	t.CacheWrite += u.CacheWrite
	t.Reasoning += u.Reasoning
	t.Cost = math.Round((t.Cost+u.Cost)*1e12) / 1e12 // rounded, as decimals add up
	t.Known = t.Known || u.Known
	t.OutputUnknown = t.OutputUnknown || u.OutputUnknown
	t.CostKnown = t.CostKnown || u.CostKnown
}

// A root is a run's finished root span.
type root struct {
	run  *run
	span *span
}

// endRoot emits a root, unless the end of its process may still add to it.
func (m *Mapper) endRoot(root root) {
	if m.opts.Process != nil {
		m.roots = append(m.roots, root)
		return
	}
	m.emitRoot(root)
}

func (m *Mapper) emitRoot(root root) {
	r, s := root.run, root.span
	r.emit(s)
	if r.part > 0 {
		return
	}
	described := r.describe()
	described.Duration = time.Duration(s.end - s.start)
	described.ErrorType, described.Status = s.errorType, s.status
	m.opts.RunEnded(described)
}

// describe returns a description of a run.
func (r *run) describe() Run {
	return Run{
		Agent: r.agent.Name, Model: r.main.model, Session: r.session, TraceID: trace.TraceID(r.traceID()),
		Spans: r.counts.spans, Tools: r.counts.tools, ToolErrors: r.counts.toolErrors,
	}
}

// settle finalizes the times of a run, and returns its end.
func (r *run) settle(at, took instant) (end instant) {
	switch {
	case r.clock.replay && !r.clock.stamped:
		// Times are line numbers so far, a quantum apart. Spread them over the run,
		// which ended when its file was last written.
		r.estimated = true
		from := r.start
		span := max(at-from, quantum)
		end = r.m.replayed + quantize(instant(r.m.opts.Shift))
		took = max(min(took, end), span)
		scale := func(t instant) instant {
			return end - took + quantize(instant(float64(t)*(float64(took)/float64(span))))
		}
		for _, inv := range r.order {
			inv.modelTime = instant(float64(inv.modelTime) * (float64(took) / float64(span)))
			inv.toolTime = instant(float64(inv.toolTime) * (float64(took) / float64(span)))
		}
		r.shift(func(t instant) instant { return scale(t - from) })
		for _, s := range r.held {
			s.estimated = true
		}
		return end
	case (r.clock.replay || r.events == 1) && took > at-r.start && took < at-r.start+maxJump:
		// Time that the run took beyond its timestamps is mostly the wait for the
		// first chunk, so it is added at the beginning.
		head := max(at-took, quantum)
		if slices.ContainsFunc(r.held, r.timesPending) {
			r.main.modelTime += r.start - head
		}
		r.start, r.estimated = head, true
	}
	return at
}

func exitStatus(code int64) string { return "exit code " + strconv.FormatInt(code, 10) }
