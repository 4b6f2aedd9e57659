//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spantee/spantee/exporter/receipt"
)

// With --prices, the cost of a run that states none is computed for the receipt, for --fail-if
// and for --max-cost, and it is on no span.
func TestPrices(t *testing.T) {
	stream, err := os.ReadFile("../../testdata/qwen/plain.jsonl") // 27,920 tokens in, 22,516 of them cached, and 116 out
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	prices, file, spans := filepath.Join(dir, "prices.json"), filepath.Join(dir, "receipt.json"), filepath.Join(dir, "spans.jsonl")
	known := `{"qwen3-coder-plus": {"input_cost_per_token": 1e-4, "output_cost_per_token": 1e-3, "cache_read_input_token_cost": 1e-5}}`
	const cost = 0.5404 + 0.22516 + 0.116
	for name, tt := range map[string]struct {
		prices string
		args   []string
		status int
		source string
		said   string
	}{
		"a condition":     {known, []string{"--fail-if", "cost > 0.8"}, 1, "computed", "spantee: --fail-if is true: cost > 0.8\n"},
		"false":           {known, []string{"--fail-if", "cost > 0.9"}, 0, "computed", ""},
		"a limit":         {known, []string{"exec", "--max-cost", "0.3"}, 0, "computed", "spantee: the agent reached --max-cost\n"},
		"no price":        {`{"m": {"input_cost_per_token": 1}}`, []string{"exec", "--max-cost", "1"}, 0, "", "spantee: --prices has no price for qwen3-coder-plus: what they cost counts as 0\n"},
		"no price needed": {known, nil, 0, "computed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(prices, []byte(tt.prices), 0o600); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(spans)
			args := slices.Concat(tt.args, []string{"--prices", prices, "--receipt", file, "--to", spans})
			if slices.Contains(args, "exec") {
				args = append(args, "--", "cat")
			}
			summary := filepath.Join(t.TempDir(), "summary.md")
			cmd := spantee(t, []string{"GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY=" + summary}, args...)
			cmd.Stdin = bytes.NewReader(stream)
			_ = cmd.Run()
			if said := cmd.stderr.String(); cmd.ProcessState.ExitCode() != tt.status || !strings.Contains(said, tt.said) {
				t.Errorf("status %d, %q", cmd.ProcessState.ExitCode(), said)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r receipt.Receipt
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			want := 0.0
			if tt.source == "computed" {
				want = cost
			}
			if diff := r.Cost - want; r.CostSource != tt.source || diff > 1e-6 || diff < -1e-6 || r.CostKnown != (want > 0) {
				t.Errorf("cost %v, known %v, %q", r.Cost, r.CostKnown, r.CostSource)
			}
			if b, err := os.ReadFile(summary); err != nil || bytes.Contains(b, []byte(" · $0.882 computed · ")) != (want > 0) {
				t.Errorf("the step summary: %v, %s", err, b)
			}
			if b, err := os.ReadFile(spans); err != nil || len(b) == 0 || bytes.Contains(b, []byte("usage.cost")) {
				t.Errorf("the spans have a cost: %v, %s", err, b)
			}
		})
	}
}

// The receipt, the baseline and the outputs are written whatever the earlier runs of a baseline
// state.
func TestReceiptOfExtremeNumbers(t *testing.T) {
	dir := t.TempDir()
	file, usual, outputs := filepath.Join(dir, "receipt.json"), filepath.Join(dir, "baseline.jsonl"), filepath.Join(dir, "outputs")
	var earlier strings.Builder
	for i := range 6 {
		fmt.Fprintf(&earlier, `{"schema_version":1,"service":"cursor-agent","agent":"cursor-agent","trace_id":"%d","succeeded":true,"cost_known":true,"cost":1e308,"seconds":1.5e308,"input_tokens":9,"tokens_known":true}`+"\n", i)
	}
	if err := os.WriteFile(usual, []byte(earlier.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none", "GITHUB_ACTIONS=true", "GITHUB_OUTPUT=" + outputs}, "--receipt", file, "--baseline", usual)
	cmd.Stdin = bytes.NewReader(fixture(t, "fix-failing-test.jsonl"))
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if said := cmd.stderr.String(); !strings.Contains(said, "left out of the receipt, because they are no finite numbers: baseline.seconds") || strings.Contains(said, "cannot") {
		t.Errorf("it said %q", said)
	}
	var r receipt.Receipt
	if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &r) != nil || r.Baseline == nil || r.Baseline.Cost != nil || *r.Baseline.InputTokens != 9 {
		t.Errorf("%+v, %v", r, err)
	}
	if b, err := os.ReadFile(usual); err != nil || bytes.Count(b, []byte("\n")) != 7 {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := os.ReadFile(outputs); err != nil || !bytes.Contains(b, []byte("spantee_succeeded=true")) {
		t.Errorf("%s, %v", b, err)
	}
}

// A file of prices that cannot be read is an invalid flag, before the agent runs.
func TestInvalidPrices(t *testing.T) {
	dir := t.TempDir()
	bad, ran := filepath.Join(dir, "bad.json"), filepath.Join(dir, "ran")
	if err := os.WriteFile(bad, []byte(`{"m": {"mode": "chat"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, infinite, trailing := filepath.Join(dir, "pipe"), filepath.Join(dir, "infinite"), filepath.Join(dir, "trailing")
	if err := errors.Join(
		os.WriteFile(infinite, []byte(`{"claude-x": {"input_cost_per_token": 1e308, "output_cost_per_token": 1e308}}`), 0o600),
		os.WriteFile(trailing, []byte(`{"m": {"input_cost_per_token": 0.1}} and text`), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	files := []string{bad, dir, filepath.Join(dir, "missing"), infinite, trailing}
	if !testing.Short() {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, pipe) // that nobody writes to
	}
	var commands sync.WaitGroup
	for _, file := range files {
		for _, args := range [][]string{{"--prices", file}, {"exec", "--prices", file, "--", "touch", ran}, {"replay", "--prices", file, bad}, {"view", "--no-open", "--listen=127.0.0.1:0", "--otlp-grpc=", "--otlp-http=", "--prices", file}, {"view", "--export", ran, "--prices", file, bad}} {
			commands.Go(func() {
				cmd := spantee(t, nil, args...)
				_ = cmd.Run()
				if said := cmd.stderr.String(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said, "--prices") || !strings.Contains(said, file) || file == infinite && !strings.Contains(said, "claude-x") {
					t.Errorf("%q: status %d, %q", args, cmd.ProcessState.ExitCode(), said)
				}
			})
		}
	}
	commands.Wait()
	if _, err := os.Stat(ran); err == nil {
		t.Error("the agent ran")
	}
}
