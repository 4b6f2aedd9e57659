package mapping

import (
	"encoding/hex"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const (
	// maxEventBytes is where a turn goes on in a new span: backends break on
	// big ones.
	maxEventBytes = 512 << 10

	// maxTraceEvents is how many bytes of events a trace may send before
	// neighbouring deltas are merged: Tempo drops what goes past 5 MB a trace.
	maxTraceEvents = 3 << 20

	// mergeWithin is how long a merged event may last.
	mergeWithin = instant(time.Second)
)

// A turn is one call of the model, from when the agent began to wait for it to
// the first tool call it made or the end of its answer. A long one is several
// spans, of which each counts what it holds.
type turn struct {
	n          int // in the run, from 1
	start      instant
	firstChunk instant // 0 before one came
	flushed    instant // the end of the answer, 0 before it came
	modelCall  string

	firstSpan []byte  // its id, once it is finished
	piece     instant // start of the span at hand
	last      instant // its last event
	events    encodedEvents
	speech    []saying // the events, in the place of the encoded ones, if there are texts
	size      int      // of those
	text      tally
	thinking  tally

	index   int // of the next event
	pending struct {
		name         string
		at           instant
		bytes, count int
	}

	segments [2]segment
	waiting  []finished // spans of it that end within a segment
	held     int        // events that those have
	asked    []value    // the messages it answers
	call     []value    // the tool call that ends it
}

type tally struct{ deltas, bytes int }

func newTurn(r *run) *turn {
	t := &turn{n: r.counts.turns, start: r.waitFrom, piece: r.waitFrom, last: r.waitFrom, asked: r.asked}
	r.asked = nil
	return t
}

func (t *turn) shift(move func(*instant)) {
	for _, at := range []*instant{&t.start, &t.firstChunk, &t.flushed, &t.piece, &t.last, &t.pending.at} {
		move(at)
	}
}

// delta takes a text or thinking delta.
func (t *turn) delta(r *run, of speech, at instant, ev *event) {
	name := of.event()
	r.counts.deltas++
	if t.firstChunk == 0 {
		t.firstChunk = at
		if r.firstChunk == 0 {
			r.firstChunk = at
		}
	}
	tally := &t.thinking
	if of == textSpeech {
		tally = &t.text
	}
	t.makeRoom(r)
	tally.deltas++
	tally.bytes += ev.bytes

	merged := r.eventBytes+t.eventSize() > maxTraceEvents && at-t.pending.at < mergeWithin
	if t.pending.name != name || !merged && r.m.opts.Deltas != DeltasMessage && r.m.opts.Deltas != DeltasOff {
		t.segmentEnd(r)
	}
	p := &t.pending
	if p.count == 0 {
		p.name, p.at = name, at
	}
	p.bytes += ev.bytes
	p.count++
	t.last = at
	if r.m.capture.full() {
		t.say(of, ev.words.text)
	}
}

// flush takes the text of a whole segment, which may repeat its deltas.
func (t *turn) flush(r *run, ev *event, at instant, repeats bool) {
	t.segmentEnd(r)
	t.resolveAll(r)
	if !repeats {
		t.makeRoom(r)
		t.text.bytes += ev.bytes
		if r.m.capture.full() {
			t.say(textSpeech, ev.words.text)
		}
		t.add(r, eventTextMessage, at, ev.bytes, 1)
		t.last = at
		t.resolve(r, textSpeech)
	}
	if len(ev.modelCall) > 0 {
		t.modelCall = string(ev.modelCall)
	}
	if ev.final || t.flushed != 0 {
		t.flushed = at
	}
}

// segmentEnd adds the event that stands for the pending deltas.
func (t *turn) segmentEnd(r *run) {
	p := &t.pending
	if p.count == 0 {
		return
	}
	name := p.name
	if r.m.opts.Deltas == DeltasMessage {
		name = map[string]string{eventTextDelta: eventTextMessage, eventThinkingDelta: eventThinkingMessage}[name]
	}
	t.add(r, name, p.at, p.bytes, p.count)
	p.bytes, p.count = 0, 0
}

func (t *turn) add(r *run, name string, at instant, bytes, count int) {
	switch {
	case r.m.capture.full():
		t.addSaying(name, at, bytes, count)
	case r.m.opts.Deltas != DeltasOff:
		t.events.add(name, at, t.index, bytes, count, "")
	}
	t.index += count
}

// makeRoom continues the turn in a new span if the one at hand is full.
func (t *turn) makeRoom(r *run) {
	events := t.events.n + len(t.speech) + min(t.pending.count, 1)
	if events < r.m.opts.MaxSpanEvents && t.eventSize() < maxEventBytes {
		return
	}
	t.segmentEnd(r)
	t.endSpan(r, t.last, "", "continued")
	t.piece = t.last
}

// finish ends the turn and its last span.
func (t *turn) finish(r *run, at instant, errorType string) {
	t.segmentEnd(r)
	t.resolveAll(r)
	reason := "stop"
	switch {
	case errorType != "":
		reason = "error"
	case len(t.call) > 0:
		reason = "tool_call"
	}
	t.endSpan(r, at, errorType, reason)
}

func (t *turn) endSpan(r *run, at instant, errorType, reason string) {
	r.counts.chats++
	span := r.newSpan(opChat, r.counts.chats, label([]byte(r.model)), t.piece, at)
	span.Kind = tracepb.Span_SPAN_KIND_CLIENT
	span.Attributes = append(span.Attributes, str(keyProvider, cursorProvider))
	if r.model != "" {
		span.Attributes = append(span.Attributes, str(keyRequestModel, r.model))
	}
	if t.modelCall != "" {
		span.Attributes = append(span.Attributes, str(keyResponseID, t.modelCall))
	}
	span.Attributes = append(span.Attributes,
		num(keyTextDeltas, t.text.deltas), num(keyTextBytes, t.text.bytes),
		num(keyThinkingDeltas, t.thinking.deltas), num(keyThinkingBytes, t.thinking.bytes))
	if t.firstSpan != nil {
		span.Attributes = append(span.Attributes, str(keyContinues, hex.EncodeToString(t.firstSpan)))
	}
	if errorType != "" {
		failed(span, errorType, "")
	}
	f := finished{span: span, events: t.events, speech: t.speech, reason: reason}
	if t.firstSpan == nil {
		t.firstSpan, f.turn = span.SpanId, t
		f.content = r.m.capture.input(t.asked)
	}
	r.eventBytes += t.eventSize()
	t.text, t.thinking = tally{}, tally{}
	t.events = encodedEvents{wire: make([]byte, 0, len(t.events.wire))} // a span that goes on will need as much
	t.speech, t.size = nil, 0
	if r.m.capture.full() {
		t.wait(r, f)
		return
	}
	r.emit(f)
}

func (t *turn) eventSize() int { return len(t.events.wire) + t.size }
