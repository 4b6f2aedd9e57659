// Package tree draws traces as text waterfalls, for a terminal.
package tree

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Style says how to draw traces: one line per span, with a bar for its time. The
// zero Style is ready to use.
//
//	invoke_agent cursor-agent  ━━━━━━━━━━━━━━ 12.4s
//	├─ chat GPT-5              ░█             1.82s  first chunk 1.20s · 213 deltas
//	├─ execute_tool read         ▌            130ms
//	├─ execute_tool shell        ███▌         2.91s  ✗ exit 3 · go
//	└─ chat GPT-5                   ░████████ 7.65s  first chunk 980ms · 1.2k deltas
//	░ waiting for the model or an approval
//
// The slowest calls follow, with what they were about.
//
// The text is safe to print on a terminal, whatever names and attributes contain.
type Style struct {
	Width int  // columns, 80 if zero
	Color bool // with ANSI escapes
	Lines int  // spans drawn of one trace, 200 if zero: the failed and the longest
}

// Render draws the traces that spans belong to, in the order they started.
func (s Style) Render(spans []*tracepb.Span) string {
	var drawn []string
	for _, nodes := range byTrace(spans) {
		drawn = append(drawn, s.draw(nodes, tally{}))
	}
	return strings.Join(drawn, "\n")
}

// byTrace groups spans by trace, the first to start first.
func byTrace(spans []*tracepb.Span) [][]*node {
	index := make(map[string]int)
	var traces [][]*node
	for _, span := range spans {
		i, ok := index[string(span.GetTraceId())]
		if !ok {
			i = len(traces)
			index[string(span.GetTraceId())] = i
			traces = append(traces, nil)
		}
		traces[i] = append(traces[i], newNode(span))
	}
	for _, nodes := range traces {
		slices.SortFunc(nodes, byTime)
	}
	slices.SortStableFunc(traces, func(a, b []*node) int { return byTime(a[0], b[0]) })
	return traces
}

const minWidth = 40

func (s Style) width() int { return max(minWidth, cmp.Or(s.Width, 80)) }

// draw draws one trace; lost are its spans that were not kept.
func (s Style) draw(nodes []*node, lost tally) string {
	s.Width = s.width()
	all := lost
	tr := newTraceTree(fold(nodes))
	for _, n := range tr.nodes {
		all.add(n)
	}
	hidden := tr.hide(cmp.Or(s.Lines, 200), lost)

	var b strings.Builder
	s.header(&b, tr, all)
	s.waterfall(&b, tr)
	waits := slices.ContainsFunc(tr.nodes, func(n *node) bool { return !n.hidden && n.waited() > n.start })
	if waits {
		b.WriteString(s.paint(dim, cut(waitLegend, s.Width)) + "\n")
	}
	if hidden.spans > 0 {
		failed := "none"
		if hidden.failed > 0 {
			failed = thousands(hidden.failed)
		}
		more := fmt.Sprintf("… %s not shown, %s failed", plural(hidden.spans, "shorter span"), failed)
		b.WriteString(s.paint(dim, cut(more, s.Width)) + "\n")
	}
	s.slowest(&b, tr)
	return b.String()
}

// hide hides all but limit spans.
func (tr *traceTree) hide(limit int, hidden tally) tally {
	if len(tr.nodes) <= limit {
		return hidden
	}
	ranked := slices.SortedFunc(slices.Values(tr.nodes), byWeight)
	for _, n := range ranked[limit:] {
		n.hidden = true
		hidden.add(n)
	}
	tr.grow()
	return hidden
}

// header writes what the trace is: as many facts per line as fit.
func (s Style) header(b *strings.Builder, tr *traceTree, all tally) {
	type fact struct{ color, text string }
	facts := []fact{
		{bold, tr.first(semconv.AgentName)},
		{"", tr.first(semconv.RequestModel)},
		{"", humanDuration(tr.end - tr.start)},
		{"", plural(all.tools, "tool")},
	}
	if all.failedTools > 0 {
		facts = append(facts, fact{red, thousands(all.failedTools) + " failed"})
	}
	if tr.root == nil {
		facts = append(facts, fact{red, "no root span"})
	} else {
		for _, text := range tr.root.totals() {
			facts = append(facts, fact{"", text})
		}
	}
	facts = append(facts, fact{dim, "trace " + hex.EncodeToString(tr.nodes[0].span.GetTraceId())})

	column := 0
	for _, f := range facts {
		if f.text == "" {
			continue
		}
		text := cut(printable(f.text), s.Width)
		switch {
		case column == 0:
		case column+3+cells(text) > s.Width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(s.paint(dim, " · "))
			column += 3
		}
		b.WriteString(s.paint(f.color, text))
		column += cells(text)
	}
	b.WriteString("\n\n")
}

