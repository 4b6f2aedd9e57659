package main

import (
	"path/filepath"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/mapping"
)

// claims tell spantee follow which runs this process traces: the agent may also write a log
// of them. Nothing waits for the disk before the end.
type claims struct {
	follow.Claims
	from time.Time
	done chan struct{} // closed when the last claim was written

	runs    int    // that have begun
	session string // of the last one
}

const (
	// agentAhead is how long before spantee the agent in front of it may begin.
	agentAhead = 2 * time.Second

	// logBehind is how much later than the stream a log may say that a run began.
	logBehind = 10 * time.Second
)

// newClaims returns nil if there is nothing to claim, or if nothing may be kept on disk.
func (t *tracing) newClaims() *claims {
	if t.to.Exporter == nil || t.cfg.spool == nil {
		return nil
	}
	c := &claims{Claims: follow.ClaimsIn(filepath.Dir(t.cfg.spool.Dir)), from: time.Now().Add(-agentAhead), done: make(chan struct{})}
	close(c.done)
	return c
}

// begun claims the run that began last as soon as its session is known: its ids may not be
// known for long.
func (c *claims) begun(stats mapping.Stats) {
	if c == nil || stats.Runs == c.runs && stats.Session == c.session {
		return
	}
	c.runs, c.session = stats.Runs, stats.Session
	c.add(stats.Session)
}

// add claims the runs of a session that have begun since this process did.
func (c *claims) add(session string) {
	if c == nil || session == "" {
		return
	}
	before, done := c.done, make(chan struct{})
	c.done = done
	to := time.Now().Add(logBehind)
	go func() {
		defer close(done)
		<-before
		_ = c.Add(session, c.from, to) // otherwise follow traces the run, too
	}()
}

func (c *claims) wait(deadline time.Time) {
	if c == nil {
		return
	}
	select {
	case <-c.done:
	case <-time.After(time.Until(deadline)):
	}
}
