package mapping

import (
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/doubts"
	"github.com/spantee/spantee/mapping/semconv"
)

// endRoot finishes the run's root span. took is the duration of the run that the result
// reports.
func (r *run) endRoot(at moment, errorType string, took instant) {
	r.settle(at, quantize(took))
	r.ended = true
	r.endDoubts()
	r.stream.stats.Generation++
	if chat := r.firstChat; chat != nil {
		r.main.modelTime += max(chat.start.at-r.start.at, 0)
		chat.start = earlier(chat.start, r.start)
		r.emit(chat)
	}

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
