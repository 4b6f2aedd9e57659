//go:build unix

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/mapping/semconv"
)

// A signal to spantee ends the stream, and there is a whole receipt of what came before.
func TestReceiptAfterASignal(t *testing.T) {
	stream := fixture(t, "killed.jsonl")
	for _, test := range []struct {
		args      []string
		signal    syscall.Signal
		errorType string
	}{
		{nil, syscall.SIGTERM, semconv.ErrorInterrupted},
		{nil, syscall.SIGINT, semconv.ErrorInterrupted},
		{[]string{"exec", "--", "cat"}, syscall.SIGTERM, "SIGTERM"},
	} {
		for _, before := range []bool{true, false} {
			file := filepath.Join(t.TempDir(), "receipt.json")
			if before {
				if err := os.WriteFile(file, []byte(`{"old":true}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"--receipt", file}
			if len(test.args) > 0 {
				args = append([]string{test.args[0], "--receipt", file}, test.args[1:]...)
			}
			cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, args...)
			in, out := cmd.startPiped(t)
			if _, err := in.Write(stream); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, len(stream))); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait() // ends by the signal
			in.Close()
			var r receipt.Receipt
			b, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(b, &r)
			}
			if err != nil || r.RunsTotal != 1 || r.Runs[0].ErrorType != test.errorType || r.Succeeded || r.ExitStatus != 128+int(test.signal) {
				t.Errorf("%q, %v: %v, %s", args, test.signal, err, b)
			}
			if files, _ := os.ReadDir(filepath.Dir(file)); len(files) != 1 {
				t.Errorf("%q, %v: %v beside the receipt", args, test.signal, files)
			}
		}
	}
}

// What runs leave beside a receipt that are killed while they write it is gone after the next.
func TestReceiptsOfKilledRuns(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "receipt.json")
	if err := os.WriteFile(filepath.Join(dir, ".spantee-1.partial"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none"}
	for range cases(5, 120) {
		cmd := spantee(t, env, "--receipt", file)
		in, out := cmd.startPiped(t)
		in.Write(fixture(t, "fix-failing-test.jsonl"))
		in.Close()
		_, _ = io.Copy(io.Discard, out) // the receipt is written next
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	pipe(t, stream("s", 1), env, "--receipt", file)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}
