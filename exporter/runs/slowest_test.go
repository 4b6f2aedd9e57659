package runs_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
}

func timeline(list []timed) *runs.Timeline {
	spans := make([]*runs.Span, len(list))
	for i, s := range list {
		span := &tracepb.Span{
			TraceId: bytes.Repeat([]byte{1}, 16), SpanId: binary.BigEndian.AppendUint64(nil, uint64(i+1)),
			Name: s.name, StartTimeUnixNano: 1e18 + s.start*1e6, EndTimeUnixNano: 1e18 + s.end*1e6,
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
		spans[i] = runs.Of(span)
	}
	rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	var t runs.Timeline
	for _, s := range spans {
		t.Add(s)
	}
	return &t
}

func TestSlowest(t *testing.T) {
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
		}, "61 % in shell npm (3 calls), 22 % waiting for the model, 9 % for an approval"},
		{"of parallel calls, the one that ended last", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool read", start: 0, end: 900},
			{parent: 1, name: "execute_tool grep", start: 100, end: 1000},
		}, "90 % in grep, 10 % in read"},
		{"a sub-agent's steps", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool task", start: 100, end: 1000},
			{parent: 2, name: "invoke_agent explore", start: 100, end: 1000},
			{parent: 3, name: "chat m", start: 100, end: 300, firstChunk: 0.1},
			{parent: 3, name: "execute_tool read", start: 300, end: 800},
		}, "50 % in read, 30 % between steps, 10 % streaming answers"},
		{"a sub-agent without steps", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "invoke_agent explore", start: 0, end: 990},
		}, "99 % in explore"},
		{"background work is waited for if nothing else runs", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "background task", start: 100, end: 5000},
			{parent: 1, name: "chat m", start: 200, end: 700},
			{parent: 2, name: "invoke_agent explore", start: 100, end: 5000},
			{parent: 4, name: "execute_tool sleep", start: 100, end: 5000},
		}, "50 % waiting for the model, 40 % for background work, 10 % between steps"},
		{"calls that wait for approvals", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool npm", start: 0, end: 1000},
			{parent: 1, name: "execute_tool rm", start: 10, end: 500},
			{parent: 1, name: semconv.OperationApproval + " rm", start: 10, end: 490},
			{parent: 1, name: semconv.OperationApproval + " npm", start: 0, end: 300},
		}, "70 % in npm, 30 % waiting for an approval"},
		{"a call that outlived the run", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 1, name: "execute_tool bash", start: 500, end: 1500},
		}, "50 % between steps, 50 % in bash"},
		{"a parent that is missing, and one that is below its child", []timed{
			{name: "invoke_agent a", end: 1000},
			{parent: 9, name: "execute_tool read", start: 0, end: 1000},
			{parent: 4, name: "execute_tool x", start: 0, end: 1000},
			{parent: 3, name: "execute_tool y", start: 0, end: 1000},
		}, "100 % in read"},
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
			if got := line.Shares().Slowest(); got != tt.want || line.Shares().Slowest() != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The steps of a run without end do not fill the memory, and the longest are kept.
func TestSlowestOfManySteps(t *testing.T) {
	list := []timed{{name: "invoke_agent a", end: 100_000}, {parent: 1, name: "execute_tool long", end: 70_000}}
	for range 30_000 {
		list = append(list, timed{parent: 1, name: "execute_tool short", start: 70_000, end: 70_001})
	}
	if got := timeline(list).Shares().Slowest(); !strings.HasPrefix(got, "70 % in long") {
		t.Error(got)
	}
}

// Of each recording the shares are of one whole, whatever the order of the spans, and there is
// none without times.
func TestSlowestOfRecordings(t *testing.T) {
	percent := regexp.MustCompile(`(\d+) % `)
	said := 0
	fixtures(t, func(t *testing.T, stream []byte) {
		for _, wires := range traces(t, stream) {
			var run runs.Run
			var line, shuffled runs.Timeline
			spans := make([]*runs.Span, len(wires))
			for i, wire := range wires {
				spans[i] = new(runs.Span)
				if err := spans[i].Read(wire); err != nil {
					t.Fatal(err)
				}
				run.Add(spans[i])
				line.Add(spans[i])
			}
			rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
			for _, s := range spans {
				shuffled.Add(s)
			}
			text, sum := line.Shares().Slowest(), 0
			for _, share := range percent.FindAllStringSubmatch(text, -1) {
				n, _ := strconv.Atoi(share[1])
				sum += n
			}
			if text != "" {
				said++
			}
			if sum > 101 || run.Timeless() && text != "" || shuffled.Shares().Slowest() != text {
				t.Errorf("%q, %q", text, shuffled.Shares().Slowest())
			}
		}
	})
	if said < 200 {
		t.Errorf("only %d runs say what was slowest", said)
	}
}
