package steplog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping/semconv"
)

// maxHeld is how long the line of a chat that called tools is held back. Until the next chat
// begins, its tokens may not be known.
const maxHeld = 10 * time.Second

// Open gets the open spans about once a second, as they would end now. It prints the steps that
// have ended since the last call, and a line a minute for each that goes on, so that a reader
// sees where an agent hangs, and a watchdog that looks for output does not kill it. silent is
// how long the stream has been silent.
func (l *Log) Open(open []*runs.Span, silent time.Duration) {
	if l.cfg.Recorded {
		return
	}
	byTrace := map[string][]*runs.Span{}
	for _, span := range open {
		id := string(span.TraceID)
		byTrace[id] = append(byTrace[id], span)
	}
	maps.DeleteFunc(l.runs, func(id string, r *run) bool { // it has got its final id
		return r.facts.Spans == 0 && byTrace[id] == nil
	})
	l.several = l.several || len(byTrace) > 1
	before := l.minutes
	l.minutes = map[string]int{}
	for _, span := range open {
		if spans := byTrace[string(span.TraceID)]; spans != nil {
			s := newSnapshot(spans, silent)
			if l.cfg.Logged {
				s.now = max(s.now, uint64(time.Now().UnixNano()))
			}
			s.addTo(l, before)
			delete(byTrace, string(span.TraceID))
		}
	}
	inOrder := slices.SortedFunc(maps.Values(l.runs), func(a, b *run) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.id, b.id))
	})
	for _, r := range inOrder {
		l.printPending(r)
	}
}

// A snapshot is what a run has open.
type snapshot struct {
	now        uint64 // on the clock of the run
	answered   uint64 // when the last answer ended
	silent     time.Duration
	root       *runs.Span
	ended      []*runs.Span // chats that called tools: they are exported when the next one begins
	steps      []*runs.Span // that go on, without those that wait for others
	background []*runs.Span
}

// hasAnswered reports whether the model of an open chat has ended its answer. Other spans that
// are open would fail if they ended now.
func hasAnswered(span *runs.Span) bool { return span.Kind() == runs.Chat && !span.Failed }

// calledTool is why a model that calls tools ends its answer.
const calledTool = "tool_call"

func newSnapshot(open []*runs.Span, silent time.Duration) *snapshot {
	s := &snapshot{root: open[0], silent: silent}
	parents, asking := map[string]bool{}, map[string]bool{}
	for _, span := range open {
		if span.Kind() != runs.Deltas && !hasAnswered(span) {
			parents[string(span.Parent)] = true
		}
		if span.Kind() == runs.Approval { // its chat has said all that it can, and its call does not run
			asking[string(span.Parent)], asking[span.Text(semconv.ToolCallID)] = true, true
		}
	}
	for _, span := range open {
		kind := span.Kind()
		if s.now = max(s.now, span.End); span.MayBeRoot() {
			s.root = span
		}
		switch {
		case kind == runs.Deltas, parents[string(span.ID)], kind == runs.Chat && asking[string(span.Parent)],
			kind == runs.Tool && span.Has(semconv.ToolCallID) && asking[span.Text(semconv.ToolCallID)]:
		case hasAnswered(span):
			s.answered = max(s.answered, span.End)
			if slices.Contains(span.List(semconv.FinishReasons), calledTool) { // else it may go on
				s.ended = append(s.ended, span)
			}
		case kind == runs.Background:
			s.background = append(s.background, span)
		default:
			s.steps = append(s.steps, span)
		}
	}
	if len(s.steps) == 0 && len(s.background) > 0 { // else the agent's own steps are enough
		s.steps = s.background[:1]
	}
	return s
}

// addTo adds what is due to the pending lines of the run. before says how many minutes steps
// had run before.
func (s *snapshot) addTo(l *Log, before map[string]int) {
	r := l.runs[string(s.root.TraceID)]
	var due []line
	for _, span := range s.steps {
		since := span.Start
		if span.Kind() == runs.Agent { // between steps
			if since = max(since, s.answered); r != nil {
				since = max(since, r.lastEnd)
			}
		}
		age := time.Duration(s.now-min(since, s.now)) + time.Microsecond // which spans end earlier
		minutes := int(age / time.Minute)
		l.minutes[string(span.ID)] = minutes
		if minutes > before[string(span.ID)] {
			step := newLine(span)
			step.at, step.open, step.color = s.now, true, tree.Dim // an open span counts as failed
			step.add("", s.doing(span, age))
			due = append(due, step)
		}
	}
	var ended []*runs.Span
	for _, span := range s.ended {
		isDue := len(due) > 0 || s.now-span.End >= uint64(maxHeld) || r != nil && r.hasLater(span.End)
		if isDue && !l.shown[string(span.ID)] {
			ended = append(ended, span)
		}
	}
	if r == nil && len(due)+len(ended) == 0 {
		return
	}
	r, late := l.runOf(s.root)
	if !late {
		r.agent, r.start = s.root.Text(semconv.AgentName), min(r.start, s.root.Start)
	}
	for _, span := range ended {
		l.shown[string(span.ID)] = true
		l.hold(r, r.line(span))
	}
	for _, step := range due {
		l.hold(r, step)
	}
	if late {
		l.printPending(r)
	}
}

func (r *run) hasLater(at uint64) bool {
	return slices.ContainsFunc(r.pending, func(l line) bool { return l.at > at })
}

// doing says what an open step is doing, and for how long.
func (s *snapshot) doing(span *runs.Span, age time.Duration) string {
	doing := "running"
	switch span.Kind() {
	case runs.Chat:
		doing = tree.Doing(span)
	case runs.Approval:
		doing = "waiting"
	case runs.Agent:
		doing = "silent"
	}
	text := doing + " for " + spoken(age)
	if span.Kind() == runs.Chat && span.LastEvent() != "" && s.silent >= time.Minute {
		text += ", silent for " + spoken(s.silent)
	}
	return text
}

// spoken is a duration of a minute or more.
func spoken(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return tree.Duration(d.Truncate(time.Second))
}
