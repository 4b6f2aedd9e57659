//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// rootEvents are the events of the spans without a parent: name, and attributes.
func rootEvents(spans []*tracepb.Span) (events []string) {
	for _, s := range spans {
		for _, e := range s.Events {
			if len(s.ParentSpanId) == 0 {
				events = append(events, e.Name+" "+fmt.Sprint(e.Attributes))
			}
		}
	}
	return events
}

// TestStall pauses in the middle of a stream until the stall is reported.
func TestStall(t *testing.T) {
	spans, points := receivertest.Start(t), metricstest.Start(t)
	cmd := spantee(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.GRPCEndpoint(), "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=" + points.GRPCEndpoint(),
	}, "--stall-after=10ms", "--flush-timeout=20s")
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stream := fixture(t, "parallel-tools.jsonl")
	first := bytes.IndexByte(stream, '\n') + 1
	_, _ = stdin.Write(stream[:first])
	line, _ := bufio.NewReader(stderr).ReadString('\n')
	if !strings.HasPrefix(line, "spantee: cursor-agent has printed nothing for ") {
		t.Errorf("stderr %q", line)
	}
	_, _ = stdin.Write(stream[first:])
	stdin.Close()
	_, _ = io.Copy(io.Discard, stderr)
	if err := cmd.Wait(); err != nil || !bytes.Equal(cmd.stdout.Bytes(), stream) {
		t.Errorf("%v, %d bytes", err, cmd.stdout.Len())
	}
	if events := rootEvents(spans.Spans()); len(events) == 0 || !strings.HasPrefix(events[0], "stall ") || !strings.Contains(events[0], "spantee.idle_ms") {
		t.Errorf("events %v", events)
	}
	if p := points.Points()["spantee.stalls{gen_ai.agent.name=cursor-agent}"]; p == nil || p.Sum < 1 {
		t.Errorf("stalls %+v", p)
	}
}

// TestLimits runs an agent that breaks off in a run and never ends by itself: its
// own child holds the other end of a pipe.
func TestLimits(t *testing.T) {
	for _, limit := range []string{"max-tools=1", "max-idle=10ms", "max-duration=10ms"} {
		t.Run(limit, func(t *testing.T) {
			receiver := receivertest.Start(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint(), "FIXTURE=../../testdata/cursor/parallel-tools.jsonl"},
				"exec", "--"+limit, "--on-limit=kill", "--flush-timeout=20s", "--", "sh", "-c", `(trap "" TERM; exec sleep 1000) & grep -v '"type":"result"' "$FIXTURE"; wait`)
			cmd.ExtraFiles = []*os.File{w}
			err = cmd.Run()
			w.Close()
			if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
				t.Errorf("ended with %v", err)
			}
			if _, err := r.Read(make([]byte, 1)); err != io.EOF { // its child has ended, too
				t.Error(err)
			}
			name, _, _ := strings.Cut(limit, "=")
			if got := cmd.stderr.String(); !strings.Contains(got, "the agent reached --"+name+": ending the agent\n") {
				t.Errorf("stderr %q", got)
			}
			found := false
			for _, s := range receiver.Spans() {
				for _, kv := range s.Attributes {
					found = found || len(s.ParentSpanId) == 0 && kv.Key == "error.type" && kv.Value.GetStringValue() == "SIGTERM"
				}
			}
			if !found {
				t.Error("no root ended by SIGTERM")
			}
		})
	}
}

