package github

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/receipt"
)

// The text ends no fence of its own, and is cut to the room there is.
func TestMarkdown(t *testing.T) {
	const table = "| a |\n"
	for text, fence := range map[string]string{"plain\n\n": "```", "```go\nx\n```": "````", "`````": "``````"} {
		want := table + "<details><summary>All steps</summary>\n\n" + fence + "text\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n\n</details>\n"
		if got := markdown(table, text, 1000); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for room := range 200 {
		got := markdown(table, strings.Repeat("ä", 100), room)
		if len(got) > room || got != "" && !strings.HasSuffix(got, "\n(truncated)\n```\n\n</details>\n") && !strings.HasSuffix(got, strings.Repeat("ä", 100)+"\n```\n\n</details>\n") {
			t.Errorf("room %d: %q", room, got)
		}
	}
}

// A name cannot add an output, a cell or a line of its own.
func TestNamesStayInTheirPlace(t *testing.T) {
	run := receipt.Run{Agent: "a|b\nc", SessionID: "s\nspantee_injected=1", Model: "<img>"}
	r := &receipt.Receipt{Runs: []receipt.Run{run}, RunsTotal: 1}
	dir := t.TempDir()
	file := filepath.Join(dir, "output")
	s := &Step{outputs: file}
	if err := s.Write(r, func(string) string { return "" }, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\nspantee_injected") || !strings.Contains(string(text), "\nspantee_session_id=s") {
		t.Errorf("%s", text)
	}
	table := overview(r, new(slowest), nil, func(string) string { return "" })
	if !strings.Contains(table, `a\|b`) || !strings.Contains(table, `\<img\>`) || strings.Contains(table, "b\nc") {
		t.Errorf("%s", table)
	}
}

// A summary that is too long is left out, aloud. What is in the file stays.
func TestNoRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	before := strings.Repeat("x", maxSummary)
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_OUTPUT", "")
	t.Setenv("GITHUB_STEP_SUMMARY", file)
	s := NewStep(false)
	s.traces.WriteString("a trace")
	err := s.Write(&receipt.Receipt{Runs: []receipt.Run{{}}, RunsTotal: 1}, func(string) string { return "" }, false)
	after, _ := os.ReadFile(file)
	if err == nil || !strings.Contains(err.Error(), "no room") || string(after) != before {
		t.Errorf("%v, %d bytes", err, len(after))
	}
	t.Setenv("GITHUB_ACTIONS", "")
	if NewStep(false) != nil {
		t.Error("a step outside of GitHub Actions")
	}
}
