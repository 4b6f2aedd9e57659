package metrics_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A goldenSpan is what a golden file says of a span.
type goldenSpan struct {
	indent      int
	seconds     float64
	failed      bool
	attributes  map[string]string
	deltas      int // events
	first, last float64
}

var (
	spanLine      = regexp.MustCompile(`^( *)(\S.*?) {2,}(-?[\d.]+) - +(-?[\d.]+)  (internal|client) +(\w+)`)
	attributeLine = regexp.MustCompile(`^( *)([a-z_.]+) = (.*)$`)
	deltaLine     = regexp.MustCompile(`^ *(?:(\d+) × )?(?:text|thinking)\.delta +([\d.]+)(?: - ([\d.]+))?`)
)

// parseGolden reads the spans of a golden file.
func parseGolden(t *testing.T, text string) (spans []*goldenSpan) {
	t.Helper()
	var span *goldenSpan
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := spanLine.FindStringSubmatch(line); m != nil {
			span = &goldenSpan{indent: len(m[1]), seconds: number(t, m[4]) - number(t, m[3]), failed: m[6] == "error", attributes: map[string]string{}}
			spans = append(spans, span)
			continue
		}
		if m := deltaLine.FindStringSubmatch(line); m != nil && span != nil {
			n := 1
			if m[1] != "" {
				n = int(number(t, m[1]))
			}
			if span.deltas == 0 {
				span.first = number(t, m[2])
			}
			span.last = number(t, m[2])
			if m[3] != "" {
				span.last = number(t, m[3])
			}
			span.deltas += n
			continue
		}
		if m := attributeLine.FindStringSubmatch(line); m != nil && span != nil && len(m[1]) == span.indent+2 { // those of an event are indented further
			span.attributes[m[2]] = strings.Trim(m[3], `"`)
		}
	}
	return spans
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A sum is what a golden file says of a metric. Its values are exact but for
// times, which have milliseconds in a golden file.
type sum struct {
	count int
	total float64
	exact bool
}

