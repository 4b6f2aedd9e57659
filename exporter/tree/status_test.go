package tree

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// What is open, in the order of a run, at several widths.
func TestStatus(t *testing.T) {
	open := func(tools, failed int, more func(s *sample)) []*tracepb.Span {
		s := sample{trace: 30}
		s.span(1, 0, "invoke_agent cursor-agent", 0, 72_000, attr(semconv.AgentName, "cursor-agent"), attr(semconv.ProcessWorkingDirectory, "/src/shop"),
			attr(semconv.Tools, tools), attr(semconv.ToolErrors, failed))
		more(&s)
		return s.spans
	}
	command := attr(semconv.ProcessCommandLine, "go test -race -run TestCoupon ./internal/checkout/...")
	got := ""
	for _, sample := range []struct {
		name  string
		heard int
		open  []*tracepb.Span
	}{
		{"waiting", 72_000, open(0, 0, func(s *sample) { s.span(2, 1, "chat GPT-5", 68_000, 72_000) })},
		{"thinking", 72_000, open(0, 0, func(s *sample) {
			s.span(2, 1, "chat GPT-5", 68_000, 72_000, streams("text.delta", 1, 68_000, 68_000), streams("thinking.delta", 2, 69_000, 72_000))
		})},
		{"writing", 72_000, open(1234, 0, func(s *sample) { s.span(2, 1, "chat GPT-5", 71_500, 72_000, streams("text.delta", 2, 71_600, 72_000)) })},
		{"retry", 62_000, open(3, 0, func(s *sample) {
			s.span(2, 1, "chat GPT-5", 52_000, 72_000, streams("text.delta", 2, 53_000, 54_000), streams("retry", 1, 62_000, 62_000))
		})},
		{"connection", 62_000, open(3, 0, func(s *sample) {
			s.span(2, 1, "chat GPT-5", 52_000, 72_000, streams("connection.lost", 1, 62_000, 62_000))
		})},
		{"notice", 71_000, open(3, 0, func(s *sample) { s.span(2, 1, "chat GPT-5", 69_000, 72_000, streams("todo.list", 1, 71_000, 71_000)) })},
		{"tool", 52_000, open(3, 2, func(s *sample) { // of the two, one is this
			s.span(2, 1, "execute_tool shell go", 52_000, 72_000, attr(semconv.ProcessExecutable, "go"), command, fails("incomplete", ""))
		})},
		{"path", 71_000, open(3, 1, func(s *sample) {
			s.span(2, 1, "execute_tool read", 71_000, 72_000, attr(semconv.FilePath, "/src/shop/internal/checkout/discounts/coupon_test.go"), fails("incomplete", ""))
		})},
		{"sub-agent", 72_000, open(2, 2, func(s *sample) {
			s.span(2, 1, "execute_tool task", 12_000, 72_000, fails("incomplete", ""))
			s.span(3, 2, "invoke_agent explore", 12_000, 72_000)
			s.span(4, 3, "execute_tool grep", 70_000, 72_000, fails("incomplete", ""))
		})},
		{"approval", 32_000, open(1, 1, func(s *sample) {
			s.span(2, 1, "execute_tool shell", 30_000, 72_000, fails("incomplete", ""))
			s.span(3, 1, "await_approval shell", 32_000, 72_000)
		})},
		{"idle", 71_000, open(1, 0, func(*sample) {})},
		{"hostile", 71_000, open(1, 1, func(s *sample) { s.span(2, 1, "execute_tool \x1b[2J\r\nrm", 30_000, 72_000, fails("incomplete", "")) })},
		{"two", 72_000, append(open(1, 0, func(s *sample) { s.span(2, 1, "chat GPT-5", 68_000, 72_000) }), session()...)},
		{"nothing", 72_000, nil},
	} {
		got += sample.name + "\n"
		for _, width := range []int{40, 80, 120} {
			line := Style{Width: width}.Status(read(sample.open), time.Duration(72_000-sample.heard)*time.Millisecond)
			if cells(line) >= width || Printable(line) != line {
				t.Errorf("%s, %d: %q", sample.name, width, line)
			}
			got += strings.TrimRight(fmt.Sprintf("%5d %s", width, line), " ") + "\n"
		}
	}
	compareGolden(t, "status.txt", got)

	colored := Style{Color: true, Width: 120}.Status(read(open(3, 1, func(*sample) {})), time.Minute)
	if !strings.Contains(colored, bold+"cursor-agent 1m12s\x1b[0m") {
		t.Errorf("%q", colored)
	}
}

// A stream may begin any number of calls and end none.
func TestStatusOfManySpans(t *testing.T) {
	s := sample{trace: 31}
	s.span(1, 0, "invoke_agent cursor-agent", 0, 72_000)
	for i := range maxNodes - 1 {
		s.span(i+2, 1, "execute_tool read", i, 72_000)
	}
	if got := (Style{}).Status(read(s.spans), 0); got != "" {
		t.Errorf("%q of a span that was dropped", got)
	}
}
