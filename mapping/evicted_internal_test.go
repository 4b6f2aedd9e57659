package mapping

import (
	"strconv"
	"testing"

	"github.com/spantee/spantee/mapping/agent"
)

// The sessions whose runs were evicted last are remembered, up to the limit.
func TestEvictedSessions(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ss := &m.sessions
	evict := func(id string) *session {
		s := ss.find(agent.Agents[0], []byte(id))
		s.evicted = &evictedRun{}
		ss.touch(s)
		return s
	}
	known := func(id string) bool { return ss.byID[id] != nil && ss.unfinished([]byte(id)) }
	for i := range maxEvictedSessions {
		evict(strconv.Itoa(i))
	}
	first := ss.byID["0"] // it continues, and is evicted again: now it is the newest
	first.evicted, first.run = nil, &run{}
	ss.touch(first)
	first.run = nil
	if evict("0"); !known("1") {
		t.Error("session 1 is forgotten though there is room")
	}
	if evict("new"); known("1") || !known("2") || !known("0") || !known("new") || len(ss.byID) != maxEvictedSessions {
		t.Errorf("wrong sessions are known; %d of them", len(ss.byID))
	}
}
