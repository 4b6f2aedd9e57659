package main

import (
	"os"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A statusLine says on the last line of a terminal, once a second, what the agent
// does. Whatever else is said takes its place.
type statusLine struct {
	say *reporter

	at   time.Time     // it was drawn last
	took time.Duration // to find out what to draw
}

// newStatusLine returns nil where nothing may be drawn. A status line stands
// alone only if nobody else prints to the terminal: spantee's stdout must lead
// elsewhere, and what reads a pipe may well print there.
func newStatusLine(say *reporter, stdout *os.File) *statusLine {
	if !say.terminal || say.quiet || say.cfg.dumb || isTerminal(stdout) {
		return nil
	}
	info, err := stdout.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		return nil
	}
	return &statusLine{say: say}
}

// minStatusWidth is what a status needs to say something.
const minStatusWidth = 40

// showStatus draws the status, and returns when to do so again, 0 for never. It
// takes at most a twentieth of the mapper's time.
func (t *tracing) showStatus(now time.Time) (next time.Duration) {
	s := t.status
	if s == nil || !t.live {
		return 0
	}
	out, stderr := s.say.w, s.say.stderr
	if !inForeground(stderr) { // the last line is the shell's
		out.forgetStatus()
		return time.Second
	}
	style := s.say.treeStyle()
	if style.Width < minStatusWidth {
		out.status("")
		return time.Second
	}
	start := time.Now()
	if start.Sub(s.at) < 20*s.took {
		return time.Second
	}
	var open []*tracepb.Span
	t.mapper.OpenAt(now, func(span []byte, _ string) {
		if decoded := new(tracepb.Span); proto.Unmarshal(span, decoded) == nil { // the mapper's spans are valid
			open = append(open, decoded)
		}
	})
	out.status(style.Status(open, now.Sub(t.heard)))
	s.at, s.took = time.Now(), time.Since(start)
	return time.Second
}
