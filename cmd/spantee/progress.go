package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
)

// A progress says on the last line of a terminal how much of some work is done. Its
// methods do nothing for nil.
type progress struct {
	w           *proc.Stderr
	text        func(n int64) string // an amount of work
	done, total int64
	drawn       time.Time
}

// newProgress returns nil if stderr is no terminal that can erase a line.
func newProgress(stderr *os.File, w *proc.Stderr, total int64, text func(n int64) string) *progress {
	if !isTerminal(stderr) || resolveDisplay().dumb {
		return nil
	}
	p := &progress{w: w, text: text, total: total}
	p.add(0)
	return p
}

// progressEvery is how often a progress is drawn at most.
const progressEvery = 100 * time.Millisecond

func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.done += int64(n)
	if time.Since(p.drawn) < progressEvery {
		return
	}
	p.drawn = time.Now()
	percent := 100 * min(p.done, p.total) / max(p.total, 1) // a file may grow
	p.w.Status(fmt.Sprintf("%3d%%  %s of %s", percent, p.text(p.done), p.text(p.total)))
}

// clear empties the line.
func (p *progress) clear() {
	if p != nil {
		p.w.Status("")
	}
}
