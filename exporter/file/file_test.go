package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spantee/spantee/exporter"
)

func resourceSpans(spans ...*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name", Value: text("cursor-agent")}}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "spantee"}, Spans: spans}},
	}}
}

func writeFile(t *testing.T, path string, uploads ...[]*tracepb.ResourceSpans) {
	t.Helper()
	c, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range uploads {
		if err := c.UploadTraces(t.Context(), encode(t, u)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// everything is a span with a value in each field and of each kind.
func everything() *tracepb.Span {
	value := func(v any) *commonpb.AnyValue {
		switch v := v.(type) {
		case int64:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
		case float64:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
		case bool:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
		case []byte:
			return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v}}
		}
		return text(v.(string))
	}
	s := &tracepb.Span{
		TraceId:            []byte("KKKKKKKKKKKKKKK\x01"),
		SpanId:             []byte{0xa0, 0, 0, 0, 0, 0, 0, 2},
		ParentSpanId:       []byte{0xa0, 0, 0, 0, 0, 0, 0, 1},
		TraceState:         "vendor=1",
		Flags:              0x101,
		Name:               "execute_tool \u2028<shell>\"",
		Kind:               tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano:  1_791_026_788_582_000_000,
		EndTimeUnixNano:    1_791_026_791_492_000_000,
		DroppedEventsCount: 5,
		Status:             &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "exit status 3"},
	}
	for _, a := range []struct {
		key   string
		value any
	}{{"int", int64(1 << 62)}, {"double", 0.25}, {"bool", true}, {"bytes", []byte{0, 255}}, {"string", "text"}} {
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: a.key, Value: value(a.value)})
	}
	s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: "list", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{
		ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{text("a"), text("b")}},
	}}})
	s.Events = []*tracepb.Span_Event{{TimeUnixNano: s.StartTimeUnixNano + 1, Name: "text.delta", Attributes: s.Attributes[:1]}}
	s.Links = []*tracepb.Span_Link{{TraceId: s.TraceId, SpanId: []byte{0xa0, 0, 0, 0, 0, 0, 0, 7}}}
	return s
}

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

// session is a trace of two spans.
func session() []*tracepb.Span {
	root, chat := everything(), everything()
	root.ParentSpanId, root.SpanId, root.Name, root.Status = nil, chat.ParentSpanId, "invoke_agent cursor-agent", new(tracepb.Status)
	return []*tracepb.Span{chat, root}
}

func TestFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	first, second := resourceSpans(session()...), resourceSpans(everything())
	writeFile(t, path, first, nil)
	writeFile(t, path, second) // a later run appends

	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got [][]*tracepb.ResourceSpans
	for spans, err := range Read(f) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, spans)
	}
	want := [][]*tracepb.ResourceSpans{first, second}
	same := func(a, b []*tracepb.ResourceSpans) bool { // cmp.Diff of a thousand events takes seconds
		return proto.Equal(&tracepb.TracesData{ResourceSpans: a}, &tracepb.TracesData{ResourceSpans: b})
	}
	if !slices.EqualFunc(want, got, same) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
	}

	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
}

