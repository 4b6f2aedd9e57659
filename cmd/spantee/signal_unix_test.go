//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// signalOf returns the signal a command died of.
func signalOf(t *testing.T, err error) syscall.Signal {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("ended with %v, not by a signal", err)
	}
	ws := exit.Sys().(syscall.WaitStatus)
	if runtime.GOOS != "linux" && ws.ExitStatus() > 128 { // where Go dies of some signals only
		return syscall.Signal(ws.ExitStatus() - 128)
	}
	if !ws.Signaled() {
		t.Fatalf("ended with status %d, not by a signal", ws.ExitStatus())
	}
	return ws.Signal()
}

func errorType(s *tracepb.Span) string {
	for _, kv := range s.Attributes {
		if kv.Key == "error.type" {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

// A signal ends the open spans. spantee delivers them, and then dies of the signal.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			r := receivertest.Start(t)
			cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()})
			in := startWith(t, cmd, fixture(t, "killed.jsonl"))
			defer in.Close() // the agent goes on
			// Twice, as timeout(1) does: to the process and to its group.
			cmd.Process.Signal(sig)
			cmd.Process.Signal(sig)
			if got := signalOf(t, cmd.Wait()); got != sig {
				t.Errorf("died of %v, want %v", got, sig)
			}
			var interrupted []string
			for _, s := range r.Spans() {
				if errorType(s) == "interrupted" {
					interrupted = append(interrupted, s.Name)
				}
			}
			if got := strings.Join(interrupted, ", "); got != "execute_tool shell go, invoke_agent cursor-agent" {
				t.Errorf("interrupted: %s", got)
			}
			checkStderr(t, cmd.stderr.String(), "")
		})
	}
}

// SIGQUIT prints no goroutines in a command that catches no signals either.
func TestQuitIsQuiet(t *testing.T) {
	r := receivertest.Start(t)
	r.Hang()
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint(), "OTEL_EXPORTER_OTLP_TIMEOUT=3600000"}, "doctor")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Await(func() bool { return r.Attempts() > 0 })
	cmd.Process.Signal(syscall.SIGQUIT)
	if got := signalOf(t, cmd.Wait()); got != syscall.SIGQUIT {
		t.Errorf("died of %v", got)
	}
	checkStderr(t, cmd.stderr.String(), "")
}

// The second signal kills, even while a hung collector is waited for, and says
// nothing.
func TestSecondSignalKills(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT} {
		t.Run(second.String(), func(t *testing.T) { secondSignalKills(t, second) })
	}
}

func secondSignalKills(t *testing.T, second syscall.Signal) {
	r := receivertest.Start(t)
	r.Hang()
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "--flush-timeout=1h")
	in := startWith(t, cmd, fixture(t, "killed.jsonl"))
	defer in.Close()
	cmd.Process.Signal(syscall.SIGINT)
	r.Await(func() bool { return r.Attempts() > 0 })
	if got := signalOf(t, insist(cmd, second)); got != second {
		t.Errorf("died of %v, want %v", got, second)
	}
	checkStderr(t, cmd.stderr.String(), "")
}

// insist sends a signal again and again until spantee has ended, because signals within
// proc.TwinGrace do not count. It returns the result of Wait.
func insist(cmd *run, sig syscall.Signal) error {
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	again := time.NewTicker(proc.TwinGrace)
	defer again.Stop()
	for {
		cmd.Process.Signal(sig)
		select {
		case err := <-died:
			return err
		case <-again.C:
		}
	}
}

// Signals that are ignored where spantee is started, by nohup or for a job in the
// background, are ignored by the agent.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	for _, names := range []string{"HUP", "INT QUIT"} {
		cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"})
		script := "trap '' " + names + `; exec "$0" exec -- sh -c 'for s in ` + names + `; do kill -$s $$; done; echo alive'`
		cmd.Args = []string{"sh", "-c", script, cmd.Path}
		cmd.Path = lookPath(t, "sh")
		if err := cmd.Run(); err != nil || cmd.stdout.String() != "alive\n" {
			t.Errorf("%s: %q, %v", names, cmd.stdout.String(), err)
		}
	}
}

// The README names the signals that exec passes on.
func TestForwardedSignalsAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range proc.Forwarded {
		names = append(names, proc.SignalName(s))
	}
	last := len(names) - 1
	want := "passes " + strings.Join(names[:last], ", ") + " and " + names[last] + " on."
	if !strings.Contains(strings.ReplaceAll(string(readme), "\n", " "), want) {
		t.Errorf("no %q", want)
	}
}

// startWith starts the command and returns its stdin once all of stream has
// come out again.
func startWith(t *testing.T, cmd *run, stream []byte) io.WriteCloser {
	t.Helper()
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return startReading(t, cmd, out, stream)
}

func startReading(t *testing.T, cmd *run, out io.Reader, stream []byte) io.WriteCloser {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go in.Write(stream)
	got := make([]byte, len(stream))
	if _, err := io.ReadFull(out, got); err != nil || !bytes.Equal(got, stream) {
		t.Fatal("other bytes came out", err)
	}
	return in
}

// If nobody reads any more, as in a pipe to head -1, the agent gets a broken pipe, the
// trace is delivered, and spantee dies of SIGPIPE like cat.
func TestClosedStdout(t *testing.T) {
	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()})
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	agentEnd, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = agentEnd
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	agentEnd.Close()
	lines := bytes.SplitAfter(fixture(t, "fix-failing-test.jsonl"), []byte("\n"))
	stdin.Write(lines[0])
	if first, err := bufio.NewReader(out).ReadBytes('\n'); err != nil || !bytes.Equal(first, lines[0]) {
		t.Fatalf("first line %q, %v", first, err)
	}
	out.Close()
	// The agent writes on until its pipe breaks.
	for i := 1; ; i = i%(len(lines)-2) + 1 {
		if _, err = stdin.Write(lines[i]); err != nil {
			break
		}
	}
	if got := signalOf(t, cmd.Wait()); got != syscall.SIGPIPE {
		t.Errorf("died of %v, want SIGPIPE", got)
	}
	roots := 0
	for _, s := range r.Spans() {
		if s.Name == "invoke_agent cursor-agent" {
			roots++
		}
	}
	if roots != 1 {
		t.Errorf("%d roots arrived, want 1", roots)
	}
	checkStderr(t, cmd.stderr.String(), "")
}
