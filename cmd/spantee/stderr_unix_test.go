//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spantee/spantee/exporter/spool"
)

// unreadPipe returns the end of a pipe that takes nothing more, because nobody
// reads it.
func unreadPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	conn, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = conn.Write(func(fd uintptr) bool {
		for block := make([]byte, 4096); failed == nil || failed == syscall.EINTR; {
			_, failed = syscall.Write(int(fd), block)
		}
		return true
	})
	if err != nil || failed != syscall.EAGAIN {
		t.Fatal(err, failed)
	}
	return w
}

// spansKept is how many spans wait in a state folder.
func spansKept(t *testing.T, state string) (spans int) {
	t.Helper()
	entries, err := spool.Spool{Dir: filepath.Join(state, "spantee/spool")}.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		spans += e.Spans
	}
	return spans
}

// TestStderrIsUnread writes more to stderr than fits into a pipe that nobody reads:
// spantee must not hang.
func TestStderrIsUnread(t *testing.T) {
	long(t)
	t.Parallel()
	stream := bytes.Repeat(fixture(t, "result-error.jsonl"), 3)
	for _, args := range [][]string{
		{"--summary", "--flush-timeout=200ms"},
		{"--tree", "--flush-timeout=200ms"},
		{"--flush-timeout=0"},
		{"--log", "--tree", "--flush-timeout=200ms"},
		{"exec", "--summary", "--log", "--tree", "--flush-timeout=200ms", "--", "cat"},
		{"exec", "--", "no-such-agent"},
		{"--deltas", "nonsense"},
		{"replay", "--flush-timeout=200ms", "../../testdata/cursor/result-error.jsonl"},
	} {
		state := t.TempDir()
		cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "XDG_STATE_HOME=" + state}, args...)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(stream), unreadPipe(t)
		err := within(t, cmd)
		if filters := args[0] != "replay" && args[len(args)-1] != "nonsense" && args[len(args)-1] != "no-such-agent"; filters {
			if err != nil || !bytes.Equal(cmd.stdout.Bytes(), stream) {
				t.Errorf("%q: %v, %d bytes of %d", args, err, cmd.stdout.Len(), len(stream))
			}
			if args[0] != "exec" { // which has a root of its own
				ended, _ := spansIn(t, [][]byte{stream}, false)
				kept := spansKept(t, state)
				if kept != len(ended) {
					t.Errorf("%q: %d spans of %d are kept", args, kept, len(ended))
				}
				faults.add("nobody reads stderr, "+args[0], len(ended), 0, kept, 0)
			}
		} else if err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// Commands without a stream exit even if nobody reads stderr.
func TestStderrOfOtherCommandsIsUnread(t *testing.T) {
	long(t)
	t.Parallel()
	session := "../../testdata/cursor/result-error.jsonl"
	for _, args := range [][]string{
		{"ls"},
		{"show"},
		{"view", "--export", filepath.Join(t.TempDir(), "out.json"), session, "/nope"},
	} {
		cmd := spantee(t, nil, args...)
		cmd.Stderr = unreadPipe(t)
		_ = within(t, cmd)
	}
}
