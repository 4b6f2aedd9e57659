package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/doubts"
	"github.com/spantee/spantee/mapping/semconv"
)

// endRoot finishes the run's root span and the spans held for it. took is the
// duration of the run that the result reports.
func (r *run) endRoot(at moment, errorType string, took instant) {
	spread := quantize(took)
	at = r.settle(at, spread)
	r.ended = true
	r.endDoubts()
	r.stream.stats.Generation++
	for _, s := range r.held {
		r.emit(s)
	}
	r.held = nil

	s := r.newSpan(rootRef, rootRef, r.main, r.main.name)
	s.start, s.end = r.start, at.notBefore(max(r.lastEnd, r.start.at+quantum))
	s.errorType, s.status = errorType, r.failure.text
	a := &s.attributes
	a.strIfSet(semconv.RequestModel, r.main.model)
	if r.evicted {
		a.bool(semconv.EndedEarly, true)
	}
	if errorType != "" && r.failure.httpStatus != 0 {
		r.facts.Set(agent.Fact{Key: semconv.HTTPResponseStatus, Int: r.failure.httpStatus})
	}
	r.stream.facts(a, r.facts, nil)
	if r.startup > 0 && !r.clock.recording() {
		a.int(semconv.StartupMillis, int64(r.startup/agent.Milliseconds))
	}
	if took > 0 {
		a.int(semconv.DurationReported, int64(took/agent.Milliseconds))
	}
	if !r.apart || !r.usage.OutputUnknown { // else the session's next result states it
		r.addUsageTo(a)
	}
	if !r.resultOnly { // which does not say what the agent did
		r.addWorkTo(a)
		r.main.addTimes(a)
	}
	r.addCountsTo(a, r.stream)
	if n := r.maxRepeats(); n > 1 {
		a.int(semconv.MaxRepeats, int64(n))
	}
	s.addFirstChunk(r, r.main.firstChunk)
	r.content.Merge(r.main.dialog.attributes(r.stream.capture))
	s.content, s.caller = r.content, r.caller
	s.addNotices(r.rootNotices())
	if r.stream.opts.Process != nil { // whose end may still add to it
		r.stream.roots = append(r.stream.roots, root{run: r, span: s})
		return
	}
	r.emitRoot(s)
}

// endDoubts records what is still open when the run ends.
func (r *run) endDoubts() {
	d := &r.doubts
	d.Open = r.counts.tools - d.Ended
	for _, t := range r.tools {
		if t.inv.task != nil {
			d.Open-- // it belongs to a sub-agent that works on in the background
		}
	}
	for _, t := range r.tasks {
		if t.over.isZero() {
			d.Running++
		}
	}
}

// addDoubts adds to a root what makes it doubtful.
func (r *run) addDoubts(root *span) {
	var names []string
	ended := doubts.Run{Tools: r.counts.tools, Unknown: r.counts.unknown, ResultOnly: r.resultOnly, Failed: root.errorType != ""}
	r.doubts.Of(ended, func(name, key string, count int) {
		names = append(names, name)
		if key != "" {
			root.attributes.int(key, int64(count))
		}
	})
	if len(names) > 0 {
		root.attributes.words(semconv.Doubts, names...)
	}
}

// settle finalizes the times of a run, and returns its end.
func (r *run) settle(at moment, took instant) (end moment) {
	unstamped := r.clock.replay && !r.clock.stamped
	switch {
	case unstamped && r.agent.Lengths: // which the places of the lines contain
		end = moment{r.stream.written() + r.clock.shift, agent.Inferred}
		r.shift(func(t instant) instant { return max(end.at-(at.at-t), quantum) })
		at = end
	case unstamped:
		// Times are line numbers so far, a quantum apart. Spread them over the run,
		// which ended when its file was last written.
		from := r.start.at
		span := max(at.at-from, quantum)
		end = moment{r.stream.written() + r.clock.shift, agent.Inferred}
		took = max(min(took, end.at), span)
		scale := func(t instant) instant { return instant(float64(t) * (float64(took) / float64(span))) }
		for _, inv := range r.order {
			inv.modelTime, inv.busy.total = scale(inv.modelTime), scale(inv.busy.total)
		}
		r.shift(func(t instant) instant { return end.at - took + quantize(scale(t-from)) })
		return end
	}
	worked := at.at
	if r.firstAnswer != 0 {
		worked = r.firstAnswer
	}
	if spent := worked - r.start.at; (r.clock.recording() || r.events == 1) && took > spent && took < spent+maxJump {
		// Time that the run took beyond its timestamps is mostly the wait for the
		// first chunk, so it is added at the beginning.
		head := max(worked-took, quantum)
		if slices.ContainsFunc(r.held, func(h held) bool { return h.turn != nil && r.beganWith(h.turn) }) {
			r.main.modelTime += r.start.at - head
		}
		r.start = moment{head, agent.Inferred}
	}
	return at
}
