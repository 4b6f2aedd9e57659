package tree

import (
	"math"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// silence is how long nothing has to arrive before a status says so.
const silence = 5 * time.Second

// Status returns one line that says what an agent is doing now, for how long,
// and for how long it has been silent. It is empty if no agent is running. Open
// spans end now.
//
//	cursor-agent 1m12s · running shell go test ./... for 12s · 14 tools, 1 failed
func (s Style) Status(open []*tracepb.Span, silent time.Duration) string {
	var current *traceTree
	var latest *node
	runs := 0
	for _, nodes := range byTrace(open) {
		tr := newTraceTree(nodes)
		if tr.root == nil {
			continue
		}
		runs++
		if n := tr.latest(); latest == nil || n.start >= latest.start {
			current, latest = tr, n
		}
	}
	if latest == nil {
		return ""
	}
	took := func(n *node) time.Duration { return time.Duration(min(n.duration(), math.MaxInt64)) }
	since := took(latest)
	if latest == current.root { // between steps
		since = silent
	}

	var tail []string
	if n := int(current.root.attr(semconv.Tools).GetIntValue()); n > 0 {
		tools := plural(n, "tool")
		if failed := current.failedTools(); failed > 0 {
			tools += ", " + thousands(failed) + " failed"
		}
		tail = append(tail, tools)
	}
	if runs > 1 {
		tail = append(tail, plural(runs, "session"))
	}
	if silent > silence {
		tail = append([]string{"silent for " + humanSeconds(silent)}, tail...)
	}
	who := printable(current.first(semconv.AgentName))
	if who == "" {
		who = current.root.title()
	}
	return s.statusLine(who+" "+humanSeconds(took(current.root)), latest, " for "+humanSeconds(since), tail)
}

// statusLine joins what fits. First the tail is left out, from its end, then who;
// then what n is doing is cut.
func (s Style) statusLine(who string, n *node, since string, tail []string) string {
	what := n.doing()
	const mark = " · "
	width := s.width() - 1 // the last column would wrap on some terminals
	room := func() int {
		used := cells(since)
		for _, t := range tail {
			used += cells(mark + t)
		}
		if who != "" {
			used += cells(who + mark)
		}
		return width - used
	}
	enough := min(cells(what), 28)
	for len(tail) > 0 && room() < enough {
		tail = tail[:len(tail)-1]
	}
	if room() < enough {
		who = ""
	}
	line := n.cut(what, max(1, room())) + since
	if who != "" {
		line = s.paint(bold, who) + mark + line
	}
	for _, t := range tail {
		line += s.paint(dim, mark+t)
	}
	return line
}

// latest is the step that started last; of a call and the agent that works for
// it, that is the agent's step.
func (tr *traceTree) latest() *node {
	latest := tr.root
	for _, n := range tr.nodes {
		isStep := n.isCall() || n.is(semconv.OperationApproval) || n.is(semconv.OperationBackground)
		if isStep && (latest == tr.root || n.start >= latest.start) {
			latest = n
		}
	}
	return latest
}

// failedTools is how many tool calls have failed. The root of an open trace counts
// open ones as failures, because they would be if everything ended now.
func (tr *traceTree) failedTools() int {
	failed := int(tr.root.attr(semconv.ToolErrors).GetIntValue())
	for _, n := range tr.nodes {
		if n.is(semconv.OperationExecuteTool) {
			failed--
		}
	}
	return failed
}

// doing says in words what an open span is doing.
func (n *node) doing() string {
	switch {
	case n.is(semconv.OperationChat):
		events := n.span.GetEvents()
		switch {
		case len(events) == 0:
			return "waiting for the model"
		case strings.HasPrefix(events[len(events)-1].GetName(), "thinking"):
			return "thinking"
		}
		return "writing"
	case n.is(semconv.OperationExecuteTool):
		return "running " + n.shortName(true, false)
	case n.is(semconv.OperationApproval):
		return "waiting for approval of " + strings.TrimPrefix(n.title(), "approval ")
	case n.is(semconv.OperationBackground):
		return printable(n.span.GetName())
	}
	return "between steps"
}

// humanSeconds is a duration without fractions: 8s, 1m02s, 1h05m.
func humanSeconds(d time.Duration) string {
	d = max(0, d.Truncate(time.Second))
	if d < time.Minute {
		return strings.TrimSuffix(d.String(), ".0s")
	}
	return humanDuration(uint64(d))
}
