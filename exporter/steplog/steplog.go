// Package steplog prints a line for each step of an agent's run as the step ends, for people
// who read the log of a CI job and for grep:
//
//	+00:11.0  ✗ shell go       7.99s  exit 1
//	+00:11.8    read           766ms
//	+01:11.0    shell go       running for 60s
//	cursor-agent ended after 1m24s · 6 tools, 1 failed · 79,650 tokens in, 731 out
//	doubts: the last command failed (last_command_failed)
//	✗ shell go  exit 1  at 3.0s
//	shell 95 %, model 5 % (4 waiting)
//
// A line begins with the time since its run began. The last lines of a run are the run's own:
// what failed, and what its time went to. They stand after the fold of a CI job's log, and are
// never cut. A model call has a line if it was slow, failed or has an answer to show.
package steplog

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping/semconv"
)

// MaxWidth is how many columns a line has at most, unless it is a run's own.
const MaxWidth = 100

// A Config says how a Log is written.
type Config struct {
	Style tree.Style
	Fold  Fold

	// Out gets whole lines.
	Out io.Writer

	// Offer, if set, gets the lines of steps instead of Out. It returns false if it would have
	// to wait: the line is lost then.
	Offer func(line []byte) bool

	// Recorded says that the steps are not of now, and that Open is not called. The lines of a
	// run are printed at its end: only then a recording may tell when its first step began.
	Recorded bool

	// Logged says that the steps are from the session log of an agent on this machine. Open
	// spans then end with its last row rather than now.
	Logged bool

	// Compare, if set, says how a run that has ended differs from others, "" if it does not.
	Compare func(trace string) string
}

// A Log prints the steps of runs. It is not safe for concurrent use.
type Log struct {
	cfg     Config
	runs    map[string]*run // that have not ended, by trace id
	ended   []*run          // the last maxEnded, whose background work may still end
	pending int             // lines of all runs
	several bool            // two runs have been open at once: lines say whose they are
	folded  *run            // whose fold is open
	name    int             // width of the column of names
	took    int             // width of the column of durations
	lost    int             // lines, since the last one that was printed
	minutes map[string]int  // that open spans have run, by their ids
	shown   map[string]bool // spans that were printed before they were exported
}

// A run is what the lines of a run need.
type run struct {
	id      string // of the trace
	shared  bool   // other runs may have the same trace
	agent   string // other agents are its sub-agents
	start   uint64 // as far as it is known
	facts   runs.Run
	times   runs.Timeline
	failed  []failure // the first maxFailed tools
	calls   runs.Calls
	slow    []slow // the maxSlow calls that took longest
	turns   runs.Turns
	pending []line // printed in the order of their times
	lastEnd uint64 // of its steps
}

// A line is what is printed of a step.
type line struct {
	at    uint64 // when the step ended
	agent string // whose step it is
	name  string
	color string
	took  string
	note  string // on took
	rest  []tree.Cell
	open  bool // the step goes on: it has no duration
	mark  bool // the step failed
	minor bool // the step has no line
}

// A failure is a tool call that failed.
type failure struct {
	at        uint64 // when it began
	what, why string
}

// A slow step is a call of a tool or a model, without steps of its own.
type slow struct {
	took      time.Duration
	estimated bool
	what      string    // what a call did, or a turn led to
	turn      runs.Turn // of a model call
}

const (
	maxEnded   = 64
	maxPending = 16384

	maxSlow   = 2
	maxFailed = 20
	maxWhy    = 40 // columns of a failure beside what failed
	maxWhat   = 60

	// A model call is slow from minSlow on, if it took a fifth of the run so far.
	minSlow = 10 * time.Second

	// minName and minTook are the least widths of their columns. They grow, names up to two
	// fifths of a line.
	minName = 15
	minTook = 5
)

// New returns a Log.
func New(cfg Config) *Log {
	cfg.Style.Width = min(cmp.Or(cfg.Style.Width, MaxWidth), MaxWidth)
	return &Log{cfg: cfg, runs: map[string]*run{}, shown: map[string]bool{}, name: minName, took: minTook}
}

