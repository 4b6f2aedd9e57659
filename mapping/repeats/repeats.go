// Package repeats detects an agent that repeats itself.
package repeats

import (
	"hash/maphash"
	"math"
	"strconv"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/jsonscan"
)

// maxPeriod is how many calls a loop may consist of: A A A has one, A B A B A B
// two.
const maxPeriod = 4

// maxDepth is how deep arguments are compared as values. Deeper values are compared
// as text.
const maxDepth = 32

// Repeats are an agent's latest calls. They are remembered only by a hash with a random seed
// that never leaves the process: the hash reveals nothing, whatever the content level.
type Repeats struct {
	seed    maphash.Seed
	seeded  bool
	last    [maxPeriod]uint64 // calls, the newest first
	streaks [maxPeriod]int    // by period: how many calls in a row equalled the call one period before

	Max int // how often a call was made in a row, at most
}

// Called adds a call. It returns how many times in a row the agent has made this
// call, or the round of calls that it completes; 1 if the call is new.
func (p *Repeats) Called(call *agent.Tool) int {
	if !p.seeded {
		p.seed, p.seeded = maphash.MakeSeed(), true
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
	p.Max = max(p.Max, repeat)
	return repeat
}

// hash returns the hash of a tool and its arguments, however their JSON is
// formatted. It is never zero.
func (p *Repeats) hash(call *agent.Tool) uint64 {
	arguments := p.value(&jsonscan.Reader{B: call.Arguments}, 0)
	return p.pair(maphash.String(p.seed, call.Name), arguments) | 1
}

// value hashes the next value. It ignores the order of members, and the id of the
// call, which some tools have among their arguments.
func (p *Repeats) value(r *jsonscan.Reader, depth int) (hash uint64) {
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

// pair hashes two numbers.
func (p *Repeats) pair(a, b uint64) uint64 { return maphash.Comparable(p.seed, [2]uint64{a, b}) }
