// Package treetest writes traces out in full, for golden files that people read
// in diffs.
package treetest

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// Golden writes traces out: always in the same order, with times in seconds since
// the trace began, and without ids. Indentation shows a span's parent, and name and
// start identify other spans.
func Golden(spans []*tracepb.Span) string {
	byTrace := make(map[string][]*tracepb.Span)
	for _, s := range spans {
		byTrace[string(s.GetTraceId())] = append(byTrace[string(s.GetTraceId())], s)
	}
	var traces [][]*tracepb.Span
	for _, spans := range byTrace {
		slices.SortFunc(spans, byTime)
		traces = append(traces, spans)
	}
	slices.SortFunc(traces, func(a, b []*tracepb.Span) int {
		return cmp.Or(byTime(a[0], b[0]), strings.Compare(string(a[0].GetTraceId()), string(b[0].GetTraceId())))
	})
	var drawn []string
	for _, spans := range traces {
		g := newGolden(spans)
		g.write()
		drawn = append(drawn, g.b.String())
	}
	return strings.Join(drawn, "\n")
}

func byTime(a, b *tracepb.Span) int {
	return cmp.Or(
		cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()),
		cmp.Compare(end(a), end(b)),
		strings.Compare(a.GetName(), b.GetName()),
		strings.Compare(string(a.GetSpanId()), string(b.GetSpanId())),
	)
}

func end(s *tracepb.Span) uint64 { return max(s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()) }

// A golden is one trace.
type golden struct {
	b        strings.Builder
	byID     map[string]*tracepb.Span
	children map[*tracepb.Span][]*tracepb.Span
	tops     []*tracepb.Span
	root     *tracepb.Span // the first of tops that is one, or nil
	start    uint64
}

func newGolden(spans []*tracepb.Span) *golden {
	g := &golden{
		byID: make(map[string]*tracepb.Span), children: make(map[*tracepb.Span][]*tracepb.Span),
		start: spans[0].GetStartTimeUnixNano(),
	}
	for _, s := range spans {
		g.byID[string(s.GetSpanId())] = s
	}
	parents := make(map[*tracepb.Span]*tracepb.Span)
	isRoot := func(s *tracepb.Span) bool {
		return g.byID[string(s.GetParentSpanId())] == nil &&
			(len(s.GetParentSpanId()) == 0 || find(s.GetAttributes(), semconv.OperationName).GetStringValue() == semconv.OperationInvokeAgent)
	}
	if i := slices.IndexFunc(spans, isRoot); i >= 0 {
		g.root = spans[i]
	}
	for _, s := range spans {
		parent := g.byID[string(s.GetParentSpanId())]
		for p := parent; p != nil; p = parents[p] {
			if p == s { // a cycle
				parent = nil
				break
			}
		}
		switch {
		case isRoot(s):
		case parent != nil:
			parents[s] = parent
		case g.root != s:
			parents[s] = g.root // a span whose parent is missing
		}
		if p := parents[s]; p != nil {
			g.children[p] = append(g.children[p], s)
		} else {
			g.tops = append(g.tops, s)
		}
	}
	return g
}

// find returns the value of an attribute, nil if there is none.
func find(attrs []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, kv := range attrs {
		if kv.GetKey() == key {
			return kv.GetValue()
		}
	}
	return nil
}

func (g *golden) write() {
	if g.root != nil {
		g.line(0, "trace %s", utc(g.root.GetStartTimeUnixNano()))
	} else {
		g.line(0, "trace %s without a root", utc(g.start))
	}
	for _, s := range g.tops {
		g.span(0, s)
	}
}

func utc(nanos uint64) string {
	return time.Unix(0, int64(nanos)).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (g *golden) line(indent int, format string, args ...any) {
	line := strings.Repeat(" ", indent) + fmt.Sprintf(format, args...)
	g.b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// span writes a span in fixed columns, so that one longer name does not change
// every line.
func (g *golden) span(indent int, s *tracepb.Span) {
	g.b.WriteString("\n")
	kind := strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"))
	g.line(indent, "%-*s %7s - %7s  %-8s  %s",
		max(0, 40-indent), printable(s.GetName()), g.offset(s.GetStartTimeUnixNano()), g.offset(s.GetEndTimeUnixNano()), kind, statusText(s))
	if len(s.GetParentSpanId()) > 0 && g.byID[string(s.GetParentSpanId())] == nil {
		g.line(indent+2, "parent elsewhere")
	}
	if state := s.GetTraceState(); state != "" {
		g.line(indent+2, "tracestate = %q", state)
	}
	g.attributes(indent+2, s.GetAttributes())
	for _, l := range s.GetLinks() {
		g.line(indent+2, "link to %s", g.reference(l.GetSpanId()))
		g.attributes(indent+4, l.GetAttributes())
	}
	g.events(indent+2, s.GetEvents())
	g.dropped(indent+2, s)
	for _, c := range g.children[s] {
		g.span(indent+2, c)
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
	if s := g.byID[string(id)]; s != nil {
		return fmt.Sprintf("%s at %s", printable(s.GetName()), g.offset(s.GetStartTimeUnixNano()))
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

// run adds up the deltas that the events stand for, and lists their other
// attributes.
func (g *golden) run(indent int, events []*tracepb.Span_Event) {
	var keys []string
	values := make(map[string][]string)
	var deltas, size int
	for _, e := range events {
		deltas += deltaCount(e)
		for _, kv := range e.GetAttributes() {
			key := kv.GetKey()
			switch key {
			case semconv.DeltaBytes:
				size += int(kv.GetValue().GetIntValue())
			case semconv.DeltaCount:
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
	if values[semconv.DeltaBytes] != nil {
		line += "  " + plural(size, "byte")
	}
	g.line(indent, "%s", line)

	slices.Sort(keys)
	for _, key := range keys {
		if key != semconv.DeltaBytes {
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

// deltaCount returns how many deltas an event stands for: neighbours may have been
// merged.
func deltaCount(e *tracepb.Span_Event) int {
	if v := find(e.GetAttributes(), semconv.DeltaCount); v != nil {
		return int(v.GetIntValue())
	}
	return 1
}

// printable spells out what cannot be seen.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands is n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
