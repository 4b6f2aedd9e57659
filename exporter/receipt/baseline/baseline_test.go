package baseline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/baseline"
	"github.com/spantee/spantee/exporter/spool"
)

// run returns a successful run of an agent, which spent a third of its time in the model.
func run(i int, seconds float64, change ...func(*receipt.Run)) receipt.Run {
	r := receipt.Run{TraceID: fmt.Sprintf("%032x", i+1), Agent: "cursor-agent"}
	r.Succeeded, r.Seconds, r.Tools = true, seconds, 6
	r.Start = time.Date(2026, 11, 1, 0, i, 0, 0, time.UTC)
	for _, c := range change {
		c(&r)
	}
	return r
}

func in(step string, seconds float64) func(*receipt.Run) {
	return func(r *receipt.Run) { r.Longest = append(r.Longest, receipt.Share{Step: step, Seconds: seconds}) }
}

func cost(usd float64) func(*receipt.Run) {
	return func(r *receipt.Run) { r.Cost, r.CostKnown = usd, true }
}

func failed(r *receipt.Run)  { r.Succeeded = false }
func another(r *receipt.Run) { r.Agent = "codex" }

// history writes runs of the service shop.
func history(t *testing.T, runs ...receipt.Run) *baseline.History {
	t.Helper()
	name := filepath.Join(t.TempDir(), "baseline.jsonl")
	var entries []baseline.Entry
	for _, r := range runs {
		entries = append(entries, baseline.NewEntry("shop", r))
	}
	if _, err := baseline.Add(t.Context(), name, entries); err != nil {
		t.Fatal(err)
	}
	h, err := baseline.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func each(n int, make func(i int) receipt.Run) (runs []receipt.Run) {
	for i := range n {
		runs = append(runs, make(i))
	}
	return runs
}

// Five to 41 earlier runs, one run, and what is said of it.
func TestSentences(t *testing.T) {
	usually := func(seconds float64, change ...func(*receipt.Run)) func(i int) receipt.Run {
		return func(i int) receipt.Run { return run(i, seconds, change...) }
	}
	tests := []struct {
		name    string
		earlier []receipt.Run
		run     receipt.Run
		want    string
	}{
		{"no runs", nil, run(100, 84), ""},
		{"too few", each(4, usually(36)), run(100, 84), ""},
		{"five", each(5, usually(36)), run(100, 84), "2.3 × the usual time (median of 5 runs): 84 s, usually 36 s"},
		{
			"a step", each(41, usually(36, in("shell npm", 20), in("waiting for the model", 12))), run(100, 84, in("shell npm", 61), in("waiting for the model", 13)),
			"2.3 × the usual time (median of 41 runs): shell npm took 61 s, usually 20 s",
		},
		{
			"the model", each(7, usually(40, in("shell npm", 20), in("waiting for the model", 12))), run(100, 90, in("shell npm", 21), in("waiting for the model", 60.4)),
			"2.2 × the usual time (median of 7 runs): waiting for the model took 60 s, usually 12 s",
		},
		{"a new step", each(5, usually(10, in("Read", 5))), run(100, 30, in("shell go", 20), in("Read", 5)), "3.0 × the usual time (median of 5 runs): shell go took 20 s, usually none"},
		{
			"as earlier versions called it", each(5, usually(10, in("between steps", 2), in("waiting for background work", 1), in("streaming answers", 5))), run(100, 30, in("agent's own", 20), in("model output", 5)),
			"3.0 × the usual time (median of 5 runs): agent's own took 20 s, usually 3.0 s",
		},
		{
			"a step of most runs", append([]receipt.Run{run(60, 10), run(61, 10)}, each(4, usually(10, in("shell go", 4)))...), run(100, 30, in("shell go", 20)),
			"3.0 × the usual time (median of 6 runs): shell go took 20 s, usually 4.0 s",
		},
		{"many small steps", each(5, usually(10)), run(100, 30, in("a", 3), in("b", 3), in("c", 3)), "3.0 × the usual time (median of 5 runs): 30 s, usually 10 s"},
		{"the usual", each(5, usually(36)), run(100, 36), ""},
		{"little more", each(5, usually(36)), run(100, 53), ""},
		{"one and a half", each(5, usually(36)), run(100, 54), "1.5 × the usual time (median of 5 runs): 54 s, usually 36 s"},
		{"slow runs before it", append([]receipt.Run{run(60, 84), run(61, 84)}, each(5, usually(24))...), run(100, 84), "3.5 × the usual time (median of 7 runs): 84 s, usually 24 s"},
		{"less", each(5, usually(36)), run(100, 1), ""},
		{"below a second more", each(5, usually(0.5)), run(100, 1.4), ""},
		{"minutes", each(5, usually(300)), run(100, 3725), "12 × the usual time (median of 5 runs): 1h2m5s, usually 5m0s"},
		{"very much more", each(5, usually(0.01)), run(100, 61), "over 1000 × the usual time (median of 5 runs): 61 s, usually 10 ms"},
		{"failed ones do not count", append([]receipt.Run{run(60, 36), run(61, 36), run(62, 36), run(63, 36)}, each(9, usually(36, failed))...), run(100, 84), ""},
		{"failed itself", each(5, usually(36)), run(100, 84, failed), "2.3 × the usual time (median of 5 runs): 84 s, usually 36 s"},
		{"another agent", each(9, usually(36, another)), run(100, 84), ""},
		{"itself", each(5, usually(36)), run(4, 84), ""},
		{"without times", each(9, usually(0.00002)), run(100, 84), ""},
		{"cost", each(5, usually(36, cost(0.39))), run(100, 36, cost(1.2)), "3.1 × the usual cost (median of 5 runs): $1.20, usually $0.39"},
		{"time before cost", each(5, usually(36, cost(0.39))), run(100, 84, cost(1.2)), "2.3 × the usual time (median of 5 runs): 84 s, usually 36 s"},
		{"an unknown cost", each(5, usually(36)), run(100, 36, cost(1.2)), ""},
	}
	for _, tt := range tests {
		usual, got := history(t, tt.earlier...).Compare("shop", &tt.run)
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if usual == nil && got != "" {
			t.Errorf("%s: a sentence without a baseline", tt.name)
		}
		if usual, got := history(t, tt.earlier...).Compare("another", &tt.run); usual != nil || got != "" {
			t.Errorf("%s: %q of another service", tt.name, got)
		}
	}
}

func TestMediansAndPercentiles(t *testing.T) {
	r := run(100, 1)
	usual, _ := history(t, each(10, func(i int) receipt.Run {
		return run(i, float64(i+1), cost(float64(i)/10), func(r *receipt.Run) { r.Tools, r.InputTokens, r.TokensKnown = i, int64(100*i), i%2 == 0 })
	})...).Compare("shop", &r)
	if usual.Runs != 10 || usual.Seconds != 5.5 || usual.SecondsP90 != 9 || usual.Tools != 4.5 || usual.ToolsP90 != 8 {
		t.Errorf("%+v", usual)
	}
	if *usual.Cost != 0.45 || *usual.CostP90 != 0.8 || *usual.InputTokens != 400 || *usual.InputTokensP90 != 800 {
		t.Errorf("cost %v %v, tokens %v %v", *usual.Cost, *usual.CostP90, *usual.InputTokens, *usual.InputTokensP90)
	}
}

// What is not a run is set aside. A file of something else is left alone.
func TestDamagedLines(t *testing.T) {
	good := func(i int) string {
		return fmt.Sprintf(`{"schema_version":1,"service":"shop","trace_id":"%032x","agent":"pi","succeeded":true,"seconds":10}`, i)
	}
	for text, want := range map[string]string{
		"": "", good(1): "", good(1) + "\n\n" + good(2) + "\r\n": "",
		good(1) + "\n" + good(2)[:40] + "\n" + good(3):                                                    good(2)[:40] + "\n",
		`{"schema_version":1,"agent":"pi","seconds":"x"}` + "\n" + good(1) + "\n[1]\n" + `{"agent":"pi"}`: `{"schema_version":1,"agent":"pi","seconds":"x"}` + "\n[1]\n" + `{"agent":"pi"}` + "\n",
		good(1) + "\n" + `{"schema_version":2}`:                                                           "version 2",
		`{"schema_version":2,"seconds":{}}` + "\n" + good(1):                                              "version 2",
		"module x\n": "is not a baseline", "{\n\"a\": 1\n}\n": "is not a baseline",
	} {
		name := filepath.Join(t.TempDir(), "baseline.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before, openErr := baseline.Open(name)
		aside, err := baseline.Add(t.Context(), name, []baseline.Entry{baseline.NewEntry("shop", run(50, 1))})
		after, _ := os.ReadFile(name)
		if (openErr == nil) != (err == nil) || (before == nil) != (err != nil) {
			t.Errorf("%q: %v, %v", text, openErr, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), want) || want == "" || string(after) != text {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
			continue
		}
		lines := strings.Count(text, `"trace_id"`) - strings.Count(want, `"trace_id"`) + 1
		if n := strings.Count(string(after), "\n"); n != lines {
			t.Errorf("%q: %d lines, want %d:\n%s", text, n, lines, after)
		}
		damaged, _ := os.ReadFile(name + ".damaged")
		if string(damaged) != want || (aside == "") != (want == "") {
			t.Errorf("%q: set aside in %q: %q, want %q", text, aside, damaged, want)
		}
	}
}

// The latest runs are kept, and each once. Nobody else may read them.
func TestAddKeepsTheLatest(t *testing.T) {
	name := filepath.Join(t.TempDir(), "baseline.jsonl")
	var all []baseline.Entry
	for i := range baseline.MaxRuns + 7 {
		all = append(all, baseline.NewEntry("shop", run(i, 10)))
	}
	all = append(all, all[500])
	if _, err := baseline.Add(t.Context(), name, all); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != baseline.MaxRuns || !strings.Contains(lines[0], all[7].TraceID) || !strings.Contains(lines[len(lines)-1], all[500].TraceID) {
		t.Errorf("%d lines, from %s", len(lines), lines[0])
	}
	if n := strings.Count(string(text), all[500].TraceID); n != 1 {
		t.Errorf("a run is there %d times", n)
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A process that has the file locked is waited for until the context ends.
func TestAddWaitsForTheLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "baseline.jsonl")
	lock, err := spool.TryLock(name + ".lock")
	if lock == nil {
		t.Skip("no locks here: ", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	entries := []baseline.Entry{baseline.NewEntry("shop", run(1, 10))}
	if _, err := baseline.Add(ended, name, entries); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a locked file: %v", err)
	}
	added := make(chan error)
	go func() {
		_, err := baseline.Add(t.Context(), name, entries)
		added <- err
	}()
	lock.Close()
	if err := <-added; err != nil {
		t.Error(err)
	}
}
