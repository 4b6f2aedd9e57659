package main

import (
	"sync"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
)

// claims tell spantee follow which runs this process traces: the agent may also write a log
// of them. Nothing waits for the disk before the end.
type claims struct {
	follow.Claims
	from    time.Time
	disk    sync.Mutex     // guards it: each goroutine that it hangs takes a thread
	writing sync.WaitGroup // the claims

	session string // of the last claim
	runs    int    // that had begun by then
}

const (
	// agentAhead is how long before spantee the agent in front of it may begin.
	agentAhead = 2 * time.Second

	// logBehind is how much later than the stream a log may say that a run began.
	logBehind = 10 * time.Second
)

// begun claims a run of a session. runs counts the runs of the stream until then, so that
// the session's next run is claimed, too. begun is called as soon as the session is known,
// because the run's ids may not be known for long, and again when they are, because several
// runs may begin at once.
func (c *claims) begun(session string, runs int) {
	if c == nil || session == "" || session == c.session && runs == c.runs {
		return
	}
	c.session, c.runs = session, runs
	to := time.Now().Add(logBehind)
	c.writing.Go(func() {
		c.disk.Lock()
		defer c.disk.Unlock()
		_ = c.Add(session, c.from, to) // otherwise follow traces the run, too
	})
}

func (c *claims) wait(deadline time.Time) {
	if c != nil {
		proc.Unless(time.After(time.Until(deadline)), func() any { c.writing.Wait(); return nil })
	}
}
