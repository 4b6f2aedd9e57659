package runs_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// timed is a span with times in milliseconds. Its id is its place in the list, from 1.
type timed struct {
	parent     uint64 // 0 for a root
	name       string
	start, end uint64
	firstChunk float64 // in seconds
	program    string
	early      uint64 // how many nanoseconds it ends earlier

	inferredStart, inferredEnd bool
}

func timeline(list []timed) *runs.Timeline {
	spans := make([]*runs.Span, len(list))
	for i, s := range list {
		span := &tracepb.Span{
			TraceId: bytes.Repeat([]byte{1}, 16), SpanId: binary.BigEndian.AppendUint64(nil, uint64(i+1)),
			Name: s.name, StartTimeUnixNano: 1e18 + s.start*1e6, EndTimeUnixNano: 1e18 + s.end*1e6 - s.early,
		}
		if s.parent > 0 {
			span.ParentSpanId = binary.BigEndian.AppendUint64(nil, s.parent)
			span.Flags = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
		}
		if s.firstChunk > 0 {
			span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: semconv.TimeToFirstChunk, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: s.firstChunk}}})
		}
		if s.program != "" {
			span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: semconv.ProcessExecutable, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s.program}}})
		}
		if operation, tool, _ := strings.Cut(s.name, " "); operation == semconv.OperationExecuteTool {
			tool, _, _ = strings.Cut(tool, " ")
			span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: semconv.ToolName, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: tool}}})
		}
		word := map[bool]string{false: "printed", true: "inferred"}
		for key, inferred := range map[string]bool{semconv.TimeStart: s.inferredStart, semconv.TimeEnd: s.inferredEnd} {
			span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: word[inferred]}}})
		}
		spans[i] = runs.Of(span)
	}
	rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	var t runs.Timeline
	for _, s := range spans {
		t.Add(s)
	}
	return &t
}

