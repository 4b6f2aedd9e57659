package main

import (
	"bytes"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/semconv"
)

// stream is a session of tools and deltas, in which every line has its stamp:
// its spans are the same whenever and however it is sent.
func stream(session string, tools int) [][]byte {
	var lines [][]byte
	at := 1790000000000
	line := func(format string, args ...any) {
		at += 37
		lines = append(lines, fmt.Appendf(nil, format+`,"session_id":"%s","timestamp_ms":%d}`+"\n", append(args, session, at)...))
	}
	line(`{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev","permissionMode":"default","model":"GPT-5"`)
	for i := range tools {
		for range 5 {
			line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"some words "}]}`)
		}
		line(`{"type":"tool_call","subtype":"started","call_id":"%d","tool_call":{"readToolCall":{"args":{"path":"p"}}}`, i)
		line(`{"type":"tool_call","subtype":"completed","call_id":"%d","tool_call":{"readToolCall":{"args":{"path":"p"},"result":{"success":{"content":"c"}}}}`, i)
	}
	line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}`)
	line(`{"type":"result","subtype":"success","is_error":false,"duration_ms":%d,"result":"done"`, 37*len(lines))
	return lines
}

// spansIn returns the spans that lines become, by their ids: those that ended
// in them, and those that a signal ends.
func spansIn(t *testing.T, lines [][]byte, interrupted bool) (ended, cut map[string]*tracepb.Span) {
	t.Helper()
	ended, cut = map[string]*tracepb.Span{}, map[string]*tracepb.Span{}
	m, err := mapping.New(mapping.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	take := func(outputs iter.Seq[mapping.Output], into map[string]*tracepb.Span) {
		for out := range outputs {
			span := new(tracepb.Span)
			if err := proto.Unmarshal(out.Span, span); err != nil {
				t.Error(err)
			}
			if out.Span != nil {
				into[spanKey(span)] = span
			}
		}
	}
	take(m.Map(bytes.Join(lines, nil)), ended)
	take(m.Close(interrupted), cut)
	return ended, cut
}

// wantSpans fails unless exactly the wanted spans have arrived, as they ended. How long the
// agent took to start, which only the process knows, is not compared.
func wantSpans(t *testing.T, got, want map[string]*tracepb.Span) {
	t.Helper()
	for _, span := range got {
		span.Attributes = slices.DeleteFunc(span.Attributes, func(a *commonpb.KeyValue) bool {
			return a.Key == semconv.StartupMillis
		})
	}
	for id, span := range want {
		switch {
		case got[id] == nil:
			t.Errorf("%s is lost", span.Name)
		case !proto.Equal(got[id], span):
			t.Errorf("%s arrived as\n%v, but ended as\n%v", span.Name, got[id], span)
		}
	}
	for id, span := range got {
		if want[id] == nil {
			t.Errorf("%s arrived, and never ended", span.Name)
		}
	}
}

// TestCollectorFaults runs the filter against every kind of bad collector. The
// stream must come out as it went in, the status must be 0, what did not arrive
// must be told in one line, and once there is a good collector every span must
// arrive as it ended.
func TestCollectorFaults(t *testing.T) {
	long(t)
	t.Parallel()
	const midway = 40
	for _, tc := range []struct {
		name   string
		mode   string             // of the collector; "" is none
		midway func(c *collector) // happens when some spans were taken
		stderr string             // contained in the one line; "" for none
	}{
		{name: "collector works", mode: "well"},
		{name: "no collector", stderr: "connection refused"},
		{name: "collector hangs", mode: "hung", stderr: "the collector did not answer in time"},
		{name: "collector is slow", mode: "slow"},
		{name: "collector restarts", mode: "well", midway: func(c *collector) {
			c.kill()
			c.start("well")
		}},
		{name: "collector dies", mode: "well", midway: (*collector).kill, stderr: "connection refused"},
		{name: "collector takes at most 4 KiB", mode: "picky"},
		{name: "collector refuses the token", mode: "unauthenticated", stderr: "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			if tc.mode == "picky" && protocol != "grpc" {
				continue // over HTTP the limit is another, and the answer 413
			}
			name := tc.name + ", " + protocol
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newCollector(t)
				if tc.mode != "" {
					c.start(tc.mode)
				}
				lines := stream("s", 20)
				env := append(c.environment(protocol), "XDG_STATE_HOME="+t.TempDir())
				timeout := "--flush-timeout=10s"
				if tc.mode == "hung" {
					timeout = "--flush-timeout=500ms"
				}
				cmd := spantee(t, env, timeout)
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				stdin.Write(bytes.Join(lines[:midway], nil))
				if tc.midway != nil {
					c.await()
					tc.midway(c)
				}
				stdin.Write(bytes.Join(lines[midway:], nil))
				stdin.Close()
				if err := cmd.Wait(); err != nil {
					t.Errorf("spantee: %v", err)
				}
				if !bytes.Equal(cmd.stdout.Bytes(), bytes.Join(lines, nil)) {
					t.Error("other bytes came out")
				}
				checkStderr(t, cmd.stderr.String(), tc.stderr)
				ended, _ := spansIn(t, lines, false)
				kept := numberBefore(cmd.stderr.String(), "spooled for retry")
				if n := numberBefore(cmd.stderr.String(), "lost"); n != 0 {
					t.Errorf("%d spans lost", n)
				}

				c.kill()
				c.start("well")
				flushed := spantee(t, env, "flush")
				if err := flushed.Run(); err != nil {
					t.Errorf("flush: %v, %s", err, flushed.stdout.String())
				}
				if got := numberBefore(flushed.stdout.String(), "delivered"); got != kept {
					t.Errorf("%d spans kept, %d sent later", kept, got)
				}
				got, _ := c.taken()
				wantSpans(t, got, ended)
				faults.add(name, len(ended), len(ended)-kept, kept, 0)
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

// numberBefore returns the number of things that a message says were so: the
// sum of "N words" and "N spans words".
func numberBefore(message, words string) (sum int) {
	for _, m := range regexp.MustCompile(`(\d+) (?:spans? )?`+words).FindAllStringSubmatch(message, -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	return sum
}

// pipe runs the filter on a live stream.
func pipe(t *testing.T, lines [][]byte, env []string, args ...string) *run {
	t.Helper()
	cmd := spantee(t, env, args...)
	cmd.Stdin = bytes.NewReader(bytes.Join(lines, nil))
	if err := cmd.Run(); err != nil {
		t.Errorf("spantee: %v\n%s", err, cmd.stderr.String())
	}
	if !bytes.Equal(cmd.stdout.Bytes(), bytes.Join(lines, nil)) {
		t.Error("other bytes came out")
	}
	return cmd
}

// A spool that cannot be written: what was to be kept is lost, and that is said.
func TestUnwritableSpool(t *testing.T) {
	c := newCollector(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lines := stream("s", 5)
	ended, _ := spansIn(t, lines, false)
	cmd := pipe(t, lines, append(c.environment("grpc"), "XDG_STATE_HOME="+file))
	checkStderr(t, cmd.stderr.String(), fmt.Sprintf("%d lost (spool: mkdir %s", len(ended), file))
	faults.add("no spool", len(ended), 0, 0, len(ended))

	// With a collector there is nothing to be said.
	c.start("well")
	cmd = pipe(t, lines, append(c.environment("grpc"), "XDG_STATE_HOME="+file))
	checkStderr(t, cmd.stderr.String(), "")
	got, _ := c.taken()
	wantSpans(t, got, ended)
}

// Twenty processes put into one spool at once, and then twenty others send and
// drain at once.
func TestManyProcessesOneSpool(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCollector(t)
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir())
	all := map[string]*tracepb.Span{}
	together := func(kind string) {
		var runs sync.WaitGroup
		for i := range 20 {
			lines := stream(fmt.Sprint(kind, i), 5)
			ended, _ := spansIn(t, lines, false)
			for id, span := range ended {
				all[id] = span
			}
			runs.Go(func() { pipe(t, lines, env, "-q", "--flush-timeout=1m") })
		}
		runs.Wait()
	}
	together("kept")
	if got, _ := c.taken(); len(got) > 0 {
		t.Errorf("%d spans arrived with no collector there", len(got))
	}
	kept := len(all)
	c.start("well")
	together("sent")
	flushed := spantee(t, env, "flush")
	if err := flushed.Run(); err != nil {
		t.Error(err)
	}
	got, again := c.taken()
	wantSpans(t, got, all)
	if again > 0 {
		t.Errorf("%d spans came twice", again)
	}
	faults.add("20 processes at once", len(all), len(all)-kept, kept, 0)
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
	slow(t)
	t.Parallel()
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
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint(), "OTEL_EXPORTER_OTLP_TIMEOUT=1000"}, "--flush-timeout=100ms")
	cmd.Stdin = stdin
	if err := cmd.Run(); err != nil {
		t.Errorf("spantee: %v", err)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), in.Bytes()) {
		t.Error("other bytes came out")
	}
	// A chat before each tool, and the root. A recording that ends with a tool has no chat after it.
	checkStderr(t, cmd.stderr.String(), fmt.Sprintf("spantee: %[1]d of %[1]d spans not delivered: ", 2*tools+1))
}
