//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

const codexThreadID = "01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"

// codexFixture returns the lines of a stream of Codex, and the log of its session.
func codexFixture(t *testing.T) (lines, rows []string) {
	t.Helper()
	read := func(name string) []string {
		b, err := os.ReadFile("../../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(strings.Lines(string(b)))
	}
	return read("codex/plain.jsonl"), read("codex-log/piped.jsonl")
}

// stamped returns rows that are written now.
func stamped(rows []string) (log string) {
	for _, row := range rows {
		_, rest, _ := strings.Cut(row, `Z"`)
		log += `{"timestamp":"` + time.Now().UTC().Format("2006-01-02T15:04:05.000Z") + `"` + rest
	}
	return log
}

// codexLogIn returns the path of the log of the fixture's session in a folder of Codex's,
// which it makes.
func codexLogIn(t *testing.T, home string) (path string) {
	t.Helper()
	path = filepath.Join(home, "sessions/2026/10/02/rollout-2026-10-02T09-00-00-"+codexThreadID+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSessionLog pipes a stream of Codex on a machine that has the log of the session.
func TestSessionLog(t *testing.T) {
	put := func(path, log string) error { return os.WriteFile(path, []byte(log), 0o600) }
	for name, c := range map[string]struct {
		make func(path, log string) error
		read bool
	}{
		"log": {make: put, read: true},
		"log of a session that was resumed often": {make: func(path, log string) error {
			first, rest, _ := strings.Cut(log, "\n")
			old := `{"timestamp":"2026-01-01T00:00:00.000Z","type":"turn_context","payload":{"turn_id":"old","model":"gpt-old"}}` + "\n"
			return put(path, first+"\n"+strings.Repeat(old, 10_000)+rest)
		}, read: true},
		"link out of the folder": {make: func(path, log string) error {
			outside := filepath.Join(t.TempDir(), "log")
			return errors.Join(put(outside, log), os.Symlink(outside, path))
		}},
		"folder": {make: func(path, _ string) error { return os.Mkdir(path, 0o700) }},
		"none":   {make: func(string, string) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := receivertest.Start(t)
			home, state := t.TempDir(), t.TempDir()
			lines, rows := codexFixture(t)
			if err := c.make(codexLogIn(t, home), stamped(rows)); err != nil {
				t.Fatal(err)
			}
			cmd := spantee(t, []string{"CODEX_HOME=" + home, "XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()})
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			write := func(lines []string) {
				if _, err := io.WriteString(in, strings.Join(lines, "")); err != nil {
					t.Fatal(err)
				}
			}
			write(lines[:3])
			until(t, "session", func() bool { // is claimed when it is known
				_, err := os.Stat(filepath.Join(state, "spantee/traced"))
				return err == nil
			})
			write(lines[3:])
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err, cmd.stderr.String())
			}
			for _, s := range r.Spans() {
				switch root := len(s.ParentSpanId) == 0; {
				case root && (attribute(s, "spantee.session_log") != "") != c.read:
					t.Errorf("read: %t", !c.read)
				case (root || strings.HasPrefix(s.Name, "chat")) && (attribute(s, "gen_ai.request.model") == "gpt-5.4-codex") != c.read:
					t.Errorf("%s has the model %q", s.Name, attribute(s, "gen_ai.request.model"))
				case root && attribute(s, "gen_ai.usage.input_tokens") != "51306":
					t.Errorf("%s tokens", attribute(s, "gen_ai.usage.input_tokens"))
				}
			}
		})
	}
}