func TestAccount(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spans []timed
		want  string
	}{
		{"as in the README", []timed{
			{name: "invoke_agent a", end: 100_000},
			{parent: 1, name: "chat m", start: 0, end: 10_000},
			{parent: 1, name: "execute_tool shell npm", start: 10_000, end: 31_000},
			{parent: 1, name: "execute_tool shell", start: 31_000, end: 51_000, program: "npm"},
			{parent: 1, name: semconv.OperationApproval + " shell", start: 51_000, end: 60_000},
			{parent: 1, name: "execute_tool shell npm", start: 60_000, end: 80_000},
			{parent: 1, name: "chat m", start: 80_000, end: 100_000, firstChunk: 12},
		}, "shell 61 %, model 30 % (22 waiting), approvals 9 %"},
		{"nearly all is waiting", []timed{
			{name: "invoke_agent a", end: 100_000},
			{parent: 1, name: "chat m", start: 0, end: 99_800, firstChunk: 99.6},
			{parent: 1, name: "execute_tool shell", start: 99_800, end: 100_000},
		}, "model >99 % (>99 waiting)"},
		{"the output rounds to nothing", []timed{
			{name: "invoke_agent a", end: 100_000},
			{parent: 1, name: "chat m", start: 0, end: 50_100, firstChunk: 50},
			{parent: 1, name: "execute_tool shell", start: 50_100, end: 100_000},
		}, "shell 50 %, model 50 % (50 waiting)"},
		{"parallel calls share their time", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool read", start: 0, end: 900},
			{parent: 1, name: "execute_tool grep", start: 100, end: 1000},
		}, "grep 50 %, read 50 %"},
		{"a sub-agent's steps", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool task", start: 100, end: 1000},
			{parent: 2, name: "invoke_agent explore", start: 100, end: 1000},
			{parent: 3, name: "chat m", start: 100, end: 300, firstChunk: 0.1},
			{parent: 3, name: "execute_tool read", start: 300, end: 800},
		}, "read 50 %, task 20 %, model 20 % (10 waiting), agent's own 10 %"},
		{"a sub-agent without steps", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "invoke_agent explore", start: 0, end: 990},
		}, "explore 99 %, agent's own 1 %"},
		{"nobody waits for background work", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "background task", start: 100, end: 5000},
			{parent: 1, name: "chat m", start: 200, end: 700},
			{parent: 2, name: "invoke_agent explore", start: 100, end: 5000},
			{parent: 4, name: "execute_tool sleep", start: 100, end: 5000},
		}, "agent's own 50 %, model 50 % (all waiting)"},
		{"calls that wait for approvals", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool npm", start: 0, end: 1000},
			{parent: 1, name: "execute_tool rm", start: 10, end: 500},
			{parent: 1, name: semconv.OperationApproval + " rm", start: 10, end: 490},
			{parent: 1, name: semconv.OperationApproval + " npm", start: 0, end: 300},
		}, "npm 51 %, approvals 49 %"},
		{"a call that outlived the run", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool bash", start: 500, end: 1500},
		}, "bash 50 %, agent's own 50 %"},
		{"a parent that is missing, and one that is below its child", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 9, name: "execute_tool read", start: 0, end: 1000},
			{parent: 4, name: "execute_tool x", start: 0, end: 1000},
			{parent: 3, name: "execute_tool y", start: 0, end: 1000},
		}, "read 100 %"},
		{"hooks run beside the model, an approval beside a tool", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "chat m", start: 100, end: 600, firstChunk: 0.2},
			{parent: 1, name: semconv.OperationHook + " PreToolUse", start: 550, end: 700},
			{parent: 1, name: "execute_tool rm", start: 700, end: 1000},
			{parent: 1, name: semconv.OperationApproval + " rm", start: 700, end: 800},
		}, "model 45 % (20 waiting), rm 20 %, hooks 15 %, approvals 10 %, agent's own 10 %"},
		{"what rests on an inferred edge is estimated, at its number", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "chat m", start: 500, end: 800, firstChunk: 0.1, inferredStart: true},
			{parent: 1, name: "execute_tool read", start: 800, end: 900},
			{parent: 1, name: "execute_tool grep", start: 900, end: 1000, inferredEnd: true},
		}, "agent's own 50 % (estimated), model 30 % (10 waiting; estimated), grep 10 % (estimated), read 10 %"},
		{"thirds", []timed{
			{name: "invoke_agent a", end: 999},
			{parent: 1, name: "execute_tool a", start: 0, end: 333},
			{parent: 1, name: "execute_tool b", start: 333, end: 666},
			{parent: 1, name: "execute_tool c", start: 666, end: 999},
		}, "a 34 %, b 33 %, c 33 %"},
		{"a microsecond between two steps", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool a", start: 0, end: 500, early: 1000},
			{parent: 1, name: "execute_tool b", start: 500, end: 1000},
		}, "a 50 %, b 50 %"},
		{"no times", []timed{
			{name: "invoke_agent a"},
			{parent: 1, name: "chat m"},
		}, ""},
		{"no root", []timed{{parent: 9, name: "chat m", end: 1000}}, ""},
		{"no steps", []timed{{name: "invoke_agent a", end: 1000}}, ""},
		{"nothing", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := timeline(tt.spans)
			account := line.Account()
			var sum uint64
			for _, p := range account.Parts {
				sum += p.Time
			}
			again := line.Account()
			if got := account.String(); got != tt.want || again.String() != tt.want || sum != account.Total {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Steps are the account once more, with tools by what they ran.
func TestLongest(t *testing.T) {
	account := timeline([]timed{
		{name: "invoke_agent a", end: 1000},
		{parent: 1, name: "chat m", end: 200, firstChunk: 0.15},
		{parent: 1, name: "execute_tool shell npm", start: 200, end: 500},
		{parent: 1, name: "execute_tool shell", start: 400, end: 600, program: "npm"},
		{parent: 1, name: "execute_tool shell go", start: 400, end: 600},
		{parent: 1, name: semconv.OperationApproval + " rm", start: 600, end: 680},
		{parent: 1, name: semconv.OperationHook + " Stop", start: 680, end: 700},
		{parent: 1, name: "background task", start: 700, end: 1000},
	}).Account()
	want := []runs.Share{
		{Step: "shell npm", Seconds: 0.316667, Calls: 2},
		{Step: "agent's own", Seconds: 0.3},
		{Step: "waiting for the model", Seconds: 0.15},
		{Step: "shell go", Seconds: 0.083333, Calls: 1},
		{Step: "approvals", Seconds: 0.08},
		{Step: "model output", Seconds: 0.05},
		{Step: "hooks", Seconds: 0.02},
	}
	if diff := cmp.Diff(want, account.Longest(9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := account.Longest(1); len(got) != 1 || account.Of(runs.InTool) != 400e6 {
		t.Errorf("%v, %d ns in tools", got, account.Of(runs.InTool))
	}
}

// A call with steps of its own is none of the slow ones.
func TestCalls(t *testing.T) {
	var calls runs.Calls
	var got []byte
	for _, s := range []*runs.Span{
		span(5, 4, "chat m", 2, 3), span(4, 3, "invoke_agent explore", 2, 3), span(3, 1, "execute_tool task", 2, 3),
		span(7, 6, semconv.OperationApproval+" rm", 3, 4), span(6, 1, "execute_tool rm", 3, 4), span(2, 1, "chat m", 0, 1), span(1, 0, "invoke_agent a", 0, 9),
	} {
		if calls.Add(s) {
			got = append(got, s.ID...)
		}
	}
	if !bytes.Equal(got, []byte{5, 6, 2}) {
		t.Errorf("calls without steps: %d", got)
	}
}

// The steps of a run without end do not fill the memory, and the longest are kept.
func TestAccountOfManySteps(t *testing.T) {
	list := []timed{{name: "invoke_agent a", end: 100_000}, {parent: 1, name: "execute_tool long", end: 70_000}}
	for range 30_000 {
		list = append(list, timed{parent: 1, name: "execute_tool short", start: 70_000, end: 70_001})
	}
	if got := timeline(list).Account(); !strings.HasPrefix(got.String(), "long 70 %") {
		t.Error(got)
	}
}

// Of each recording the parts add up to the run, in time and in percent, whatever the order of
// the spans, and there are none without times.
func TestAccountOfRecordings(t *testing.T) {
	percent := regexp.MustCompile(`(\d+) %`)
	said, estimated := 0, 0
	fixtures(t, func(t *testing.T, stream []byte) {
		for _, wires := range traces(t, stream) {
			var run runs.Run
			var line, shuffled runs.Timeline
			var root *runs.Span
			spans := make([]*runs.Span, len(wires))
			for i, wire := range wires {
				spans[i] = new(runs.Span)
				if err := spans[i].Read(wire); err != nil {
					t.Fatal(err)
				}
				if run.Add(spans[i]) {
					root = spans[i]
				}
				line.Add(spans[i])
			}
			rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
			for _, s := range spans {
				shuffled.Add(s)
			}
			account, other := line.Account(), shuffled.Account()
			if text := account.String(); run.Timeless() && text != "" || other.String() != text {
				t.Errorf("%q, %q", text, other.String())
			}
			if account.Total == 0 {
				continue
			}
			said++
			var time uint64
			for _, p := range account.Parts {
				time += p.Time
				if p.Estimated {
					estimated++
				}
			}
			for _, p := range account.Steps {
				time -= p.Time
			}
			for _, p := range account.Parts {
				time += p.Time
			}
			sum := 0
			for _, share := range percent.FindAllStringSubmatch(strings.ReplaceAll(account.String(), ">99 %", "100 %"), -1) {
				n, _ := strconv.Atoi(share[1])
				sum += n
			}
			if time != root.End-root.Start || time != account.Total || sum != 100 {
				t.Errorf("%d of %d ns, %d %%: %s", time, root.End-root.Start, sum, account.String())
			}
		}
	})
	if said < 200 || estimated < 50 {
		t.Errorf("only %d runs say what their time went to, %d parts are estimated", said, estimated)
	}
}
