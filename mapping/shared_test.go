package mapping_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// tally counts the spans of each agent's sessions by their names.
func tally(spans []*tracepb.Span) map[string]int {
	n := map[string]int{}
	for _, s := range spans {
		n[attr(s, "gen_ai.conversation.id").GetStringValue()+" "+s.Name]++
	}
	return n
}

// TestAgentsInOneStream writes the streams of several agents into one pipe, one
// after the other and line by line in turns: each gets the spans that it gets
// alone.
func TestAgentsInOneStream(t *testing.T) {
	all := fixtures(t)
	var streams [][]byte
	for _, name := range []string{
		"cursor/parallel-tools", "claude/plain", "claude/partial-messages", "claude/subagent", "claude/background-tasks",
		"qwen/plain", "qwen/partial-messages", "qwen/error-result", "amp/plain",
	} {
		streams = append(streams, all["../testdata/"+name])
	}
	want := map[string]int{}
	var lines [][][]byte
	for _, in := range streams {
		spans, _ := feed{}.spans(t, in)
		maps.Copy(want, tally(spans))
		lines = append(lines, bytes.SplitAfter(in, []byte("\n")))
	}
	check := func(in []byte) {
		t.Helper()
		spans, m := feed{}.spans(t, in)
		got := tally(spans)
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%d spans %q, want %d", got[name], name, n)
			}
		}
		for name, n := range got {
			if want[name] == 0 {
				t.Errorf("%d spans %q, want none", n, name)
			}
		}
		if s := m.Stats(); s.Foreign != "" || s.Unproven+s.BadLines+s.Unpaired > 0 {
			t.Errorf("stats %+v", s)
		}
	}
	check(bytes.Join(streams, nil))
	var turns []byte
	for left := true; left; {
		left = false
		for i := range lines {
			if len(lines[i]) > 0 {
				turns, lines[i], left = append(turns, lines[i][0]...), lines[i][1:], true
			}
		}
	}
	check(turns)
}

// TestWithoutInit drops the first line of a stream: Claude Code and Amp are known
// by others.
func TestWithoutInit(t *testing.T) {
	for name, in := range fixtures(t) {
		agent, fixture, _ := strings.Cut(short(name), "/")
		if fixture != "plain" || agent == "qwen" || agent == "cursor" {
			continue
		}
		var rest []byte
		for line := range bytes.Lines(in) {
			if !bytes.Contains(line, []byte(`"subtype":"init"`)) {
				rest = append(rest, line...)
			}
		}
		want, _ := feed{}.spans(t, in)
		got, m := feed{}.spans(t, rest)
		if len(got) != len(want) || m.Stats().Runs != 1 {
			t.Errorf("%s: %d spans of %d runs, want %d of 1", name, len(got), m.Stats().Runs, len(want))
		}
	}
}