// expect adds up what the spans say, by metric and attributes.
func expect(t *testing.T, spans []*goldenSpan) map[string]sum {
	t.Helper()
	sums := map[string]sum{}
	add := func(metric string, s *goldenSpan, value float64, exact bool, attributes ...string) {
		var list []string
		for _, key := range attributes { // sorted already
			if key, constant, ok := strings.Cut(key, "="); ok {
				list = append(list, key+"="+constant)
			} else if v := s.attributes[key]; v != "" {
				list = append(list, key+"="+v)
			}
		}
		key := metric + "{" + strings.Join(list, ",") + "}"
		old := sums[key]
		sums[key] = sum{old.count + 1, old.total + value, exact}
	}
	optional := func(s *goldenSpan, key string) float64 {
		if s.attributes[key] == "" {
			return 0
		}
		return number(t, s.attributes[key])
	}
	model := []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"}
	usage := func(s *goldenSpan, key string, n float64) {
		add("gen_ai.client.inference.usage."+key, s, n, true,
			"gen_ai.agent.name", "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.token.modality=unknown")
	}
	before := map[string]float64{} // what sub-agents used after the end of their runs
	var chat *goldenSpan           // the last one, which what did not fit into it comes after
	for i, s := range spans {
		if s.failed && s.attributes["error.type"] == "" {
			t.Fatal("an error without a type")
		}
		switch s.attributes["gen_ai.operation.name"] {
		case "invoke_agent":
			add("gen_ai.invoke_agent.duration", s, s.seconds, false, "error.type", "gen_ai.agent.name", "gen_ai.request.model")
			if s.attributes["spantee.turns"] != "" {
				add("gen_ai.invoke_agent.inference_calls", s, optional(s, "spantee.turns"), true, "gen_ai.agent.name")
				add("gen_ai.invoke_agent.tool_calls", s, optional(s, "spantee.tools"), true, "gen_ai.agent.name")
			}
			if s.attributes["spantee.bad_lines"] == "" {
				break
			}
			outcome := "error"
			switch e := s.attributes["error.type"]; e {
			case "":
				outcome = "success"
			case "incomplete", "interrupted", "killed":
				outcome = e
			}
			add("spantee.run.count", s, 1, true, "gen_ai.agent.name", "gen_ai.request.model", "spantee.outcome="+outcome)
			add("spantee.retries", s, optional(s, "spantee.retries"), true, "gen_ai.agent.name")
			add("spantee.stalls", s, 0, true, "gen_ai.agent.name")
			add("spantee.tool.repeats", s, optional(s, "spantee.max_repeats"), true, "gen_ai.agent.name")
			for _, key := range []string{"spantee.usage.cost", "gen_ai.usage.cost"} {
				if s.attributes[key] != "" {
					add("spantee.cost", s, optional(s, key), true, "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.usage.cost.source=provider")
					break
				}
			}
		case "chat":
			chat = s
			add("gen_ai.client.inference.duration", s, s.seconds, false, append([]string{"error.type"}, model...)...)
			if s.attributes["gen_ai.response.time_to_first_chunk"] != "" {
				add("gen_ai.client.inference.time_to_first_chunk", s, optional(s, "gen_ai.response.time_to_first_chunk"), false, model...)
			}
			if s.attributes["gen_ai.usage.input_tokens"] != "" {
				add("gen_ai.client.inference.operation.input_tokens", s, optional(s, "gen_ai.usage.input_tokens"), true, model...)
				add("gen_ai.client.inference.operation.output_tokens", s, optional(s, "gen_ai.usage.output_tokens"), true, model...)
			}
		case "execute_tool":
			add("gen_ai.execute_tool.duration", s, s.seconds, false, "error.type", "gen_ai.agent.name", "gen_ai.tool.name", "gen_ai.tool.type")
			if s.attributes["mcp.method.name"] != "" {
				add("mcp.client.operation.duration", s, s.seconds, false, "error.type", "gen_ai.tool.name", "mcp.method.name")
			}
			for _, lines := range []string{"added", "removed"} {
				if n := optional(s, "spantee.tool.lines_"+lines); n > 0 {
					add("spantee.lines."+lines, s, n, true, "gen_ai.agent.name")
				}
			}
		}
		if s.attributes["gen_ai.usage.input_tokens"]+s.attributes["gen_ai.usage.output_tokens"] != "" {
			for _, key := range []string{"input_tokens", "output_tokens", "cache_read.input_tokens", "cache_write.input_tokens", "reasoning.output_tokens"} {
				if s.attributes["gen_ai.usage."+key] != "" {
					usage(s, key, optional(s, "gen_ai.usage."+key))
				}
			}
		}
		if s.attributes["spantee.bad_lines"] != "" && s.attributes["gen_ai.usage.input_tokens"] == "" { // the rest of what the run used
			for key, total := range map[string]string{
				"input_tokens": "input_tokens", "output_tokens": "output_tokens", "cache_read.input_tokens": "cache_read_tokens",
				"cache_write.input_tokens": "cache_write_tokens", "reasoning.output_tokens": "reasoning_tokens",
			} {
				counted := s.attributes["session.id"] + key
				rest := optional(s, "spantee.usage."+total) - before[counted]
				for _, call := range spans[i+1:] {
					if call.attributes["spantee.bad_lines"] != "" { // the next run
						break
					}
					rest -= optional(call, "gen_ai.usage."+key)
				}
				if rest > 0 {
					usage(s, key, rest)
				}
				before[counted] = max(0, -rest)
			}
		}
		if s.deltas > 1 {
			key := "gen_ai.client.inference.time_per_output_chunk{" + modelOf(chat, model) + "}"
			old := sums[key]
			sums[key] = sum{old.count + s.deltas - 1, old.total + s.last - s.first, false}
		}
	}
	return sums
}

func modelOf(s *goldenSpan, keys []string) string {
	var list []string
	for _, key := range keys {
		if v := s.attributes[key]; v != "" {
			list = append(list, key+"="+v)
		}
	}
	return strings.Join(list, ",")
}
