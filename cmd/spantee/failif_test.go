package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/condition"
)

// conditions are what --fail-if may be, and what they mean.
var conditions = []struct {
	text string
	want func(r *receipt.Receipt) bool
}{
	{"cost > 2", func(r *receipt.Receipt) bool { return r.Cost > 2 }},
	{"cost > 0.02", func(r *receipt.Receipt) bool { return r.Cost > 0.02 }},
	{"not cost_known or cost > 0.05", func(r *receipt.Receipt) bool { return !r.CostKnown || r.Cost > 0.05 }},
	{"cost > 2 or tools_failed > 10 or not succeeded", func(r *receipt.Receipt) bool { return r.Cost > 2 || r.ToolsFailed > 10 || !r.Succeeded }},
	{"not succeeded", func(r *receipt.Receipt) bool { return !r.Succeeded }},
	{"succeeded", func(r *receipt.Receipt) bool { return r.Succeeded }},
	{"succeeded == False", func(r *receipt.Receipt) bool { return !r.Succeeded }},
	{"tools_failed > 0", func(r *receipt.Receipt) bool { return r.ToolsFailed > 0 }},
	{"tools_failed >= 2 and tools >= 3", func(r *receipt.Receipt) bool { return r.ToolsFailed >= 2 && r.Tools >= 3 }},
	{"tools > 0 and tools_failed / tools > 0.4", func(r *receipt.Receipt) bool { return r.Tools > 0 && float64(r.ToolsFailed)/float64(r.Tools) > 0.4 }},
	{"turns > 2", func(r *receipt.Receipt) bool { return r.Turns > 2 }},
	{"turns == 0", func(r *receipt.Receipt) bool { return r.Turns == 0 }},
	{"retries > 0", func(r *receipt.Receipt) bool { return r.Retries > 0 }},
	{"stalls != 0", func(r *receipt.Receipt) bool { return r.Stalls != 0 }},
	{"input_tokens + output_tokens > 20000", func(r *receipt.Receipt) bool { return r.InputTokens+r.OutputTokens > 20000 }},
	{"cache_read_tokens * 2 < input_tokens", func(r *receipt.Receipt) bool { return r.CacheReadTokens*2 < r.InputTokens }},
	{"tokens_known and output_tokens < 100", func(r *receipt.Receipt) bool { return r.TokensKnown && r.OutputTokens < 100 }},
	{"seconds > 8", func(r *receipt.Receipt) bool { return r.Seconds > 8 }},
	{"model_seconds > tool_seconds", func(r *receipt.Receipt) bool { return r.Model > r.Tool }},
	{"approval_seconds > 1", func(r *receipt.Receipt) bool { return r.Approval > 1 }},
	{"idle_seconds > 0.05 * seconds", func(r *receipt.Receipt) bool { return r.Idle > 0.05*r.Seconds }},
	{"'rejected' in failures", func(r *receipt.Receipt) bool { return r.Failures["rejected"] > 0 }},
	{"'rejected' not in failures", func(r *receipt.Receipt) bool { return r.Failures["rejected"] == 0 }},
	{"failures", func(r *receipt.Receipt) bool { return len(r.Failures) > 0 }},
	{"not failures and tools", func(r *receipt.Receipt) bool { return len(r.Failures) == 0 && r.Tools > 0 }},
	{"limits_reached", func(*receipt.Receipt) bool { return false }},
	{"'max-tools' in limits_reached", func(*receipt.Receipt) bool { return false }},
	{"doubts", func(r *receipt.Receipt) bool { return len(r.Doubts) > 0 }},
	{"'denied' in doubts", func(r *receipt.Receipt) bool { return r.DoubtCounts["denied"] > 0 }},
	{"'open_calls' in doubts and not succeeded", func(r *receipt.Receipt) bool { return r.DoubtCounts["open_calls"] > 0 && !r.Succeeded }},
	{"runs_total != 1", func(r *receipt.Receipt) bool { return r.RunsTotal != 1 }},
	{"runs", func(r *receipt.Receipt) bool { return len(r.Runs) > 0 }},
	{"start == ''", func(r *receipt.Receipt) bool { return r.Start.IsZero() }},
	{"turns in [1, 3, 5]", func(r *receipt.Receipt) bool { return r.Turns == 1 || r.Turns == 3 || r.Turns == 5 }},
	{"-tools // 2 + turns % 2 < -1", func(r *receipt.Receipt) bool { return (-r.Tools-r.Tools%2)/2+r.Turns%2 < -1 }},
	{"exit_status != 0 or not complete", func(*receipt.Receipt) bool { return false }},
}

