package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
			if b, err := os.ReadFile(summary); err != nil || bytes.Contains(b, []byte("| $0.8816 computed |")) != (want > 0) {
				t.Errorf("the step summary: %v, %s", err, b)
			}
			if b, err := os.ReadFile(spans); err != nil || len(b) == 0 || bytes.Contains(b, []byte("usage.cost")) {
				t.Errorf("the spans have a cost: %v, %s", err, b)
			}
		})
	}
}

// A file of prices that cannot be read is an invalid flag, before the agent runs.
func TestInvalidPrices(t *testing.T) {
	dir := t.TempDir()
	bad, ran := filepath.Join(dir, "bad.json"), filepath.Join(dir, "ran")
	if err := os.WriteFile(bad, []byte(`{"m": {"mode": "chat"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{bad, dir, filepath.Join(dir, "missing")} {
		for _, args := range [][]string{{"--prices", file}, {"exec", "--prices", file, "--", "touch", ran}, {"replay", "--prices", file, bad}, {"view", "--no-open", "--listen=127.0.0.1:0", "--otlp-grpc=", "--otlp-http=", "--prices", file}} {
			cmd := spantee(t, nil, args...)
			_ = cmd.Run()
			if said := cmd.stderr.String(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said, "--prices") || !strings.Contains(said, file) {
				t.Errorf("%q: status %d, %q", args, cmd.ProcessState.ExitCode(), said)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the agent ran")
	}
}
