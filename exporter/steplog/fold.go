package steplog

import (
	"fmt"
	"time"

	"github.com/spantee/spantee/exporter/tree"
)

// A Fold says how the log of a CI job folds lines.
type Fold int

// The kinds of fold.
const (
	NoFold Fold = iota
	GitHub      // https://docs.github.com/actions: ::group::
	GitLab      // https://docs.gitlab.com/ci/jobs/job_logs: section_start
)

// fold opens a run's fold before the first of its steps. Folds do not overlap, so that lines of
// several runs at once have none.
func (l *Log) fold(r *run) {
	if l.folded == r {
		return
	}
	l.closeFold()
	if l.cfg.Fold == NoFold || l.several && !l.cfg.Recorded || l.runs[r.id] != r {
		return
	}
	l.folded = r
	about := r.agent
	if r.facts.Prompt != "" {
		about += " · " + r.facts.Prompt
	}
	title := l.cfg.Style.Row([]tree.Cell{{Text: about}})
	switch l.cfg.Fold {
	case GitHub:
		l.write("::group::" + title)
	case GitLab:
		l.write(section("start", r) + title)
	}
}

// closeFold closes the fold that is open.
func (l *Log) closeFold() {
	if l.folded == nil {
		return
	}
	switch l.cfg.Fold {
	case GitHub:
		l.write("::endgroup::\n")
	case GitLab:
		l.write(section("end", l.folded) + "\n")
	}
	l.folded = nil
}

// section returns a mark of GitLab's. The line goes on after it.
func section(edge string, r *run) string {
	const erase = "\x1b[0K"
	return fmt.Sprintf("%ssection_%s:%d:spantee_%x\r%s", erase, edge, time.Now().Unix(), r.id[:min(4, len(r.id))], erase)
}
