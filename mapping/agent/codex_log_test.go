package agent

import (
	"fmt"
	"strings"
	"testing"
)

// TestCodexPrompts checks that Codex's own word for what a text is beats how the text looks.
func TestCodexPrompts(t *testing.T) {
	for _, test := range []struct {
		text, kind string
		want       bool
	}{
		{"<3 Try again.", "user.text", true},
		{"The shell is bash.", "environments.environment_context", false},
		{"<turn_aborted>", "generic.turn_aborted", false},
		{"Try again.", "", true}, // before 0.171
		{"<environment_context>", "", false},
		{"# AGENTS.md instructions", "", false},
	} {
		l := codexRow{texts: [][]byte{[]byte(test.text)}}
		if test.kind != "" {
			l.kinds = [][]byte{[]byte(test.kind)}
		}
		if got := l.prompts(0); got != test.want {
			t.Errorf("%q of kind %q is a prompt: %v", test.text, test.kind, got)
		}
	}
}

// A resumed turn has used what is not in the log before it, however soon it followed.
func TestCodexLearnsTotals(t *testing.T) {
	const thread = "01a2234c-61fb-73b3-95b5-8ef1a2f563a9"
	row := func(second int, text string) string {
		return fmt.Sprintf(`{"timestamp":"2026-11-28T09:00:%02d.000Z",%s}`+"\n", second, text)
	}
	turn := func(second int) string {
		return row(second, `"type":"event_msg","payload":{"type":"task_started"}`) + row(second, `"type":"turn_context","payload":{"model":"gpt-5.4"}`)
	}
	tokens := row(2, `"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":3800,"output_tokens":91}}}`)
	first := row(0, `"type":"session_meta","payload":{"id":"`+thread+`"}`) + turn(1) + tokens + row(3, `"type":"event_msg","payload":{"type":"task_complete"}`)
	d := codex.New()
	d.Decode(Line{Text: []byte(`{"type":"thread.started","thread_id":"` + thread + `"}`)}, nil)
	if start, ok := d.Learn(thread, RowTime([]byte(row(1, `"type":""`))), []byte(first+turn(4))); !ok || string(start.Model) != "gpt-5.4" {
		t.Fatalf("learned %+v, %v", start, ok)
	}
	var used []string
	for _, ev := range d.Decode(Line{Text: []byte(`{"type":"turn.completed","usage":{"input_tokens":10300,"cached_input_tokens":0,"output_tokens":232}}`)}, nil) {
		if ev.Kind == RunEnd && ev.Usage != nil {
			used = append(used, fmt.Sprint(ev.Usage.Input, ev.Usage.Output))
		}
	}
	if got := strings.Join(used, ", "); got != "6500 141" {
		t.Errorf("the run has used %q", got)
	}
}
