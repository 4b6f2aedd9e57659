package mapping

import (
	"encoding/json"
	"hash/maphash"

	"github.com/spantee/spantee/mapping/agent"
)

const (
	// maxPeriod is how many calls a loop may have: A A A has one, A B A B A B two.
	maxPeriod = 4

	// maxCanonical is how long arguments may be that are compared as values. Longer
	// ones are compared as they are written.
	maxCanonical = 64 << 10
)

// repeats finds an agent that does the same again and again. It knows calls only by
// a hash with a random key, which never leaves the process: nothing can be derived
// from it, whatever the content level.
type repeats struct {
	seed    maphash.Seed
	keyed   bool
	last    [maxPeriod]uint64 // calls, the newest first
	streaks [maxPeriod]int    // by period: how many calls in a row were the one that many before
	max     int
}

// called takes the next call. It returns how often in a row the agent has now made
// this call, or the round of calls that it completes: 1 if that is new.
func (p *repeats) called(call *agent.Tool) int {
	if !p.keyed {
		p.seed, p.keyed = maphash.MakeSeed(), true
	}
	hash := p.hash(call)
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

// hash is that of a tool and its arguments, in whatever order they are written. It
// is never zero.
func (p *repeats) hash(call *agent.Tool) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	_, _ = h.WriteString(call.Name)
	_ = h.WriteByte(0)
	_, _ = h.Write(canonical(call.Arguments))
	return h.Sum64() | 1
}

// canonical writes arguments with their members sorted, and without the id of the
// call, which some tools have among them.
func canonical(arguments []byte) []byte {
	if len(arguments) > maxCanonical {
		return arguments
	}
	var members map[string]any
	if json.Unmarshal(arguments, &members) != nil {
		return arguments
	}
	delete(members, "toolCallId")
	sorted, err := json.Marshal(members)
	if err != nil {
		return arguments
	}
	return sorted
}