// An agent that stays after its result is ended, and the run is what its result says. Its
// child holds the other end of a pipe.
func TestGrace(t *testing.T) {
	long(t)
	const (
		success    = "../../testdata/cursor/parallel-tools.jsonl"
		failure    = "../../testdata/cursor/result-error.jsonl"
		background = "../../testdata/cursor/background-of-earlier-run.jsonl"
		stale      = "../../testdata/claude/resumed-notified.jsonl"
	)
	for _, tc := range []struct {
		name   string
		args   []string
		script string
		code   int
		error  string // on the root
		limit  string // that was reached
		bad    string // the line that is not JSON
		exits  bool   // by itself
	}{
		{name: "sleeps", args: []string{"--grace=10ms"}, script: "cat " + success + "; sleep 1000 & wait"},
		{name: "prints no newline", args: []string{"--grace=10ms"}, script: `printf %s "$(cat ` + success + `)"; sleep 1000 & wait`},
		{name: "prints no newline and no type", args: []string{"--grace=10ms"}, script: `printf %s "$(cat ../../testdata/agy/plain.jsonl)"; sleep 1000 & wait`},
		{name: "prints a carriage return", args: []string{"--grace=10ms"}, script: `printf '%s\r' "$(cat ` + success + `)"; sleep 1000 & wait`},
		{name: "failed without a newline", args: []string{"--grace=10ms"}, script: `printf %s "$(grep -v scheduled ` + failure + `)"; sleep 1000 & wait`, code: 1, error: "error"},
		{name: "max-idle without a newline", args: []string{"--max-idle=1500ms", "--on-limit=kill"}, script: `printf %s "$(cat ` + success + `)"; sleep 1000 & wait`, limit: "max-idle"},
		{name: "cut off", args: []string{"--grace=10ms"}, script: `printf %s "$(cat ` + success + `)" | head -c -1; sleep 2.5; exit 3`, code: 3, error: "3", exits: true, bad: "line 9"},
		{name: "failed", args: []string{"--grace=10ms"}, script: "grep -v scheduled " + failure + "; sleep 1000 & wait", code: 1, error: "error"},
		{name: "ignores SIGTERM", args: []string{"--grace=10ms"}, script: `trap "" TERM; cat ` + success + "; sleep 1000 & wait"},
		{name: "prints again", args: []string{"--grace=10ms"}, script: `trap "echo bye; tail -1 ` + success + `; exit 7" TERM; cat ` + success + "; sleep 1000 & wait", bad: "line 10"},
		{name: "max-idle", args: []string{"--max-idle=1500ms", "--on-limit=kill"}, script: "cat " + success + "; sleep 1000 & wait", limit: "max-idle"},
		{name: "max-duration", args: []string{"--max-duration=1500ms", "--on-limit=kill"}, script: "cat " + success + "; sleep 1000 & wait", limit: "max-duration"},
		{name: "works in the background", args: []string{"--grace=10ms"}, script: "head -8 " + background + "; sleep 2.5; exit 3", code: 3, error: "3", exits: true},
		{name: "answered a notification", args: []string{"--grace=10ms"}, script: "head -3 " + stale + "; sleep 2.5; tail -n +4 " + stale, exits: true},
		{name: "broke off", args: []string{"--grace=10ms"}, script: `grep -v '"type":"result"' ` + success + "; sleep 2.5; exit 3", code: 3, error: "3", exits: true},
		{name: "exits", args: []string{"--grace=1h"}, script: "cat " + success + "; exit 3", code: 3, error: "3", exits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			receiver := receivertest.Start(t)
			r, w := newPipe(t)
			file := filepath.Join(t.TempDir(), "receipt.json")
			cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint()},
				append(append([]string{"exec", "--flush-timeout=20s", "--receipt", file}, tc.args...), "--", "sh", "-c", tc.script)...)
			cmd.ExtraFiles = []*os.File{w}
			_ = cmd.Run()
			w.Close()
			if got := cmd.ProcessState.ExitCode(); got != tc.code {
				t.Errorf("status %d, want %d; %v", got, tc.code, cmd.ProcessState)
			}
			if _, err := r.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("its child is there: %v", err)
			}
			want := ""
			switch {
			case tc.limit != "":
				want = "spantee: the agent reached --" + tc.limit + ": ending the agent\n"
			case !tc.exits:
				want = "spantee: the agent has not exited although it printed its result and then nothing for 10ms: ending it\n"
			}
			if tc.bad != "" {
				want += "spantee: 1 line of cursor-agent is not JSON, the first is " + tc.bad + "\n"
			}
			if got := cmd.stderr.String(); got != want {
				t.Errorf("stderr %q, want %q", got, want)
			}
			roots := rootsOf(receiver)
			if len(roots) != 1 {
				t.Fatalf("%d roots", len(roots))
			}
			ended := attribute(roots[0], "spantee.ended_after_result")
			if errorType(roots[0]) != tc.error || (ended != "") == tc.exits {
				t.Errorf("error %q, ended after the result: %q", errorType(roots[0]), ended)
			}
			var got struct {
				Ended  bool     `json:"ended_after_result"`
				Exit   int      `json:"exit_status"`
				Limits []string `json:"limits_reached"`
			}
			b, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(b, &got)
			}
			if err != nil || got.Ended == tc.exits || got.Exit != tc.code || strings.Join(got.Limits, " ") != tc.limit {
				t.Errorf("receipt: %v, %+v", err, got)
			}
		})
	}
}

// TestLimitWarns reports a limit, and changes nothing else. The root and the receipt have the
// limit, although the whole stream came at once: the run had ended when the limit was noticed.
func TestLimitWarns(t *testing.T) {
	receiver := receivertest.Start(t)
	name := filepath.Join(t.TempDir(), "receipt.json")
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.GRPCEndpoint()},
		"exec", "--max-tools=2", "--receipt", name, "--", "cat", "../../testdata/cursor/fix-failing-test.jsonl")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if got := cmd.stderr.String(); got != "spantee: the agent reached --max-tools\n" {
		t.Errorf("stderr %q", got)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), fixture(t, "fix-failing-test.jsonl")) {
		t.Error("stdout differs")
	}
	if b, err := os.ReadFile(name); err != nil || strings.Count(string(b), `"max-tools"`) != 2 { // of the run, and of all
		t.Errorf("%v: %s", err, b)
	}
	for _, root := range rootsOf(receiver) {
		if !slices.ContainsFunc(root.Events, func(e *tracepb.Span_Event) bool { return e.Name == "limit.reached" }) {
			t.Errorf("the root has the events %v", root.Events)
		}
	}
}

func TestLimitOptions(t *testing.T) {
	for _, args := range [][]string{{"--on-limit=x"}, {"--max-tools=-1"}, {"--max-idle=-1s"}, {"--max-cost=NaN"}} {
		cmd := spantee(t, nil, append(append([]string{"exec"}, args...), "--", "true")...)
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != proc.StatusUsage {
			t.Errorf("%v: %v %s", args, err, cmd.stderr.String())
		}
	}
}
