package mapping

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// All evicted runs are found, up to the limit.
func TestEvictedRuns(t *testing.T) {
	es := newEvictedRuns()
	random := rand.New(rand.NewPCG(1, 2))
	runs := map[int]uint32{} // their turns, by session
	sessions := []int{-1}    // by turns
	added, forgotten := uint32(0), 0
	for range 3 * maxEvicted {
		session := random.IntN(maxEvicted * 3 / 2)
		id := []byte(strconv.Itoa(session))
		turns, known := runs[session]
		if e, ok := es.take(id); ok != known || e.turns != turns {
			t.Fatalf("session %d: %+v, want %d turns, known %v", session, e, turns, known)
		}
		delete(runs, session)
		if random.IntN(20) == 0 {
			continue
		}
		added++
		runs[session] = added
		sessions = append(sessions, session)
		if old := es.add(id, evictedRun{turns: added}); old.turns != 0 {
			forgotten++
			delete(runs, sessions[old.turns])
		}
	}
	if len(es.runs) != len(runs) || len(runs) > maxEvicted || forgotten == 0 {
		t.Errorf("%d are known, want %d; %d were forgotten", len(es.runs), len(runs), forgotten)
	}
}
