package tree

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// silence is how long an agent must be silent before its status says so.
const silence = 5 * time.Second

// Status returns one line that says what an agent is doing now, for how long,
// and for how long it has been silent. It is empty if no agent is running. Open
// spans end now.
//
//	cursor-agent 1m12s · running shell go test ./... for 12s · 14 tools, 1 failed
func (s Style) Status(open []*runs.Span, silent time.Duration) string {
	slices.SortFunc(open, func(a, b *runs.Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	latest := runs.Latest(open)
	if latest == nil {
		return ""
	}
	traces := make(map[string]bool)
	var t trace // that of latest
	for _, span := range open {
		traces[string(span.TraceID)] = true
		if string(span.TraceID) == string(latest.TraceID) {
			t.add(span)
		}
	}
	t.link()
	i := slices.IndexFunc(t.nodes, func(n *node) bool { return n.id == string(latest.ID) })
	if t.root == nil || i < 0 { // i is of too many spans
		return ""
	}
	since := latest.Duration()
	if latest.Kind() == runs.Agent { // between steps
		since = silent
	}

	var tail []string
	if n := int(t.run.Stated.Tools); n > 0 {
		tools := Plural(n, "tool")
		// The root of an open trace counts open calls as failures, because they would be
		// if everything ended now.
		if failed := int(t.run.Stated.ToolErrors) - t.run.Tools; failed > 0 {
			tools += ", " + Thousands(failed) + " failed"
		}
		tail = append(tail, tools)
	}
	if len(traces) > 1 {
		tail = append(tail, Plural(len(traces), "session"))
	}
	if silent > silence {
		tail = append([]string{"silent for " + humanSeconds(silent)}, tail...)
	}
	who := cmp.Or(Printable(t.run.Agent), t.root.title) + " " + humanSeconds(t.root.duration())
	n := t.nodes[i]
	return s.statusLine(who, n, n.doing(latest.LastEvent()), " for "+humanSeconds(since), tail)
}

// statusLine joins what fits. If the line is too long, the tail is left out first, from its
// end, then who; then what n is doing is cut.
func (s Style) statusLine(who string, n *node, what, since string, tail []string) string {
	const mark = " · "
	others := append([]string{who}, tail...)
	room := func() int {
		room := s.width() - 1 - cells(since) // the last column would wrap on some terminals
		for _, other := range others {
			room -= cells(mark + other)
		}
		return room
	}
	for len(others) > 0 && room() < min(cells(what), 28) {
		others = others[:len(others)-1]
	}
	line := n.cut(what, max(1, room())) + since
	for i, other := range others {
		if i == 0 {
			line = s.paint(bold, who) + mark + line
		} else {
			line += s.paint(dim, mark+other)
		}
	}
	return s.encode(line)
}

// doing says in words what an open span is doing. lastEvent tells whether a
// model has begun to answer.
func (n *node) doing(lastEvent string) string {
	switch n.kind {
	case runs.Chat:
		switch {
		case strings.HasPrefix(lastEvent, "text"):
			return "writing"
		case strings.HasPrefix(lastEvent, "thinking"):
			return "thinking"
		case lastEvent == semconv.EventRetry:
			return "retrying the model call"
		case lastEvent == semconv.EventConnectionLost:
			return "reconnecting to the model"
		}
		return "waiting for the model"
	case runs.Tool:
		return "running " + n.call()
	case runs.Approval:
		return "waiting for approval of " + strings.TrimPrefix(n.title, "approval ")
	case runs.Background:
		return n.title
	}
	return "between steps"
}

// humanSeconds is a duration without fractions: 8s, 1m02s, 1h05m.
func humanSeconds(d time.Duration) string {
	d = max(0, d.Truncate(time.Second))
	if d < time.Minute {
		return d.String()
	}
	return Duration(d)
}
