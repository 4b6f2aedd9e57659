package mapping_test

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
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
	for _, in := range streams {
		spans, _ := feed{}.spans(t, in)
		maps.Copy(want, tally(spans))
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
		if s := m.Stats(); s.Foreign != "" || s.Unidentified+s.BadLines+s.EndsWithoutStart > 0 {
			t.Errorf("stats %+v", s)
		}
	}
	check(bytes.Join(streams, nil))
	check(weave(streams...))
}

// weave writes streams into one, line by line in turns.
func weave(streams ...[]byte) (woven []byte) {
	var lines [][][]byte
	for _, in := range streams {
		lines = append(lines, bytes.Split(bytes.TrimSuffix(in, []byte("\n")), []byte("\n")))
	}
	for left := true; left; {
		left = false
		for i := range lines {
			if len(lines[i]) > 0 {
				woven, lines[i], left = append(append(woven, lines[i][0]...), '\n'), lines[i][1:], true
			}
		}
	}
	return woven
}

// byAgent counts the spans of each agent's traces by their names and failures.
func byAgent(spans []*tracepb.Span) map[string]int {
	n, agents := map[string]int{}, map[string]string{}
	for _, s := range spans {
		if len(s.ParentSpanId) == 0 {
			agents[string(s.TraceId)] = attr(s, "gen_ai.agent.name").GetStringValue()
		}
	}
	for _, s := range spans {
		n[agents[string(s.TraceId)]+": "+s.Name+" "+attr(s, "error.type").GetStringValue()]++
	}
	return n
}

// TestPairs writes a plain run of every agent and every stream of every other
// agent into one pipe: each gets exactly the spans that it gets alone.
func TestPairs(t *testing.T) {
	t.Parallel()
	all := fixtures(t)
	tried := oneIn(12)
	for _, plain := range slices.Sorted(maps.Keys(all)) {
		first := all[plain]
		if !strings.HasSuffix(plain, "/plain") {
			continue
		}
		t.Run(short(plain), func(t *testing.T) {
			spans, _ := feed{}.spans(t, first)
			alone := byAgent(spans)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				second := all[name]
				ofSameSession := strings.HasSuffix(name, "-log/piped")                                                                                                                                            // is never written into the pipe
				if path.Dir(name) == path.Dir(plain) || ofSameSession || !tried() || strings.Contains(name, "foreign") || strings.HasSuffix(name, "text-output") || strings.HasSuffix(name, "literal-newlines") { // whose events go over several lines
					continue
				}
				spans, _ := feed{}.spans(t, second)
				want := byAgent(spans)
				for span, n := range alone {
					want[span] += n
				}
				streams := map[string][]byte{
					"before":           slices.Concat(first, []byte("\n"), second),
					"after":            slices.Concat(second, []byte("\n"), first),
					"in turns with":    weave(first, second),
					"in turns, behind": weave(second, first),
				}
				for how, in := range streams {
					spans, _ := feed{}.spans(t, in)
					if diff := gocmp.Diff(want, byAgent(spans)); diff != "" {
						t.Errorf("%s %s (-alone +together):\n%s", how, short(name), diff)
					}
				}
			}
		})
	}
}

// bareErrors are the streams with an error that has neither a mark nor a session:
// it may be of any agent whose lines have no session.
var bareErrors = map[string]bool{"codex/failed": true, "goose/error": true, "goose/error-complete": true}

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
