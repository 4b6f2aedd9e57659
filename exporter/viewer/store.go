package viewer

import (
	"container/list"
	"encoding/hex"
	"math"
	"sync"
	"time"
	"unique"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

func (id traceID) String() string { return hex.EncodeToString(id[:]) }

// A Store keeps traces in memory, as bytes, up to a limit. Beyond it whole
// traces are evicted, least recently updated first.
type Store struct {
	limit int

	mu      sync.RWMutex
	traces  map[traceID]*trace
	byAge   *list.List // of *trace, the most recently updated last
	size    int
	seq     uint64        // counts what came
	changed chan struct{} // closed, and replaced, when something has come
	stale   map[*trace]struct{}
	sources map[string]*source // processes that have open spans
	moved   map[traceID]traceID
	evicted Lost
}

// Lost is what a store evicted to make room.
type Lost struct {
	Traces int `json:"traces"`
	Spans  int `json:"spans"`
}

// A trace is the part of a trace that has arrived, in any order.
type trace struct {
	id      traceID
	age     *list.Element
	seq     uint64 // of its last span
	came    time.Time
	origins []origin
	spans   []stored
	index   map[spanID]int // of spans; nil while there are few
	open    map[spanID]openSpan
	size    int

	summary summary  // of the spans that ended
	stale   bool     // a span was replaced, so the summary is wrong
	live    *summary // with the open spans too; nil if none is open, or stale
}

// An origin is the encoded resource and scope of spans. Many spans share it, so it
// is stored once.
type origin struct{ resource, scope unique.Handle[string] }

// A stored is an encoded span: decoded, it would take several times the memory.
type stored struct {
	id     spanID
	seq    uint64
	origin int
	cost   int // bytes it is counted as
	wire   []byte
}

// What the bookkeeping of a trace and of a span takes besides their bytes, as
// measured by TestStoreKeepsToItsLimit.
const (
	traceOverhead = 1100
	spanOverhead  = 130
	toolOverhead  = 32 // more for a tool call, whose length the summary keeps

	// eventCost is the least an event counts as. An empty one weighs two bytes
	// here, but a page has to draw it.
	eventCost = 24
)

func cost(wire []byte, span *tracepb.Span) int {
	return max(len(wire), eventCost*len(span.GetEvents())) + spanOverhead + toolOverhead
}

// fewSpans is the number of spans up to which a linear search is faster than an
// index.
const fewSpans = 32

// NewStore returns a store that takes up to limit bytes.
func NewStore(limit int) *Store {
	return &Store{
		limit:   limit,
		traces:  make(map[traceID]*trace),
		byAge:   list.New(),
		changed: make(chan struct{}),
		stale:   make(map[*trace]struct{}),
		sources: make(map[string]*source),
		moved:   make(map[traceID]traceID),
	}
}

// Add adds spans that ended, replacing spans with the same id. It returns how many
// it rejected: those without a valid id, or with text that is not UTF-8.
func (s *Store) Add(spans []*tracepb.ResourceSpans) (rejected int) {
	taken, rejected := encode(spans)
	if len(taken) == 0 {
		return rejected
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range taken {
		s.add(e, now)
	}
	s.makeRoom()
	s.notify()
	return rejected
}

// An encoded span is what is stored, and what it was made from.
type encoded struct {
	span   *tracepb.Span
	wire   []byte
	origin origin
}

func encode(spans []*tracepb.ResourceSpans) (taken []encoded, rejected int) {
	for _, rs := range spans {
		resource := internMessage(rs.GetResource())
		for _, ss := range rs.GetScopeSpans() {
			from := origin{resource, internMessage(ss.GetScope())}
			for _, span := range ss.GetSpans() {
				wire, err := proto.Marshal(span)
				if err != nil || !validID(span.GetTraceId(), len(traceID{})) || !validID(span.GetSpanId(), len(spanID{})) {
					rejected++
					continue
				}
				taken = append(taken, encoded{span, wire, from})
			}
		}
	}
	return taken, rejected
}

// notify wakes whoever waits for changes.
func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func internMessage(m proto.Message) unique.Handle[string] {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // the spans are worth having without it
		b = nil
	}
	return unique.Make(string(b))
}

func validID(id []byte, size int) bool {
	if len(id) != size {
		return false
	}
	for _, b := range id {
		if b != 0 {
			return true
		}
	}
	return false
}

func (s *Store) add(e encoded, now time.Time) {
	t := s.touch(traceID(e.span.GetTraceId()), now)
	size := t.size
	t.closeSpan(spanID(e.span.GetSpanId()))
	t.put(stored{id: spanID(e.span.GetSpanId()), seq: s.seq, wire: e.wire}, e.origin, e.span)
	s.size += t.size - size
	if t.stale || len(t.open) > 0 {
		s.stale[t] = struct{}{}
	}
}

// touch returns a trace, which is now the most recently updated one.
func (s *Store) touch(id traceID, now time.Time) *trace {
	t := s.traces[id]
	if t == nil {
		t = &trace{id: id}
		t.age = s.byAge.PushBack(t)
		s.traces[id] = t
		t.size, s.size = traceOverhead, s.size+traceOverhead
	}
	s.byAge.MoveToBack(t.age)
	s.seq++
	t.seq, t.came, t.live = s.seq, now, nil
	return t
}

// put adds a span, or replaces the span with its id.
func (t *trace) put(sp stored, from origin, span *tracepb.Span) {
	sp.origin = t.origin(from)
	if i := t.find(sp.id); i >= 0 {
		t.size += cost(sp.wire, span) - t.spans[i].cost
		sp.cost = cost(sp.wire, span)
		t.spans[i] = sp
		t.stale = true
		return
	}
	sp.cost = cost(sp.wire, span)
	t.spans = append(t.spans, sp)
	t.size += sp.cost
	switch {
	case t.index != nil:
		t.index[sp.id] = len(t.spans) - 1
	case len(t.spans) > fewSpans:
		t.index = make(map[spanID]int, 2*fewSpans)
		for i := range t.spans {
			t.index[t.spans[i].id] = i
		}
	}
	if !t.stale {
		t.summary.add(span, from)
	}
}

func (t *trace) origin(from origin) int {
	for i, o := range t.origins {
		if o == from {
			return i
		}
	}
	t.origins = append(t.origins, from)
	t.size += len(from.resource.Value()) + len(from.scope.Value())
	return len(t.origins) - 1
}

func (t *trace) find(id spanID) int {
	if t.index != nil {
		if i, ok := t.index[id]; ok {
			return i
		}
		return -1
	}
	for i := range t.spans {
		if t.spans[i].id == id {
			return i
		}
	}
	return -1
}

func (s *Store) makeRoom() {
	for s.size > s.limit && s.byAge.Len() > 0 {
		s.remove(s.byAge.Front().Value.(*trace))
	}
}

func (s *Store) remove(t *trace) {
	s.byAge.Remove(t.age)
	delete(s.traces, t.id)
	delete(s.stale, t)
	s.size -= t.size
	if len(t.spans) > 0 {
		s.evicted.Traces++
		s.evicted.Spans += len(t.spans)
	}
}

// A Span is a span with its resource and scope.
type Span struct {
	*tracepb.Span
	Resource *resourcepb.Resource
	Scope    *commonpb.InstrumentationScope
}

// Spans returns the spans of a trace that came after since, and the value of since
// for the next call. since is zero in the first call. For an unknown trace there
// are no spans.
func (s *Store) Spans(id traceID, since uint64) (spans []Span, seq uint64) {
	s.mu.RLock()
	t := s.traces[id]
	if t == nil {
		s.mu.RUnlock()
		return nil, 0
	}
	taken := t.since(since)
	origins, seq := t.origins, t.seq
	s.mu.RUnlock()
	return decodeAll(taken, origins), seq
}

// Span returns one span, nil if it is not there, and whether it is open.
func (s *Store) Span(id traceID, span spanID) (*Span, bool) {
	s.mu.RLock()
	t := s.traces[id]
	if t == nil {
		s.mu.RUnlock()
		return nil, false
	}
	found, open := t.open[span]
	if !open {
		i := t.find(span)
		if i < 0 {
			s.mu.RUnlock()
			return nil, false
		}
		found.stored = t.spans[i]
	}
	origins := t.origins
	s.mu.RUnlock()
	return &decodeAll([]stored{found.stored}, origins)[0], open
}

// decodeAll needs no lock: stored spans are never changed, only replaced. They
// decode without error because the store encoded them.
func decodeAll(taken []stored, origins []origin) []Span {
	resources := make([]*resourcepb.Resource, len(origins))
	scopes := make([]*commonpb.InstrumentationScope, len(origins))
	for i, o := range origins {
		resources[i], scopes[i] = new(resourcepb.Resource), new(commonpb.InstrumentationScope)
		_ = proto.Unmarshal([]byte(o.resource.Value()), resources[i])
		_ = proto.Unmarshal([]byte(o.scope.Value()), scopes[i])
	}
	spans := make([]Span, len(taken))
	for i, sp := range taken {
		span := new(tracepb.Span)
		_ = proto.Unmarshal(sp.wire, span)
		spans[i] = Span{span, resources[sp.origin], scopes[sp.origin]}
	}
	return spans
}

// Changes returns the ids of up to limit traces that changed after since, the
// latest first, the value of since for the next call, and a channel that is closed
// at the next change.
func (s *Store) Changes(since uint64, limit int) (ids []traceID, seq uint64, more <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for e := s.byAge.Back(); e != nil && len(ids) < limit; e = e.Prev() {
		t := e.Value.(*trace)
		if t.seq <= since {
			break
		}
		ids = append(ids, t.id)
	}
	return ids, s.seq, s.changed
}

// Sequence returns the value to pass to Since or Changes to get only later changes.
func (s *Store) Sequence() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seq
}

// Since returns the ids of the traces that changed after seq.
func (s *Store) Since(seq uint64) []string {
	found, _, _ := s.Changes(seq, math.MaxInt)
	ids := make([]string, len(found))
	for i, id := range found {
		ids[i] = id.String()
	}
	return ids
}
