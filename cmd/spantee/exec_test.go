//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// attribute returns what an attribute is, as text.
func attribute(span *tracepb.Span, key string) string {
	for _, kv := range span.Attributes {
		if kv.Key == key {
			if s := kv.Value.GetStringValue(); s != "" {
				return s
			}
			return fmt.Sprint(kv.Value.GetIntValue())
		}
	}
	return ""
}

// rootsOf returns the roots that arrived.
func rootsOf(r *receivertest.Receiver) (roots []*tracepb.Span) {
	for _, span := range r.Spans() {
		if strings.HasPrefix(span.Name, "invoke_agent ") { // no test has a sub-agent
			roots = append(roots, span)
		}
	}
	return roots
}

// How an agent ended is how spantee ends, and is on the root: there is one even
// if the agent printed nothing.
func TestExecEndsAsTheAgent(t *testing.T) {
	t.Parallel()
	session := filepath.Join("..", "..", "testdata", "cursor", "fix-failing-test.jsonl")
	for _, tc := range []struct {
		name, script string
		code         int
		signal       syscall.Signal
		errorType    string
	}{
		{name: "a session", script: "cat " + session},
		{name: "a session, and failed", script: "cat " + session + "; exit 3", code: 3, errorType: "3"},
		{name: "nothing", script: ":"},
		{name: "not logged in", script: "echo 'not logged in' >&2; exit 1", code: 1, errorType: "1"},
		{name: "no stream", script: "echo hello"},
		{name: "broke off", script: "head -5 " + session + "; exit 4", code: 4, errorType: "4"},
		{name: "broke off, and all is well", script: "head -5 " + session, errorType: "incomplete"},
		{name: "SIGTERM", script: "kill -TERM $$", signal: syscall.SIGTERM, errorType: "SIGTERM"},
		{name: "SIGKILL", script: "kill -KILL $$", signal: syscall.SIGKILL, errorType: "SIGKILL"},
		{name: "SIGABRT", script: "kill -ABRT $$", signal: syscall.SIGABRT, errorType: "SIGABRT"},
		{name: "SIGSEGV", script: "kill -SEGV $$", signal: syscall.SIGSEGV, errorType: "SIGSEGV"},
		{name: "SIGPIPE", script: "kill -PIPE $$", signal: syscall.SIGPIPE, errorType: "SIGPIPE"},
		{name: "SIGQUIT", script: "kill -QUIT $$", signal: syscall.SIGQUIT, errorType: "SIGQUIT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bare := exec.Command("sh", "-c", tc.script)
			var want bytes.Buffer
			bare.Stdout = &want
			bare.Run()

			r := receivertest.Start(t)
			cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "exec", "-q", "--", "sh", "-c", tc.script)
			err := cmd.Run()
			if tc.signal != 0 {
				if got := signalOf(t, err); got != tc.signal {
					t.Errorf("died of %v, want %v", got, tc.signal)
				}
			} else if got := cmd.ProcessState.ExitCode(); got != tc.code {
				t.Errorf("status %d, want %d: %v", got, tc.code, err)
			}
			if !bytes.Equal(cmd.stdout.Bytes(), want.Bytes()) {
				t.Errorf("%d bytes came out, want %d", cmd.stdout.Len(), want.Len())
			}
			roots := rootsOf(r)
			if len(roots) != 1 {
				t.Fatalf("%d roots", len(roots))
			}
			wantCode := fmt.Sprint(tc.code)
			if tc.signal != 0 {
				wantCode = ""
			}
			for key, want := range map[string]string{
				"process.executable.name": "sh", "process.exit.code": wantCode, "error.type": tc.errorType,
			} {
				if got := attribute(roots[0], key); got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if attribute(roots[0], "process.pid") == "" {
				t.Error("no process.pid")
			}
			if failed := roots[0].Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != (tc.errorType != "") {
				t.Errorf("failed: %v", failed)
			}
		})
	}
}

// The agent's exit status is ours even if no collector is there, or it cannot
// be started at all.
func TestExecStatus(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(notExecutable, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
	}{
		{[]string{"--", "sh", "-c", "exit 42"}, 42},
		{[]string{"sh", "-c", "exit 42"}, 42}, // flags after the command are its own
		{[]string{"--", "no-such-agent"}, 127},
		{[]string{"--", "./no/such/agent"}, 127},
		{[]string{"--", notExecutable}, 126},
		{[]string{}, 2},
		{[]string{"--no-such-flag", "--", "true"}, 2},
	} {
		cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, append([]string{"exec"}, tc.args...)...)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != tc.code {
			t.Errorf("%q: status %d, want %d", tc.args, got, tc.code)
		}
	}
}

// What the agent's tools run finds the root in its environment, as it will be.
func TestExecPropagatesTheTrace(t *testing.T) {
	for _, parent := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		r := receivertest.Start(t)
		env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}
		if parent != "" {
			env = append(env, "TRACEPARENT="+parent, "TRACESTATE=vendor=1")
		}
		cmd := spantee(t, env, "exec", "-q", "--", "sh", "-c", `echo "$TRACEPARENT $TRACESTATE"; cat `+"../../testdata/cursor/parallel-tools.jsonl")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		got, _, _ := strings.Cut(cmd.stdout.String(), "\n")
		root := rootsOf(r)[0]
		state := ""
		if parent != "" {
			state = "vendor=1"
			if hex.EncodeToString(root.ParentSpanId) != "b7ad6b7169203331" {
				t.Errorf("the root's parent is %x", root.ParentSpanId)
			}
		}
		if want := fmt.Sprintf("00-%x-%x-01 %s", root.TraceId, root.SpanId, state); got != want {
			t.Errorf("the agent has %q, want %q", got, want)
		}
		for _, span := range r.Spans() {
			if !bytes.Equal(span.TraceId, root.TraceId) {
				t.Errorf("%s is in another trace", span.Name)
			}
		}
	}
}

