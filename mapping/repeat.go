package mapping

import (
	"hash/maphash"
	"math"
	"strconv"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/jsonscan"
)

// maxPeriod is how many calls a loop may have: A A A has one, A B A B A B two.
const maxPeriod = 4

// maxDepth is how deep arguments are compared as values. What lies deeper is
// compared as it is written.
const maxDepth = 32

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

// hash is that of a tool and its arguments, however their JSON is written. It is
// never zero.
func (p *repeats) hash(call *agent.Tool) uint64 {
	arguments := p.value(&jsonscan.Reader{B: call.Arguments}, 0)
	return p.pair(maphash.String(p.seed, call.Name), arguments) | 1
}

// value hashes the value at hand. The order of members does not count, and neither
// does the id of the call, which some tools have among their arguments.
func (p *repeats) value(r *jsonscan.Reader, depth int) (hash uint64) {
	switch c := r.Peek(); {
	case depth == maxDepth:
		return maphash.Bytes(p.seed, r.Raw())
	case c == '{':
		for key := range r.Members() {
			if value := p.value(r, depth+1); depth > 0 || string(key) != "toolCallId" {
				hash += p.pair(maphash.Bytes(p.seed, key), value)
			}
		}
		return p.pair('{', hash)
	case c == '[':
		for range r.Elements() {
			hash = p.pair(hash, p.value(r, depth+1))
		}
		return p.pair('[', hash)
	case c == '"':
		return maphash.Bytes(p.seed, jsonscan.Unquote(r.Str()))
	}
	word := r.Raw()
	if f, err := strconv.ParseFloat(string(word), 64); err == nil {
		return p.pair('0', math.Float64bits(f))
	}
	return p.pair('t', maphash.Bytes(p.seed, word))
}

func (p *repeats) pair(a, b uint64) uint64 { return maphash.Comparable(p.seed, [2]uint64{a, b}) }
