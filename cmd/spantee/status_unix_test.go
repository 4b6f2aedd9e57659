//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/viewer"
)

// until reads the screen up to where it matches.
func (s *screen) until(pattern string) {
	s.t.Helper()
	want := regexp.MustCompile(pattern + "$")
	var seen []byte
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			s.t.Fatalf("no %q in %q: %v", pattern, seen, err)
		}
		seen = append(seen, b)
		if want.Match(seen) {
			return
		}
	}
}

// The status is drawn while an agent runs, fits the terminal at any width, and is erased
// before anything else is printed.
func TestStatusOnATerminal(t *testing.T) {
	long(t)
	t.Parallel()
	stream := fixture(t, "fix-failing-test.jsonl")
	started := bytes.Index(stream, []byte(`"subtype":"started"`))
	head := started + bytes.IndexByte(stream[started:], '\n') + 1 // a shell command runs
	stamp := regexp.MustCompile(`"timestamp_ms":\d+`)
	stamps := stamp.FindAll(stream[:head], -1)
	stream = append(stamp.ReplaceAll(stream[:head], stamps[len(stamps)-1]), stream[head:]...) // as if they came live, at once
	for _, args := range [][]string{{"--tree", "--content=details"}, {"exec", "--tree", "--content=details", "--", "cat"}} {
		cmd := spantee(t, []string{"OTEL_SDK_DISABLED=true", "TERM=xterm", "NO_COLOR=1"}, args...)
		screen, tty := newScreen(t, cmd)
		if err := pty.Setsize(tty, &pty.Winsize{Rows: 20, Cols: 100}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "stream.jsonl")
		stdout, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2} // in the foreground
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stdout.Close()
		if _, err := in.Write(stream[:head]); err != nil {
			t.Fatal(err)
		}
		screen.until(`\r\x1b\[2Kcursor-agent \d+s · running shell go test \./\.\.\. for \d+s · [^\r\n]*1 tool\r`)
		if err := pty.Setsize(tty, &pty.Winsize{Rows: 20, Cols: 44}); err != nil {
			t.Fatal(err)
		}
		screen.until(`\r\x1b\[2Krunning shell go test \./\.\.\. for [1-9]\d*s[^\n\r]*\r`)
		if _, err := in.Write(stream[head:]); err != nil {
			t.Fatal(err)
		}
		in.Close()
		tty.Close()
		rest, _ := io.ReadAll(screen.r) // EIO at the end
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		erased, tree, _ := strings.Cut(string(rest), "\ninvoke")
		if i := strings.LastIndex(string(rest), "\x1b[2K"); i < 0 || !strings.HasPrefix(string(rest)[i:], "\x1b[2Kcursor-agent · GPT-5 ·") || strings.Contains(tree, "\x1b") {
			t.Errorf("%v: the status was not erased before the tree: %q", args, erased)
		}
		if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, stream) {
			t.Errorf("%v: %v, %d bytes of %d", args, err, len(b), len(stream))
		}
	}
}

// There is no status if another program may print to the terminal.
func TestStatusStandsAlone(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer tty.Close()
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer pipe.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, test := range []struct {
		name           string
		stdout, stderr *os.File
		quiet, dumb    bool
		want           bool
	}{
		{"file", file, tty, false, false, true},
		{"nowhere", null, tty, false, false, true},
		{"terminal", tty, tty, false, false, false},
		{"pipe", pipe, tty, false, false, false},
		{"quiet", file, tty, true, false, false},
		{"dumb", file, tty, false, true, false},
		{"stderr in a file", null, file, false, false, false},
	} {
		reporter := newReporter(&options{quiet: test.quiet}, test.stderr)
		reporter.cfg = &config{display: display{dumb: test.dumb}}
		if got := reporter.mayShowStatus(test.stdout); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	if proc.InForeground(tty) {
		t.Error("a terminal that is not the test's is in its foreground")
	}
}

// A list of sessions is as wide as the terminal.
func TestSessionsFitTheTerminal(t *testing.T) {
	session := func(age, took time.Duration, s viewer.Session) viewer.Session {
		s.ID, s.Start = strings.Repeat("0f", 16), time.Now().Add(-age).UnixMicro()
		s.End = s.Start + took.Microseconds()
		return s
	}
	sessions := []viewer.Session{
		session(5*time.Minute, 8100*time.Millisecond, viewer.Session{Identity: runs.Identity{Agent: "cursor-agent", Prompt: "Find out why\nthe 値段 \x1b[31mtest fails since this morning, and fix it"}, Counts: runs.Counts{Tools: 6}, Ended: true}),
		session(30*time.Hour, 3*time.Hour, viewer.Session{Identity: runs.Identity{Agent: "claude-code", Model: "claude-opus-5"}, Counts: runs.Counts{Tools: 1234}, Failure: "max_turns", Ended: true}),
		session(65*24*time.Hour, 0, viewer.Session{Identity: runs.Identity{Agent: "codex"}}),
	}
	for width, want := range map[uint16]string{
		40: `ID        AGE  TOOK   SESSION
0f0f0f0f  5m   8.10s  cursor-agent · Fi…
0f0f0f0f  30h  3h00m  ✗ claude-code · c…
0f0f0f0f  65d  0ms    ✗ codex
`,
		80: `ID        AGE  TOOK   TOOLS  OUTCOME    SESSION
0f0f0f0f  5m   8.10s  6      ok         cursor-agent · Find out why the 値段 �[…
0f0f0f0f  30h  3h00m  1234   max_turns  claude-code · claude-opus-5
0f0f0f0f  65d  0ms    0      no end     codex
`,
	} {
		terminal, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.Close()
		if err := pty.Setsize(tty, &pty.Winsize{Rows: 20, Cols: width}); err != nil {
			t.Fatal(err)
		}
		if err := writeSessions(tty, sessions); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		got, _ := io.ReadAll(terminal) // EIO at the end
		if diff := cmp.Diff(want, strings.ReplaceAll(string(got), "\r", "")); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}
