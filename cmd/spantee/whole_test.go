package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/viewer"
)

// longOutput is a session with an output of n bytes, twice.
func longOutput(t *testing.T, n int) []byte {
	t.Helper()
	return bytes.ReplaceAll(fixture(t, "fix-failing-test.jsonl"), []byte("0.198s"), append(bytes.Repeat([]byte("x"), n), "the-end"...))
}

// check tells how much of a long output a text has, and whether it says that
// something is missing.
func checkOutput(t *testing.T, name, text string, whole bool, most int) {
	t.Helper()
	longest := 0
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return r != 'x' }) {
		longest = max(longest, len(run))
	}
	if longest > most || longest < most/4 || strings.Contains(text, "the-end") != whole || strings.Contains(text, "x[truncated]") == whole {
		t.Errorf("%s: at most %d bytes, whole %v, marked %v", name, longest, strings.Contains(text, "the-end"), strings.Contains(text, "x[truncated]"))
	}
}

// What goes to a file or a viewer is whole, up to 256 KiB, unless somebody said
// otherwise. What goes elsewhere is what backends take.
func TestContentIsWhole(t *testing.T) {
	long(t)
	t.Parallel()
	const long = 100_000
	limited := []string{"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=2048"}
	for _, test := range []struct {
		name  string
		env   []string
		n     int
		whole bool
		most  int
	}{
		{"file", nil, long, true, long},
		{"more than fits", nil, 500_000, false, 256 << 10},
		{"a very long line", nil, 5_000_000, false, 256 << 10},
		{"as told", limited, long, false, 2048},
	} {
		file := filepath.Join(t.TempDir(), "spans.jsonl")
		cmd := spantee(t, test.env, "--content=full", "--to", file)
		cmd.Stdin = bytes.NewReader(longOutput(t, test.n))
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, &cmd.stderr)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		checkOutput(t, test.name, string(b), test.whole, test.most)
	}

	r := receivertest.Start(t)
	cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, "--content=full")
	cmd.Stdin = bytes.NewReader(longOutput(t, long))
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &cmd.stderr)
	}
	var received strings.Builder
	for _, s := range r.Spans() {
		for _, kv := range s.Attributes {
			received.WriteString(kv.Value.GetStringValue() + "\n")
		}
	}
	checkOutput(t, "collector", received.String(), false, 2048)

	recording := filepath.Join(t.TempDir(), "session.jsonl")
	if err := os.WriteFile(recording, longOutput(t, long), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		env   []string
		whole bool
		most  int
	}{
		{"view", nil, true, long},
		{"view as told", limited, false, 2048},
	} {
		args := append(append([]string{"view", "--content=full", "--listen", "127.0.0.1:0"}, freePorts...), recording)
		v := launch(t, nil, spantee(t, test.env, args...))
		checkOutput(t, test.name, v.exported(t), test.whole, test.most)
	}
	stdin, err := os.Open(recording)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	v := launch(t, stdin, spantee(t, append(limited, "OTEL_EXPORTER_OTLP_ENDPOINT="), "--view", "--content=full"))
	v.awaitEnd(t)
	checkOutput(t, "--view as told", v.exported(t), false, 2048)
}

// A process finds out that a viewer of the same user is at its endpoint.
func TestContentIsWholeInAViewer(t *testing.T) {
	long(t)
	t.Parallel()
	const long = 100_000
	stream := longOutput(t, long)
	first := bytes.IndexByte(stream, '\n') + 1
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		v := viewFiles(t)
		endpoint := v.grpc
		if protocol != "grpc" {
			endpoint = v.http
		}
		cmd := spantee(t, nil, "--content=full", "--protocol", protocol, "--endpoint", "http://"+strings.TrimPrefix(endpoint, "http://"))
		cmd.Env = v.cmd.Env
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(stream[:first]); err != nil {
			t.Fatal(err)
		}
		v.awaitList(t, func(l viewer.List) bool { return l.Total == 1 }) // it shows what is open
		if _, err := in.Write(stream[first:]); err != nil {
			t.Fatal(err)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, &cmd.stderr)
		}
		v.awaitEnd(t)
		checkOutput(t, "live, "+protocol, v.exported(t), true, long)

		again := viewFiles(t)
		endpoint = again.grpc
		if protocol != "grpc" {
			endpoint = again.http
		}
		recording := filepath.Join(t.TempDir(), "session.jsonl")
		if err := os.WriteFile(recording, stream, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd = spantee(t, nil, "replay", "--content=full", "--protocol", protocol, "--endpoint", "http://"+strings.TrimPrefix(endpoint, "http://"), recording)
		cmd.Env = again.cmd.Env
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, &cmd.stderr)
		}
		again.awaitEnd(t)
		checkOutput(t, "replay, "+protocol, again.exported(t), true, long)
	}
}

// awaitList asks for the list until it is as wanted.
func (v viewerRun) awaitList(t *testing.T, ok func(viewer.List) bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); {
		if ok(v.list(t)) {
			return
		}
	}
	t.Fatalf("the list is %+v", v.list(t))
}

func (v viewerRun) awaitEnd(t *testing.T) {
	t.Helper()
	v.awaitList(t, func(l viewer.List) bool { return l.Total == 1 && l.Sessions[0].Ended && l.Sessions[0].Now == nil })
}

// exported is the only session as OTLP JSON.
func (v viewerRun) exported(t *testing.T) string {
	t.Helper()
	status, body := get(t, v.page+"/api/sessions/"+v.list(t).Sessions[0].ID+"/export.json")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return string(body)
}
