package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// claudeLines are the lines of all fixtures in Claude Code's format.
func claudeLines(t testing.TB) (lines [][]byte) {
	for _, flag := range []string{"claude", "qwen", "amp"} {
		files, err := filepath.Glob("../../testdata/" + flag + "/*.jsonl")
		if err != nil || len(files) == 0 {
			t.Fatal("no fixtures of", flag, err)
		}
		for _, file := range files {
			stream, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, bytes.Split(bytes.TrimSpace(stream), []byte("\n"))...)
		}
	}
	return lines
}

// FuzzClaude checks what is read of a line against encoding/json, and that no
// event has a text that is not in the line.
func FuzzClaude(f *testing.F) {
	for _, line := range claudeLines(f) {
		f.Add(line, uint8(0))
	}
	f.Add([]byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","input":{"command":"cd && cd"}},{"type":"tool_result","is_error":true}]}}`), uint8(1))
	f.Add([]byte(`{"type":"result","total_cost_usd":1e-7,"modelUsage":{"a":{"inputTokens":-1}},"errors":[1,"x"]}`), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		decoder := []*Agent{&claude, &qwen, &amp}[n%3].New()
		for _, line := range []Line{{Text: in}, {Text: in[:len(in)/2], Tail: in[len(in)/2:]}, {Text: in}} {
			for _, ev := range decoder.Decode(line, nil) {
				if ev.Kind == ToolEnd && ev.Tool == nil {
					t.Error("a call's end without a tool")
				}
				if u := ev.Usage; u != nil && (u.Input < 0 || u.Output < 0 || u.CostKnown && !(u.Cost >= 0)) {
					t.Errorf("usage %+v", *u)
				}
			}
		}
		var l claudeLine
		r := &jsonscan.Reader{B: in}
		for key := range r.Members() {
			l.field(r, key)
		}
		ok := !r.Bad
		if ok && r.I > len(in) {
			t.Fatal("read past the end")
		}
		var want map[string]any
		if !bytes.HasPrefix(bytes.TrimSpace(in), []byte("{")) || !utf8.Valid(in) || bytes.Contains(in, []byte(`\`)) || json.Unmarshal(in, &want) != nil {
			return
		}
		if !ok {
			t.Error("valid JSON, but not decoded")
		}
		if s, _ := want["type"].(string); s != string(l.typ) {
			t.Errorf("type %q, want %q", l.typ, s)
		}
		if s, ok := want["session_id"].(string); ok && s != string(l.Session) {
			t.Errorf("session %q, want %q", l.Session, s)
		}
	})
}

// What a process used between two results is exact to the last digit.
func TestClaudeCost(t *testing.T) {
	for _, test := range []struct {
		total, earlier string
		want           float64
	}{
		{"0.3", "0.1", 0.2}, {"0.070505", "0.05", 0.020505}, {"1", "1", 0}, {"0.1523995", "0", 0.1523995}, {"2.5e-3", "0.001", 0.0015}, {"0.7", "", 0.7},
	} {
		var total, earlier claudeTotal
		total.usage.readCost(&jsonscan.Reader{B: []byte(test.total)})
		earlier.usage.readCost(&jsonscan.Reader{B: []byte(test.earlier)})
		if since, _ := total.since(earlier, new(Usage)); since.usage.Cost != test.want {
			t.Errorf("%s - %s = %v, want %v", test.total, test.earlier, since.usage.Cost, test.want)
		}
	}
}

// A line past the parse limit still ends its call: what matters stands at its
// beginning and its end.
func TestClaudeHugeLine(t *testing.T) {
	d := claude.New()
	d.Decode(Line{Text: []byte(`{"type":"system","subtype":"init","session_id":"other","uuid":"u"}`)}, nil)
	events := d.Decode(Line{
		Text: []byte(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"a lot of`),
		Tail: []byte(` it"}]},"parent_tool_use_id":"toolu_0","session_id":"s","uuid":"u","timestamp":"2026-11-03T10:00:00.250Z","tool_use_result":"x"}`),
	}, nil)
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	ev := events[0]
	if ev.Kind != ToolEnd || string(ev.ID) != "toolu_1" || string(ev.Parent) != "toolu_0" || string(ev.Session) != "s" || ev.Time != 1793700000250*Milliseconds {
		t.Errorf("%+v", ev)
	}
}

// A line that repeats a message after all of it was streamed has only an estimate of its
// output.
func TestClaudeUsageAfterItsStream(t *testing.T) {
	d := claude.New()
	var used *Usage
	for _, line := range []string{
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":9,"output_tokens":1}}},"parent_tool_use_id":null,"session_id":"s","uuid":"u1"}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Done."}},"parent_tool_use_id":null,"session_id":"s","uuid":"u2"}`,
		`{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":40}},"parent_tool_use_id":null,"session_id":"s","uuid":"u3"}`,
		`{"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":null,"session_id":"s","uuid":"u4"}`,
		`{"type":"assistant","message":{"id":"msg_1","role":"assistant","content":[{"type":"text","text":"Done."}],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"s","uuid":"u5"}`,
	} {
		for _, ev := range d.Decode(Line{Text: []byte(line)}, nil) {
			if ev.Usage != nil {
				used = ev.Usage.copied()
			}
		}
	}
	if used == nil || used.Input != 9 || used.Output != 40 || used.OutputUnknown {
		t.Errorf("the last usage is %+v", used)
	}
}

