package runs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/semconv"
)

// traces maps a recorded stream, and returns its spans as wire bytes, by trace.
func traces(t *testing.T, stream []byte) map[string][][]byte {
	t.Helper()
	found := map[string][][]byte{}
	m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	for out, err := range m.Read(bytes.NewReader(stream)) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Span == nil {
			continue
		}
		var s runs.Span
		if err := s.Read(out.Span); err != nil {
			t.Fatal(err)
		}
		found[string(s.TraceID)] = append(found[string(s.TraceID)], bytes.Clone(out.Span))
	}
	return found
}

// fixtures calls do with each recorded stream of each agent.
func fixtures(t *testing.T, do func(t *testing.T, stream []byte)) {
	n := 0
	err := filepath.WalkDir("../../testdata", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, ".jsonl") {
			return err
		}
		stream, err := os.ReadFile(name)
		if err == nil {
			n++
			t.Run(filepath.ToSlash(name[len("../../testdata/"):]), func(t *testing.T) { do(t, stream) })
		}
		return err
	})
	if err != nil || n < 20 {
		t.Errorf("%d streams, %v", n, err)
	}
}

// A Span reads the same from wire bytes as package proto.
func TestSpanReads(t *testing.T) {
	fixtures(t, func(t *testing.T, stream []byte) {
		var got runs.Span
		for _, wires := range traces(t, stream) {
			for _, wire := range wires {
				want := new(tracepb.Span)
				if err := proto.Unmarshal(wire, want); err != nil {
					t.Fatal(err)
				}
				if err := got.Read(wire); err != nil {
					t.Fatal(err)
				}
				compare(t, &got, want)
				compare(t, runs.Of(want), want)
			}
		}
	})
}

func compare(t *testing.T, got *runs.Span, want *tracepb.Span) {
	t.Helper()
	if !bytes.Equal(got.TraceID, want.TraceId) || !bytes.Equal(got.ID, want.SpanId) || !bytes.Equal(got.Parent, want.ParentSpanId) ||
		got.Name != want.Name || got.Start != want.StartTimeUnixNano || got.End != want.EndTimeUnixNano ||
		got.Failed != (want.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR) || got.Message != want.GetStatus().GetMessage() {
		t.Errorf("read %+v of %v", got, want)
	}
	for _, kv := range want.Attributes {
		var same bool
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			same = got.Text(kv.Key) == v.StringValue
		case *commonpb.AnyValue_IntValue:
			same = got.Int(kv.Key) == v.IntValue && got.Number(kv.Key) == float64(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			same = got.Number(kv.Key) == v.DoubleValue
		case *commonpb.AnyValue_BoolValue:
			same = got.Bool(kv.Key) == v.BoolValue
		default:
			same = got.Has(kv.Key)
		}
		if !same {
			t.Errorf("%s differs from %v", kv.Key, kv.Value)
		}
	}
	if got.Has("no.such.key") || got.Text("no.such.key") != "" {
		t.Error("it has an attribute that is not there")
	}
	i := 0
	got.Events(func(e runs.Event) {
		w := want.Events[i]
		deltas := int64(1)
		for _, kv := range w.Attributes {
			if kv.Key == semconv.DeltaCount {
				deltas = kv.Value.GetIntValue()
			}
		}
		if string(e.Name) != w.Name || e.Time != w.TimeUnixNano || e.Deltas != deltas {
			t.Errorf("event %d: %s %d %d, want %v", i, e.Name, e.Time, e.Deltas, w)
		}
		i++
	})
	if i != len(want.Events) || i > 0 && got.LastEvent() != want.Events[i-1].Name {
		t.Errorf("%d events of %d, the last %q", i, len(want.Events), got.LastEvent())
	}
}