// The specification: ids in lower-case hex, enums as numbers, 64-bit numbers
// as strings, names in lowerCamelCase, one line an upload.
func TestFileFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	writeFile(t, path, resourceSpans(everything()))
	line, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(line), "\n"); n != 1 || !strings.HasSuffix(string(line), "}\n") {
		t.Errorf("%d lines, want 1, with its end", n)
	}
	if _, err := (&ptrace.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalTraces(line); err != nil {
		t.Errorf("the collector cannot read it: %v", err)
	}

	var doc struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []map[string]any }
		}
	}
	if err := json.Unmarshal(line, &doc); err != nil {
		t.Fatal(err)
	}
	got := doc.ResourceSpans[0].ScopeSpans[0].Spans[0]
	text := func(v any) map[string]any { return map[string]any{"stringValue": v} }
	want := map[string]any{
		"traceId":            "4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b01",
		"spanId":             "a000000000000002",
		"parentSpanId":       "a000000000000001",
		"traceState":         "vendor=1",
		"flags":              257.0,
		"name":               "execute_tool \u2028<shell>\"",
		"kind":               1.0,
		"startTimeUnixNano":  "1791026788582000000",
		"endTimeUnixNano":    "1791026791492000000",
		"droppedEventsCount": 5.0,
		"events": []any{map[string]any{
			"timeUnixNano": "1791026788582000001", "name": "text.delta",
			"attributes": []any{map[string]any{"key": "int", "value": map[string]any{"intValue": "4611686018427387904"}}},
		}},
		"status": map[string]any{"code": 2.0, "message": "exit status 3"},
		"links":  []any{map[string]any{"traceId": "4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b01", "spanId": "a000000000000007"}},
		"attributes": []any{
			map[string]any{"key": "int", "value": map[string]any{"intValue": "4611686018427387904"}},
			map[string]any{"key": "double", "value": map[string]any{"doubleValue": 0.25}},
			map[string]any{"key": "bool", "value": map[string]any{"boolValue": true}},
			map[string]any{"key": "bytes", "value": map[string]any{"bytesValue": "AP8="}},
			map[string]any{"key": "string", "value": text("text")},
			map[string]any{"key": "list", "value": map[string]any{"arrayValue": map[string]any{"values": []any{text("a"), text("b")}}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var appendTo = flag.String("append-to", "", "be the other process of TestFileAppendsConcurrentSafe")

// Writers of one file, in this process and in others, never tear each other's lines.
func TestFileAppendsConcurrentSafe(t *testing.T) {
	const perWriter = 500
	line := []byte(strings.Repeat("x", 50_000) + "\n")
	hammer := func(path string) {
		c, err := New(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Stop(t.Context())
		for range perWriter {
			if err := c.(*client).append(line); err != nil {
				t.Error(err)
			}
		}
	}
	if *appendTo != "" { // one of the others
		hammer(*appendTo)
		return
	}

	path := filepath.Join(t.TempDir(), "traces.jsonl")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileAppendsConcurrentSafe$", "-append-to="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		wg.Go(func() { hammer(path) })
	}
	wg.Wait()

	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, bytes.Repeat(line, 4*perWriter)) {
		t.Errorf("the lines are torn, or not %d", 4*perWriter)
	}
}

func encode(t *testing.T, spans []*tracepb.ResourceSpans) []byte {
	request, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		t.Error(err)
	}
	return request
}

func upload(t *testing.T, c exporter.Client, spans []*tracepb.ResourceSpans, times int) {
	request := encode(t, spans)
	for range times {
		if err := c.UploadTraces(t.Context(), request); err != nil {
			t.Error(err)
		}
	}
}

func TestFileRefuses(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "no", "such", "folder")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: got %v", err)
	}

	c, err := New(filepath.Join(t.TempDir(), "traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	invalid := bytes.ReplaceAll(encode(t, resourceSpans(&tracepb.Span{Name: "name"})), []byte("name"), []byte("\xffame"))
	if err := c.UploadTraces(t.Context(), invalid); err == nil {
		t.Error("a name that is not UTF-8 was written")
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := c.UploadTraces(t.Context(), encode(t, resourceSpans(session()...))); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Stop: got %v", err)
	}
}

func TestFileOnFullDisk(t *testing.T) {
	c, err := New("/dev/full")
	if err != nil {
		t.Skip(err)
	}
	defer c.Stop(t.Context())
	if err := c.UploadTraces(t.Context(), encode(t, resourceSpans(session()...))); err == nil {
		t.Error("no error")
	}
}

// After a line that did not fit, the next one starts on its own.
func TestFileAfterTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.WriteFile(path, []byte(`{"resourceSpans":[{"sco`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	c.(*client).torn = true
	upload(t, c, resourceSpans(session()...), 2)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for spans, err := range Read(strings.NewReader(string(b))) {
		got = append(got, fmt.Sprint(len(spans), err != nil))
	}
	if want := []string{"0 true", "1 false", "1 false"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRead(t *testing.T) {
	var got []string
	in := io.MultiReader(strings.NewReader("\n{\"resourceSpans\":[{}]}\r\nnot json\n{}"), iotest.ErrReader(errors.New("broken")))
	for spans, err := range Read(in) {
		s := fmt.Sprintf("%d spans", len(spans))
		if err != nil {
			s, _, _ = strings.Cut(err.Error(), ":")
		}
		got = append(got, s)
	}
	if want := []string{"1 spans", "line 3", "0 spans", "broken"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range Read(strings.NewReader("{}\n{}\n")) {
		break // and no more is read
	}
}

// A file that is moved away or deleted is begun anew, and one that somebody emptied goes on.
func TestFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	c, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(t.Context())
	for i, change := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(path) },
		func() error { return os.Rename(path, path+".1") },
		func() error { return os.Truncate(path, 0) },
		func() error { return os.WriteFile(path+".1", nil, 0o600) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		upload(t, c, resourceSpans(session()...), 2)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		good := 0
		for spans, err := range Read(bytes.NewReader(bytes.TrimPrefix(b, before))) {
			if err == nil && len(spans) == 1 {
				good++
			}
		}
		if good != 2 {
			t.Errorf("after change %d: %d lines of 2 can be read", i, good)
		}
	}
}