// Export adds a finished span, which it does not retain. A step is printed with the next call
// of Open, because a chat that called tools may be exported after them.
func (l *Log) Export(span *runs.Span) {
	kind := span.Kind()
	if kind == runs.Deltas { // a part of its chat
		return
	}
	r, late := l.runOf(span)
	r.facts.Add(span)
	r.times.Add(span)
	r.start, r.lastEnd = min(r.start, span.Start), max(r.lastEnd, span.End)
	if kind == runs.Tool && span.Failed && !span.IsScript() && len(r.failed) < maxFailed {
		r.failed = append(r.failed, failure{span.Start, what(span), span.Failure()})
	}
	r.turns.Add(span)
	if r.calls.Add(span) {
		step := slow{took: span.Duration(), estimated: span.Estimated(), what: what(span)}
		if turn := runs.TurnOf(span); kind == runs.Chat && turn.Number > 0 {
			step.turn, step.what = turn, span.Reply()
		}
		r.slow = append(r.slow, step)
		slices.SortStableFunc(r.slow, func(a, b slow) int { return cmp.Compare(b.took, a.took) })
		r.slow = r.slow[:min(len(r.slow), maxSlow)]
	}
	if id := string(span.ID); l.shown[id] {
		delete(l.shown, id)
		return
	}
	switch {
	case span.MayBeRoot():
		r.agent = span.Text(semconv.AgentName) // in a recording, a sub-agent's step may have come first
		l.printPending(r)
		l.closeFold()
		l.printRun(r, span)
		r.shared = len(span.Parent) > 0
		l.end(r)
	case late:
		l.print(r, r.line(span))
	default:
		l.hold(r, r.line(span))
	}
}

// runOf returns the run of a span, and whether the run has ended.
func (l *Log) runOf(span *runs.Span) (r *run, late bool) {
	id := string(span.TraceID)
	if r = l.runs[id]; r != nil {
		return r, false
	}
	for _, r := range slices.Backward(l.ended) {
		if r.id == id && !span.MayBeRoot() && (!r.shared || span.Start < r.lastEnd) {
			l.several = l.several || len(l.runs) > 0
			return r, true
		}
	}
	r = &run{id: id, agent: span.Text(semconv.AgentName), start: span.Start}
	l.runs[id] = r
	l.several = l.several || len(l.runs) > 1
	return r, false
}

// hold adds a line to those that are pending.
func (l *Log) hold(r *run, step line) {
	r.pending = append(r.pending, step)
	if l.pending++; l.pending >= maxPending {
		l.printPending(r)
	}
}

func (l *Log) end(r *run) {
	delete(l.runs, r.id)
	if len(l.ended) == maxEnded {
		l.ended = slices.Delete(l.ended, 0, 1)
	}
	l.ended = append(l.ended, &run{id: r.id, shared: r.shared, agent: r.agent, start: r.start, lastEnd: r.lastEnd})
}

func newLine(span *runs.Span) line {
	return line{at: span.End, agent: span.Text(semconv.AgentName), name: tree.Title(span), color: tree.Color(span)}
}

