package mapping_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
)

// TestStalled is asked after every line of a stream in which nothing came for ten
// minutes.
func TestStalled(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 10, 2, 12, 0, second, 0, time.UTC) }
	for name, test := range map[string]struct {
		lines []byte
		want  string // agents after each line
	}{
		"a turn, a tool": {stream(initLine, thinking(at(1)), tool(at(2), "started", "a", ""), tool(at(3), "completed", "a", "")), "1 1 0 1"},
	} {
		now := time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)
		var spans []*tracepb.Span
		m, err := mapping.New(mapping.Options{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range bytes.Lines(test.lines) {
			spans = append(spans, decoded(t, m.Map(line))...)
			now = now.Add(10 * time.Minute)
			got = append(got, string(rune('0'+len(m.NoteStall(10*time.Minute)))))
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		m.NoteLimit("max-tools")
		openSpans(t, m) // which must leave no trace
		spans = append(spans, decoded(t, m.Close(false))...)
		if m.Busy() {
			t.Errorf("%s: busy after its end", name)
		}
		r := root(t, spans)
		if len(r.Events) != 4 || r.Events[3].Name != "limit.reached" {
			t.Errorf("%s: events %v", name, r.Events)
		}
		for _, e := range r.Events {
			if e.TimeUnixNano < r.StartTimeUnixNano || e.TimeUnixNano > r.EndTimeUnixNano {
				t.Errorf("%s: %s is outside of its span", name, e.Name)
			}
		}
	}
}

// TestOpenLastsUntilNow asks what is open while nothing comes: by the clock of
// the stream, it lasts longer and longer, and its end does not change by that.
func TestOpenLastsUntilNow(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 10, 2, 12, 0, second, 0, time.UTC) }
	for name, lines := range map[string][]byte{
		"stamped":   stream(initLine, thinking(at(0)), tool(at(0), "started", "a", "")),
		"unstamped": stream(initLine),
	} {
		began := time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)
		var spans []*tracepb.Span
		m, err := mapping.New(mapping.Options{Agent: "cursor", Now: func() time.Time { return began }})
		if err != nil {
			t.Fatal(err)
		}
		spans = append(spans, decoded(t, m.Map(lines))...)
		lasted := func(silent time.Duration) time.Duration {
			var end, start uint64
			for _, s := range decoded(t, m.Open(began.Add(silent))) {
				start, end = s.StartTimeUnixNano, max(end, s.EndTimeUnixNano) // the root comes last
			}
			return time.Duration(end - start)
		}
		before := lasted(0)
		if got := lasted(time.Minute) - before; got.Round(time.Millisecond) != time.Minute {
			t.Errorf("%s: after a minute of silence it has lasted %v longer", name, got)
		}
		spans = append(spans, decoded(t, m.Close(false))...)
		if r := root(t, spans); time.Duration(r.EndTimeUnixNano-r.StartTimeUnixNano) > 10*time.Second {
			t.Errorf("%s: ended after %v", name, time.Duration(r.EndTimeUnixNano-r.StartTimeUnixNano))
		}
	}
}
