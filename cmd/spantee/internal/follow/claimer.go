package follow

import (
	"sync"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
)

// A Claimer claims the runs that this process traces, because the agent may also write a log
// of them. Nothing waits for the disk before the end. Its methods do nothing for nil.
type Claimer struct {
	Claims
	from    time.Time
	writing sync.WaitGroup // the goroutine that writes, if there is one

	mu      sync.Mutex
	pending []string // sessions that are to be claimed; nil if nothing writes

	session string // of the last claim
	runs    int    // that had begun by then
}

const (
	// agentAhead is how long before spantee the agent in front of it may begin.
	agentAhead = 2 * time.Second

	// logBehind is how much later than the stream a log may say that a run began.
	logBehind = 10 * time.Second
)

// NewClaimer returns a Claimer of runs that begin from now on.
func NewClaimer(stateDir string) *Claimer {
	return &Claimer{Claims: ClaimsIn(stateDir), from: time.Now().Add(-agentAhead)}
}

// Begun claims a run of a session. runs counts the runs of the stream until then, so that
// the session's next run is claimed, too. Begun is called as soon as the session is known,
// because the run's ids may not be known for long, and again when they are, because several
// runs may begin at once.
func (c *Claimer) Begun(session string, runs int) {
	if c == nil || session == "" || session == c.session && runs == c.runs {
		return
	}
	c.session, c.runs = session, runs
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.writing.Go(c.write)
	}
	c.pending = append(c.pending, session)
}

// write claims what is pending. There is only one that does, because each goroutine that the
// disk hangs takes a thread.
func (c *Claimer) write() {
	for {
		c.mu.Lock()
		sessions := c.pending
		if c.pending = sessions[len(sessions):]; len(sessions) == 0 {
			c.pending = nil
		}
		c.mu.Unlock()
		if len(sessions) == 0 {
			return
		}
		_ = c.Add(sessions, c.from, time.Now().Add(logBehind)) // otherwise follow traces the runs, too
	}
}

// Wait waits until the claims are written.
func (c *Claimer) Wait(deadline time.Time) {
	if c != nil {
		proc.Unless(time.After(time.Until(deadline)), func() any { c.writing.Wait(); return nil })
	}
}
