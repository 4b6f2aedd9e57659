package mapping_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
)

// A run that dies after its first line is one. A session log without rows is none, nor is a
// header with anything behind it, or without one of its members.
func TestPiHeader(t *testing.T) {
	header := `{"type":"session","version":3,"id":"01a30000-0000-7000-8000-00000000bbbb","timestamp":"2026-10-01T10:00:00.000Z","cwd":"/w"}` + "\n"
	for _, c := range []struct {
		in      string
		printed bool
		want    int
	}{
		{header, true, 1},
		{strings.TrimSpace(header), true, 1},
		{header, false, 0},
		{header + header, true, 0},
		{header + `{"level":"info"}` + "\n", true, 0},
		{strings.Replace(header, "01a30000-", "", 1), true, 0},
		{strings.Replace(header, `"version":3,`, "", 1), true, 0},
		{strings.Replace(header, `,"cwd":"/w"`, "", 1), true, 0},
	} {
		spans, _ := feed{opts: mapping.Options{Printed: c.printed}}.spans(t, []byte(c.in))
		spans = slices.DeleteFunc(spans, func(s *tracepb.Span) bool { return len(s.ParentSpanId) > 0 })
		if len(spans) != c.want {
			t.Errorf("%d roots, want %d: printed %v: %s", len(spans), c.want, c.printed, c.in)
		}
		for _, s := range spans {
			if kind := attr(s, "error.type").GetStringValue(); s.Name != "invoke_agent pi" || kind != "incomplete" {
				t.Errorf("%s: %q", s.Name, kind)
			}
		}
	}
}

// In a live pipe, a line without a time counts by its arrival: nothing is shared
// between a model call and its tool, and nothing is a guess.
func TestPiLive(t *testing.T) {
	in := fixtures(t)["../testdata/pi/ends-of-messages"]
	start := time.UnixMilli(1790931600000)
	at := start
	arrivals := map[int]int{ // of lines, in milliseconds
		4: 0, 6: 40, 8: 1500, 11: 2440, 13: 2441, 14: 8449, 15: 8450, 19: 9000, 20: 9001, 21: 10450, 22: 10455, 26: 10460, 27: 12260,
	}
	var got []string
	m, err := mapping.New(mapping.Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var spans []*tracepb.Span
	for line := range bytes.Lines(in) {
		n++
		if ms, ok := arrivals[n]; ok {
			at = start.Add(time.Duration(ms) * time.Millisecond)
		}
		spans = append(spans, decoded(t, m.Map(line))...)
	}
	for _, s := range append(spans, decoded(t, m.Close(false))...) {
		if attr(s, "spantee.time.estimated").GetBoolValue() {
			t.Errorf("%s is a guess", s.Name)
		}
		got = append(got, times(s, start))
	}
	want := []string{
		"execute_tool bash sleep 2.441-8.450", "chat glm-5.3 0.040-2.441",
		"execute_tool read 9.001-10.455", "chat glm-5.3 8.455-9.001",
		"chat glm-5.3 10.460-12.260", "invoke_agent pi 0.000-12.260",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}
