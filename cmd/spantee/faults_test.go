package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// TestCollectorFaults runs the filter against every kind of bad collector. The
// stream must come out as it went in, the status must be 0, and what was lost
// must be told in one line. The context of the command is what bounds its time:
// the flush timeout is 2 s, all else must be quicker.
func TestCollectorFaults(t *testing.T) {
	refuse := func(code codes.Code, message string) func(*receivertest.Receiver) {
		return func(r *receivertest.Receiver) { r.Refuse(1000, status.Error(code, message)) }
	}
	for _, tc := range []struct {
		name    string
		behave  func(*receivertest.Receiver)
		stderr  string // contained in the one line, "" for none
		arrived bool
	}{
		{name: "well", behave: func(*receivertest.Receiver) {}, arrived: true},
		{name: "answers after 200 ms", behave: func(r *receivertest.Receiver) { r.Delay(200 * time.Millisecond) }, arrived: true},
		{name: "absent", behave: (*receivertest.Receiver).Stop, stderr: "11 of 11 spans not delivered: connection refused"},
		{name: "hung", behave: (*receivertest.Receiver).Hang, stderr: "11 of 11 spans not delivered: the collector did not answer in time"},
		{name: "resource exhausted", behave: refuse(codes.ResourceExhausted, "quota"), stderr: "11 of 11 spans not delivered: "},
		{name: "unauthenticated", behave: refuse(codes.Unauthenticated, "no token"), stderr: "OTEL_EXPORTER_OTLP_HEADERS"},
		{name: "partial success", behave: func(r *receivertest.Receiver) { r.Partial(3, "too old") }, stderr: "3 of 11 spans not delivered: ", arrived: true},
	} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(tc.name+", "+protocol, func(t *testing.T) {
				t.Parallel()
				r := receivertest.Start(t)
				tc.behave(r)
				endpoint := r.GRPCEndpoint()
				if protocol != "grpc" {
					endpoint = r.HTTPEndpoint()
				}
				in := fixture(t, "fix-failing-test.jsonl")
				cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol})
				cmd.Stdin = bytes.NewReader(in)
				if err := cmd.Run(); err != nil {
					t.Errorf("spantee: %v", err)
				}
				if !bytes.Equal(cmd.stdout.Bytes(), in) {
					t.Error("other bytes came out")
				}
				checkStderr(t, cmd.stderr.String(), tc.stderr)
				if got := len(r.Spans()); (got == 11) != tc.arrived || got != 11 && got != 0 {
					t.Errorf("%d spans arrived", got)
				}
			})
		}
	}
}

func checkStderr(t *testing.T, got, want string) {
	t.Helper()
	switch {
	case want == "" && got != "":
		t.Errorf("stderr %q, want none", got)
	case want != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, want)):
		t.Errorf("stderr %q, want one line with %q", got, want)
	}
}

// A collector that dies midway: what it had acknowledged is delivered, and all
// else is counted.
func TestCollectorDiesMidway(t *testing.T) {
	r := receivertest.Start(t)
	in := fixture(t, "fix-failing-test.jsonl")
	lines := bytes.SplitAfter(in, []byte("\n"))
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()})
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Write(bytes.Join(lines[:30], nil))
	r.Await(func() bool { return len(r.Spans()) > 0 })
	acknowledged := len(r.Spans()) // at the latest when the next request comes
	stdin.Write(bytes.Join(lines[30:50], nil))
	r.Await(func() bool { return len(r.Spans()) > acknowledged })
	received := len(r.Spans()) // but the answer to the last may be lost
	r.Stop()
	stdin.Write(bytes.Join(lines[50:], nil))
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("spantee: %v", err)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), in) {
		t.Error("other bytes came out")
	}
	var lost int
	checkStderr(t, cmd.stderr.String(), " of 11 spans not delivered: connection refused")
	if _, err := fmt.Sscanf(cmd.stderr.String(), "spantee: %d of", &lost); err != nil || lost < 11-received || lost > 11-acknowledged {
		t.Errorf("%d spans lost of 11, %d to %d arrived", lost, acknowledged, received)
	}
}

// A listener that accepts and says nothing at all, not even HTTP/2.
func TestSilentListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := fixture(t, "parallel-tools.jsonl")
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String()}, "--flush-timeout=300ms")
	cmd.Stdin = bytes.NewReader(in)
	if err := cmd.Run(); err != nil {
		t.Errorf("spantee: %v", err)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), in) {
		t.Error("other bytes came out")
	}
	checkStderr(t, cmd.stderr.String(), "5 of 5 spans not delivered")
}

// A recording whose spans do not all fit into memory waits for the collector,
// but not for one that hangs past the flush timeout; and every span is counted.
func TestReplayToHungCollector(t *testing.T) {
	r := receivertest.Start(t)
	r.Hang()
	const tools = 40_000
	var in bytes.Buffer
	for i := range tools {
		for k, subtype := range []string{"started", "completed"} {
			fmt.Fprintf(&in, `{"type":"tool_call","subtype":"%s","call_id":"%d","tool_call":{"readToolCall":{"args":{}}},"session_id":"s","timestamp_ms":%d}`+"\n",
				subtype, i, 1790000000000+2*i+k)
		}
	}
	file := filepath.Join(t.TempDir(), "big.jsonl")
	if err := os.WriteFile(file, in.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "--flush-timeout=100ms", "--timeout=1s")
	cmd.Stdin = stdin
	if err := cmd.Run(); err != nil {
		t.Errorf("spantee: %v", err)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), in.Bytes()) {
		t.Error("other bytes came out")
	}
	// A chat before each tool, one that broke off, and the root.
	checkStderr(t, cmd.stderr.String(), fmt.Sprintf("spantee: %[1]d of %[1]d spans not delivered: ", 2*tools+2))
}
