package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
)

// Whenever spantee is killed, the receipt is the old one, if there was one, or the whole
// new one.
func TestReceiptIsWhole(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "receipt.json")
	in := fixture(t, "parallel-tools.jsonl")
	replaced := 0
	var whole time.Duration // of a run that is not killed, the first
	for i := range 40 {
		var old []byte
		var err error
		if i%2 == 0 {
			old = []byte(`{"old":true}`)
			err = os.WriteFile(file, old, 0o600)
		} else if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "--receipt", file)
		cmd.Stdin = bytes.NewReader(in)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if i > 0 { // in the first half of the runs before the end, in the second about the end
			at := whole * time.Duration(min(i, 20)) / 20
			defer time.AfterFunc(at, func() { cmd.Process.Kill() }).Stop()
		}
		_ = cmd.Wait() // it may have been killed
		if i == 0 {
			whole = time.Since(began)
		}
		got, err := os.ReadFile(file)
		switch {
		case old == nil && errors.Is(err, fs.ErrNotExist), old != nil && bytes.Equal(got, old):
			continue
		case err != nil:
			t.Fatal(err)
		}
		replaced++
		var r receipt.Receipt
		if err := json.Unmarshal(got, &r); err != nil || r.RunsTotal != 1 {
			t.Errorf("%v, %s", err, got)
		}
	}
	t.Logf("%d of 40 were replaced", replaced)
}
