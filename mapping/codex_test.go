package mapping_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
)

// Codex writes no times, so a live stream's are those of its lines: here one a
// second. A command that is left in a terminal of its own ends with its turn,
// and the model is waited for beside it.
func TestCodexLive(t *testing.T) {
	in := fixtures(t)["../testdata/codex/background-terminal"]
	at := now
	var names []string
	m, err := mapping.New(mapping.Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for line := range bytes.Lines(in) {
		spans = append(spans, decoded(t, m.Map(line))...)
		at = at.Add(time.Second)
	}
	for _, s := range append(spans, decoded(t, m.Close(false))...) {
		if e := attr(s, "error.type").GetStringValue(); e != "" {
			names = append(names, e)
		}
		names = append(names, times(s, now))
	}
	want := []string{
		"execute_tool shell git 5.000-6.000", "chat 2.000-4.000",
		"execute_tool shell npm 4.000-8.000", "chat 6.000-7.000", "invoke_agent codex 0.000-8.000",
	}
	if diff := gocmp.Diff(want, names); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// What a program printed does not say how it exited.
func TestCodexExitCode(t *testing.T) {
	in := fixtures(t)["../testdata/codex-log/plain"]
	for head, want := range map[string]string{
		"Process exited with code 7": "exit code 7",
		"Exit code: 7":               "exit code 7",
		"Command: rg 'exited with code 3' " + strings.Repeat("x", 300) + `\nChunk ID: 5\nProcess exited with code 7`: "exit code 7",
		"Command: rg 'exited with code 3'":    "",
		"Process running with session ID 100": "",
	} {
		row := bytes.Replace(in, []byte(`Process exited with code 0\nOutput:\nok`), []byte(head+`\nOutput:\nthe server exited with code 137`), 1)
		spans, _ := feed{}.spans(t, row)
		var failed []string
		for _, s := range spans {
			if text := s.Status.GetMessage(); text != "" {
				failed = append(failed, text)
			}
		}
		if got := strings.Join(failed, ", "); got != want {
			t.Errorf("%s: failures %q, want %q", head, got, want)
		}
	}
}
