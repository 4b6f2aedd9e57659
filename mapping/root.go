package mapping

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span flags: sampled, and whether the parent is known to be remote.
const (
	flagsLocal  = 0x101
	flagsRemote = 0x301
)

// A finished span waits for its times to be settled: in a replay a run's start,
// and with it that of its first turn, is known only with its result; without a
// single stamp, nothing else is known before.
type finished struct {
	span    *tracepb.Span
	events  encodedEvents
	turn    *turn    // of which this is the first span
	speech  []saying // events with texts
	reason  string   // why the model stopped here
	content captured
}

// newSpan returns a finished child of the run's root, the nth of its operation.
func (r *run) newSpan(operation string, n int, subject string, start, end instant) *tracepb.Span {
	span := &tracepb.Span{
		Name:              strings.TrimSpace(operation + " " + subject),
		Kind:              tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(start),
		EndTimeUnixNano:   uint64(max(start, end)),
		Flags:             flagsLocal,
	}
	span.Attributes = append(span.Attributes, str(keyAgent, Cursor))
	if operation == opChat || operation == opExecuteTool || operation == opInvokeAgent {
		span.Attributes = append(span.Attributes, str(keyOperation, operation))
	}
	if r.session != "" {
		span.Attributes = append(span.Attributes, str(keyConversation, r.session), str(keySession, r.session))
	}
	r.identify(span, operation, n)
	return span
}

// identify gives a span its ids. The run's first instant is its first stamp
// where it has one: arrivals differ each time a capture is sent.
func (r *run) identify(span *tracepb.Span, operation string, n int) {
	if !r.keyed {
		first := r.start
		if r.clock.replay && !r.clock.stamped {
			first = r.m.replayed
		}
		r.setKey(first)
	}
	span.TraceId = r.key.traceID()
	span.SpanId = r.key.spanID(operation, n)
	if operation != opInvokeAgent {
		span.ParentSpanId = r.key.spanID(opInvokeAgent, 0)
	}
	if parent := r.m.opts.Parent; parent.IsValid() {
		id := parent.TraceID()
		span.TraceId = id[:]
		span.TraceState = parent.TraceState().String()
		if operation == opInvokeAgent {
			id := parent.SpanID()
			span.ParentSpanId = id[:]
			span.Flags = flagsRemote
		}
	}
}

func (r *run) setKey(first instant) {
	if !r.keyed {
		r.key, r.keyed = newRunKey(Cursor, r.session, r.number, first, r.clock.replay), true
		r.m.stats.Edges++
	}
}

// stamped is called at the first stamp: what came before it was put on the
// timeline without knowing where the agent's clock stands.
func (r *run) stamped(stamp, arrival instant) {
	r.setKey(stamp)
	switch {
	case r.clock.replay:
		r.shift(func(instant) instant { return stamp })
		r.clock.stamped = true
		held := r.held
		r.held = nil
		for _, f := range held {
			r.emit(f)
		}
	case r.counts.spans == 0:
		r.shift(func(t instant) instant { return max(t+stamp-arrival, 1) }) // not before 1970
	default: // what was sent stays where it is, so the stamps have to move
		r.clock.skew = arrival - stamp
	}
}

// shift puts all times that are not sent yet through f.
func (r *run) shift(f func(instant) instant) {
	move := func(t *instant) {
		if *t != 0 {
			*t = f(*t)
		}
	}
	for _, t := range []*instant{&r.start, &r.firstChunk, &r.waitFrom, &r.toolsFrom, &r.clock.last} {
		move(t)
	}
	for _, t := range r.tools {
		move(&t.start)
	}
	for _, t := range r.background {
		move(&t.start)
	}
	for _, a := range r.approvals {
		move(&a.start)
	}
	if r.turn != nil {
		r.turn.shift(move)
		r.turn.events.shift(f)
		shiftSpeech(r.turn.speech, f)
		for _, w := range r.turn.waiting {
			w.shift(f)
		}
	}
	for _, h := range r.held {
		h.shift(f)
		if h.turn != nil {
			h.turn.shift(move)
		}
	}
}

func (f *finished) shift(by func(instant) instant) {
	f.span.StartTimeUnixNano = uint64(by(instant(f.span.StartTimeUnixNano)))
	f.span.EndTimeUnixNano = uint64(by(instant(f.span.EndTimeUnixNano)))
	f.events.shift(by)
	shiftSpeech(f.speech, by)
}

