package mapping

import (
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
	s.errorType, s.status, s.estimated = errorType, r.failure.text, r.startGuessed()
	if s.status == "" && r.failure.reported {
		s.status = "the agent reported an error"
	}
	a := &s.attributes
	a.strIfSet(semconv.RequestModel, r.main.model)
	for i := range r.facts {
		r.m.fact(a, &r.facts[i], nil)
	}
	if took > 0 {
		a.int(semconv.DurationReported, int64(took/agent.Milliseconds))
	}
	r.addUsageTo(a)
	r.addCountsTo(a, r.m)
	if n := r.maxRepeats(); n > 1 {
		a.int(semconv.MaxRepeats, int64(n))
	}
	r.main.addTimes(a)
	if !s.estimated {
		s.addFirstChunk(r.start, r.main.firstChunk)
	}
	r.content.Merge(r.main.dialog.attributes(r.m.capture))
	s.content = r.content
	for _, n := range r.rootNotices() {
		s.events.add(n.name, min(max(n.at, s.start), s.end-microsecond), n.attributes)
	}
	r.m.endRoot(root{run: r, span: s})
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
	m.results[len(m.results)-1].ended = &described
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
	if r.clock.replay && !r.clock.stamped {
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
			inv.busy.total = instant(float64(inv.busy.total) * (float64(took) / float64(span)))
		}
		r.shift(func(t instant) instant { return scale(t - from) })
		for _, s := range r.held {
			s.estimated = true
		}
		return end
	}
	worked := at
	if r.answered != 0 {
		worked = r.answered
	}
	if spent := worked - r.start; (r.clock.recording() || r.events == 1) && took > spent && took < spent+maxJump {
		// Time that the run took beyond its timestamps is mostly the wait for the
		// first chunk, so it is added at the beginning.
		head := max(worked-took, quantum)
		if slices.ContainsFunc(r.held, r.timesPending) {
			r.main.modelTime += r.start - head
		}
		r.start, r.estimated = head, true
	}
	return at
}

func exitStatus(code int64) string { return "exit code " + strconv.FormatInt(code, 10) }
