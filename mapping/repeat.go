package mapping

import (
	"hash/maphash"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/jsonscan"
)

// maxPeriod is how many calls a loop may consist of: A A A has one, A B A B A B
// two.
const maxPeriod = 4

// repeats detects an agent that repeats itself. It remembers calls only by a hash.
type repeats struct {
	last    [maxPeriod]uint64 // calls, the newest first
	streaks [maxPeriod]int    // by period: how many calls in a row equalled the call one period before
	max     int
}

// called adds a call. It returns how many times in a row the agent has made this
// call, or the round of calls that it completes; 1 if the call is new.
func (p *repeats) called(call *agent.Tool) int {
	hash := hashOf(call)
	repeat := 1
	for i := range p.streaks {
		if p.last[i] != hash {
			p.streaks[i] = 0
			continue
		}
		p.streaks[i]++
		repeat = max(repeat, p.streaks[i]/(i+1)+1)
	}
	copy(p.last[1:], p.last[:])
	p.last[0] = hash
	p.max = max(p.max, repeat)
	return repeat
}

var seed = maphash.MakeSeed()

// hashOf returns the hash of a tool and its arguments, in whichever order they stand. It
// ignores the id of the call, which some tools have among their arguments.
func hashOf(call *agent.Tool) uint64 {
	hash := maphash.String(seed, call.Name)
	r := jsonscan.Reader{B: call.Arguments}
	if r.Peek() != '{' {
		return hash + maphash.Bytes(seed, call.Arguments)
	}
	for key := range r.Members() {
		if value := r.Raw(); string(key) != "toolCallId" {
			hash += maphash.Comparable(seed, [2]uint64{maphash.Bytes(seed, key), maphash.Bytes(seed, value)})
		}
	}
	return hash
}
