//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// exec reads the agent's stderr if content is recorded. If nobody reads spantee's
// stderr, a running agent blocks, but exec still exits, and the root has the end of
// the agent's stderr.
func TestAgentStderrIsUnread(t *testing.T) {
	long(t)
	t.Parallel()
	for _, script := range []string{
		"cat; (echo last words >&2) & exit 3",
		"cat; head -c 50000 /dev/zero | tr '\\0' x >&2; echo last words >&2; exit 3",
		"cat; echo last words >&2; sleep 10 & exit 3",
	} {
		for _, content := range []string{"details", "full"} {
			r := receivertest.Start(t)
			cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "exec", "--content="+content, "--flush-timeout=2s", "--", "sh", "-c", script)
			in, err := os.Open("../../testdata/cursor/fix-failing-test.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			cmd.Stdin, cmd.Stderr = in, unreadPipe(t)
			_ = within(t, cmd)
			if code := cmd.ProcessState.ExitCode(); code != 3 {
				t.Errorf("%s, %s: status %d", content, script, code)
			}
			if roots := rootsOf(r); len(roots) != 1 || !strings.HasSuffix(attribute(roots[0], "spantee.stderr"), "last words\n") {
				t.Errorf("%s, %s: the roots are %v", content, script, roots)
			}
		}
	}
}

// A signal kills spantee while it waits for an unread stderr.
func TestSignalWhileStderrIsUnread(t *testing.T) {
	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "exec", "--content=full", "--flush-timeout=1h", "--", "sh", "-c", "echo hi >&2")
	cmd.Stderr = unreadPipe(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Await(func() bool { return r.Attempts() > 0 }) // the agent has ended
	if got := signalOf(t, insist(cmd, syscall.SIGTERM)); got != syscall.SIGTERM {
		t.Errorf("died of %v", got)
	}
}

// Processes that the agent left running lose stdout and stderr together, and do so
// even if they never stop printing.
func TestExecCutsLeftoverProcesses(t *testing.T) {
	long(t)
	t.Parallel()
	between := filepath.Join(t.TempDir(), "between")
	if err := syscall.Mkfifo(between, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `trap '' PIPE
		(exec 2>/dev/null; n=0; while echo line; do echo line >&3 || n=$((n+1)); sleep 0.01; done; echo $n >` + between + `) 3>&2 & exit 3`
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "exec", "--content=full", "--", "sh", "-c", script)
	_ = within(t, cmd)
	if code := cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("status %d: %s", code, cmd.stderr.String())
	}
	counted, err := os.ReadFile(between) // once it is written
	if n, _ := strconv.Atoi(strings.TrimSpace(string(counted))); err != nil || n > 30 {
		t.Errorf("%q lines were taken from stdout after stderr was closed: %v", counted, err)
	}
	for content, script := range map[string]string{
		"none": "yes & exit 3", // with a stderr of its own, nothing would end another yes
		"full": "yes & yes >&2 2>/dev/null & exit 3",
	} {
		cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "exec", "--content="+content, "--", "sh", "-c", script)
		cmd.Stdout, cmd.Stderr = nil, nil
		_ = within(t, cmd)
		if code := cmd.ProcessState.ExitCode(); code != 3 {
			t.Errorf("%s: status %d", content, code)
		}
	}
}