// The steps of a run add up to what its root states, in whatever order they arrive.
func TestRunAddsUp(t *testing.T) {
	fixtures(t, func(t *testing.T, stream []byte) {
		for _, wires := range traces(t, stream) {
			var first *runs.Run
			for range 3 {
				run, agents := new(runs.Run), 0
				for _, wire := range wires {
					var s runs.Span
					if err := s.Read(wire); err != nil {
						t.Fatal(err)
					}
					run.Add(&s)
					if s.Kind() == runs.Agent {
						agents++
					}
				}
				stated := run.Stated
				if !run.Rooted || stated.Tools > int64(run.Tools) || int64(run.ToolErrors) != stated.ToolErrors ||
					stated.Turns > int64(run.Turns) || agents == 1 && (stated.Turns < int64(run.Turns) || stated.Tools < int64(run.Tools)) || run.Agent == "" || run.End < run.Start {
					t.Errorf("%+v", run)
				}
				failures, failed := 0, 0
				for _, n := range run.Failures {
					failures += n
				}
				for _, call := range run.Calls {
					if call.Failed {
						failed++
					}
				}
				if failures != run.ToolErrors || failed != run.ToolErrors || len(run.Calls) != run.Tools {
					t.Errorf("%d failures, %d failed calls of %d: %+v", failures, failed, len(run.Calls), run)
				}
				if first == nil {
					first = run
				}
				order := cmpopts.IgnoreFields(runs.Run{}, "ToolNames", "Calls")
				if diff := cmp.Diff(first, run, order, cmpopts.IgnoreFields(runs.Identity{}, "Prompt"), cmpopts.IgnoreUnexported(runs.Run{})); diff != "" || !same(first.Usage(), run.Usage()) {
					t.Errorf("another order of the same spans (-want +got):\n%s", diff)
				}
				rand.Shuffle(len(wires), func(i, j int) { wires[i], wires[j] = wires[j], wires[i] })
			}
		}
	})
}

// same compares usages; sums of fractions depend on their order.
func same(a, b runs.Usage) bool {
	cost := math.Abs(a.Cost - b.Cost)
	a.Cost, b.Cost = 0, 0
	return a == b && cost < 1e-9
}

// span is a span with ids of one byte, and seconds.
func span(id, parent byte, name string, from, to uint64, attributes ...any) *runs.Span {
	s := &tracepb.Span{TraceId: []byte{1}, SpanId: []byte{id}, Name: name, StartTimeUnixNano: from * 1e9, EndTimeUnixNano: to * 1e9}
	if parent > 0 {
		s.ParentSpanId = []byte{parent}
	}
	for i := 0; i < len(attributes); i += 2 {
		v := new(commonpb.AnyValue)
		switch value := attributes[i+1].(type) {
		case string:
			v.Value = &commonpb.AnyValue_StringValue{StringValue: value}
		case int:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: int64(value)}
		case float64:
			v.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: value}
		}
		key := attributes[i].(string)
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: key, Value: v})
		if key == semconv.ErrorType {
			s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "it broke"}
		}
	}
	return runs.Of(s)
}

func add(spans ...*runs.Span) *runs.Run {
	r := new(runs.Run)
	for _, s := range spans {
		r.Add(s)
	}
	return r
}

