package agent

import "hash/maphash"

// held are events that wait for a later line.
type held []Event

// hold returns copies of events, which outlive their line.
func hold(events ...Event) held {
	for i := range events {
		events[i] = events[i].Kept()
	}
	return events
}

// take appends the events to dst, and holds none of them any more.
func (h *held) take(dst []Event) []Event {
	dst = append(dst, *h...)
	*h = nil
	return dst
}

// A logRun is a run in a session log. Its end is held back, because the model may say more.
type logRun struct {
	running bool // the run has begun, and its end was not emitted
	end     held
}

// finish appends the end of the run if it was held back.
func (r *logRun) finish(dst []Event) []Event {
	r.running = r.running && len(r.end) == 0
	return r.end.take(dst)
}

// remember adds a key to a map of bounded size.
func remember[V any](m map[string]V, key []byte, value V) {
	if len(m) >= maxSessions {
		clear(m)
	}
	m[string(key)] = value
}

// recall returns the value of a key of a map of bounded size, a new one if there is none.
func recall[V any](m map[string]*V, key []byte) *V {
	v := m[string(key)]
	if v == nil {
		v = new(V)
		remember(m, key, v)
	}
	return v
}

// A memory maps hashes of ids to values. It forgets the oldest half of them when it is
// full.
type memory[V any] struct {
	seed           maphash.Seed
	latest, before map[uint64]V
}

func newMemory[V any]() memory[V] {
	return memory[V]{seed: maphash.MakeSeed(), latest: map[uint64]V{}}
}

// maxMemory is how many ids are in one map before the next is begun.
const maxMemory = 1 << 20

func (m *memory[V]) hash(ids ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, id := range ids {
		_, _ = h.Write(id)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// keep keeps the value of an id that it does not know. It returns the value that it has,
// and whether it knew the id.
func (m *memory[V]) keep(id uint64, value V) (kept V, known bool) {
	for _, ids := range []map[uint64]V{m.latest, m.before} {
		if kept, known = ids[id]; known {
			return kept, true
		}
	}
	if len(m.latest) >= maxMemory {
		m.before, m.latest = m.latest, map[uint64]V{}
	}
	m.latest[id] = value
	return value, false
}

// maxSessions is how many sessions, calls or texts a decoder remembers at once.
const maxSessions = 4096
