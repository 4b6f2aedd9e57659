package mapping_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// endingLines match the lines that can end a run with success, by the folder of the fixtures.
var endingLines = map[string]*regexp.Regexp{
	"agy":        regexp.MustCompile(`"event":"result"|"num_turns"`),
	"amp":        regexp.MustCompile(`"type":"result"`),
	"claude":     regexp.MustCompile(`"type":"result"|"subtype":"task_notification"`),
	"claude-log": regexp.MustCompile(`"type":"assistant"`),
	"codex":      regexp.MustCompile(`"type":"turn\.(completed|failed)"`),
	"codex-log":  regexp.MustCompile(`"type":"(task|turn)_complete"|"role":"assistant"`),
	"copilot":    regexp.MustCompile(`"type":"(result|session\.shutdown|assistant\.turn_end|assistant\.message)"`),
	"cursor":     regexp.MustCompile(`"type": ?"result"`),
	"droid":      regexp.MustCompile(`"type":"completion"`),
	"gemini":     regexp.MustCompile(`"type":"result"`),
	"goose":      regexp.MustCompile(`"type":"complete"`),
	"opencode":   regexp.MustCompile(`"type":"(step_finish|text)"`),
	"pi":         regexp.MustCompile(`"type":"agent_end"`),
	"pi-log":     regexp.MustCompile(`"role":"assistant"`),
	"qwen":       regexp.MustCompile(`"type":"result"`),
}

// outcomeMembers matches the names of the members that tell how a run ended, in the lines of
// any agent.
var outcomeMembers = regexp.MustCompile(`"(is_error|isError|error|errors|api_error_status|status|exitCode|shutdownType|errorReason|reason|stopReason|errorMessage|isApiErrorMessage)":`)

// TestUnreadableOutcome renames the known members of every line that ends a run, as a new
// build may, and has another one say what went wrong: in the line, or where the known ones
// are. No run succeeds then.
func TestUnreadableOutcome(t *testing.T) {
	t.Parallel()
	objects := regexp.MustCompile(`"(data|payload|part|result|message)": ?\{`)
	for name, in := range fixtures(t) {
		agent, _, _ := strings.Cut(short(name), "/")
		for place, failed := range map[string]func(line []byte) []byte{
			"in the line": func(line []byte) []byte {
				return append(bytes.TrimSuffix(bytes.TrimSpace(line), []byte("}")), `,"errorInfo":{"message":"quota exceeded"}}`...)
			},
			"beside the known ones": func(line []byte) []byte {
				at := objects.FindIndex(line)
				if at == nil {
					at = []int{0, bytes.IndexByte(line, '{') + 1}
				}
				return bytes.Join([][]byte{line[:at[1]], line[at[1]:]}, []byte(`"failure":"quota exceeded",`))
			},
		} {
			var changed []byte
			ends := 0
			for line := range bytes.Lines(in) {
				if endingLines[agent].Match(line) && bytes.Contains(line, []byte("{")) {
					line, ends = failed(outcomeMembers.ReplaceAll(line, []byte(`"${1}Told":`))), ends+1
					line = append(bytes.TrimSpace(line), '\n')
				}
				changed = append(changed, line...)
			}
			if ends == 0 {
				continue
			}
			spans, _ := feed{}.spans(t, changed)
			for _, r := range green(spans) {
				t.Errorf("%s, %s: %s ended well", short(name), place, r.Name)
			}
		}
	}
}