// gated are 20 streams of all kinds.
var gated = []string{
	"cursor/fix-failing-test", "cursor/parallel-tools", "cursor/approvals", "cursor/result-error", "cursor/killed", "cursor/resumed",
	"cursor/idle-background", "cursor/retries", "cursor/tool-failures", "cursor/background-refused",
	"claude/subagent", "claude/api-error", "claude/retry-compaction", "claude/tool-failures", "claude/resumed",
	"codex/failed", "codex/plain", "gemini/parallel-tools", "opencode/error", "pi/tool-failures",
}

// The exit status is 1 if the condition is true, as a shell with pipefail sees it, and the
// stream goes through.
func TestFailIf(t *testing.T) {
	long(t)
	t.Parallel()
	if len(conditions) < 30 || len(gated) < 20 {
		t.Fatal("too few")
	}
	bash := lookPath(t, "bash")
	failed, passed := 0, 0
	for i, name := range gated {
		file := filepath.Join("..", "..", "testdata", filepath.FromSlash(name)+".jsonl")
		// What the condition reads is the receipt of the same stream.
		receiptFile := filepath.Join(t.TempDir(), "receipt.json")
		r := receiptOf(t, file, receiptFile)
		var script, want bytes.Buffer
		for j, c := range conditions {
			holds := c.want(r)
			parsed, err := condition.Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := parsed.Holds(r); got != holds || err != nil {
				t.Errorf("%s: %s is %v, %v, want %v", name, c.text, got, err, holds)
			}
			status := 0
			if holds {
				status, failed = 1, failed+1
			} else {
				passed++
			}
			if thorough || i == j%len(gated) { // each takes a process
				fmt.Fprintf(&script, "cat '%s' | spantee -q --fail-if \"%s\" | cmp - '%s'; echo $?\n", file, c.text, file)
				fmt.Fprintln(&want, status)
			}
		}
		cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"})
		cmd.Path, cmd.Args = bash, []string{"bash", "-o", "pipefail", "-c", script.String()}
		if err := cmd.Run(); err != nil || cmd.stdout.String() != want.String() || cmd.stderr.Len() > 0 {
			t.Errorf("%s: %v\n%s\n%s\nwant:\n%s%s", name, err, script.String(), cmd.stdout.String(), want.String(), cmd.stderr.String())
		}
	}
	if failed < 100 || passed < 100 {
		t.Errorf("%d are true, %d false", failed, passed)
	}
}

// receiptOf runs spantee with --receipt.
func receiptOf(t *testing.T, stream, file string) *receipt.Receipt {
	t.Helper()
	in, err := os.ReadFile(stream)
	if err != nil {
		t.Fatal(err)
	}
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "-q", "--receipt", file)
	cmd.Stdin = bytes.NewReader(in)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, cmd.stderr.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := new(receipt.Receipt)
	if err := json.Unmarshal(b, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A condition that cannot be evaluated at the end fails.
func TestUnevaluableCondition(t *testing.T) {
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "--fail-if", "cost / tools > 1")
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 1 || !strings.Contains(cmd.stderr.String(), `cannot evaluate --fail-if "cost / tools > 1": `) {
		t.Errorf("exit status %d: %s", got, cmd.stderr.String())
	}
}
