package mapping

import (
	"strconv"
	"testing"
)

// The latest evicted runs are found, up to the limit.
func TestEvictedRuns(t *testing.T) {
	es := newEvictedRuns()
	for i := range maxEvicted {
		if old := es.add(&evictedRun{session: strconv.Itoa(i), turns: i}); old != nil {
			t.Fatalf("run %d is forgotten for run %d", old.turns, i)
		}
	}
	es.remove("0") // it continues, and is evicted again: now it is the newest
	if old := es.add(&evictedRun{session: "0"}); old != nil {
		t.Fatalf("run %d is forgotten though there is room", old.turns)
	}
	if old := es.add(&evictedRun{session: "new"}); old == nil || old.turns != 1 {
		t.Fatalf("%+v is forgotten, want run 1", old)
	}
	if es.find([]byte("1")) != nil || es.find([]byte("0")) == nil || es.find([]byte("new")) == nil || len(es.bySession) != maxEvicted {
		t.Errorf("wrong runs are known; %d of them", len(es.bySession))
	}
}
