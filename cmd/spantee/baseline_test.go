package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spantee/spantee/exporter/receipt/baseline"
	"github.com/spantee/spantee/exporter/spool"
)

// Many commands add their runs to one file at the same time. Each run is there, once and
// whole, without the words of the agent or the user.
func TestBaselineOfACrowd(t *testing.T) {
	t.Parallel()
	const commands = 50
	file := filepath.Join(t.TempDir(), "baseline.jsonl")
	var crowd sync.WaitGroup
	for i := range commands {
		crowd.Go(func() {
			said := pipe(t, stream(fmt.Sprint("s", i), 3), []string{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none"}, "--content=full", "--flush-timeout=1ms", "--baseline="+file)
			if text := said.stderr.String(); strings.Contains(text, "baseline") {
				t.Errorf("command %d said %q", i, text)
			}
		})
	}
	crowd.Wait()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var e baseline.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || !e.Succeeded || e.Tools != 3 || e.Service == "" {
			t.Errorf("%v: %s", err, line)
		}
		sessions[e.SessionID] = true
	}
	if n := strings.Count(string(text), "\n"); n != commands || len(sessions) != commands {
		t.Errorf("%d lines of %d sessions, want %d", n, len(sessions), commands)
	}
	if strings.Contains(string(text), "done") {
		t.Error("the file has the agent's words")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".spantee-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A file that somebody else has locked costs its run, aloud.
func TestBaselineIsLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "baseline.jsonl")
	lock, err := spool.TryLock(file + ".lock")
	if lock == nil {
		t.Skip("no locks here: ", err)
	}
	defer lock.Close()
	said := pipe(t, stream("s", 3), []string{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none"}, "--flush-timeout=1ms", "--baseline="+file)
	if text := said.stderr.String(); text != "spantee: cannot add the run to --baseline: other processes have it locked\n" {
		t.Errorf("said %q", text)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was written")
	}
}
