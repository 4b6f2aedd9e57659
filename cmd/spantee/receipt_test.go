package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
)

// Whenever spantee is killed, the receipt is the old one or the whole new one.
func TestReceiptIsWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "receipt.json")
	old := []byte(`{"old":true}`)
	in := fixture(t, "parallel-tools.jsonl")
	replaced := 0
	for i := range 40 {
		if err := os.WriteFile(file, old, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "--receipt", file)
		cmd.Stdin = bytes.NewReader(in)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(i)*time.Millisecond, func() { cmd.Process.Kill() })
		_ = cmd.Wait() // it may have been killed
		kill.Stop()
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got, old) {
			continue
		}
		replaced++
		var r receipt.Receipt
		if err := json.Unmarshal(got, &r); err != nil || r.RunsTotal != 1 {
			t.Errorf("%v, %s", err, got)
		}
	}
	t.Logf("%d of 40 were replaced", replaced)
}
