package main

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/steplog"
	"github.com/spantee/spantee/exporter/tree"
)

// A display is what the environment says about terminals.
type display struct {
	dumb  bool // they know no escape sequences
	color bool
	ascii bool // the locale is C, in which nothing but ASCII is a character
	fold  steplog.Fold
}

// resolveDisplay takes a missing locale for UTF-8: most containers have none, and their
// terminals show it.
func resolveDisplay() display {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	dumb := os.Getenv("TERM") == "dumb"
	fold := steplog.NoFold
	switch {
	case os.Getenv("GITHUB_ACTIONS") == "true":
		fold = steplog.GitHub
	case os.Getenv("GITLAB_CI") == "true":
		fold = steplog.GitLab
	}
	return display{fold: fold, dumb: dumb, color: os.Getenv("NO_COLOR") == "" && !dumb, ascii: locale == "C" || locale == "POSIX"}
}

// treeStyle returns the style of a tree on f.
func (d display) treeStyle(f *os.File) tree.Style {
	width, terminal := proc.TerminalWidth(f)
	return tree.Style{Color: terminal && d.color, ASCII: d.ascii, Width: width}
}

func isTerminal(f *os.File) bool {
	_, terminal := proc.TerminalWidth(f)
	return terminal
}

// A progress says on the last line of a terminal how much of some work is done. Its
// methods do nothing for nil.
type progress struct {
	w     *proc.Stderr
	text  func(n int64) string // an amount of work
	total int64

	mu    sync.Mutex
	done  int64
	drawn time.Time
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	if time.Since(p.drawn) < progressEvery {
		return
	}
	p.drawn = time.Now()
	percent := 100 * min(p.done, p.total) / max(p.total, 1) // a file may grow
	p.w.Status(fmt.Sprintf("%3d%%  %s of %s", percent, p.text(p.done), p.text(p.total)))
}

// Write adds the bytes that are read of a file.
func (p *progress) Write(b []byte) (int, error) {
	p.add(len(b))
	return len(b), nil
}