func TestRun(t *testing.T) {
	got := add(
		span(9, 2, "invoke_agent explore", 3, 5, semconv.AgentName, "explore", semconv.RequestModel, "small"),
		span(3, 1, "chat GPT-5", 1, 2, semconv.TimeToFirstChunk, 0.25),
		span(2, 1, "execute_tool task", 3, 5, semconv.ToolName, "task"),
		span(4, 1, "execute_tool shell go", 5, 6, semconv.ToolName, "shell", semconv.ErrorType, "failure", semconv.ProcessExitCode, 3),
		span(5, 1, "execute_tool shell go", 6, 9, semconv.ToolName, "shell"),
		span(6, 1, "await_approval shell", 5, 6, semconv.ErrorType, "rejected"),
		span(7, 1, "background shell", 9, 20),
		span(1, 0, "invoke_agent cursor-agent", 1, 10, semconv.AgentName, "cursor-agent", semconv.ErrorType, "error_max_turns", semconv.Retries, 2, semconv.ModelSeconds, 1.5),
	)
	want := &runs.Run{
		Identity: runs.Identity{Name: "invoke_agent cursor-agent", Agent: "cursor-agent", Model: "small"}, Start: 1e9, End: 20e9, Rooted: true,
		ErrorType: "error_max_turns", Failure: "error_max_turns", Stated: runs.Stated{Again: runs.Again{Retries: 2}, ModelTime: 1500 * time.Millisecond},
		Counts: runs.Counts{Spans: 8, Turns: 1, Tools: 3, ToolErrors: 1}, Failures: map[string]int{"failure": 1},
		ToolNames:  []string{"task", "shell"},
		Calls:      []runs.Call{{0, false, 2 * time.Second}, {1, true, time.Second}, {1, false, 3 * time.Second}},
		FirstChunk: 250 * time.Millisecond,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(runs.Run{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if other := add(span(5, 1, "execute_tool shell go", 6, 9)); got.Ended() != 10e9 || other.Ended() != 9e9 { // not with the work in the background
		t.Errorf("ended at %d, without a root at %d", got.Ended(), other.Ended())
	}
	more := got.Clone()
	more.Add(span(8, 1, "execute_tool shell", 9, 10, semconv.ErrorType, "timeout"))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(runs.Run{})); diff != "" || more.Tools != 4 || len(more.Failures) != 2 {
		t.Errorf("a span was added to the clone (-want +got):\n%s%+v", diff, more)
	}
}

// The delays before retries are added up as far as events state them, whatever they state.
func TestRetryDelay(t *testing.T) {
	retry := func(delay int64) *runs.Span {
		e := &tracepb.Span_Event{Name: semconv.EventRetry}
		e.Attributes = []*commonpb.KeyValue{{Key: semconv.DelayMillis, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: delay}}}}
		return runs.Of(&tracepb.Span{TraceId: []byte{1}, SpanId: []byte{2}, Name: "chat m", Events: []*tracepb.Span_Event{e, {Name: semconv.EventRetry}, e}})
	}
	if got := add(retry(500), retry(-1), retry(700)).RetryDelay; got != 2400*time.Millisecond {
		t.Errorf("%v", got)
	}
	if got := add(retry(math.MaxInt64), retry(math.MaxInt64)).RetryDelay; got < 1e6*time.Hour {
		t.Errorf("%v", got)
	}
}

