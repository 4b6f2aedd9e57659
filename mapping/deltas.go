package mapping

import (
	"time"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

const (
	// maxSpanBytes is how many bytes of events a span may have before they
	// continue in another: backends break on big spans.
	maxSpanBytes = 512 << 10

	// maxTraceBytes is how many bytes of events a trace may send before
	// neighbouring deltas are merged: Tempo drops what goes past 5 MB a trace.
	maxTraceBytes = 3 << 20

	// mergeWithin is how long a merged event may last.
	mergeWithin = instant(time.Second)
)

// textKind is what the model produces.
type textKind int

const (
	thinkingText textKind = iota
	answerText
)

func (k textKind) event(mode Deltas) string {
	switch {
	case k == answerText && mode == DeltasMessage:
		return semconv.EventTextMessage
	case k == answerText:
		return semconv.EventTextDelta
	case mode == DeltasMessage:
		return semconv.EventThinkingMessage
	}
	return semconv.EventThinkingDelta
}

func (k textKind) message() string { return k.event(DeltasMessage) }

// part returns the type of the message part.
func (k textKind) part() string {
	if k == answerText {
		return "text"
	}
	return "reasoning"
}

// An eventLog collects the events of a turn. Those that do not fit into the
// turn's own span go to child spans.
type eventLog struct {
	own     encodedEvents // of the turn's span
	inChild bool          // the current span is a child of the turn's own
	start   instant       // of the current span
	last    instant       // its last event, or the turn's
	at      encodedEvents // its events
	texts   []textEvent   // events that wait for their texts, if content is captured
	size    int           // of the texts

	index   int // of the next event
	pending struct {
		kind         textKind
		at           instant
		bytes, count int
	}

	segments [2]content.Segment
	speech   content.Speech
	waiting  []*span // spans whose texts are not all resolved
	held     int     // number of events of the waiting spans
	lost     int     // bytes cut from texts
}

// delta handles a piece of text.
func (t *turn) delta(r *run, inv *invocation, kind textKind, at instant, ev *agent.Event) {
	at = max(at, t.start)
	r.noteOutput(inv, t, at, true)
	t.thinks = kind == thinkingText
	r.counts.deltas++
	inv.counts.deltas++
	tally := t.tally(kind)
	tally.deltas++
	tally.bytes += ev.Bytes

	l := t.log
	at = l.makeRoom(r, inv, t, at)
	p := &l.pending
	mode := r.m.opts.Deltas
	merge := mode == DeltasMessage || mode == DeltasOff || r.eventBytes > maxTraceBytes && at-p.at < mergeWithin
	if p.count > 0 && (p.kind != kind || !merge) {
		l.endPending(r)
	}
	if p.count == 0 {
		p.kind, p.at = kind, at
	}
	p.bytes += ev.Bytes
	p.count++
	l.last = max(l.last, at)
	if r.m.capture.Full() {
		l.segments[kind].Add(ev.Text)
	}
}

// message handles a whole text that came without deltas.
func (t *turn) message(r *run, inv *invocation, kind textKind, at instant, ev *agent.Event) {
	at = max(at, t.start)
	r.noteOutput(inv, t, at, false)
	t.thinks = false
	t.tally(kind).bytes += ev.Bytes
	l := t.log
	l.endPending(r)
	l.resolve(r, kind)
	at = l.makeRoom(r, inv, t, at)
	if r.m.capture.Full() {
		l.segments[kind].Add(ev.Text)
	}
	l.add(r, kind, kind.message(), at, ev.Bytes, 1)
	l.last = max(l.last, at)
	l.resolve(r, kind)
	if ev.Final {
		t.state = answered
	}
}

// endText ends a text whose deltas came before.
func (t *turn) endText(r *run, kind textKind, at instant) {
	t.thinks = t.thinks && kind != thinkingText
	if t.hasOutput() {
		t.lastOutputAt = max(t.lastOutputAt, at)
	}
	t.log.endPending(r)
	t.log.resolve(r, kind)
}

func (t *turn) tally(kind textKind) *tally {
	if kind == answerText {
		return &t.text
	}
	return &t.thinking
}

// endPending adds the event for the pending deltas.
func (l *eventLog) endPending(r *run) {
	if p := &l.pending; p.count > 0 {
		l.add(r, p.kind, p.kind.event(r.m.opts.Deltas), p.at, p.bytes, p.count)
		p.bytes, p.count = 0, 0
	}
}

// add adds an event for a text.
func (l *eventLog) add(r *run, kind textKind, name string, at instant, bytes, count int) {
	e := textEvent{name: name, at: at, kind: kind, index: l.index, bytes: bytes, count: count}
	l.index += count
	switch {
	case r.m.capture.Full():
		e.piece, e.open = l.segments[kind].Cut(), true
		l.texts = append(l.texts, e)
		l.size += 96 + e.piece.Size()
		r.eventBytes += 96 + e.piece.Size()
	case r.m.opts.Deltas != DeltasOff:
		before := len(l.at.wire)
		e.encode(r.m, &l.at)
		r.eventBytes += len(l.at.wire) - before
	}
}

// count returns the number of events of the current span, and their size in bytes.
func (l *eventLog) count() (events, bytes int) {
	return l.at.n + len(l.texts) + min(l.pending.count, 1), len(l.at.wire) + l.size
}

// makeRoom continues the events in a new span if the current one is full. It
// returns the time of the next event, which is not before the span's start.
func (l *eventLog) makeRoom(r *run, inv *invocation, t *turn, at instant) instant {
	events, bytes := l.count()
	if events < r.m.opts.MaxSpanEvents && bytes < maxSpanBytes {
		return max(at, l.start)
	}
	l.endPending(r)
	next := r.clock.after(max(l.start, l.last), max(at, l.last+quantum))
	l.endSpan(r, inv, t, next)
	l.start = next
	return next
}

// endSpan ends the current span. The turn's own span stays open until the turn
// ends.
func (l *eventLog) endSpan(r *run, inv *invocation, t *turn, at instant) {
	if !l.inChild {
		l.inChild = true
		l.own, l.at = l.at, encodedEvents{}
		if len(l.texts) > 0 {
			l.waiting = append(l.waiting, &span{ref: spanRef{chat, t.n}, texts: l.texts})
			l.held += len(l.texts)
			l.texts, l.size = nil, 0
		}
		l.resolveSome(r)
		return
	}
	r.counts.deltaSpans++
	s := r.newSpan(spanRef{deltas, r.counts.deltaSpans}, spanRef{chat, t.n}, inv, spanName{operation: semconv.OperationDeltas})
	s.start, s.end = l.start, at
	s.attributes.int(semconv.TurnNumber, int64(t.n))
	s.attributes.strIfSet(semconv.ResponseID, r.m.names.id(t.response.id))
	s.events, s.texts = l.at, l.texts
	l.at = encodedEvents{}
	l.held += len(l.texts)
	l.texts, l.size = nil, 0
	l.waiting = append(l.waiting, s)
	l.resolveSome(r)
}

// finish ends the events with the turn.
func (l *eventLog) finish(r *run, inv *invocation, t *turn) {
	l.endPending(r)
	if l.inChild || r.m.capture.Full() {
		if events, _ := l.count(); events > 0 {
			l.endSpan(r, inv, t, t.end)
		}
	} else {
		l.own = l.at
	}
	l.resolve(r, thinkingText)
	l.resolve(r, answerText)
}

func (l *eventLog) shift(f func(instant) instant) {
	for _, at := range []*instant{&l.start, &l.last, &l.pending.at} {
		if *at != 0 {
			*at = f(*at)
		}
	}
	l.own.shift(f)
	l.at.shift(f)
	shiftTexts(l.texts, f)
	for _, s := range l.waiting {
		s.shift(f)
	}
}

// A notice is something that happened between the agent and the model.
type notice struct {
	name       string
	at         instant
	attributes []byte
}

// notice puts an event on the current or the next turn, or on the root if the agent is
// not waiting for the model: no turn covers that instant. The event of a turn waits for
// output: until then the agent may be idle.
func (r *run) notice(inv *invocation, ev *agent.Event, at instant) {
	switch ev.Notice {
	case "":
		return
	case semconv.EventRetry:
		r.counts.retries++
		if inv.answered() {
			r.wake(inv, at) // the answer was an error
		}
	case semconv.EventConnectionLost:
		r.counts.reconnects++
	case semconv.EventCompaction:
		r.counts.compactions++
		if t := inv.turn; t != nil && !t.hasOutput() {
			t.compacted = true
		} else {
			inv.compacted = true
		}
	}
	list := &inv.notices
	if !r.ended && (inv.answered() || inv.turn == nil && inv.busy.running > 0) {
		list = &r.notices
	} else if inv.turn == nil && ofRequest[ev.Notice] && inv.busy.running == 0 {
		r.openTurn(inv, at, nil)
	}
	if len(*list) < maxNotices {
		*list = append(*list, r.newNotice(ev, at))
	}
}

func (r *run) newNotice(ev *agent.Event, at instant) notice {
	a := attributes{field: fieldEventAttributes, max: r.m.opts.MaxAttributeBytes}
	var said content.Attributes
	for i := range ev.Facts {
		r.m.fact(&a, &ev.Facts[i], &said)
	}
	for _, c := range said.List {
		a.str(c.Key, c.Text)
	}
	return notice{ev.Notice, at, a.wire}
}

// takeNotices adds the events that wait for a turn to the turn's own span. The last
// retry before the first chunk gets how long it took.
func (t *turn) takeNotices(r *run, inv *invocation) {
	l := t.log
	l.endPending(r)
	to := &l.own
	if !l.inChild {
		to = &l.at
	}
	retry := -1
	if !t.hasOutput() && t.firstChunk != 0 {
		for i, n := range inv.notices {
			if n.name == semconv.EventRetry {
				retry = i
			}
		}
	}
	for i, n := range inv.notices {
		if i == retry {
			a := attributes{wire: n.attributes, field: fieldEventAttributes}
			a.int(semconv.AttemptMillis, int64((t.firstChunk-n.at)/agent.Milliseconds))
			n.attributes = a.wire
		}
		at := max(n.at, t.start)
		to.add(n.name, at, n.attributes)
		r.eventBytes += len(n.attributes)
		l.last = max(l.last, at)
	}
	inv.notices = nil
}

// maxNotices is how many may wait for a turn, or be on the root.
const maxNotices = 10_000

// ofRequest are the notices that imply a request to the model.
var ofRequest = map[string]bool{
	semconv.EventRetry: true, semconv.EventConnectionLost: true, semconv.EventConnectionRestored: true,
}
