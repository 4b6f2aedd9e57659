package agent

import "testing"

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