// totals are what the run used, and what it had to do again.
func (n *node) totals() (facts []string) {
	in, out := n.either(semconv.InputTokens, semconv.UsageInput), n.either(semconv.OutputTokens, semconv.UsageOutput)
	switch {
	case in != nil:
		facts = append(facts, fmt.Sprintf("%s tokens in, %s out", thousands(int(in.GetIntValue())), thousands(int(out.GetIntValue()))))
	case out != nil:
		facts = append(facts, thousands(int(out.GetIntValue()))+" tokens out")
	}
	if cost := n.either(semconv.UsageCost, semconv.UsageTotalCost).GetDoubleValue(); cost > 0 {
		facts = append(facts, money(cost))
	}
	for _, count := range []struct{ key, one, many string }{
		{semconv.Retries, "retry", "retries"},
		{semconv.Reconnects, "reconnect", "reconnects"},
		{semconv.Compactions, "compaction", "compactions"},
	} {
		switch times := int(n.attr(count.key).GetIntValue()); times {
		case 0:
		case 1:
			facts = append(facts, "1 "+count.one)
		default:
			facts = append(facts, thousands(times)+" "+count.many)
		}
	}
	return facts
}

// either is the value of the first of two attributes that the span has: a root
// has a total, or its model calls have counts and it has their sum.
func (n *node) either(key, other string) *commonpb.AnyValue {
	if v := n.attr(key); v != nil {
		return v
	}
	return n.attr(other)
}

// first returns the value of an attribute on the root, or else on the first span
// that has it.
func (tr *traceTree) first(key string) string {
	if tr.root != nil {
		if v := tr.root.attr(key).GetStringValue(); v != "" {
			return v
		}
	}
	for _, n := range tr.nodes {
		if v := n.attr(key).GetStringValue(); v != "" {
			return v
		}
	}
	return ""
}

// notes returns what the bar does not show, most important first.
func (n *node) notes() []string {
	var notes []string
	if n.failed() {
		notes = append(notes, "✗ "+n.whyFailed())
	}
	if v := n.attr(semconv.TimeToFirstChunk); v != nil && n.is(semconv.OperationChat) {
		notes = append(notes, "first chunk "+humanDuration(uint64(v.GetDoubleValue()*1e9)))
	}
	switch {
	case n.is(semconv.OperationInvokeAgent): // its chats state the counts
	case n.deltas == 1:
		notes = append(notes, "1 delta")
	case n.deltas > 1:
		notes = append(notes, roughly(n.deltas)+" deltas")
	}
	if v := n.attr(semconv.ProcessExecutable).GetStringValue(); v != "" && n.detail() == "" && !strings.HasSuffix(n.span.GetName(), " "+v) {
		notes = append(notes, printable(v))
	}
	if n.attr(semconv.StartMissing).GetBoolValue() {
		notes = append(notes, "start missing")
	}
	if n.attr(semconv.TimeEstimated).GetBoolValue() {
		notes = append(notes, "times estimated")
	}
	if d := n.detail(); d != "" {
		notes = append(notes, d)
	}
	return notes
}

// detail returns what a tool call was about, if that was recorded: a command on one
// line, or a path relative to the agent's directory.
func (n *node) detail() string {
	key := n.detailKey()
	if key == "" {
		return ""
	}
	v := n.attr(key).GetStringValue()
	if key == semconv.FilePath {
		v = strings.TrimPrefix(v, n.directory()+"/")
	}
	return printable(strings.Join(strings.Fields(v), " "))
}

func (n *node) isPath() bool { return n.detailKey() == semconv.FilePath }

// detailKey is the attribute that tells it, "" if there is none.
func (n *node) detailKey() string {
	if !n.is(semconv.OperationExecuteTool) {
		return ""
	}
	for _, key := range detailKeys {
		if n.attr(key).GetStringValue() != "" {
			return key
		}
	}
	return ""
}

// directory returns the working directory of the agent that n belongs to.
func (n *node) directory() string {
	for p := n.parent; p != nil; p = p.parent {
		if dir := p.attr(semconv.ProcessWorkingDirectory).GetStringValue(); dir != "" {
			return dir
		}
	}
	return ""
}

// whyFailed says in words why a span failed.
func (n *node) whyFailed() string {
	for _, p := range n.parts {
		if p.failed() {
			return p.whyFailed()
		}
	}
	if code := n.attr(semconv.ProcessExitCode).GetIntValue(); code != 0 {
		return "exit " + strconv.FormatInt(code, 10)
	}
	kind, message := n.attr(semconv.ErrorType).GetStringValue(), n.span.GetStatus().GetMessage()
	if kind != "" && message != "" && !strings.HasPrefix(message, kind) {
		return printable(kind + ": " + message)
	}
	return printable(cmp.Or(message, kind, "error"))
}
