package mapping_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/spantee/spantee/mapping"
)

// What a later build of an agent prints is counted by type, and names nothing that may be
// content or a secret. What another program prints beside lines that name their session is
// not the agent's.
func TestUnknownTypes(t *testing.T) {
	const session = "01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"
	claude := func(members string) string { return fmt.Sprintf(`{%s,"session_id":%q,"uuid":"u"}`, members, session) }
	for name, of := range map[string]struct {
		lines []string
		want  []mapping.UnknownType
	}{
		"lines with their session": {
			lines: []string{
				claude(`"type":"system","subtype":"init","claude_code_version":"2.1.300","tools":[]`),
				claude(`"type":"dream","subtype":"deep"`), claude(`"type":"dream","subtype":"deep"`), claude(`"type":"nap"`),
				claude(`"type":"ghp_` + strings.Repeat("aB3", 12) + `"`), claude(`"type":"fix the test"`),
				`{"type":"hook.ran"}`,
			},
			want: []mapping.UnknownType{
				{Agent: "claude-code", Version: "2.1.300", Type: "dream/deep", Lines: 2},
				{Agent: "claude-code", Version: "2.1.300", Type: "nap", Lines: 1},
				{Agent: "claude-code", Version: "2.1.300", Type: "_OTHER", Lines: 2},
			},
		},
		"lines without a session": {
			lines: []string{
				`{"type":"thread.started","thread_id":"` + session + `"}`, `{"type":"turn.started"}`,
				`{"type":"turn.paused"}`, `{"type":"item.completed","item":{"id":"item_1","type":"dream"}}`,
			},
			want: []mapping.UnknownType{
				{Agent: "codex", Type: "turn.paused", Lines: 1},
				{Agent: "codex", Type: "item.completed/dream", Lines: 1},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := feed{}.spans(t, []byte(strings.Join(of.lines, "\n")+"\n"))
			if diff := gocmp.Diff(of.want, m.UnknownTypes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