// Totals are the session's after a resume since version 2.1.277.
func TestClaudeVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.1.276": false, "2.1.277": true, "2.1.278": true, "2.0.999": false, "2.2.0": true, "1.0.44": false, "3.0.0": true, "": true, "next": true,
	} {
		if got := resumesTotals([]byte(version)); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// A call of Claude Code's tool Skill names a skill, not a program.
func TestClaudeSkill(t *testing.T) {
	for input, want := range map[string]string{
		`{"skill":"pdf:fill-form","args":"x"}`: "pdf:fill-form", `{"command":"/review"}`: "review", `{"skill":"tell nobody"}`: "", `{}`: "",
	} {
		events := claude.New().Decode(Line{Text: []byte(`{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t","name":"Skill","input":` + input + `}]},"parent_tool_use_id":null,"session_id":"s","uuid":"u"}`)}, nil)
		if len(events) != 1 || events[0].Tool == nil {
			t.Fatalf("%s: %+v", input, events)
		}
		tool := events[0].Tool
		fact := tool.ArgumentFacts.Find(semconv.SkillName)
		if tool.Skill != want || tool.Executable != "" || (fact != nil) != (want != "") {
			t.Errorf("%s: %+v", input, tool)
		}
	}
}

// Qwen Code states the tokens of the session, which only its command says that it resumes.
func TestQwenResumes(t *testing.T) {
	for command, resumes := range map[string]bool{"qwen -p x": false, "qwen -p x --continue": true, "qwen --resume=6b2f -p x": true} {
		d := qwen.New()
		d.Started(1, qwen.Resumes(strings.Fields(command)))
		events := d.Decode(Line{Text: []byte(`{"type":"result","subtype":"success","is_error":false,"session_id":"s","usage":{"input_tokens":9,"output_tokens":2}}`)}, nil)
		if len(events) != 1 {
			t.Fatalf("%s: %+v", command, events)
		}
		if run, session := events[0].Usage, events[0].SessionUsage; (run == nil) != resumes || (session != nil) != resumes {
			t.Errorf("%s: the run's is %+v, the session's %+v", command, run, session)
		}
	}
}

// The log says how long the model thought until a row, which is since its first token.
func TestClaudeThinkingTime(t *testing.T) {
	row := `{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"thinking","thinking":""}]},"thinkingDurationMs":605,"timestamp":"2026-11-28T09:00:02.105Z","sessionId":"s","uuid":"u","isSidechain":false}`
	for _, ev := range claudeLog.New().Decode(Line{Text: []byte(row)}, nil) {
		if ev.Kind == ThinkingMessage {
			if ev.Time-ev.Start != 605*Milliseconds {
				t.Errorf("it thought from %d to %d", ev.Start, ev.Time)
			}
			return
		}
	}
	t.Error("it did not think")
}
