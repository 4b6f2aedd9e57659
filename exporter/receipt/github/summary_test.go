package github

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
)

// summarize returns the summary of a recording.
func summarize(t *testing.T, recording string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "summary")
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_OUTPUT", "")
	t.Setenv("GITHUB_STEP_SUMMARY", file)
	step, recorder := NewStep(false), new(receipt.Recorder)
	in, err := os.Open("../../../testdata/" + recording)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	for out, err := range m.Read(in) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Span == nil {
			continue
		}
		span := new(runs.Span)
		if err := span.Read(out.Span); err != nil {
			t.Fatal(err)
		}
		recorder.Add(span)
		step.Export(span)
	}
	if err := step.Write(recorder.Receipt(), func(string) string { return "http://jaeger" }, false); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What failed and what was slow stands above the steps, which are folded.
func TestSummaryBeginsWithFailures(t *testing.T) {
	summary := summarize(t, "cursor/tool-failures.jsonl")
	rest := summary
	for _, want := range []string{
		"### ⚠ cursor-agent ended, 28 of 30 tools failed, 10 calls refused\n", "\n54.2s · ", "](http://jaeger)\n", "\nshell 70 % (estimated), model 13 % (",
		"**Failed**", "\n| ✗ shell sh | exit 3 | 1.34s |\n", "\n| ✗ shell make | timeout after 30 s | 7.75s |\n", "\nand 8 more\n",
		"**Slowest tools**", "\n| shell make | 30.4s estimated | 7.75s |\n", "**Slowest model turns**", " → ", "<details>", "```text\ncursor-agent · ", "</details>\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or out of order, in:\n%s", want, summary)
		}
		rest = after
	}
}

// A hook that failed is none of the errors. What was done again stands in the facts, as in the tree.
func TestSummaryOfARunThatRetried(t *testing.T) {
	summary := summarize(t, "claude/retry-compaction.jsonl")
	const again = " · $0.310 · 3 retries (2.41s delay)"
	for _, want := range []string{"### ✓ claude-code ended\n", again + " · 1 compaction · trace ", again + "\n1 compaction · trace ", "─ hook Stop ", "✗ exit 2"} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is missing in:\n%s", want, summary)
		}
	}
	if strings.Contains(summary, "failed") || strings.Contains(summary, "Slowest tools") { // Task's time is that of its steps
		t.Errorf("a tool failed, or was slow:\n%s", summary)
	}
}