// Tokens and cost are the root's, or else the sum of the calls.
func TestRunUsage(t *testing.T) {
	chat := func(in int, more ...any) *runs.Span {
		return span(2, 1, "chat m", 1, 2, append([]any{semconv.InputTokens, in}, more...)...)
	}
	root := func(attributes ...any) *runs.Span { return span(1, 0, "invoke_agent x", 0, 9, attributes...) }
	for name, test := range map[string]struct {
		run  *runs.Run
		want runs.Usage
	}{
		"total":          {add(root(semconv.InputTokens, 7, semconv.OutputTokens, 1)), runs.Usage{InputTokens: 7, OutputTokens: 1, TokensKnown: true}},
		"total of calls": {add(chat(60), chat(70), root(semconv.UsageInput, 100)), runs.Usage{InputTokens: 100, TokensKnown: true}},
		"calls":          {add(chat(60, semconv.CacheReadTokens, 1), chat(70), root()), runs.Usage{InputTokens: 130, CacheReadTokens: 1, TokensKnown: true}},
		"both":           {add(chat(60), root(semconv.InputTokens, 60)), runs.Usage{InputTokens: 60, TokensKnown: true}},
		"cost of calls":  {add(chat(60, semconv.UsageCost, 0.5), root(semconv.UsageInput, 60)), runs.Usage{InputTokens: 60, Cost: 0.5, TokensKnown: true, CostKnown: true}},
		"cost of root":   {add(chat(60, semconv.UsageCost, 0.5), root(semconv.UsageTotalCost, 0.75)), runs.Usage{InputTokens: 60, Cost: 0.75, TokensKnown: true, CostKnown: true}},
		"none":           {add(root(), span(2, 1, "chat m", 1, 2)), runs.Usage{}},
		"not a number":   {add(chat(60, semconv.UsageCost, math.NaN()), chat(1, semconv.UsageCost, math.Inf(1)), chat(1, semconv.UsageCost, 1e308)), runs.Usage{InputTokens: 62, TokensKnown: true}},
		"no cost":        {add(root(semconv.UsageTotalCost, 0.0)), runs.Usage{CostKnown: true}},
	} {
		if got := test.run.Usage(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestFailure(t *testing.T) {
	for _, test := range []struct {
		span              *runs.Span
		kind, short, long string
	}{
		{span(1, 0, "x", 0, 1), "", "", ""},
		{span(1, 0, "x", 0, 1, semconv.ProcessExitCode, 1), "", "", ""},
		{span(1, 0, "x", 0, 1, semconv.ErrorType, "timeout"), "timeout", "timeout", "timeout: it broke"},
		{span(1, 0, "x", 0, 1, semconv.ErrorType, "it"), "it", "it", "it broke"},
		{span(1, 0, "x", 0, 1, semconv.ErrorType, ""), "_OTHER", "it broke", "it broke"},
		{span(1, 0, "x", 0, 1, semconv.ErrorType, "failure", semconv.ProcessExitCode, 3), "failure", "exit 3", "exit 3"},
	} {
		if kind, short, long := test.span.ErrorType(), test.span.ShortFailure(), test.span.Failure(); kind != test.kind || short != test.short || long != test.long {
			t.Errorf("%q %q %q, want %q %q %q", kind, short, long, test.kind, test.short, test.long)
		}
	}
}

// Whatever a trace has, a Run of it is bounded.
func TestRunIsBounded(t *testing.T) {
	r := new(runs.Run)
	long := strings.Repeat("\x01é", 1000)
	for i := range 6000 {
		odd := fmt.Sprint(i) + long
		r.Add(span(1, 0, odd, 1, 2, semconv.AgentName, odd, semconv.RequestModel, odd, semconv.ConversationID, odd, semconv.ErrorType, odd))
		r.Add(span(1, 2, odd, 1, 2, semconv.OperationName, "execute_tool", semconv.ErrorType, odd))
	}
	if size := sizeOf(reflect.ValueOf(r).Elem()); size > 300_000 {
		t.Errorf("it takes %d bytes", size)
	}
	if r.Spans != 12_000 || r.Tools != 6000 || r.ToolErrors != 6000 {
		t.Errorf("%d spans, %d tools, %d failed", r.Spans, r.Tools, r.ToolErrors)
	}
}

// sizeOf adds up what a value refers to.
func sizeOf(v reflect.Value) (size int) {
	size = int(v.Type().Size())
	switch v.Kind() {
	case reflect.String:
		size += v.Len()
	case reflect.Slice:
		for i := range v.Len() {
			size += sizeOf(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			size += sizeOf(key) + sizeOf(v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			size += sizeOf(v.Field(i)) - int(v.Field(i).Type().Size())
		}
	}
	return size
}

func FuzzSpan(f *testing.F) {
	f.Add([]byte{0x2a, 1, 'x', 0x4a, 4, 0x0a, 2, 'a'})
	f.Fuzz(func(t *testing.T, wire []byte) {
		var s runs.Span
		want := new(tracepb.Span)
		err, decoded := s.Read(wire), proto.Unmarshal(wire, want)
		if decoded == nil && err != nil {
			t.Errorf("%v", err)
		}
		r := new(runs.Run)
		r.Add(&s)
		r.Usage()
		s.Failure()
		s.Detail()
	})
}

// A run without a prompt is known by its first command, or else its first answer.
func TestRunFirst(t *testing.T) {
	said := func(role, text string) string {
		return fmt.Sprintf(`[{"role":%q,"parts":[{"type":"text","content":%q}]}]`, role, text)
	}
	later := span(2, 1, "execute_tool shell", 5, 6, semconv.ProcessCommandLine, "go vet")
	command := span(3, 1, "execute_tool shell", 3, 4, semconv.ProcessCommandLine, "go test\n./...")
	read := span(4, 1, "execute_tool read", 2, 3)
	answer := span(5, 1, "chat m", 1, 2, semconv.OutputMessages, said("assistant", "Let me see."))
	root := span(1, 0, "invoke_agent x", 0, 9)
	asked := span(1, 0, "invoke_agent x", 0, 9, semconv.InputMessages, said("user", "fix it"), semconv.OutputMessages, said("assistant", "Fixed."))
	for _, test := range []struct {
		run  *runs.Run
		want string
	}{
		{add(later, command, read, answer, root), "$ go test ./..."},
		{add(answer, read, command, later, root), "$ go test ./..."},
		{add(read, answer, root), "answer: Let me see."},
		{add(read, root), ""},
		{add(command, answer, asked), ""},
	} {
		if test.run.First != test.want {
			t.Errorf("%q, want %q", test.run.First, test.want)
		}
	}
}

// A prompt is kept as far as those of jobs that begin alike may differ.
func TestLongPrompt(t *testing.T) {
	asked := func(text string) string {
		return add(span(1, 0, "invoke_agent x", 0, 9, semconv.InputMessages, fmt.Sprintf(`[{"role":"user","parts":[{"type":"text","content":%q}]}]`, text))).Prompt
	}
	common := strings.Repeat("Follow every rule. ", 50)
	if a, b := asked(common+"Fix the cart."), asked(common+"Fix the till."); a == b || a != common+"Fix the cart." {
		t.Errorf("%q, %q", a, b)
	}
	if long := asked(strings.Repeat("é", 5000)); len(long) > 2010 || !strings.HasSuffix(long, "é…") {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// Agents that print no times have none, however long their recordings are.
func TestTimeless(t *testing.T) {
	read := func(name string) []byte {
		stream, err := os.ReadFile("../../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	long := bytes.NewBufferString(`{"type":"thread.started","thread_id":"01a1f0c4-33bb-7c13-8c21-88e2d3f40513"}` + "\n" + `{"type":"turn.started"}` + "\n")
	for i := range 2000 {
		for _, state := range []string{`started","item":{"status":"in_progress"`, `completed","item":{"exit_code":0,"status":"completed"`} {
			fmt.Fprintf(long, `{"type":"item.%s,"id":"item_%d","type":"command_execution","command":"go test","aggregated_output":""}}`+"\n", state, i)
		}
	}
	for name, tt := range map[string]struct {
		stream []byte
		want   bool
	}{
		"codex": {read("codex/tool-failures.jsonl"), true}, "2,000 calls": {long.Bytes(), true},
		"amp, which states how long it took": {read("amp/plain.jsonl"), false}, "qwen": {read("qwen/plain.jsonl"), false}, "opencode": {read("opencode/plain.jsonl"), false},
		"cursor": {read("cursor/fix-failing-test.jsonl"), false},
	} {
		for _, spans := range traces(t, tt.stream) {
			var run runs.Run
			for _, span := range spans {
				var s runs.Span
				if err := s.Read(span); err != nil {
					t.Fatal(err)
				}
				run.Add(&s)
			}
			if run.Timeless() != tt.want {
				t.Errorf("%s: Timeless() = %v after %v", name, run.Timeless(), time.Duration(run.End-run.Start))
			}
		}
	}
}
