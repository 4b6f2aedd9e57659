//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const joinedThread = "01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"

// joinedFixture returns the lines of a stream of Codex, and the log of its session.
func joinedFixture(t *testing.T) (lines, rows []string) {
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
	path = filepath.Join(home, "sessions/2026/10/02/rollout-2026-10-02T09-00-00-"+joinedThread+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestJoined pipes a stream of Codex on a machine that has the log of the session.
func TestJoined(t *testing.T) {
	write := func(path, log string) error { return os.WriteFile(path, []byte(log), 0o600) }
	for name, c := range map[string]struct {
		flags  []string
		make   func(path, log string) error
		joined bool
	}{
		"log":        {make: write, joined: true},
		"turned off": {make: write, flags: []string{"--no-session-log"}},
		"link out of the folder": {make: func(path, log string) error {
			outside := filepath.Join(t.TempDir(), "log")
			return errors.Join(write(outside, log), os.Symlink(outside, path))
		}},
		"folder": {make: func(path, _ string) error { return os.Mkdir(path, 0o700) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := receivertest.Start(t)
			home, state := t.TempDir(), t.TempDir()
			cmd := spantee(t, []string{"CODEX_HOME=" + home, "XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, c.flags...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			write := func(lines ...string) {
				if _, err := io.WriteString(in, strings.Join(lines, "")); err != nil {
					t.Fatal(err)
				}
			}
			lines, rows := joinedFixture(t)
			write(lines[:3]...)
			until(t, "session", func() bool { // is claimed when it is known
				_, err := os.Stat(filepath.Join(state, "spantee/traced"))
				return err == nil
			})
			path := codexLogIn(t, home)
			if err := c.make(path, stamped(rows)); err != nil {
				t.Fatal(err)
			}
			write(lines[3]) // Codex begins the log with its first turn
			if c.joined {
				until(t, "open log", func() bool {
					files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
					return slices.ContainsFunc(files, func(fd string) bool {
						file, _ := os.Readlink(fd)
						return file == path
					})
				})
			}
			write(lines[4:]...)
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err, cmd.stderr.String())
			}
			number := func(s *tracepb.Span, key string) (n int) {
				n, _ = strconv.Atoi(attribute(s, key))
				return n
			}
			chats := 0
			var input, total int
			for _, s := range r.Spans() {
				switch joined := attribute(s, "spantee.session_log") != ""; {
				case len(s.ParentSpanId) == 0:
					if joined != c.joined {
						t.Errorf("joined: %t", joined)
					}
					total = number(s, "spantee.usage.input_tokens") + number(s, "gen_ai.usage.input_tokens")
				case strings.HasPrefix(s.Name, "chat"):
					chats++
					if (s.Name == "chat gpt-5.4-codex") != c.joined {
						t.Error(s.Name)
					}
					input += number(s, "gen_ai.usage.input_tokens")
				}
			}
			if chats != 3 || total != 51306 || c.joined && input != total || !c.joined && input != 0 {
				t.Errorf("%d tokens on the root, %d on %d chats", total, input, chats)
			}
		})
	}
}
