package mapping_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// totals are what a fixture's own lines add up to, by another program's reading.
type totals struct {
	Runs, Turns, Tools                              int
	Input, Output, CacheRead, CacheWrite, Reasoning int64
	Cost                                            float64
}

// TestTotals compares the sums over a trace with the totals of its stream, which
// stand beside the fixtures of an agent.
func TestTotals(t *testing.T) {
	streams := fixtures(t)
	for _, name := range mapping.Agents {
		b, err := os.ReadFile(filepath.Join("../testdata", name, "totals.json"))
		if slices.Contains([]string{"amp", "claude", "cursor", "qwen"}, name) {
			continue // conserve_test.go adds up what their streams state
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := map[string]totals{}
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		for path, in := range streams {
			if filepath.Base(filepath.Dir(path)) != name {
				continue
			}
			t.Run(short(path), func(t *testing.T) {
				spans, _ := feed{}.spans(t, in)
				if got := totalsOf(spans); got != want[filepath.Base(path)] {
					t.Errorf("the trace has\n%+v, the stream\n%+v", got, want[filepath.Base(path)])
				}
				if err := mappingtest.Conserved(spans); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// totalsOf adds up what each backend would: the counts of model calls, or a
// root's where they have none. Where both exist they have to agree.
func totalsOf(spans []*tracepb.Span) (sum totals) {
	for _, s := range spans {
		switch attr(s, "gen_ai.operation.name").GetStringValue() {
		case "execute_tool":
			if attr(s, "spantee.tool.calls") == nil { // no script
				sum.Tools++
			}
		case "chat":
			sum.Turns++
		case "invoke_agent":
			if len(s.ParentSpanId) == 0 {
				sum.Runs++
			}
		}
		count := func(key string) int64 { return attr(s, "gen_ai.usage."+key).GetIntValue() }
		sum.Input += count("input_tokens")
		sum.Output += count("output_tokens")
		sum.CacheRead += count("cache_read.input_tokens")
		sum.CacheWrite += count("cache_write.input_tokens")
		sum.Reasoning += count("reasoning.output_tokens")
		sum.Cost += attr(s, "gen_ai.usage.cost").GetDoubleValue()
	}
	sum.Cost = math.Round(sum.Cost*1e12) / 1e12
	return sum
}

// TestRootTotals checks that a root whose model calls have counts has their sum.
// Claude Code states more for a run than for its calls: the cost, and what
// sub-agents used.
func TestRootTotals(t *testing.T) {
	for path, in := range fixtures(t) {
		t.Run(short(path), func(t *testing.T) {
			if agent, _, _ := strings.Cut(short(path), "/"); agent == "claude" || agent == "claude-log" {
				t.Skip("see TestClaude")
			}
			spans, _ := feed{}.spans(t, in)
			byTrace := map[string][]*tracepb.Span{}
			for _, s := range spans {
				byTrace[string(s.TraceId)] = append(byTrace[string(s.TraceId)], s)
			}
			for _, spans := range byTrace {
				sum := totalsOf(spans)
				for _, s := range spans {
					if cost := attr(s, "spantee.usage.cost"); cost != nil && cost.GetDoubleValue() != sum.Cost {
						t.Errorf("%s cost %v, its model calls %v", s.Name, cost.GetDoubleValue(), sum.Cost)
					}
					total := attr(s, "spantee.usage.input_tokens")
					if total != nil && sum.Input > 0 && (total.GetIntValue() != sum.Input || attr(s, "spantee.usage.output_tokens").GetIntValue() != sum.Output) {
						t.Errorf("%s: %d tokens in, its model calls %d", s.Name, total.GetIntValue(), sum.Input)
					}
				}
			}
		})
	}
}

// TestDetected checks that the agent of every stream is detected.
func TestDetected(t *testing.T) {
	for path, in := range fixtures(t) {
		if strings.HasPrefix(filepath.Base(path), "foreign-") {
			continue
		}
		t.Run(short(path), func(t *testing.T) {
			want := agent.Find(filepath.Base(filepath.Dir(path))).Name
			spans, m := feed{}.spans(t, in)
			if m.Stats().Foreign != "" {
				t.Errorf("taken for the stream of %s", m.Stats().Foreign)
			}
			for _, s := range spans {
				if got := attr(s, "gen_ai.agent.name").GetStringValue(); len(s.ParentSpanId) == 0 && got != want {
					t.Errorf("taken for the stream of %s, not %s", got, want)
				}
			}
		})
	}
}

// TestAgentsTakeTurns puts the streams of all agents into one, one after the
// other and line by line: each gets the spans that it has alone.
func TestAgentsTakeTurns(t *testing.T) {
	all := fixtures(t)
	var streams [][]byte
	alone := map[string]int{}
	for _, name := range mapping.Agents {
		in, ok := all["../testdata/"+name+"/plain"]
		if !ok {
			in = all["../testdata/"+name+"/parallel-tools"]
		}
		streams = append(streams, in)
		spans, _ := feed{}.spans(t, in)
		for span, n := range byAgent(spans) {
			alone[span] += n
		}
	}
	for how, in := range map[string][]byte{"one after the other": bytes.Join(streams, []byte("\n")), "line by line": weave(streams...)} {
		t.Run(how, func(t *testing.T) {
			spans, m := feed{}.spans(t, in)
			if diff := gocmp.Diff(alone, byAgent(spans)); diff != "" {
				t.Errorf("stats %+v, spans (-alone +together):\n%s", m.Stats(), diff)
			}
		})
	}
}

// TestDroidBesideOthers weaves another agent's lines into a run of a build of Droid whose
// init line proves nothing, and whose session is named only by later lines.
func TestDroidBesideOthers(t *testing.T) {
	all := fixtures(t)
	in := bytes.Replace(all["../testdata/droid/plain"], []byte(`"reasoning_effort":"medium",`), nil, 1)
	in = bytes.Replace(in, []byte(`cmd.","session_id":"db1f9338-4df5-4486-9fc7-2d7ed52b2ced",`), []byte(`cmd.",`), 1)
	for _, name := range mapping.Agents {
		if name == "droid" || all["../testdata/"+name+"/plain"] == nil {
			continue
		}
		spans, _ := feed{}.spans(t, weave(all["../testdata/"+name+"/plain"], in))
		got := map[string]int{}
		for _, s := range spans {
			if attr(s, "gen_ai.agent.name").GetStringValue() == "droid" {
				got[attr(s, "gen_ai.operation.name").GetStringValue()]++
				if id := attr(s, "gen_ai.conversation.id").GetStringValue(); id != "db1f9338-4df5-4486-9fc7-2d7ed52b2ced" {
					t.Errorf("%s, beside %s: conversation %q", s.Name, name, id)
				}
			}
		}
		want := map[string]int{"invoke_agent": 1, "chat": 2, "execute_tool": 1}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("beside %s (-want +got):\n%s", name, diff)
		}
	}
}