// line describes a finished span.
func (r *run) line(span *runs.Span) line {
	step := newLine(span)
	if d := span.Duration(); d >= time.Millisecond { // what has no time ends earlier
		step.took = tree.Duration(d)
		if span.Estimated() {
			step.note = "estimated"
		}
	}
	step.mark = span.Failed
	if about, isPath := span.Detail(); about != "" {
		step.name = cmp.Or(span.Text(semconv.ToolName), step.name)
		step.rest = append(step.rest, tree.Cell{Text: about, Path: isPath, Color: tree.Dim})
	}
	step.add(tree.Red, span.Failure())
	var facts []string
	switch span.Kind() {
	case runs.Chat:
		if first := span.FirstChunk(); first > 0 {
			facts = append(facts, "first chunk "+tree.Duration(first))
		}
		facts = append(facts, tree.Used(span.Usage())...)
	case runs.Agent:
		stated := span.Stated()
		facts = append(facts, tree.Summary(&runs.Run{Counts: runs.Counts{Tools: int(stated.Tools), ToolErrors: int(stated.ToolErrors)}}))
	}
	step.add("", strings.Join(facts, ", "))
	if span.Kind() == runs.Chat {
		answer := span.Answer()
		step.add(tree.Dim, answer)
		isSlow := span.Duration() >= minSlow && span.Duration() >= time.Duration(span.End-min(r.start, span.End))/5
		step.minor = !span.Failed && answer == "" && !isSlow
	}
	return step
}

func (s *line) add(color, text string) {
	if text != "" {
		s.rest = append(s.rest, tree.Cell{Text: text, Color: color})
	}
}

// what says what a call did.
func what(span *runs.Span) string {
	if about, _ := span.Detail(); about != "" {
		return span.ToolName() + " " + about
	}
	return tree.Title(span)
}

// printRun prints the run's own lines: what it did, what failed, and what its time went to.
func (l *Log) printRun(r *run, root *runs.Span) {
	style := l.cfg.Style
	style.Width = math.MaxInt
	row := func(cells ...tree.Cell) {
		if l.several {
			cells = append([]tree.Cell{r.tag()}, cells...)
		}
		l.write(style.Row(cells))
	}
	head, color := tree.Title(root)+" ended", tree.Bold
	if root.Failed {
		head, color = "✗ "+tree.Title(root)+" failed", tree.Red
	}
	if !r.timeless(l) && root.Duration() >= time.Millisecond {
		head += " after " + tree.Duration(root.Duration())
	}
	if root.Failed {
		head += ": " + root.Failure()
	}
	row(tree.Cell{Text: head + " · " + tree.Summary(&r.facts), Color: color})
	var doubts []string
	for _, d := range r.facts.Doubts {
		doubts = append(doubts, d.String())
	}
	if len(doubts) > 0 {
		row(tree.Cell{Text: "doubts: " + strings.Join(doubts, " · "), Color: tree.Yellow})
	}
	slices.SortStableFunc(r.failed, func(a, b failure) int { return cmp.Compare(a.at, b.at) })
	var widths [2]int
	for _, f := range r.failed {
		widths[0] = min(max(widths[0], tree.Columns("✗ "+f.what)), maxWhat)
		widths[1] = min(max(widths[1], tree.Columns(f.why)), maxWhy)
	}
	for _, f := range r.failed {
		cells := []tree.Cell{{Text: "✗ " + f.what, Width: widths[0], Color: tree.Red}, {Text: f.why, Width: widths[1]}}
		if !r.timeless(l) {
			cells = append(cells, tree.Cell{Text: "at " + tree.Duration(time.Duration(f.at-min(r.start, f.at))), Color: tree.Dim})
		}
		row(cells...)
	}
	if more := r.facts.ToolErrors - len(r.failed); more > 0 && len(r.failed) == maxFailed {
		row(tree.Cell{Text: fmt.Sprintf("✗ and %d more", more), Color: tree.Red})
	}
	more := []string{r.times.Account().String(), r.slowest(root)}
	if l.cfg.Compare != nil {
		more = append(more, l.cfg.Compare(r.id))
	}
	for _, text := range more {
		if text != "" {
			row(tree.Cell{Text: text, Color: tree.Dim})
		}
	}
}

// slowest says which of the steps of a long run took at least a twentieth of it, "" if none did or
// there are few.
func (r *run) slowest(root *runs.Span) string {
	var list []string
	for _, s := range r.slow {
		if s.took >= root.Duration()/20 {
			if s.turn.Number > 0 {
				s.what = r.turns.Name(s.turn, s.what)
			}
			list = append(list, tree.Line(s.what, maxWhat)+" "+tree.Took(s.took, s.estimated))
		}
	}
	if len(list) == 0 || root.Duration() < minSlow || r.facts.Tools <= maxSlow {
		return ""
	}
	return "slowest: " + strings.Join(list, ", ")
}

