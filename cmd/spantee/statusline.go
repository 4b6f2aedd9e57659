package main

import (
	"bytes"
	"os"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/runs"
)

// A statusLine says on the last line of a terminal, once a second, what the agent
// does. Whatever else is said takes its place.
type statusLine struct {
	say *reporter

	at   time.Time     // when it was last drawn
	took time.Duration // to find out what to draw
}

// newStatusLine returns nil if another program may print to the terminal, which would
// garble the status line: stdout must not be the terminal, nor a pipe, because whatever
// reads the pipe may print there. A recording has no status.
func newStatusLine(say *reporter, stdout *os.File) *statusLine {
	if say.again != "" || !say.terminal || say.quiet || say.cfg.display.dumb || isTerminal(stdout) {
		return nil
	}
	info, err := stdout.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		return nil
	}
	return &statusLine{say: say}
}

// minStatusWidth is the least width, in columns, in which a status is readable.
const minStatusWidth = 40

// show draws the status, and returns when to do so again, 0 for never. It takes at most
// a twentieth of the mapper's time.
func (s *statusLine) show(now time.Time, of openSource, lastArrival time.Time) (next time.Duration) {
	if s == nil {
		return 0
	}
	out, stderr := s.say.w, s.say.stderr
	if !proc.InForeground(stderr) { // the last line is the shell's
		out.ForgetStatus()
		return time.Second
	}
	style := s.say.cfg.display.treeStyle(s.say.stderr)
	if style.Width < minStatusWidth {
		out.Status("")
		return time.Second
	}
	start := time.Now()
	if start.Sub(s.at) < 20*s.took {
		return time.Second
	}
	var open []*runs.Span
	for out := range of.OpenAt(now) {
		if span := new(runs.Span); span.Read(bytes.Clone(out.Span)) == nil { // the mapper's spans are valid
			open = append(open, span)
		}
	}
	out.Status(style.Status(open, now.Sub(lastArrival)))
	s.at, s.took = time.Now(), time.Since(start)
	return time.Second
}

// erase leaves the line empty.
func (s *statusLine) erase() {
	if s != nil {
		s.say.w.Status("")
	}
}
