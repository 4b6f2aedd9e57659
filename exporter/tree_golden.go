package exporter

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Golden writes traces out in full, in the form that the tests keep and people
// read in diffs: always the same order, times in seconds since the trace began,
// and no ids: a parent is where a span is indented, and an id of one span on
// another is its name and start.
func Golden(spans []*tracepb.Span) string {
	var drawn []string
	for _, nodes := range byTrace(spans) {
		g := golden{traceTree: newTraceTree(nodes), byID: make(map[string]*node)}
		for _, n := range nodes {
			g.byID[n.id()] = n
		}
		g.write()
		drawn = append(drawn, g.b.String())
	}
	return strings.Join(drawn, "\n")
}

type golden struct {
	*traceTree
	b    strings.Builder
	byID map[string]*node
}

func (g *golden) write() {
	if g.root != nil {
		g.line(0, "trace %s", utc(g.root.start))
	} else {
		g.line(0, "trace %s without a root", utc(g.start))
	}
	for _, n := range g.tops {
		g.node(0, n)
	}
}

func utc(nanos uint64) string {
	return time.Unix(0, int64(nanos)).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (g *golden) line(indent int, format string, args ...any) {
	line := strings.Repeat(" ", indent) + fmt.Sprintf(format, args...)
	g.b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// node's columns are fixed, so that one longer name does not show up as a
// difference in every line.
func (g *golden) node(indent int, n *node) {
	g.b.WriteString("\n")
	kind := strings.ToLower(strings.TrimPrefix(n.span.GetKind().String(), "SPAN_KIND_"))
	g.line(indent, "%-*s %7s - %7s  %-8s  %s",
		40-indent, printable(n.span.GetName()), g.offset(n.start), g.offset(n.span.GetEndTimeUnixNano()), kind, statusText(n.span))
	if len(n.span.GetParentSpanId()) > 0 && g.byID[string(n.span.GetParentSpanId())] == nil {
		g.line(indent+2, "parent elsewhere")
	}
	if s := n.span.GetTraceState(); s != "" {
		g.line(indent+2, "tracestate = %q", s)
	}
	g.attributes(indent+2, n.span.GetAttributes())
	for _, l := range n.span.GetLinks() {
		g.line(indent+2, "link to %s", g.reference(l.GetSpanId()))
		g.attributes(indent+4, l.GetAttributes())
	}
	g.events(indent+2, Resolve(n.span).GetEvents())
	g.dropped(indent+2, n.span)
	for _, c := range n.children {
		g.node(indent+2, c)
	}
}

func statusText(s *tracepb.Span) string {
	code := strings.ToLower(strings.TrimPrefix(s.GetStatus().GetCode().String(), "STATUS_CODE_"))
	if message := s.GetStatus().GetMessage(); message != "" {
		return code + ": " + printable(message)
	}
	return code
}

// offset is an instant as seconds since the trace began.
func (g *golden) offset(nanos uint64) string {
	d := time.Duration(nanos - g.start).Round(time.Millisecond)
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%d.%03d", sign, d/time.Second, d%time.Second/time.Millisecond)
}

func (g *golden) reference(id []byte) string {
	if n := g.byID[string(id)]; n != nil {
		return fmt.Sprintf("%s at %s", printable(n.span.GetName()), g.offset(n.start))
	}
	return "a span elsewhere"
}

func (g *golden) attributes(indent int, attrs []*commonpb.KeyValue) {
	for _, kv := range sorted(attrs) {
		g.line(indent, "%s = %s", printable(kv.GetKey()), g.value(kv.GetValue()))
	}
}

func sorted(attrs []*commonpb.KeyValue) []*commonpb.KeyValue {
	return slices.SortedStableFunc(slices.Values(attrs), func(a, b *commonpb.KeyValue) int {
		return strings.Compare(a.GetKey(), b.GetKey())
	})
}

func (g *golden) value(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		if id, err := hex.DecodeString(v.StringValue); err == nil && g.byID[string(id)] != nil {
			return g.reference(id)
		}
		return strconv.Quote(v.StringValue)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		s := strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		if !strings.ContainsAny(s, ".eIN") {
			s += ".0" // or it would look like an integer
		}
		return s
	case *commonpb.AnyValue_BytesValue:
		return fmt.Sprintf("%#x", v.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		var parts []string
		for _, e := range v.ArrayValue.GetValues() {
			parts = append(parts, g.value(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *commonpb.AnyValue_KvlistValue:
		var parts []string
		for _, kv := range sorted(v.KvlistValue.GetValues()) {
			parts = append(parts, printable(kv.GetKey())+": "+g.value(kv.GetValue()))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "empty"
}

// events writes a run of events of one name as one line.
func (g *golden) events(indent int, events []*tracepb.Span_Event) {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].GetName() == events[0].GetName() {
			n++
		}
		g.run(indent, events[:n])
		events = events[n:]
	}
}

// run adds up what the events say of deltas, and lists what else they say.
func (g *golden) run(indent int, events []*tracepb.Span_Event) {
	var keys []string
	values := make(map[string][]string)
	var deltas, size int
	for _, e := range events {
		deltas += deltaCount(e)
		for _, kv := range e.GetAttributes() {
			key := kv.GetKey()
			switch key {
			case attrBytes:
				size += int(kv.GetValue().GetIntValue())
			case attrCount:
				continue
			}
			if values[key] == nil {
				keys = append(keys, key)
			}
			values[key] = append(values[key], g.value(kv.GetValue()))
		}
	}

	first, last := events[0], events[len(events)-1]
	line := printable(first.GetName()) + "  " + g.offset(first.GetTimeUnixNano())
	if len(events) > 1 {
		line = fmt.Sprintf("%s × %s - %s", thousands(len(events)), line, g.offset(last.GetTimeUnixNano()))
	}
	if deltas != len(events) {
		line += "  " + plural(deltas, "delta")
	}
	if values[attrBytes] != nil {
		line += "  " + plural(size, "byte")
	}
	g.line(indent, "%s", line)

	slices.Sort(keys)
	for _, key := range keys {
		if key != attrBytes {
			g.line(indent+2, "%s = %s", printable(key), listed(values[key]))
		}
	}
}

// listed shortens values that are all the same or count up by one.
func listed(values []string) string {
	first, last := values[0], values[len(values)-1]
	if len(slices.Compact(slices.Clone(values))) == 1 {
		return first
	}
	for i, v := range values[1:] {
		before, err := strconv.Atoi(values[i])
		if err != nil || v != strconv.Itoa(before+1) {
			return strings.Join(values, " ")
		}
	}
	return first + " .. " + last
}

func (g *golden) dropped(indent int, s *tracepb.Span) {
	for _, d := range []struct {
		what string
		n    uint32
	}{
		{"attribute", s.GetDroppedAttributesCount()},
		{"event", s.GetDroppedEventsCount()},
		{"link", s.GetDroppedLinksCount()},
	} {
		if d.n > 0 {
			g.line(indent, "%s dropped", plural(int(d.n), d.what))
		}
	}
}
