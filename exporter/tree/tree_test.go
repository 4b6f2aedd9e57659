package tree

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping/semconv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTree holds each sample in both faces, one file a sample.
func TestTree(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			spans := s.spans()
			got := render(Style{}, spans) + "\n" + strings.Repeat("-", 80) + "\n" + treetest.Golden(spans)
			compareGolden(t, "tree_"+s.name+".txt", got)

			if s.name == "interleaved" {
				return // traces are drawn in the order in which they are complete
			}
			rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
			again := render(Style{}, spans) + "\n" + strings.Repeat("-", 80) + "\n" + treetest.Golden(spans)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("another order of the same spans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeWidths(t *testing.T) {
	for _, width := range []int{40, 60, 80, 120} {
		got := ""
		for _, s := range samples {
			switch s.name {
			case "session", "details", "nested", "busy", "errors":
				got += render(Style{Width: width}, s.spans()) + "\n"
			}
		}
		compareGolden(t, fmt.Sprintf("width_%d.txt", width), got)
	}
}

func TestTreeColor(t *testing.T) {
	got := render(Style{Color: true}, session())
	compareGolden(t, "color.txt", strings.ReplaceAll(got, "\x1b", "␛"))

	plain := got
	for _, c := range []string{bold, dim, red, green, yellow, magenta, cyan, "\x1b[0m"} {
		plain = strings.ReplaceAll(plain, c, "")
	}
	if diff := cmp.Diff(render(Style{}, session()), plain); diff != "" {
		t.Errorf("color is not all that color adds (-want +got):\n%s", diff)
	}
}

// In a C locale the same is drawn in ASCII, in as many columns.
func TestTreeASCII(t *testing.T) {
	got := ""
	for _, s := range samples {
		text := render(Style{ASCII: true}, s.spans())
		if i := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }); i >= 0 {
			t.Errorf("%s: %q", s.name, text[i:])
		}
		lines := strings.Split(render(Style{}, s.spans()), "\n")
		for i, line := range strings.Split(text, "\n") {
			if cells(line) != cells(lines[i]) {
				t.Errorf("%s: %q has not the width of %q", s.name, line, lines[i])
			}
		}
		switch s.name {
		case "session", "details", "instants", "hostile":
			got += text + "\n"
		}
	}
	compareGolden(t, "ascii.txt", got)
	if status := (Style{ASCII: true}).Status(read(session()), time.Minute); strings.ContainsFunc(status, func(r rune) bool { return r > unicode.MaxASCII }) {
		t.Errorf("%q", status)
	}
}

// No width, however silly, makes a line wrap, and nothing drawn is more than text.
func TestTreeFits(t *testing.T) {
	for _, s := range samples {
		spans := s.spans()
		for width := 1; width < 200; width += 1 + width/20 {
			text := render(Style{Width: width}, spans)
			if !utf8.ValidString(text) {
				t.Fatalf("%s, width %d: not UTF-8", s.name, width)
			}
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if cells(line) > max(width, minWidth) {
					t.Fatalf("%s, width %d: a line of %d:\n%s", s.name, width, cells(line), line)
				}
				if Printable(line) != line || strings.TrimRight(line, " ") != line {
					t.Fatalf("%s, width %d: %q", s.name, width, line)
				}
			}
		}
	}
}

// large is a trace of 10,000 spans, of which a few failed and a few are long.
func large() []*tracepb.Span {
	s := sample{trace: 20}
	s.span(1, 0, "invoke_agent cursor-agent", 0, 100_000, attr(semconv.AgentName, "cursor-agent"))
	for i := range 9_999 {
		var with []func(*tracepb.Span)
		name, length := "execute_tool read", 5
		switch {
		case i%4000 == 1000:
			name, with = "execute_tool shell", append(with, attr(semconv.ProcessExitCode, 1), fails("failure", ""))
		case i%2500 == 700:
			name, length = "execute_tool task", 9000
		}
		s.span(i+2, 1, name, i*9, i*9+length, with...)
	}
	return s.spans
}

// Of many spans the root, the failed and the longest are drawn.
func TestTreeLarge(t *testing.T) {
	text := render(Style{}, large())
	for what, want := range map[string]int{
		"\n├─ ": 198, "\n└─ ": 1, "\ncursor-agent  ━": 1, "─ shell ": 3, "5ms  ✗ exit 1\n": 3, "─ task ": 4, " 9%  at ": 4,
		"· 9,999 tools · 3 failed\n": 1, "\n… 9,800 shorter spans not shown, none failed\n": 1,
	} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%q %d times, want %d:\n%s", what, got, want, text)
		}
	}

	allFailed := large()
	for _, s := range allFailed[1:] {
		fails("error", "")(s)
	}
	more := "\n… 9,800 shorter spans not shown, 9,800 failed\n"
	text = render(Style{}, allFailed)
	if !strings.Contains(text, more) {
		t.Errorf("no %q in %q", more, text)
	}
	if !strings.Contains(text, "\ncursor-agent ") {
		t.Error("the root is not drawn")
	}
}

