package tree

import (
	"bytes"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// A sample is a trace made for a test. Its spans have small numbers for ids
// and milliseconds since epoch for times.
type sample struct {
	trace byte
	spans []*tracepb.Span
}

var epoch = time.Date(2026, 10, 3, 11, 26, 28, 582e6, time.UTC)

func instant(ms int) uint64 {
	return uint64(epoch.Add(time.Duration(ms) * time.Millisecond).UnixNano())
}

func spanID(n int) []byte {
	if n == 0 {
		return nil
	}
	return []byte{0xa0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

func (s *sample) span(id, parent int, name string, from, to int, with ...func(*tracepb.Span)) {
	span := &tracepb.Span{
		TraceId:           append(bytes.Repeat([]byte{0x4b}, 15), s.trace),
		SpanId:            spanID(id),
		ParentSpanId:      spanID(parent),
		Name:              name,
		Kind:              tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: instant(from),
		EndTimeUnixNano:   instant(to),
	}
	operation, _, _ := strings.Cut(name, " ")
	switch operation {
	case "chat":
		span.Kind = tracepb.Span_SPAN_KIND_CLIENT
		fallthrough
	case "invoke_agent", "execute_tool":
		attr(semconv.OperationName, operation)(span)
	}
	for _, w := range with {
		w(span)
	}
	s.spans = append(s.spans, span)
}

func attr(key string, value any) func(*tracepb.Span) {
	return func(s *tracepb.Span) {
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: key, Value: anyValue(value)})
	}
}

func anyValue(value any) *commonpb.AnyValue {
	switch v := value.(type) {
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case int:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case []byte:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v}}
	case []string:
		list := new(commonpb.ArrayValue)
		for _, e := range v {
			list.Values = append(list.Values, anyValue(e))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	}
	return nil
}

func fails(errorType, message string) func(*tracepb.Span) {
	return func(s *tracepb.Span) {
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: message}
		attr(semconv.ErrorType, errorType)(s)
	}
}

func linksTo(id int) func(*tracepb.Span) {
	return func(s *tracepb.Span) {
		s.Links = append(s.Links, &tracepb.Span_Link{TraceId: s.GetTraceId(), SpanId: spanID(id)})
	}
}

// streams adds n deltas, evenly between two times.
func streams(name string, n, from, to int) func(*tracepb.Span) {
	return func(s *tracepb.Span) {
		for i := range n {
			s.Events = append(s.Events, &tracepb.Span_Event{
				TimeUnixNano: instant(from + (to-from)*i/max(1, n-1)),
				Name:         name,
				Attributes: []*commonpb.KeyValue{
					{Key: semconv.DeltaIndex, Value: anyValue(i)},
					{Key: semconv.DeltaBytes, Value: anyValue(3 + i%7)},
				},
			})
		}
	}
}

// read reads spans as runs.Span.
func read(spans []*tracepb.Span) (list []*runs.Span) {
	for _, s := range spans {
		list = append(list, runs.Of(s))
	}
	return list
}

// render draws spans.
func render(style Style, spans []*tracepb.Span) string {
	var b strings.Builder
	w := NewWriter(&b, style)
	for _, span := range read(spans) {
		w.Export(span)
	}
	if err := w.Close(); err != nil {
		panic(err) // a Builder reports none
	}
	return b.String()
}

// session is what most runs look like.
func session() []*tracepb.Span {
	s := sample{trace: 1}
	s.span(2, 1, "chat GPT-5", 0, 1820, attr(semconv.RequestModel, "GPT-5"), attr(semconv.TimeToFirstChunk, 1.204),
		attr(semconv.TextDeltas, 173), attr(semconv.ThinkingDeltas, 40), streams("thinking.delta", 40, 1204, 1500), streams("text.delta", 173, 1510, 1815))
	s.span(3, 1, "execute_tool read", 1820, 1950)
	s.span(4, 1, "execute_tool shell", 1830, 4740, attr(semconv.ProcessExecutable, "go"), attr(semconv.ProcessExitCode, 3), fails("failure", ""))
	s.span(5, 1, "await_approval shell", 1830, 2700)
	s.span(6, 1, "chat GPT-5", 4740, 12390, attr(semconv.RequestModel, "GPT-5"), attr(semconv.TimeToFirstChunk, 0.98), attr(semconv.TextDeltas, 1204), streams("text.delta", 1204, 5720, 12380))
	s.span(1, 0, "invoke_agent cursor-agent", 0, 12400, attr(semconv.AgentName, "cursor-agent"), attr(semconv.RequestModel, "GPT-5"),
		attr(semconv.ConversationID, "8f3c"), attr(semconv.InputTokens, 12345), attr(semconv.OutputTokens, 678))
	return s.spans
}

