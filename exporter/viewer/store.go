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

	"github.com/spantee/spantee/exporter/runs"
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
	seq     uint64        // counts updates
	changed chan struct{} // closed, and replaced, when something has come
	stale   map[*trace]struct{}
	sources map[string]*source // processes that have open spans
	moved   map[traceID]traceID
	evicted Lost
	reading runs.Span // the span that is added
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
	updated time.Time
	spans   []stored
	index   map[spanID]int // of spans
	open    map[spanID]openSpan
	size    int
	service string // of the root

	run     runs.Run  // of the spans that ended
	runSize int       // what run and service count as
	stale   bool      // a span was replaced, so run is wrong
	live    *runs.Run // with the open spans too; nil if none is open, or stale
}

// An origin is the encoded resource and scope of spans. Many spans share it, so it
// is stored once.
type origin struct{ resource, scope unique.Handle[string] }

// A stored is an encoded span: decoded, it would take several times the memory.
type stored struct {
	id     spanID
	seq    uint64
	origin origin
	cost   int // bytes it is counted as
	wire   []byte
}

// read needs no lock: stored spans are never changed, only replaced.
func (sp *stored) read() *runs.Span {
	s := new(runs.Span)
	_ = s.Read(sp.wire) // the store encoded it
	return s
}

// Memory that a trace and a span take besides their bytes and the run, as measured by
// TestStoreKeepsToItsLimit.
const (
	traceOverhead = 350
	spanOverhead  = 140

	// eventCost is the least an event counts as. An empty one weighs two bytes
	// here, but a page has to draw it.
	eventCost = 24
)

func cost(wire []byte, span *tracepb.Span) int {
	return max(len(wire), eventCost*len(span.GetEvents())) + spanOverhead
}

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
	if err != nil { // the spans are useful without it
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
	_ = s.reading.Read(e.wire) // it was encoded just now
	t.put(stored{id: spanID(e.span.GetSpanId()), seq: s.seq, origin: e.origin, wire: e.wire, cost: cost(e.wire, e.span)}, &s.reading)
	s.size += t.size - size
	if t.stale || len(t.open) > 0 {
		s.stale[t] = struct{}{}
	}
}

// touch returns a trace, which is now the most recently updated one.
func (s *Store) touch(id traceID, now time.Time) *trace {
	t := s.traces[id]
	if t == nil {
		t = &trace{id: id, index: make(map[spanID]int), open: make(map[spanID]openSpan)}
		t.age = s.byAge.PushBack(t)
		s.traces[id] = t
		t.size, s.size = traceOverhead, s.size+traceOverhead
	}
	s.byAge.MoveToBack(t.age)
	s.seq++
	t.seq, t.updated, t.live = s.seq, now, nil
	return t
}

// put adds a span, or replaces the span with its id.
func (t *trace) put(sp stored, span *runs.Span) {
	i, replaces := t.index[sp.id]
	if !replaces {
		i = len(t.spans)
	}
	if i == 0 || t.spans[i-1].origin != sp.origin {
		sp.cost += sp.origin.size()
	}
	t.size += sp.cost
	if replaces {
		t.size -= t.spans[i].cost
		t.spans[i] = sp
		t.stale = true
		return
	}
	t.spans = append(t.spans, sp)
	t.index[sp.id] = i
	if !t.stale {
		t.add(span, sp.origin)
	}
}

// size returns how many bytes a resource and a scope count as for the spans that share
// them.
func (o origin) size() int { return len(o.resource.Value()) + len(o.scope.Value()) }

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
	origin   origin
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
	taken, seq := t.since(since), t.seq
	s.mu.RUnlock()
	return decodeAll(taken), seq
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
		i, ended := t.index[span]
		if !ended {
			s.mu.RUnlock()
			return nil, false
		}
		found.stored = t.spans[i]
	}
	s.mu.RUnlock()
	return &decodeAll([]stored{found.stored})[0], open
}

// decodeAll decodes spans without error because the store encoded them.
func decodeAll(taken []stored) []Span {
	decoded := make(map[origin]Span)
	spans := make([]Span, len(taken))
	for i, sp := range taken {
		s, known := decoded[sp.origin]
		if !known {
			s = Span{Resource: new(resourcepb.Resource), Scope: new(commonpb.InstrumentationScope), origin: sp.origin}
			_ = proto.Unmarshal([]byte(sp.origin.resource.Value()), s.Resource)
			_ = proto.Unmarshal([]byte(sp.origin.scope.Value()), s.Scope)
			decoded[sp.origin] = s
		}
		s.Span = new(tracepb.Span)
		_ = proto.Unmarshal(sp.wire, s.Span)
		spans[i] = s
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
