//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// A screen is a terminal that a command has as its stderr.
type screen struct {
	t    *testing.T
	r    *bufio.Reader
	seen strings.Builder
}

func newScreen(t *testing.T, cmd *run) (s *screen, tty *os.File) {
	t.Helper()
	r, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); tty.Close() })
	cmd.Stderr = tty
	return &screen{t: t, r: bufio.NewReader(r)}, tty
}

// line returns the next line that matches.
func (s *screen) line(pattern string) []string {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	for {
		line, err := s.r.ReadString('\n')
		s.seen.WriteString(line)
		if found := want.FindStringSubmatch(line); found != nil {
			return found
		}
		if err != nil {
			s.t.Fatalf("no %q in %q: %v", pattern, s.seen.String(), err)
		}
	}
}

// TestTheTraceIsNamedWhenItBegins has a user who watches: the link comes while the
// agent works, and again at the end.
func TestTheTraceIsNamedWhenItBegins(t *testing.T) {
	stream := fixture(t, "parallel-tools.jsonl")
	head := bytes.Index(stream, []byte(`"tool_call"`))
	for _, args := range [][]string{nil, {"exec"}} {
		r := receivertest.Start(t)
		args = append(args, "--trace-url=http://jaeger/{trace_id}")
		if args[0] == "exec" {
			args = append(args, "--", "cat")
		}
		cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, args...)
		screen, tty := newScreen(t, cmd)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		if _, err := in.Write(stream[:head]); err != nil {
			t.Fatal(err)
		}
		id := screen.line(`^spantee: trace ([0-9a-f]{32}) began http://jaeger/([0-9a-f]{32})\r\n$`)
		if _, err := in.Write(stream[head:]); err != nil {
			t.Fatal(err)
		}
		in.Close()
		screen.line(`^spantee: trace ` + id[1] + `: 5 spans, .* http://jaeger/` + id[2] + `\r\n$`)
		if err := cmd.Wait(); err != nil || id[1] != id[2] {
			t.Errorf("%v: %v, %q", args, err, id)
		}
		_, _ = io.Copy(io.Discard, screen.r)
	}
}

// TestReplayShowsProgress on a terminal, and what it says stands on lines of its
// own.
func TestReplayShowsProgress(t *testing.T) {
	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "replay", "-r", "--flush-timeout=1m", "../../testdata/cursor")
	screen, tty := newScreen(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	screen.line(`(?:^|\r\x1b\[2K)spantee: ../../testdata/cursor/parallel-tools.jsonl: trace [0-9a-f]{32}: 5 spans`)
	_, _ = io.Copy(&screen.seen, screen.r)
	if err := cmd.Wait(); err == nil {
		t.Error("no error, and some of the fixtures are no recordings")
	}
	if cmd.stdout.Len() > 0 {
		t.Errorf("stdout: %q", cmd.stdout.String())
	}
	if !strings.Contains(screen.seen.String(), "%") {
		t.Errorf("no progress in %q", screen.seen.String())
	}
}