var samples = []struct {
	name  string
	spans func() []*tracepb.Span
}{
	{"session", session},
	{"totals", func() []*tracepb.Span {
		s := sample{trace: 15}
		s.span(2, 1, "chat claude-opus-5", 0, 9000)
		s.span(1, 0, "invoke_agent claude-code", 0, 46000, attr(semconv.AgentName, "claude-code"), attr(semconv.UsageInput, 151000),
			attr(semconv.UsageOutput, 2048), attr(semconv.UsageTotalCost, 0.70505), attr(semconv.Retries, 3), attr(semconv.Compactions, 1))
		return s.spans
	}},
	{"output_only", func() []*tracepb.Span {
		s := sample{trace: 16}
		s.span(1, 0, "invoke_agent copilot-cli", 0, 4100, attr(semconv.AgentName, "copilot-cli"), attr(semconv.UsageOutput, 112),
			attr(semconv.UsageCost, 0.0021), attr(semconv.Reconnects, 1))
		return s.spans
	}},
	{"parallel", func() []*tracepb.Span {
		s := sample{trace: 2}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 9000, attr(semconv.AgentName, "cursor-agent"), attr(semconv.RequestModel, "Composer 2.5"))
		s.span(2, 1, "chat Composer 2.5", 0, 1000)
		s.span(6, 1, "execute_tool shell", 1000, 8000) // the same times and name: by id
		s.span(5, 1, "execute_tool shell", 1000, 8000)
		s.span(4, 1, "execute_tool grep", 1000, 1400)
		s.span(3, 1, "execute_tool task", 1000, 6500)
		s.span(7, 3, "execute_tool read", 1500, 1650)
		s.span(8, 3, "execute_tool edit", 3000, 5100)
		s.span(9, 1, "chat Composer 2.5", 8000, 9000)
		return s.spans
	}},
	{"errors", func() []*tracepb.Span {
		s := sample{trace: 3}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 4000, attr(semconv.AgentName, "cursor-agent"), fails("incomplete", "the stream ended before its result"),
			attr(semconv.Doubts, []string{"denied", "last_command_failed", "open_calls", "some_other"}), attr(semconv.DeniedCalls, 1), attr(semconv.OpenCalls, 2))
		s.span(2, 1, "execute_tool shell", 100, 1100, attr(semconv.ProcessExitCode, 127), fails("failure", "exit status 127"))
		s.span(3, 1, "execute_tool shell", 1100, 2600, fails("timeout", ""))
		s.span(4, 1, "await_approval webFetch", 2700, 2900, fails("rejected", "rejected"))
		s.span(5, 1, "execute_tool mcp", 2900, 3000, fails("tool_error", "no such table: users; the database was never migrated"))
		s.span(6, 1, "chat GPT-5", 3000, 4000, func(s *tracepb.Span) { s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR} })
		return s.spans
	}},
	{"instants", func() []*tracepb.Span {
		s := sample{trace: 4}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 1000)
		s.span(2, 1, "execute_tool read", 0, 0, attr(semconv.StartMissing, true))
		s.span(3, 1, "execute_tool read", 511, 511, attr(semconv.StartMissing, true))
		s.span(4, 1, "execute_tool read", 600, 601)
		s.span(5, 1, "execute_tool read", 1000, 1000, attr(semconv.StartMissing, true), fails("error", "File not found"))
		return s.spans
	}},
	{"one-instant", func() []*tracepb.Span {
		s := sample{trace: 5}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 0, attr(semconv.TimeEstimated, true))
		s.span(2, 1, "chat Auto", 0, 0)
		return s.spans
	}},
	{"timeless", func() []*tracepb.Span { // a recording of an agent that prints no times
		s := sample{trace: 17}
		at := func(us int) func(*tracepb.Span) {
			return func(s *tracepb.Span) {
				s.StartTimeUnixNano = instant(0) + uint64(us)*1000
				s.EndTimeUnixNano = s.StartTimeUnixNano + 1000
			}
		}
		guess := attr(semconv.TimeEstimated, true)
		s.span(1, 0, "invoke_agent codex", 0, 0, attr(semconv.AgentName, "codex"), guess, func(s *tracepb.Span) { s.EndTimeUnixNano += 16000 })
		s.span(2, 1, "chat", 0, 0, at(0), guess)
		s.span(3, 1, "execute_tool shell ls", 0, 0, at(2), guess, attr(semconv.ProcessExecutable, "ls"))
		s.span(4, 1, "chat", 0, 0, at(4), guess)
		s.span(5, 1, "execute_tool task", 0, 0, at(6), guess, func(s *tracepb.Span) { s.EndTimeUnixNano += 6000 })
		s.span(6, 5, "execute_tool read", 0, 0, at(8), guess)
		s.span(7, 5, "execute_tool read", 0, 0, at(10), guess, fails("error", "File not found"))
		s.span(8, 1, "chat", 0, 0, at(15), guess)
		return s.spans
	}},
	{"continued", func() []*tracepb.Span {
		s := sample{trace: 6}
		s.span(2, 1, "chat GPT-5", 0, 6000, attr(semconv.TextDeltas, 1112), streams("text.delta", 512, 800, 3000))
		s.span(3, 2, "deltas", 3000, 5000, streams("text.delta", 512, 3000, 5000))
		s.span(4, 2, "deltas", 5000, 6000, streams("text.delta", 88, 5000, 6000))
		s.span(5, 1, "chat GPT-5", 6100, 6800, attr(semconv.TextDeltas, 5), streams("text.delta", 3, 6200, 6500), fails("incomplete", ""))
		s.span(6, 5, "deltas", 6500, 6800, streams("text.delta", 2, 6500, 6800))
		s.span(7, 77, "deltas", 6900, 7000) // its chat is missing
		s.span(1, 0, "invoke_agent cursor-agent", 0, 7000)
		return s.spans
	}},
	{"nested", func() []*tracepb.Span { // a sub-agent's steps, below a TRACEPARENT
		s := sample{trace: 15}
		flags := func(f uint32) func(*tracepb.Span) { return func(s *tracepb.Span) { s.Flags = f } }
		s.span(4, 3, "chat Auto", 1100, 2000, flags(0x101), attr(semconv.TextDeltas, 5))
		s.span(5, 4, "deltas", 1500, 2000, flags(0x101))
		s.span(6, 3, "execute_tool read", 2000, 2100, flags(0x101), attr(semconv.FilePath, "/src/shop/cart.go"))
		s.span(3, 2, "invoke_agent explore", 1000, 3000, flags(0x101), attr(semconv.AgentName, "explore"))
		s.span(2, 1, "execute_tool task", 1000, 3100, flags(0x101))
		s.span(1, 99, "invoke_agent cursor-agent", 0, 4000, flags(0x301), attr(semconv.AgentName, "cursor-agent"), attr(semconv.ProcessWorkingDirectory, "/src/shop"))
		return s.spans
	}},
	{"background", func() []*tracepb.Span {
		s := sample{trace: 7}
		s.span(2, 1, "chat GPT-5", 0, 1000, attr(semconv.TextDeltas, 12), attr(semconv.ThinkingDeltas, 30))
		s.span(3, 1, "execute_tool shell", 1000, 1500, attr(semconv.ToolIsBackground, true))
		s.span(1, 0, "invoke_agent cursor-agent", 0, 3000, attr(semconv.AgentName, "cursor-agent"))
		s.span(4, 1, "background shell", 1500, 95250, attr(semconv.TaskStatus, "success"), linksTo(3))
		return s.spans
	}},
	{"orphans", func() []*tracepb.Span { // below a TRACEPARENT, too
		s := sample{trace: 8}
		s.span(1, 99, "invoke_agent cursor-agent", 0, 1000)
		s.span(2, 77, "execute_tool read", 100, 200)
		s.span(3, 2, "await_approval read", 100, 150)
		s.span(4, 4, "execute_tool itself", 300, 400) // its own parent
		s.span(5, 6, "execute_tool circle", 500, 600)
		s.span(6, 5, "execute_tool circle", 500, 700)
		return s.spans
	}},
	{"rootless", func() []*tracepb.Span {
		s := sample{trace: 9}
		s.span(2, 1, "chat GPT-5", 0, 1000, attr(semconv.AgentName, "cursor-agent"), attr(semconv.RequestModel, "GPT-5"))
		s.span(3, 1, "execute_tool read", 1000, 1100)
		s.span(4, 3, "await_approval read", 1000, 1050)
		return s.spans
	}},
	{"hostile", func() []*tracepb.Span {
		s := sample{trace: 10}
		s.span(1, 0, "invoke_agent \x1b[2J\x1b]0;owned\a", 0, 1000, attr(semconv.AgentName, "evil\x1b[31m"), attr(semconv.RequestModel, "two\nlines"))
		s.span(2, 1, "execute_tool a\nb\r\tc", 0, 300, fails("bad\x1b[0m", "line 1\nline 2\u202e"))
		s.span(3, 1, "execute_tool "+strings.Repeat("very_", 60)+"long", 300, 600, attr(semconv.ProcessExecutable, "\u009b31m"))
		s.span(4, 1, "execute_tool 読み取り", 600, 700, attr("key\n", "a \"quoted\" 値"))
		s.span(5, 1, "execute_tool cafe\u0301", 700, 1000, attr("bytes", []byte{1, 0xff}), attr("list", []string{"a", "b"}), attr("none", nil))
		return s.spans
	}},
	{"details", func() []*tracepb.Span {
		s := sample{trace: 14}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 4000, attr(semconv.ProcessWorkingDirectory, "/home/dev/shop"))
		s.span(2, 1, "execute_tool read", 0, 100, attr(semconv.FilePath, "/home/dev/shop/internal/cart/coupon_test.go"))
		s.span(3, 1, "execute_tool read", 100, 200, attr(semconv.FilePath, "/etc/hosts"))
		s.span(4, 1, "execute_tool shell", 200, 1900, attr(semconv.ProcessExecutable, "go"),
			attr(semconv.ProcessCommandLine, "cd /home/dev/shop &&\n\tgo test -race ./... 2>&1 | tail -20"))
		s.span(5, 1, "execute_tool shell", 1900, 3000, attr(semconv.ProcessExecutable, "npm"), attr(semconv.ProcessExitCode, 1),
			attr(semconv.ProcessCommandLine, "npm run 値段\x1b[2J"), fails("failure", "exit code 1: missing script"))
		s.span(6, 1, "execute_tool grep", 3000, 3100, attr(semconv.ToolPattern, "Percent / 100"), attr(semconv.FilePath, "/home/dev/shop"))
		s.span(7, 1, "execute_tool webFetch", 3100, 4000, attr(semconv.URLFull, "https://example.com/a/rather/long/path?and=a&long=query"))
		return s.spans
	}},
	{"busy", func() []*tracepb.Span { // enough calls for the slowest to be named
		s := sample{trace: 16}
		command := func(line string) func(*tracepb.Span) { return attr(semconv.ProcessCommandLine, line) }
		exe := attr(semconv.ProcessExecutable, "go")
		s.span(1, 0, "invoke_agent cursor-agent", 0, 60_000, attr(semconv.AgentName, "cursor-agent"), attr(semconv.ProcessWorkingDirectory, "/src/shop"))
		s.span(2, 1, "chat GPT-5", 0, 9000, attr(semconv.TimeToFirstChunk, 6.5))
		s.span(3, 1, "execute_tool read", 9001, 9101, attr(semconv.FilePath, "/src/shop/internal/checkout/discounts/coupon_test.go"))
		s.span(4, 1, "execute_tool shell go", 9200, 31_000, exe, command("go test -race -run TestCoupon ./internal/checkout/..."), attr(semconv.ProcessExitCode, 1), fails("failure", ""))
		s.span(5, 4, "await_approval shell", 9200, 14_000)
		s.span(6, 1, "chat GPT-5", 31_001, 36_000, attr(semconv.TimeToFirstChunk, 3.0))
		s.span(7, 1, "execute_tool task", 36_001, 50_000) // as long as its steps
		s.span(8, 7, "invoke_agent explore", 36_002, 49_900)
		s.span(9, 8, "chat GPT-5 mini", 36_003, 40_000, attr(semconv.TimeToFirstChunk, 3.99))
		s.span(10, 8, "execute_tool grep", 40_001, 49_000, attr(semconv.ToolPattern, "func ApplyCoupon"))
		s.span(11, 1, "execute_tool edit", 50_001, 50_400, attr(semconv.FilePath, "/src/shop/internal/checkout/discounts/percent.go"))
		s.span(12, 1, "execute_tool shell go", 50_500, 58_000, exe, command("go test ./..."))
		s.span(13, 1, "chat GPT-5", 58_001, 60_000, attr(semconv.TimeToFirstChunk, 0.4))
		return s.spans
	}},
	{"two-runs", func() []*tracepb.Span { // under one TRACEPARENT
		s := sample{trace: 11}
		s.span(1, 99, "invoke_agent cursor-agent", 0, 1000)
		s.span(2, 1, "chat Auto", 0, 1000)
		s.span(3, 99, "invoke_agent cursor-agent", 1200, 3000)
		s.span(4, 3, "chat Auto", 1200, 3000)
		return s.spans
	}},
	{"interleaved", func() []*tracepb.Span {
		a, b := sample{trace: 12}, sample{trace: 13}
		a.span(1, 0, "invoke_agent cursor-agent", 500, 2000)
		a.span(2, 1, "chat GPT-5", 500, 2000)
		b.span(1, 0, "invoke_agent cursor-agent", 0, 4000)
		b.span(2, 1, "chat Auto", 0, 4000)
		return []*tracepb.Span{a.spans[1], b.spans[1], b.spans[0], a.spans[0]}
	}},
}
