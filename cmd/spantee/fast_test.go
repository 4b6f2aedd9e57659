//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// fastStreams come much faster than they can be mapped.
var fastStreams = []struct {
	name  string
	lines func() [][]byte
}{
	{"sessions", func() (lines [][]byte) {
		for i := range cases(12, 60) {
			lines = append(lines, stream(fmt.Sprint("s", i), 100)...)
		}
		return lines
	}},
	{"deltas", func() [][]byte {
		lines := stream("s", 1)
		deltas := bytes.Repeat(lines[1], cases(20_000, 100_000))
		return append([][]byte{lines[0], deltas}, lines[1:]...)
	}},
	{"long lines", func() [][]byte {
		lines := stream("s", 3)
		for i, mb := range []int{27, 60, 40} {
			content := `"content":"` + strings.Repeat("x", mb<<20/cases(5, 1)) + `"`
			at := 1 + 7*(i+1) - 1 // where a tool completes
			lines[at] = bytes.Replace(lines[at], []byte(`"content":"c"`), []byte(content), 1)
		}
		return lines
	}},
}

// However fast a stream comes, and whatever room there is for what has not been
// mapped yet, every span arrives, and nothing is said.
func TestNoStreamIsTooFast(t *testing.T) {
	long(t)
	t.Parallel()
	for _, s := range fastStreams {
		lines := s.lines()
		want, _ := spansIn(t, lines, false)
		in := bytes.Join(lines, nil)
		for _, tc := range []struct {
			name  string
			env   []string
			limit string // what the shell does before
		}{
			{name: "room for all"},
			{name: "a full disk", limit: "ulimit -f 2048; "},
			{name: "no state folder", env: []string{"XDG_STATE_HOME=/dev/null"}},
			{name: "one processor", env: []string{"GOMAXPROCS=1"}},
		} {
			t.Run(s.name+", "+tc.name, func(t *testing.T) {
				r := receivertest.Start(t)
				cmd := spantee(t, append(tc.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.GRPCEndpoint()), "--flush-timeout=1m")
				if tc.limit != "" {
					cmd.Args = append([]string{"sh", "-c", tc.limit + `exec "$0" "$@"`}, cmd.Args...)
					cmd.Path = lookPath(t, "sh")
				}
				cmd.Stdin = bytes.NewReader(in)
				if err := cmd.Run(); err != nil {
					t.Errorf("spantee: %v", err)
				}
				if !bytes.Equal(cmd.stdout.Bytes(), in) {
					t.Error("other bytes came out")
				}
				checkStderr(t, cmd.stderr.String(), "")
				wantSpans(t, byID(r.Spans()), want)
			})
		}
	}
}

// A process that is stopped in the middle, and goes on, loses nothing.
func TestStopAndContinue(t *testing.T) {
	long(t)
	t.Parallel()
	lines := fastStreams[0].lines()
	want, _ := spansIn(t, lines, false)
	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "--flush-timeout=1m")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const stops = 8
	for i := range stops {
		in.Write(bytes.Join(lines[i*len(lines)/stops:(i+1)*len(lines)/stops], nil))
		cmd.Process.Signal(syscall.SIGSTOP)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("not stopped: %v, %v", status, err)
		}
		cmd.Process.Signal(syscall.SIGCONT)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("spantee: %v", err)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), bytes.Join(lines, nil)) {
		t.Error("other bytes came out")
	}
	checkStderr(t, cmd.stderr.String(), "")
	wantSpans(t, byID(r.Spans()), want)
}

// What is mapped faster than a slow collector takes it waits for the collector if it is a
// recording, for longer than the end may take. A live stream does not wait: what the collector
// does not take in time is in the spool.
func TestSlowCollector(t *testing.T) {
	slow(t)
	t.Parallel()
	var lines [][]byte
	for i := range 300 { // more spans than the exporter keeps in memory
		lines = append(lines, stream(fmt.Sprint("s", i), 100)...)
	}
	in := bytes.Join(lines, nil)
	want, _ := spansIn(t, lines, false)
	path := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(path, in, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprint("live ", live), func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			c.start("slow")
			env := append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir())
			cmd := spantee(t, env)
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			cmd.Stdin = file
			if live {
				cmd.Stdin = bulk(t, in)
				cmd.Stdout = nil // /dev/null: nobody else has to read
			}
			if err := cmd.Run(); err != nil {
				t.Errorf("spantee: %v", err)
			}
			if live {
				checkStderr(t, cmd.stderr.String(), "spooled for retry")
				if err := spantee(t, env, "flush").Run(); err != nil {
					t.Error(err)
				}
			} else {
				checkStderr(t, cmd.stderr.String(), "")
			}
			// What was in flight at the end of a live stream may arrive twice.
			if got, again := c.taken(); len(got) != len(want) || again > 0 && !live {
				t.Errorf("%d of %d spans arrived, %d twice", len(got), len(want), again)
			}
		})
	}
}

// bulk returns a pipe that brings a stream in large pieces.
func bulk(t *testing.T, stream []byte) *os.File {
	r, w := newPipe(t)
	go func() {
		defer w.Close()
		w.Write(stream)
	}()
	return r
}

func byID(spans []*tracepb.Span) map[string]*tracepb.Span {
	got := map[string]*tracepb.Span{}
	for _, span := range spans {
		got[spanKey(span)] = span
	}
	return got
}
