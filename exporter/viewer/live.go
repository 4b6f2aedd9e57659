package viewer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A source is a process that reports its open spans every second.
type source struct {
	lastReport time.Time
	open       map[spanRef]struct{}
}

type spanRef struct {
	trace traceID
	span  spanID
}

// An openSpan is a span that has not ended. It is encoded as if it ended when its
// source last reported.
type openSpan struct {
	stored
	gone bool // its source has been silent for too long: the span will never end
}

// silence is how long a source may be silent before its spans count as gone. A
// source reports every second.
const silence = 10 * time.Second

// Open sets the spans that a source has open. A span that was open before, is no
// longer listed and has not ended is forgotten. The store keeps the spans, and
// modifies them.
func (s *Store) Open(name string, spans []*tracepb.ResourceSpans) {
	s.openAt(name, spans, time.Now())
}

func (s *Store) openAt(name string, spans []*tracepb.ResourceSpans, now time.Time) {
	for _, rs := range spans {
		for _, ss := range rs.GetScopeSpans() {
			for _, span := range ss.GetSpans() {
				unfail(span)
			}
		}
	}
	taken, _ := encode(spans)
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.sources[name]
	if src == nil && len(taken) == 0 {
		return
	}
	if src == nil {
		src = new(source)
		s.sources[name] = src
	}
	before := src.open
	src.lastReport, src.open = now, make(map[spanRef]struct{}, len(taken))
	current := make(map[*trace]struct{})
	for _, e := range taken {
		ref := spanRef{traceID(e.span.GetTraceId()), spanID(e.span.GetSpanId())}
		if t := s.traces[ref.trace]; t != nil {
			if _, ended := t.index[ref.span]; ended {
				continue // the span ended, and that arrived first
			}
		}
		t := s.touch(ref.trace, now)
		current[t] = struct{}{}
		size := t.size
		t.openSpan(stored{id: ref.span, seq: s.seq, origin: e.origin, wire: e.wire, cost: cost(e.wire, e.span) + e.origin.size()})
		s.size += t.size - size
		s.stale[t] = struct{}{}
		src.open[ref] = struct{}{}
	}
	for ref := range before {
		if _, still := src.open[ref]; !still {
			s.forget(ref, current, now)
		}
	}
	if len(src.open) == 0 {
		delete(s.sources, name)
	}
	s.makeRoom()
	s.notify()
}

// unfail removes the error from an open span: the mapper writes open spans as if
// the process were killed now.
func unfail(span *tracepb.Span) {
	span.Status = nil
	span.Attributes = slices.DeleteFunc(span.Attributes, isErrorType)
}

// forget drops an open span that its source no longer has, and its trace if it has
// no other span: ids are provisional until the first timestamp of a stream. A page
// that shows the dropped trace is led to the source's current trace of the same
// conversation.
func (s *Store) forget(ref spanRef, others map[*trace]struct{}, now time.Time) {
	t := s.traces[ref.trace]
	if t == nil {
		return
	}
	conversation, size := t.full().Conversation, t.size
	t.closeSpan(ref.span)
	s.size += t.size - size
	if len(t.spans)+len(t.open) == 0 {
		s.remove(t)
		s.seq++
		for other := range others {
			if len(others) == 1 || other.full().Conversation == conversation {
				s.move(t.id, other.id)
			}
		}
		return
	}
	s.touch(ref.trace, now)
}

// maxMoved bounds how many provisional ids are remembered.
const maxMoved = 1000

func (s *Store) move(from, to traceID) {
	if len(s.moved) >= maxMoved {
		clear(s.moved)
	}
	s.moved[from] = to
}

func (t *trace) openSpan(sp stored) {
	t.closeSpan(sp.id)
	if t.service == "" || sp.read().MayBeRoot() {
		t.service = serviceOf(sp.origin.resource)
		t.count()
	}
	t.open[sp.id] = openSpan{stored: sp}
	t.size += sp.cost
}

func (t *trace) closeSpan(id spanID) {
	if sp, ok := t.open[id]; ok {
		t.size -= sp.cost
		delete(t.open, id)
	}
}

// expire marks the open spans of sources that have been silent as gone.
func (s *Store) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := false
	for name, src := range s.sources {
		if now.Sub(src.lastReport) < silence {
			continue
		}
		delete(s.sources, name)
		for ref := range src.open {
			t := s.traces[ref.trace]
			if t == nil {
				continue
			}
			if sp, ok := t.open[ref.span]; ok {
				sp.gone = true
				t.open[ref.span] = sp
				updated := t.updated
				s.touch(ref.trace, updated)
				s.stale[t] = struct{}{}
				gone = true
			}
		}
	}
	if gone {
		s.notify()
	}
}

// openSpans returns the open spans of a trace, the first to begin first, and whether
// they are gone.
func (t *trace) openSpans() (spans []*runs.Span, gone bool) {
	for _, sp := range t.openStored() {
		spans = append(spans, sp.read())
		gone = gone || t.open[sp.id].gone
	}
	slices.SortStableFunc(spans, func(a, b *runs.Span) int { return cmp.Compare(a.Start, b.Start) })
	return spans, gone
}

// openStored returns the open spans of a trace, sorted by id.
func (t *trace) openStored() (taken []stored) {
	for _, id := range slices.SortedFunc(maps.Keys(t.open), func(a, b spanID) int { return slices.Compare(a[:], b[:]) }) {
		taken = append(taken, t.open[id].stored)
	}
	return taken
}

// A Now is what a session that has not ended is doing.
type Now struct {
	Op           string `json:"op"`    // of the latest open span
	What         string `json:"what"`  // its tool or model
	Text         string `json:"text"`  // what a tool call is about
	Event        string `json:"event"` // the last event: a chat without events waits for the model
	Since        int64  `json:"since"` // when that span began, in microseconds since 1970
	LastActivity int64  `json:"heard"` // when something last happened
	LastReport   int64  `json:"asked"` // when its process last reported
	Gone         bool   `json:"gone"`  // its process has been silent for too long
}

// now describes a trace by its open spans, nil without any.
func now(open []*runs.Span, gone bool, lastEnd uint64) *Now {
	latest := runs.Latest(open)
	if latest == nil {
		return nil
	}
	n := &Now{Op: string(latest.Kind()), What: cutText(latest.Subject(), maxDetail), Event: cutText(latest.LastEvent(), maxDetail), Gone: gone}
	n.Text, _ = detail(latest)
	since, heard := latest.Start, lastEnd
	for _, s := range open {
		heard = max(heard, s.Start)
		n.LastReport = max(n.LastReport, microseconds(s.End))
		s.Events(func(e runs.Event) { heard = max(heard, e.Time) })
	}
	if latest.Kind() == runs.Agent { // between steps: since the last one
		since = heard
	}
	n.Since, n.LastActivity = microseconds(since), microseconds(heard)
	return n
}

func isErrorType(kv *commonpb.KeyValue) bool { return kv.GetKey() == semconv.ErrorType }
