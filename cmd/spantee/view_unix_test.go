//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// The page stays when the stream has ended. The stream and the exit status are
// as without it.
func TestViewStays(t *testing.T) {
	stream := fixture(t, "fix-failing-test.jsonl")
	v := startView(t, bytes.NewReader(stream), "--view")
	if line, err := v.stderr.ReadString('\n'); line != "spantee: the page stays until Ctrl-C\n" {
		t.Fatalf("%q %v", line, err)
	}
	if !bytes.Equal(v.cmd.stdout.Bytes(), stream) {
		t.Error("the stream came out changed")
	}
	if l := v.list(t); len(l.Sessions) != 1 || l.Sessions[0].Spans != 11 || !l.Sessions[0].Ended {
		t.Errorf("%+v", l.Sessions)
	}
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(v.stderr)
	if err := v.cmd.Wait(); err != nil || len(rest) > 0 {
		t.Errorf("%v, and it says %q", err, rest)
	}
}

// A signal while the stream goes on ends both, as without the page.
func TestViewInterrupted(t *testing.T) {
	stdin, _ := io.Pipe()
	defer stdin.Close()
	v := startView(t, stdin, "--view")
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	err := v.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("%v", err)
	}
}

// Spans go to the page alone, unless somebody said where else.
func TestViewAndElsewhere(t *testing.T) {
	r := receivertest.Start(t)
	v := startView(t, bytes.NewReader(fixture(t, "killed.jsonl")), "--view", "--endpoint", r.GRPCEndpoint())
	if _, err := v.stderr.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Spans()), v.list(t).Sessions[0].Spans; got != want {
		t.Errorf("%d spans went elsewhere, %d are shown", got, want)
	}
}

// Ctrl-C is how view ends.
func TestViewEnds(t *testing.T) {
	v := viewFiles(t)
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
