package mapping_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// tokens are counts of input, output, cache reads and cache writes.
type tokens [4]int64

func (t *tokens) add(u tokens) {
	for i := range t {
		t[i] += u[i]
	}
}

// A ledger is what a stream in Claude Code's format says of itself, read without
// the decoder.
type ledger struct {
	tools  int             // calls
	failed int             // of them
	deltas int             // of text and thinking
	calls  map[string]bool // of the model
	main   tokens          // of the agent's own model calls
	exact  bool            // with their output tokens
	total  tokens          // of all runs, as their results have them
	cost   float64
	runs   int
	nested bool
}

type claudeMessage struct {
	ID         string `json:"id"`
	StopReason string `json:"stop_reason"`
	Content    json.RawMessage
	Usage      *claudeUsage
}

type claudeUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
	Write  int64 `json:"cache_creation_input_tokens"`
}

// tokens returns the counts as the conventions have them: the cached tokens are
// part of the input.
func (u *claudeUsage) tokens(agent string) tokens {
	if agent == "qwen" {
		return tokens{u.Input, u.Output, u.Read, u.Write}
	}
	return tokens{u.Input + u.Read + u.Write, u.Output, u.Read, u.Write}
}

// audit reads a stream without the decoder.
func audit(agent string, in []byte) (l ledger) {
	l.calls = map[string]bool{}
	l.exact = agent != "claude"
	perCall := map[string]tokens{}
	streamed := ""
	var all tokens // what the process used
	for n, line := range bytes.Split(in, []byte("\n")) {
		var v struct {
			Type, Subtype string
			Parent        string `json:"parent_tool_use_id"`
			Message       json.RawMessage
			Event         struct {
				Type    string
				Delta   struct{ Type string }
				Message claudeMessage
				Usage   *claudeUsage
			}
			Usage  *claudeUsage
			Models map[string]struct {
				Input  int64 `json:"inputTokens"`
				Output int64 `json:"outputTokens"`
				Read   int64 `json:"cacheReadInputTokens"`
				Write  int64 `json:"cacheCreationInputTokens"`
			} `json:"modelUsage"`
			Cost any `json:"total_cost_usd"`
		}
		if json.Unmarshal(line, &v) != nil {
			continue
		}
		var m claudeMessage
		_ = json.Unmarshal(v.Message, &m)
		var blocks []struct {
			Type    string
			IsError bool `json:"is_error"`
			Content json.RawMessage
		}
		_ = json.Unmarshal(m.Content, &blocks)
		for _, b := range blocks {
			if strings.HasSuffix(b.Type, "tool_use") {
				l.tools++
			}
			if b.IsError || bytes.Contains(b.Content, []byte(`_tool_result_error"`)) {
				l.failed++
			}
		}
		l.nested = l.nested || v.Parent != "" || bytes.Contains(line, []byte(`"advisor_message"`))
		switch {
		case v.Type == "assistant" && m.Usage != nil && v.Parent == "":
			id := m.ID
			if id == "" {
				id = string(rune(n)) // one line a model call
			}
			if u := m.Usage.tokens(agent); streamed != id && u != (tokens{}) {
				perCall[id] = u
			}
		case v.Type == "stream_event" && v.Event.Type == "message_start":
			streamed = v.Event.Message.ID
			if u := v.Event.Message.Usage; u != nil && agent == "claude" { // it may break off before it states more
				perCall[streamed] = u.tokens(agent)
			}
		case v.Type == "stream_event" && v.Event.Type == "message_delta":
			perCall[streamed] = v.Event.Usage.tokens(agent)
			l.exact = true
		case v.Type == "stream_event" && (v.Event.Delta.Type == "text_delta" || v.Event.Delta.Type == "thinking_delta"):
			l.deltas++
		case v.Type == "result":
			l.runs++
			if cost, ok := v.Cost.(float64); ok {
				l.cost = cost
			}
			if v.Usage != nil {
				l.total.add(v.Usage.tokens(agent))
			}
			all = tokens{}
			for _, u := range v.Models {
				all.add(tokens{u.Input + u.Read + u.Write, u.Output, u.Read, u.Write})
			}
		}
	}
	for _, u := range perCall {
		l.main.add(u)
	}
	if l.nested && all != (tokens{}) {
		l.total = all
	}
	return l
}