// TestUnknownWord has every line that ends a run give another word for how it ended. No run
// succeeds then.
func TestUnknownWord(t *testing.T) {
	t.Parallel()
	words := regexp.MustCompile(`"(status|stopReason|reason|shutdownType)": ?"[a-zA-Z-]+"`)
	tried := map[string]bool{}
	for name, in := range fixtures(t) {
		agent, _, _ := strings.Cut(short(name), "/")
		switch agent {
		case "agy", "copilot", "gemini", "opencode", "pi", "pi-log":
		default:
			continue
		}
		var changed []byte
		ends, plain := 0, 0
		for line := range bytes.Lines(in) {
			switch {
			case !endingLines[agent].Match(line):
			case words.Match(line):
				line, ends = words.ReplaceAll(line, []byte(`"${1}":"evicted"`)), ends+1
			default:
				plain++
			}
			changed = append(changed, line...)
		}
		if ends == 0 || plain > 0 {
			continue
		}
		tried[agent] = true
		spans, _ := feed{}.spans(t, changed)
		for _, r := range green(spans) {
			t.Errorf("%s: %s ended well", short(name), r.Name)
		}
	}
	if len(tried) < 5 {
		t.Error("tried only", tried)
	}
}

// TestFailureAfterLongText ends runs with lines past the parse limit, whose last member says
// that the run failed.
func TestFailureAfterLongText(t *testing.T) {
	t.Parallel()
	text := `"` + strings.Repeat("x", 17<<20) + `"`
	for name, line := range map[string]string{
		"cursor/parallel-tools":     `{"type":"result","subtype":"success","duration_ms":5,"session_id":"%s","result":` + text + `,"is_error":true}`,
		"claude/plain":              `{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":` + text + `,"errors":["quota exceeded"]}`,
		"codex/background-terminal": `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1},"text":` + text + `,"error":{"message":"quota exceeded"}}`,
	} {
		in, err := os.ReadFile("../testdata/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		_, id, _ := bytes.Cut(in, []byte(`"session_id":"`))
		id, _, _ = bytes.Cut(id, []byte(`"`))
		all := bytes.Split(bytes.TrimSpace(in), []byte("\n"))
		in = append(bytes.Join(all[:len(all)-1], []byte("\n")), strings.ReplaceAll("\n"+line+"\n", "%s", string(id))...)
		spans, _ := feed{}.spans(t, in)
		if runs := green(spans); len(runs) > 0 {
			t.Errorf("%s: %s ended well", name, runs[0].Name)
		}
	}
}

// TestNoPrefixSucceeds cuts every stream after each of its lines: no run succeeds without the
// line that ends it. Session logs have none.
func TestNoPrefixSucceeds(t *testing.T) {
	t.Parallel()
	for name, in := range fixtures(t) {
		agent, _, _ := strings.Cut(short(name), "/")
		if strings.HasSuffix(agent, "-log") || bytes.HasPrefix(in, []byte(`{"type":"session.start"`)) {
			continue
		}
		var prefix []byte
		ends, tried := 0, oneIn(4)
		for line := range bytes.Lines(in) {
			prefix = append(prefix, line...)
			if ended(agent, line) {
				ends++
			}
			if !tried() {
				continue
			}
			spans, _ := feed{}.spans(t, prefix)
			if runs := green(spans); len(runs) > ends {
				t.Errorf("%s: %d runs succeeded after %d ends, with %.200s", short(name), len(runs), ends, line)
			}
		}
	}
}

// ended reports whether a line says that a run ended, or may say so.
func ended(agent string, line []byte) bool {
	switch agent {
	case "opencode":
		return bytes.Contains(line, []byte(`"type":"step_finish"`))
	case "copilot":
		return bytes.Contains(line, []byte(`"type":"result"`)) || bytes.Contains(line, []byte(`"session.shutdown"`))
	}
	return endingLines[agent].Match(line)
}

// green returns the roots of runs that succeeded without a doubt.
func green(spans []*tracepb.Span) (roots []*tracepb.Span) {
	for _, s := range spans {
		if len(s.ParentSpanId) == 0 && strings.HasPrefix(s.Name, "invoke_agent") && attr(s, "error.type") == nil && !strings.Contains(fmt.Sprint(attr(s, "spantee.doubts")), "no_end") {
			roots = append(roots, s)
		}
	}
	return roots
}
