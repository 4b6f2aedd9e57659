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
	evict := func(a *agent.Agent, id string) {
		s := ss.find(a, []byte(id))
		s.evicted = &evictedRun{}
		ss.touch(s)
	}
	known := func(id string) bool { return ss.byID[id] != nil && ss.unfinished([]byte(id)) }
	evict(agent.Agents[1], "other")
	for i := range maxEvictedSessions - 1 {
		evict(agent.Agents[0], strconv.Itoa(i))
	}
	first := ss.byID["0"] // it continues, and is evicted again: now it is the newest
	first.evicted, first.run = nil, &run{}
	ss.touch(first)
	first.run = nil
	if evict(agent.Agents[0], "0"); !known("other") {
		t.Error("a session is forgotten though there is room")
	}
	if evict(agent.Agents[0], "new"); known("other") || !known("1") || !known("0") || !known("new") || len(ss.byID) != maxEvictedSessions {
		t.Errorf("wrong sessions are known; %d of them", len(ss.byID))
	}
	if ss.find(agent.Agents[1], nil).evicted != nil {
		t.Error("the run of a forgotten session would be continued")
	}
}