// tag tells the lines of a run from those of others.
func (r *run) tag() tree.Cell {
	return tree.Cell{Text: hex.EncodeToString([]byte(r.id[:min(4, len(r.id))])), Color: tree.Dim}
}

// timeless reports whether only the order of the steps is known.
func (r *run) timeless(l *Log) bool { return l.cfg.Recorded && r.facts.Timeless() }

// printPending prints what a run has pending.
func (l *Log) printPending(r *run) {
	slices.SortStableFunc(r.pending, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, step := range r.pending {
		l.print(r, step)
	}
	l.pending -= len(r.pending)
	r.pending = nil
}

// print prints the line of a step.
func (l *Log) print(r *run, step line) {
	if step.minor {
		return
	}
	l.fold(r)
	l.write(l.cfg.Style.Row(l.row(r, step)))
}

// row returns the cells of a line.
func (l *Log) row(r *run, step line) []tree.Cell {
	at := since(r.start, step.at)
	if r.timeless(l) {
		at, step.took, step.note = "", "", ""
	}
	row := []tree.Cell{{Text: at, Width: max(len("+00:00.0"), len(at)), Color: tree.Dim}}
	if l.several {
		row = append(row, r.tag())
	}
	name := step.name
	if step.agent != r.agent { // how deep it is shows only when the spans around it end
		name = "  " + name
	}
	mark := "  "
	if step.mark {
		mark = "✗ "
	}
	name = mark + name
	l.name = min(max(l.name, tree.Columns(name)), max(minName, l.cfg.Style.Width*2/5))
	row = append(row, tree.Cell{Text: name, Width: l.name, Color: step.color})
	if l.took = max(l.took, tree.Columns(step.took)); !step.open {
		row = append(row, tree.Cell{Text: step.took, Width: l.took})
	}
	if step.note != "" {
		row = append(row, tree.Cell{Text: step.note, Width: len(step.note), Color: tree.Dim})
	}
	if len(step.rest) > 1 && step.rest[1].Color == tree.Red { // what failed leaves room for why
		about, why := &step.rest[0], &step.rest[1]
		room := l.cfg.Style.Width - min(tree.Columns(why.Text), maxWhy) - 2
		for _, c := range row {
			room -= max(tree.Columns(c.Text), c.Width) + 2
		}
		about.Width = min(tree.Columns(about.Text), max(room, minTook))
	}
	return append(row, step.rest...)
}

// since returns the time since a run began.
func since(start, at uint64) string {
	tenths := (max(at, start) - start + 5e7) / 1e8
	minutes := tenths / 600
	clock := fmt.Sprintf("%02d:%02d.%d", minutes%60, tenths/10%60, tenths%10)
	if minutes >= 60 {
		clock = fmt.Sprintf("%d:%s", minutes/60, clock)
	}
	return "+" + clock
}

// write writes whole lines, or counts them as lost.
func (l *Log) write(lines string) {
	if l.cfg.Offer == nil {
		_, _ = io.WriteString(l.cfg.Out, lines) // stderr is where errors are told
		return
	}
	if l.lost > 0 {
		lines = l.loss() + lines
	}
	if l.cfg.Offer([]byte(lines)) {
		l.lost = 0
	} else {
		l.lost++
	}
}

func (l *Log) loss() string {
	return l.cfg.Style.Row([]tree.Cell{{Text: fmt.Sprintf("… lines lost here, because stderr was full: %d", l.lost)}})
}

// Close prints what is left. It waits for Out.
func (l *Log) Close() {
	l.cfg.Offer = nil
	if l.lost > 0 {
		l.write(l.loss())
	}
	for _, r := range l.runs {
		l.printPending(r)
	}
	l.closeFold()
}
