package tracer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
)

// A nowhere is a collector that is not there.
type nowhere struct{}

func (nowhere) Stop(context.Context) error { return nil }
func (nowhere) UploadTraces(context.Context, []byte) error {
	return &exporter.UploadError{Verdict: exporter.Misconfigured, Err: errors.New("nowhere")}
}

func (nowhere) Destination() spool.Destination {
	return spool.Destination{Protocol: "grpc", Endpoint: "http://nowhere:4317"}
}

// Each piece of the stream that changes a run's ids is followed by a checkpoint,
// without the help of a clock: whenever the process is killed then, its spans are
// of one trace.
func TestAChangeOfIdsIsOnDiskAtOnce(t *testing.T) {
	s := &spool.Spool{Dir: filepath.Join(t.TempDir(), "spantee/spool"), Max: 1 << 20}
	e := exporter.New(exporter.Config{Client: nowhere{}, Spool: s, Interval: time.Hour})
	defer e.Close(t.Context())
	tr, err := New(Config{
		Mapping: mapping.Options{Agent: "cursor"}, Consumers: []Consumer{&Delivery{Exporter: e}}, Live: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		line  string
		spans int // that a kill leaves
	}{
		{`{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}`, 2}, // a provisional root
		{`{"type":"tool_call","subtype":"started","call_id":"1","tool_call":{"readToolCall":{"args":{"path":"p"}}},"session_id":"s","timestamp_ms":1790000000000}`, 3},
		{`{"type":"tool_call","subtype":"completed","call_id":"1","tool_call":{"readToolCall":{"args":{"path":"p"},"result":{"success":{"content":"c"}}}},"session_id":"s","timestamp_ms":1790000000500}`, 3},
		{`{"type":"result","subtype":"success","is_error":false,"duration_ms":500,"session_id":"s","timestamp_ms":1790000000600}`, 3},
	} {
		tr.last.took = 0 // however slow the machine is
		tr.Write([]byte(step.line+"\n"), time.Now())
		var entries []spool.Entry
		for deadline := time.Now().Add(30 * time.Second); ; {
			if entries, err = s.List(); err != nil {
				t.Fatal(err)
			}
			if len(entries) == 1 && entries[0].Spans == step.spans {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after line %d a kill leaves %+v, want %d spans", i+1, entries, step.spans)
			}
		}
		traces := tracesAfterKill(t, entries[0].Path)
		if len(traces) != 1 {
			t.Errorf("after line %d a kill leaves %d traces: %v", i+1, len(traces), traces)
		}
	}
}

// tracesAfterKill claims a copy of a log, and counts the spans of each trace.
func tracesAfterKill(t *testing.T, log string) map[string]int {
	t.Helper()
	dead := spool.Spool{Dir: filepath.Join(t.TempDir(), "spantee/spool"), Max: 1 << 20}
	b, err := os.ReadFile(log)
	if err == nil {
		err = os.MkdirAll(dead.Dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dead.Dir, filepath.Base(log)), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	traces := map[string]int{}
	for claim, err := range dead.Claims(1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, recovered := range claim.Spans {
			for _, span := range decodeSpans(t, recovered.Wire) {
				traces[fmt.Sprintf("%x", span.TraceId)]++
			}
		}
		_ = claim.Close()
	}
	return traces
}

func decodeSpans(t *testing.T, wire []byte) []*tracepb.Span {
	t.Helper()
	scope := new(tracepb.ScopeSpans)
	if err := proto.Unmarshal(wire, scope); err != nil {
		t.Fatal(err)
	}
	return scope.Spans
}

// snapshots is a Consumer that counts the open spans of all Snapshots.
type snapshots struct{ shown *int }

func (snapshots) Span(*Span) {}
func (s snapshots) Piece(open *Snapshot) error {
	if open != nil {
		*s.shown += len(open.Open)
	}
	return nil
}

// What is open is shown when it has changed, or as time passes if somebody watches. In a
// recording nothing is open now.
func TestSnapshots(t *testing.T) {
	shown := 0
	cfg := Config{Mapping: mapping.Options{Agent: "cursor"}, Consumers: []Consumer{snapshots{&shown}}, Live: true}
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		tr.last.took = 0 // however slow the machine is
		tr.Write([]byte(`{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}`+"\n"), time.Now())
	}
	tick := func(watched bool) {
		tr.last.took = 0
		tr.Tick(time.Now(), watched)
	}
	for i, step := range []struct {
		do   func()
		want int // spans: a root and a chat
	}{
		{write, 2}, // a run begins
		{func() { tick(false) }, 2},
		{func() { tick(true) }, 4},
		{func() { tr.Changed(); tick(false) }, 6},
	} {
		if step.do(); shown != step.want {
			t.Errorf("step %d: %d spans were shown, want %d", i, shown, step.want)
		}
	}

	shown, cfg.Live, cfg.Mapping.Source = 0, false, mapping.Recording
	if tr, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	write()
	if tick(true); shown > 0 {
		t.Errorf("%d spans of a recording", shown)
	}
}