// claudeFamily are the agents that print Claude Code's lines.
var claudeFamily = []string{"claude", "qwen", "amp"}

var (
	usageKeys = []string{"input_tokens", "output_tokens", "cache_read.input_tokens", "cache_write.input_tokens"}
	totalKeys = []string{"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}
)

// TestConservation compares the fixtures' traces with what the streams say: no
// call of a tool or of the model is lost or counted twice, and neither are
// tokens and costs.
func TestConservation(t *testing.T) {
	for name, in := range fixtures(t) {
		agent, fixture, _ := strings.Cut(short(name), "/")
		if !slices.Contains(claudeFamily, agent) || fixture == "odd-lines" {
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			want := audit(agent, in)
			spans, _ := feed{opts: mapping.Options{Agent: agent}}.spans(t, in)
			main := map[string]bool{} // the agent's own invocations
			var got ledger
			var chats, roots tokens
			tools, failed := 0, 0
			for _, s := range spans {
				if len(s.ParentSpanId) == 0 {
					main[string(s.SpanId)] = len(s.Links) == 0 // else it is a sub-agent's, whose parent is idle
					got.cost += attr(s, "spantee.usage.cost").GetDoubleValue() + attr(s, "gen_ai.usage.cost").GetDoubleValue()
					got.deltas += int(attr(s, "spantee.deltas").GetIntValue())
					roots.add(counts(s, "spantee.usage.", totalKeys))
					roots.add(counts(s, "gen_ai.usage.", usageKeys))
				}
			}
			for _, s := range spans {
				switch {
				case strings.HasPrefix(s.Name, "execute_tool"):
					tools++
					if e := attr(s, "error.type").GetStringValue(); e != "" && e != "incomplete" {
						failed++
					}
				case strings.HasPrefix(s.Name, "chat") && main[string(s.ParentSpanId)]:
					chats.add(counts(s, "gen_ai.usage.", usageKeys))
				}
			}
			if tools != want.tools || failed != want.failed {
				t.Errorf("%d tools, %d failed, want %d and %d", tools, failed, want.tools, want.failed)
			}
			if got.deltas != want.deltas {
				t.Errorf("%d deltas, want %d", got.deltas, want.deltas)
			}
			if !want.exact {
				want.main[1] = 0
			}
			if chats != want.main {
				t.Errorf("chats have %v tokens, want %v", chats, want.main)
			}
			if want.runs > 0 && want.total != (tokens{}) && !strings.Contains(fixture, "resumed") {
				if roots != want.total {
					t.Errorf("roots have %v tokens, want %v", roots, want.total)
				}
				if got.cost != want.cost {
					t.Errorf("cost %v, want %v", got.cost, want.cost)
				}
				if !want.exact {
					want.total[1] = 0
				}
				if !want.nested && chats != want.total && fixture != "broken-call" { // whose result leaves out the broken call
					t.Errorf("chats have %v tokens, the results %v", chats, want.total)
				}
			}
			if err := mappingtest.Conserved(withoutLeftovers(spans)); err != nil {
				t.Error(err)
			}
		})
	}
}

// withoutLeftovers leaves out background work that outlived its parent.
func withoutLeftovers(spans []*tracepb.Span) []*tracepb.Span {
	ends := map[string]uint64{}
	for _, s := range spans {
		ends[string(s.SpanId)] = s.EndTimeUnixNano
	}
	return slices.DeleteFunc(spans, func(s *tracepb.Span) bool {
		return strings.HasPrefix(s.Name, "background") && s.EndTimeUnixNano > ends[string(s.ParentSpanId)]
	})
}

func counts(s *tracepb.Span, prefix string, keys []string) (t tokens) {
	for i, key := range keys {
		t[i] = attr(s, prefix+key).GetIntValue()
	}
	return t
}

// A sum over all that an audit finds is not nothing.
func TestAudit(t *testing.T) {
	seen := map[string]tokens{}
	for name, in := range fixtures(t) {
		if agent, _, _ := strings.Cut(short(name), "/"); slices.Contains(claudeFamily, agent) {
			l := audit(agent, in)
			sum := seen[agent]
			sum.add(tokens{l.main[0], l.total[1], int64(l.tools), int64(l.failed)})
			seen[agent] = sum
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(seen)) {
		for _, n := range seen[agent] {
			if n == 0 {
				t.Errorf("%s: %v", agent, seen[agent])
			}
		}
	}
}
