package runs_test

import (
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// Each doubt has words for one and for several, and its name for grep. What is no doubt, or
// more of them than there are, is left out.
func TestDoubts(t *testing.T) {
	names := []string{
		semconv.DoubtBackground, semconv.DoubtBadLines, semconv.DoubtDenied, semconv.DoubtEmptyAnswer, semconv.DoubtEndsOnTool,
		semconv.DoubtCommandFailed, semconv.DoubtNoEnd, semconv.DoubtNoWork, semconv.DoubtOpenCalls, semconv.DoubtUnknownLines,
	}
	list := &commonpb.ArrayValue{}
	for _, name := range append([]string{"canary"}, names...) {
		list.Values = append(list.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: name}})
	}
	doubts := runs.Of(&tracepb.Span{Attributes: []*commonpb.KeyValue{
		{Key: semconv.Doubts, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}},
		{Key: semconv.DeniedCalls, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 3}}},
		{Key: semconv.OpenCalls, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: -7}}},
	}}).Doubts()
	if len(doubts) != len(names) {
		t.Fatalf("%v, want %q", doubts, names)
	}
	said := map[string]bool{}
	for i, d := range doubts {
		want := 1
		if d.Name == semconv.DoubtDenied {
			want = 3
		}
		if d.Name != names[i] || d.Count != want {
			t.Errorf("%s %d, want %s %d", d.Name, d.Count, names[i], want)
		}
		one, several := runs.Doubt{Name: d.Name, Count: 1}.String(), runs.Doubt{Name: d.Name, Count: 12}.String()
		for _, text := range []string{one, several} {
			words, found := strings.CutSuffix(text, " ("+d.Name+")")
			if !found || len(words) < 10 || said[text] {
				t.Errorf("%s: %q", d.Name, text)
			}
			said[text] = true
		}
		if strings.Contains(one, "12") || !strings.Contains(several, "12 ") {
			t.Errorf("%q, %q", one, several)
		}
	}
}