// A chain of 10,000 spans is not 10,000 columns wide.
func TestTreeDeep(t *testing.T) {
	s := sample{trace: 21}
	for i := range 10_000 {
		s.span(i+1, i, "execute_tool task", i, 20_000-i)
	}
	text := render(Style{}, s.spans)
	if got, want := strings.Count(text, "\n"), 204; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
}

func TestTreeOfNothing(t *testing.T) {
	if got := render(Style{}, nil); got != "" {
		t.Errorf("got %q", got)
	}
	if got := treetest.Golden(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// Spans that come from elsewhere may have anything in them.
func TestTreeOfAnything(t *testing.T) {
	for _, span := range []*tracepb.Span{
		nil,
		{},
		{StartTimeUnixNano: math.MaxUint64},
		{EndTimeUnixNano: math.MaxUint64},
		{Name: "chat", EndTimeUnixNano: 1, Attributes: []*commonpb.KeyValue{
			nil,
			{Key: semconv.TimeToFirstChunk, Value: anyValue(math.NaN())},
			{Key: semconv.TextDeltas, Value: anyValue(math.MinInt)},
		}},
		{Name: "chat", Attributes: []*commonpb.KeyValue{{Key: semconv.TimeToFirstChunk, Value: anyValue(math.Inf(-1))}}},
		{Events: []*tracepb.Span_Event{nil}, Links: []*tracepb.Span_Link{nil}},
	} {
		spans := []*tracepb.Span{span, session()[0], span}
		treetest.Golden(spans)
		for line := range strings.Lines(render(Style{Width: minWidth}, spans)) {
			if cells(line) > minWidth+1 {
				t.Errorf("%v: a line of %d:\n%s", span, cells(line), line)
			}
		}
	}
}

// Event lines are more than the samples show of them.
func TestGoldenEvents(t *testing.T) {
	event := func(name string, ms int, attrs ...any) *tracepb.Span_Event {
		e := &tracepb.Span_Event{Name: name, TimeUnixNano: instant(ms)}
		for i := 0; i < len(attrs); i += 2 {
			e.Attributes = append(e.Attributes, &commonpb.KeyValue{Key: attrs[i].(string), Value: anyValue(attrs[i+1])})
		}
		return e
	}
	s := sample{trace: 1}
	s.span(1, 0, "chat Auto", 0, 9000)
	s.spans[0].Events = []*tracepb.Span_Event{
		event("text.delta", 100, semconv.DeltaBytes, 3, "text", "Hel"),
		event("text.delta", 200, semconv.DeltaBytes, 4, "text", "lo\n"),
		event("thinking.delta", 1000, semconv.DeltaBytes, 700, semconv.DeltaCount, 80),
		event("thinking.delta", 2000, semconv.DeltaBytes, 504, semconv.DeltaCount, 41),
		event("text.message", 8223, semconv.DeltaBytes, 1),
		event("retry", 8500, "attempt", 1, "why", "overloaded"),
		event("retry", 8600, "attempt", 2, "why", "overloaded"),
		event("retry", 8700, "attempt", 3, "why", "overloaded"),
	}
	s.spans[0].DroppedEventsCount = 1204
	s.spans[0].TraceState = "vendor=1"
	compareGolden(t, "golden_events.txt", treetest.Golden(s.spans))
}

func TestDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0:                            "0ms",
		400 * time.Microsecond:       "0ms",
		850 * time.Millisecond:       "850ms",
		999600 * time.Microsecond:    "1.00s",
		2655 * time.Millisecond:      "2.66s",
		9996 * time.Millisecond:      "10.0s",
		59940 * time.Millisecond:     "59.9s",
		59960 * time.Millisecond:     "1m00s",
		62 * time.Second:             "1m02s",
		time.Hour - time.Millisecond: "1h00m",
		time.Hour + 5*time.Minute + 59*time.Second: "1h05m",
		math.MaxInt64:  "2562047h47m",
		30 * time.Hour: "30h00m",
	} {
		if got := Duration(in); got != want {
			t.Errorf("%v: got %s, want %s", in, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -123: "-123", -1234: "-1,234"} {
		if got := Thousands(in); got != want {
			t.Errorf("%d: got %s, want %s", in, got, want)
		}
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", name, diff)
	}
}

// What a duration rests on is said as long as there is room for it.
func TestEstimatedIsTheLastNote(t *testing.T) {
	for _, test := range []struct {
		failure string
		width   int
		want    string
	}{
		{"", 60, "first chunk 1.20s · 3 deltas · times estimated"},
		{"", 45, "first chunk 1.20s · times estimated"},
		{"", 20, "times estimated"},
		{"", 14, ""},
		{"✗ exit 1", 26, "✗ exit 1 · times estimated"},
		{"✗ exit 1", 25, "✗ exit 1 · 3 deltas"},
		{"✗ it broke in the middle", 30, "✗ it broke … · times estimated"},
	} {
		r := row{node: &node{estimated: true, failure: test.failure}, notes: []string{"first chunk 1.20s", "3 deltas", timesEstimated}}
		if test.failure != "" {
			r.notes[0] = test.failure
		}
		if got := strings.Join(r.fit(test.width), " · "); got != test.want {
			t.Errorf("%d columns: %q, want %q", test.width, got, test.want)
		}
	}
}
