package mapping

import (
	"bytes"
	"maps"
	"slices"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A run is one trace: what an agent does from its first line to its result. A
// session, which an agent can resume, is one run or several.
type run struct {
	m       *Mapper
	session string
	number  int // of the run in its session, from 1
	clock   clock
	key     runKey
	keyed   bool

	start      instant
	firstChunk instant // 0 before one came
	lines      int
	model      string
	attrs      []*commonpb.KeyValue // of the root
	broken     bool                 // the agent spoke of an error
	began      bool                 // there was a runStart
	ended      bool                 // the root span is finished
	badLines   int                  // on the pipe before it

	turn       *turn
	sawDelta   bool             // of text, since the last flush
	waitFrom   instant          // when the agent began to wait for the model
	modelCall  string           // of the turn before
	tools      map[string]*tool // in flight, by their ids
	background []*tool          // ended, with something still running
	approvals  []*approval

	counts     counts
	eventBytes int     // sent so far, over all turns
	toolsFrom  instant // since when a tool has been in flight

	held    []finished
	lastEnd instant // of the spans sent

	content  captured // of the root
	prompted bool     // and the prompt is among it
	asked    []value  // the messages that the next turn answers: the prompt, or what tools returned
	fault    string   // what the agent said of an error
}

type counts struct {
	spans, turns, chats, tools, toolErrors, approvals, deltas int
	modelTime, toolTime                                       instant
}

// A tool is a call in flight, or one that left something running.
type tool struct {
	toolCall
	id    string
	span  *tracepb.Span
	n     int
	start instant

	asked, answered captured
	response        *value // what the next turn answers
}

type approval struct {
	id, query string
	n         int
	start     instant
	content   captured
}

// newRun begins the next run of a session.
func (m *Mapper) newRun(s *session, arrival instant) *run {
	if r := m.first; r != nil {
		m.first = nil
		r.session, r.badLines = s.id, 0
		return r
	}
	return newRun(m, s.id, s.runs, arrival)
}

func newRun(m *Mapper, session string, number int, arrival instant) *run {
	r := &run{m: m, session: session, number: number, tools: map[string]*tool{}, badLines: m.stats.BadLines}
	r.clock.replay = m.replay()
	r.start = r.clock.at(0, arrival)
	r.waitFrom = r.start
	return r
}

// apply takes the next event of the run.
func (r *run) apply(ev *event, arrival instant) {
	r.lines++
	at := r.at(ev.stamp, arrival)

	switch ev.kind {
	case runStart:
		r.model, r.began = ev.model, true
		r.attrs = merge(r.attrs, ev.attrs...)
		if c := r.m.capture; c != nil {
			c.text(&r.content, keyWorkingDirectory, ev.words.detail)
		}
	case prompt:
		r.takePrompt(ev)
	case thinkingDelta:
		r.openTurn(at).delta(r, thinkingSpeech, at, ev)
	case thinkingEnd:
		if r.turn != nil {
			r.turn.segmentEnd(r)
			r.turn.resolve(r, thinkingSpeech)
		}
	case textDelta:
		r.sawDelta = true
		r.openTurn(at).delta(r, textSpeech, at, ev)
	case flush:
		r.flush(ev, at)
	case toolStart:
		r.toolStart(ev, at)
	case toolEnd:
		r.toolEnd(ev, at)
	case approvalStart:
		r.counts.approvals++
		r.approvals = append(r.approvals, &approval{
			id: string(ev.id), query: ev.query, n: r.counts.approvals, start: at, content: r.m.capture.query(ev.words.query),
		})
	case approvalEnd:
		r.approvalEnd(ev, at)
	case runError:
		r.broken = true
		r.takeFault(ev)
	case runEnd:
		r.finish(at, ev)
	}
}

// at returns the instant of a line.
func (r *run) at(stamp, arrival instant) instant {
	if stamp != 0 && !r.clock.stamped {
		r.stamped(stamp, arrival)
	}
	return r.clock.at(stamp, arrival)
}

// flush takes the text of a whole segment. It repeats the segment's deltas; if
// there were none it is the only copy. It may come when a tool has ended the
// turn already. The shapes of 2025 make each message look like a turn's last.
func (r *run) flush(ev *event, at instant) {
	repeats := r.sawDelta
	r.sawDelta = false
	t := r.turn
	if t == nil {
		if repeats {
			return
		}
		t = r.openTurn(at)
	}
	t.flush(r, ev, at, repeats)
}

// openTurn returns the turn at hand, a new one if the last is over.
func (r *run) openTurn(at instant) *turn {
	if r.turn != nil && r.turn.flushed != 0 {
		r.closeTurn(r.turn.flushed, "")
	}
	if r.turn == nil {
		if len(r.tools) > 0 {
			r.waitFrom = at // the model speaks while a tool runs: nobody waited
		}
		r.counts.turns++
		r.turn = newTurn(r)
	}
	return r.turn
}

func (r *run) closeTurn(at instant, errorType string) {
	t := r.turn
	r.turn = nil
	r.waitFrom = at
	r.modelCall = t.modelCall
	r.counts.modelTime += at - t.start
	t.finish(r, at, errorType)
}

func (r *run) toolStart(ev *event, at instant) {
	idle := len(r.tools) == 0
	asked, arguments := r.m.capture.call(ev)
	if t := r.tools[string(ev.id)]; t != nil { // the id again: that call will never end
		r.endTool(t, at, errIncomplete, "")
	}
	// The first call of a turn ends it. A call while others run belongs to
	// their turn, and so does one of the same model call: builds of 2026 say
	// which, older ones give the id of the whole request.
	sameCall := ownModelCall(ev.modelCall) && string(ev.modelCall) == r.modelCall
	if r.turn == nil && idle && !sameCall {
		r.openTurn(at)
	}
	if r.turn != nil {
		if len(ev.modelCall) > 0 {
			r.turn.modelCall = string(ev.modelCall)
		}
		if r.m.capture.full() {
			r.turn.call = []value{toolCallPart(clean(string(ev.id)), ev.tool.name, arguments)}
		}
		r.closeTurn(at, "")
	}
	if len(r.tools) == 0 {
		r.toolsFrom = at
	}
	r.counts.tools++
	t := &tool{id: string(ev.id), n: r.counts.tools, start: at, toolCall: ev.tool, asked: asked}
	r.tools[t.id] = t
}

func (r *run) toolEnd(ev *event, at instant) {
	missing := r.tools[string(ev.id)] == nil
	if missing {
		r.toolStart(ev, at)
	}
	t, call := r.tools[string(ev.id)], ev.tool
	var message string
	t.answered, t.response, message = r.m.capture.outcome(ev)
	if len(call.arguments) == 0 && t.name != "" { // as on many failures
		call.arguments, call.name = t.arguments, t.name
	}
	t.toolCall = call
	t.task = bytes.Clone(call.task)
	if missing {
		t.outcome = merge(t.outcome, boolean(keyStartMissing, true))
	}
	r.endTool(t, at, call.errorType, message)
	if t.background {
		r.background = append(r.background, t)
	}
}

// endTool finishes a tool in flight.
func (r *run) endTool(t *tool, at instant, errorType, message string) {
	delete(r.tools, t.id)
	span := r.newSpan(opExecuteTool, t.n, t.name, t.start, at)
	toolType := "function"
	if t.mcp {
		toolType = "extension"
	}
	span.Attributes = append(span.Attributes, str(keyToolName, t.name), str(keyToolCallID, t.id), str(keyToolType, toolType))
	span.Attributes = append(append(span.Attributes, t.arguments...), t.outcome...)
	if errorType != "" {
		r.counts.toolErrors++
		failed(span, errorType, message)
	}
	r.returned(t)
	t.start, t.span = at, span // where what it left running begins
	r.emit(finished{span: span, content: t.asked.and(t.answered)})
	if len(r.tools) == 0 {
		r.counts.toolTime += at - r.toolsFrom
		if r.turn == nil {
			r.waitFrom = at
		}
	}
}

func (r *run) approvalEnd(ev *event, at instant) {
	for i, a := range r.approvals {
		if a.id == string(ev.id) && a.query == ev.query {
			r.approvals = append(r.approvals[:i], r.approvals[i+1:]...)
			errorType := ""
			if ev.failed {
				errorType = ev.status
			}
			r.m.capture.reply(&a.content, ev.words.query)
			r.endApproval(a, at, ev.status, errorType)
			return
		}
	}
	r.m.stats.Unpaired++
}

func (r *run) endApproval(a *approval, at instant, outcome, errorType string) {
	span := r.newSpan(opApproval, a.n, a.query, a.start, at)
	span.Attributes = append(span.Attributes, str(keyQueryType, a.query))
	if outcome != "" {
		span.Attributes = append(span.Attributes, str(keyQueryOutcome, outcome))
	}
	if errorType != "" {
		failed(span, errorType, "")
	}
	r.emit(finished{span: span, content: a.content})
}

// taskEnd ends what a tool left running. It tells whether it was this run's.
func (r *run) taskEnd(ev *event, arrival instant) bool {
	for i, t := range r.background {
		if string(t.task) == string(ev.id) {
			at := r.at(ev.stamp, arrival)
			r.background = append(r.background[:i], r.background[i+1:]...)
			errorType := ""
			if ev.failed {
				errorType = ev.status
				if errorType == "" {
					errorType = errOther
				}
			}
			r.endBackground(t, at, ev.status, errorType, r.m.capture.task(ev))
			return true
		}
	}
	return false
}

func (r *run) endBackground(t *tool, at instant, status, errorType string, content captured) {
	span := r.newSpan(opBackground, t.n, t.name, t.start, at)
	span.Links = []*tracepb.Span_Link{{TraceId: span.TraceId, SpanId: t.span.SpanId, Flags: flagsLocal}}
	if len(t.task) > 0 {
		span.Attributes = append(span.Attributes, str(keyTaskID, string(t.task)))
	}
	span.Attributes = append(span.Attributes, str(keyTaskStatus, status))
	if errorType != "" {
		failed(span, errorType, "")
	}
	r.emit(finished{span: span, content: content})
}

// finish closes what is open and then the root. end is the result that ended
// the run.
func (r *run) finish(at instant, end *event) {
	errorType := ""
	if end.failed {
		errorType = end.status
	}
	switch {
	case r.turn == nil:
	case r.turn.flushed != 0:
		r.closeTurn(r.turn.flushed, "")
	default: // an error broke it off
		r.closeTurn(at, errorType)
	}
	r.attrs = merge(r.attrs, end.attrs...)
	r.takeAnswer(end)
	r.close(at, errIncomplete, errorType, end.took)
}

// abandon closes a run that got no result.
func (r *run) abandon(at instant, why string) {
	switch {
	case r.turn != nil && r.turn.flushed != 0:
		r.closeTurn(r.turn.flushed, "")
	case r.turn != nil || len(r.tools) == 0: // it broke off while the model was at work
		r.openTurn(at)
		r.closeTurn(at, why)
	}
	errorType := why
	if r.broken && why == errIncomplete {
		errorType = errOther
	}
	r.close(at, why, errorType, 0)
	r.endTasks(at)
}

// close finishes all spans but those of the background, the root last.
func (r *run) close(at instant, children, root string, took instant) {
	byStart := func(a, b *tool) int { return a.n - b.n }
	for _, t := range slices.SortedFunc(maps.Values(r.tools), byStart) {
		r.endTool(t, at, children, "")
	}
	for _, a := range r.approvals {
		r.endApproval(a, at, "", children)
	}
	r.approvals = nil
	r.endRoot(at, root, took)
}

// endTasks ends what still ran in the background when the stream ended. All
// that is known of it is that it outlived the stream.
func (r *run) endTasks(at instant) {
	for _, t := range r.background {
		r.endBackground(t, at, "running", "", captured{})
	}
	r.background = nil
}

// ownModelCall tells whether a model call id names one call: request id, "-",
// number, "-" and four characters. Builds of 2025 give the request id alone.
func ownModelCall(id []byte) bool {
	i := bytes.LastIndexByte(id, '-')
	if i < 0 || len(id)-i-1 != 4 {
		return false
	}
	n := id[bytes.LastIndexByte(id[:i], '-')+1 : i]
	return len(n) > 0 && len(n) < i && len(bytes.Trim(n, "0123456789")) == 0
}