// emit sends a finished span as soon as its times are settled.
func (r *run) emit(f finished) {
	unsettled := !r.clock.stamped || f.turn != nil && f.turn.n == 1
	if r.clock.replay && unsettled && !r.ended {
		r.held = append(r.held, f)
		return
	}
	if t := f.turn; t != nil {
		if t.n == 1 && r.clock.replay {
			f.span.StartTimeUnixNano = uint64(r.start)
		}
		f.span.Attributes = appendFirstChunk(f.span.Attributes, t.firstChunk, instant(f.span.StartTimeUnixNano))
	}
	f.span.EndTimeUnixNano = max(f.span.EndTimeUnixNano, f.span.StartTimeUnixNano+1) // Jaeger warns of less
	if r.m.opts.Deltas != DeltasOff {
		for _, s := range f.speech {
			f.events.add(s.name, s.at, s.index, s.bytes, s.count, s.text)
		}
	}
	f.events.attach(f.span)
	f.span.Attributes = append(f.span.Attributes, f.content.attrs...)
	limit(f.span, r.m.opts.MaxAttributeBytes, f.content.lost)
	r.lastEnd = max(r.lastEnd, instant(f.span.EndTimeUnixNano))
	r.counts.spans++
	r.m.stats.Spans++
	r.m.opts.Emit(f.span)
}

// endRoot finishes the run's root span, and what was held for it.
func (r *run) endRoot(at instant, errorType string, took instant) {
	at, estimated := r.settle(at, took)
	r.ended = true
	r.m.stats.Edges++
	for _, f := range r.held {
		r.emit(f)
	}
	r.held = nil

	span := r.newSpan(opInvokeAgent, 0, Cursor, r.start, max(at, r.lastEnd))
	if r.model != "" {
		span.Attributes = append(span.Attributes, str(keyRequestModel, r.model))
	}
	span.Attributes = append(span.Attributes, r.attrs...)
	c := &r.counts
	span.Attributes = append(span.Attributes,
		num(keyTurns, c.turns), num(keyTools, c.tools), num(keyToolErrors, c.toolErrors),
		num(keyDeltas, c.deltas), num(keyBadLines, r.m.stats.BadLines-r.badLines),
		float(keyModelSeconds, c.modelTime.seconds(0)), float(keyToolSeconds, c.toolTime.seconds(0)))
	span.Attributes = appendFirstChunk(span.Attributes, r.firstChunk, r.start)
	if estimated {
		span.Attributes = append(span.Attributes, boolean(keyTimeEstimated, true))
	}
	r.m.endRoot(root{run: r, span: span, errorType: errorType})
}

// A root is a finished one.
type root struct {
	run       *run
	span      *tracepb.Span
	errorType string
}

// endRoot emits a root, unless its process may have more to tell of it.
func (m *Mapper) endRoot(root root) {
	if m.opts.Process != nil {
		m.roots = append(m.roots, root)
		return
	}
	m.emitRoot(root)
}

func (m *Mapper) emitRoot(root root) {
	r, span := root.run, root.span
	if root.errorType != "" {
		failed(span, root.errorType, r.fault)
	}
	r.emit(finished{span: span, content: r.content})
	c := &r.counts
	m.opts.RunEnded(Run{
		Agent: Cursor, Model: r.model, Session: r.session,
		TraceID: trace.TraceID(span.TraceId),
		Spans:   c.spans, Tools: c.tools, ToolErrors: c.toolErrors,
		Duration: time.Duration(span.EndTimeUnixNano - span.StartTimeUnixNano), ErrorType: root.errorType,
	})
}

// settle fixes the times of a run that took as long as its result says.
func (r *run) settle(at, took instant) (end instant, estimated bool) {
	c := &r.counts
	switch {
	case r.clock.replay && !r.clock.stamped:
		// Times are line numbers so far. Spread them over the run, which ended
		// when its file was last written.
		end, from := r.m.replayed, r.start
		took = min(took, end)
		scale := float64(took) / float64(max(at-from, 1))
		r.shift(func(t instant) instant { return end - took + instant(float64(t-from)*scale) })
		c.modelTime = instant(float64(c.modelTime) * scale)
		c.toolTime = instant(float64(c.toolTime) * scale)
		return end, true
	case (r.clock.replay || r.lines == 1) && took > at-r.start:
		// What the run took beyond its stamps is mostly the wait for the first
		// token, so it goes to the head.
		head := max(at-took, 0)
		if c.turns > 0 {
			c.modelTime += r.start - head
		}
		r.start = head
		return at, true
	}
	return at, false
}

// appendFirstChunk adds how long the model let wait for its first chunk. In a
// replay that broke off the chunk may be all that is known of the start.
func appendFirstChunk(attrs []*commonpb.KeyValue, chunk, start instant) []*commonpb.KeyValue {
	if chunk <= start {
		return attrs
	}
	return append(attrs, float(keyFirstChunk, chunk.seconds(start)))
}
