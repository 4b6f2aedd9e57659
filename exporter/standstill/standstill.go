// Package standstill tells a process that stands still from one that computes, or that would
// if it had a processor: on a busy machine, a thread may wait seconds for one.
package standstill

import "time"

// Used returns how long the process's threads have computed and, on Linux, waited for a
// processor. Tests with a clock of their own replace it.
var Used = used

// A Watch looks at the process in steps, while something is waited for.
type Watch struct {
	last time.Duration
	at   time.Time
}

const (
	// least is more than a process takes that only looks.
	least = 5 * time.Millisecond

	// onTime is how late a look is that did not wait for a processor itself.
	onTime = 50 * time.Millisecond
)

// Still reports whether the process has stood still in the step since the last look. Of the
// first step nothing is known, so that short waits, which are the most, cost nothing: it counts
// as still. Where the system does not tell how long threads wait for a processor, a look that comes late does.
func (w *Watch) Still(step time.Duration) bool {
	used, now := Used(), time.Now()
	still := w.at.IsZero() || used-w.last < least && now.Sub(w.at) < step+onTime
	w.last, w.at = used, now
	return still
}
