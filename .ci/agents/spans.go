package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// A span is one of a trace, with times in seconds.
type span struct {
	ID, Parent string
	Name       string
	Start, End float64
	Failed     bool
	Message    string
	Attributes map[string]any // texts, numbers as int64 or float64, lists of them
	Events     []string
	Children   []*span
}

// readSpans reads OTLP JSON lines. Of a span that was written twice, the last one counts.
func readSpans(path string) (map[string]*span, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := map[string]*span{}
	for in := bufio.NewReader(file); ; {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := addSpans(all, line); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		if parent := all[s.Parent]; parent != nil {
			parent.Children = append(parent.Children, s)
		}
	}
	for _, s := range all {
		slices.SortFunc(s.Children, byStart)
	}
	return all, nil
}

func byStart(a, b *span) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), strings.Compare(a.ID, b.ID))
}

// addSpans adds the spans of a request.
func addSpans(all map[string]*span, line []byte) error {
	traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(line)
	if err != nil {
		return err
	}
	for _, r := range traces.ResourceSpans().All() {
		for _, scope := range r.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				to := &span{
					ID: s.SpanID().String(), Parent: s.ParentSpanID().String(), Name: s.Name(),
					Start: seconds(s.StartTimestamp().AsTime()), End: seconds(s.EndTimestamp().AsTime()),
					Failed: s.Status().Code() == ptrace.StatusCodeError, Message: s.Status().Message(), Attributes: s.Attributes().AsRaw(),
				}
				for _, e := range s.Events().All() {
					to.Events = append(to.Events, e.Name())
				}
				all[to.ID] = to
			}
		}
	}
	return nil
}

func (s *span) is(operation string) bool { return strings.HasPrefix(s.Name, operation) }

func (s *span) text(key string) string {
	text, _ := s.Attributes[key].(string)
	return text
}

// number returns an integer, and whether the span has it.
func (s *span) number(key string) (int, bool) {
	n, ok := s.Attributes[key].(int64)
	return int(n), ok
}

// firstNumber returns the number of the first key that the span has, 0 if it has none.
func (s *span) firstNumber(keys ...string) int {
	for _, key := range keys {
		if n, ok := s.number(key); ok {
			return n
		}
	}
	return 0
}

func (s *span) estimated() bool { return s.Attributes["spantee.time.estimated"] != nil }

// below returns the span and all spans below it.
func (s *span) below() []*span {
	list := []*span{s}
	for _, c := range s.Children {
		list = append(list, c.below()...)
	}
	return list
}

// rootsIn returns the roots that overlap a time, sorted by their start.
func rootsIn(all map[string]*span, from, to float64) (roots []*span) {
	for _, s := range slices.Collect(maps.Values(all)) {
		if s.Parent == "" && s.End > from && s.Start < to {
			roots = append(roots, s)
		}
	}
	slices.SortFunc(roots, byStart)
	return roots
}

// command returns the name of the clock's command that a tool call ran, "" if it ran none.
func (s *span) command() string {
	for _, key := range []string{"process.command_line", "gen_ai.tool.call.arguments"} {
		if _, after, ok := strings.Cut(s.text(key), "/clock "); ok {
			name, _, _ := strings.Cut(after, " ")
			return name
		}
	}
	if name := s.text("gen_ai.tool.name"); strings.HasSuffix(name, "slow") || strings.HasSuffix(name, "bad") {
		return name[strings.LastIndexAny(name, "_-.:/ ")+1:]
	}
	return ""
}