// A signal that is sent to spantee is the agent's.
func TestExecPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "CONT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "exec", "--", "sh", "-c",
				"trap 'echo got "+name+"; exit 7' "+name+"; echo ready; while :; do sleep 0.01; done")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from a developer's terminal
			cmd.Stdout = nil
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan() // ready
			cmd.Process.Signal(signals[name])
			lines.Scan()
			if got := lines.Text(); got != "got "+name {
				t.Errorf("the agent says %q", got)
			}
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 7 {
				t.Errorf("status %d", got)
			}
		})
	}
}

var signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
	"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	"CONT": syscall.SIGCONT,
}

// When nobody reads, the agent is told by a broken pipe, and its end is ours.
func TestExecClosedStdout(t *testing.T) {
	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "exec", "-q", "--", "yes")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(out).ReadString('\n')
	out.Close()
	if got := signalOf(t, cmd.Wait()); got != syscall.SIGPIPE {
		t.Errorf("died of %v", got)
	}
	if got := attribute(rootsOf(r)[0], "error.type"); got != "SIGPIPE" {
		t.Errorf("error.type %q", got)
	}
}

// An agent may close its stdout long before its end. What follows in the pipe
// learns of it at once: the agent waits for that here.
func TestExecPassesTheEndOfStdoutOn(t *testing.T) {
	release := filepath.Join(t.TempDir(), "release")
	if err := syscall.Mkfifo(release, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "exec", "--", "sh", "-c", `echo last; exec >&-; read x < "$0"; exit 3`, release)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); string(got) != "last\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(release, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
		t.Error(err)
	}
}

// The end of stderr is on the root if details are asked for, without secrets, and
// all of it comes out.
func TestExecKeepsTheEndOfStderr(t *testing.T) {
	script := `i=0; while [ $i -lt 500 ]; do echo "line $i of the log" >&2; i=$((i+1)); done; echo "password=hunter2-and-more" >&2; exit 1`
	for _, content := range []string{"none", "details"} {
		r := receivertest.Start(t)
		cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "exec", "-q", "--content="+content, "--", "sh", "-c", script)
		cmd.Run()
		if said := cmd.stderr.String(); strings.Count(said, "\n") != 501 || !strings.HasSuffix(said, "\npassword=hunter2-and-more\n") {
			t.Errorf("%s: stderr has %d lines", content, strings.Count(said, "\n"))
		}
		got := attribute(rootsOf(r)[0], "spantee.stderr")
		switch {
		case content == "none" && got != "0" && got != "":
			t.Errorf("without details the root has %q", got)
		case content == "details" && (len(got) < 1900 || len(got) > 2100 || !strings.HasSuffix(got, "line 499 of the log\npassword=[redacted:assignment]\n")):
			t.Errorf("the root has %d bytes, %q", len(got), got)
		}
	}
}

// Something that the agent left running has its stdout open: that holds up
// nobody.
func TestExecLeavesTheBackgroundAlone(t *testing.T) {
	long(t)
	t.Parallel()
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "exec", "--", "sh", "-c", "sleep 1000 2>/dev/null & echo $!")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	var pid int
	if _, err := fmt.Sscan(cmd.stdout.String(), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("it was not left running: %v", err)
	}
}

// On a terminal, keys are the agent's: Ctrl-C reaches it once, Ctrl-Z stops the
// job and fg goes on with it, and it learns of a new window size.
func TestExecOnATerminal(t *testing.T) {
	shell := exec.Command(lookPath(t, "bash"), "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), "PS1=prompt> ", "OTEL_TRACES_EXPORTER=none", "XDG_STATE_HOME="+t.TempDir())
	tty, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 20, Cols: 70})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	defer shell.Process.Kill()
	screen := bufio.NewReader(tty)
	var seen bytes.Buffer
	until := func(text string) {
		t.Helper()
		for from := seen.Len(); !strings.Contains(seen.String()[from:], text); {
			b, err := screen.ReadByte()
			if err != nil {
				t.Fatalf("no %q in %q: %v", text, seen.String()[from:], err)
			}
			seen.WriteByte(b)
		}
	}
	agent := `trap 'i=$((i+1)); echo int=$i; [ $i -lt 2 ] || exit 5' INT; trap 'echo size=$(stty size </dev/tty)' WINCH; trap 'echo on=1' CONT; echo up=1; n=0; while [ $n -lt 3000 ]; do sleep 0.01; n=$((n+1)); done`
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, []byte(agent), 0o700); err != nil {
		t.Fatal(err)
	}
	until("prompt> ")
	// Otherwise a key that is a signal flushes what was printed just before.
	fmt.Fprintf(tty, "stty noflsh; %s exec --summary -- bash %s\n", lookPath(t, "spantee"), script)
	until("up=1\r\n")
	tty.Write([]byte{3}) // Ctrl-C
	until("int=1\r\n")
	pty.Setsize(tty, &pty.Winsize{Rows: 33, Cols: 77})
	until("size=33 77\r\n")
	tty.Write([]byte{26}) // Ctrl-Z
	until("Stopped")
	until("prompt> ")
	fmt.Fprint(tty, "fg; echo status=$?\n")
	until("on=1\r\n") // and in the foreground
	tty.Write([]byte{3})
	until("int=2\r\n")
	until("status=5\r\n")
	until("prompt> ")
	fmt.Fprint(tty, "exit\n")
	if err := shell.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
}
