package mapping_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// joinedStart is when the session of testdata/codex/plain began, of which
// testdata/codex-log/piped is the log. joinedArrivals are when the lines of its stream came.
var (
	joinedStart    = time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC)
	joinedArrivals = []int{100, 200, 500, 3000, 4000, 6000, 6310, 8000, 10_300, 12_000, 12_200} // ms
)

// A join is a stream with a log.
type join struct {
	lines, rows []string
	late        int // so many rows come only when the stream has ended
	since       time.Time
	chunk       int // bytes of the log at once, 0 for a row
	opts        mapping.Options
}

func newJoin(t testing.TB) join {
	t.Helper()
	read := func(name string) []string {
		b, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(strings.Lines(string(b)))
	}
	return join{lines: read("codex/plain.jsonl"), rows: read("codex-log/piped.jsonl"), since: joinedStart.Add(-time.Second)}
}

// spans maps the lines when they come. Before each, all of the log is read that is there.
func (j join) spans(t testing.TB) []*tracepb.Span {
	t.Helper()
	var clock time.Time
	opts := j.opts
	opts.Redactor, opts.Now = redactor(), func() time.Time { return clock }
	m, err := mapping.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	var log *mapping.Joined
	take := func(rows []string) {
		if log == nil {
			return
		}
		b := []byte(strings.Join(rows, ""))
		if j.chunk == 0 {
			j.chunk = max(len(b), 1)
		}
		spans = append(spans, decoded(t, log.Map(nil))...)
		for p := range slices.Chunk(b, j.chunk) {
			spans = append(spans, decoded(t, log.Map(bytes.Clone(p)))...)
		}
	}
	rows := j.rows[:len(j.rows)-j.late]
	for i, line := range j.lines {
		clock = joinedStart.Add(time.Duration(joinedArrivals[min(i, len(joinedArrivals)-1)]) * time.Millisecond)
		take(rows)
		if log != nil {
			rows = nil
		}
		spans = append(spans, decoded(t, m.Map([]byte(line)))...)
		if log == nil {
			log = m.Join(m.Stats().Session, j.since)
		}
	}
	take(j.rows[len(j.rows)-j.late:])
	spans = append(spans, decoded(t, m.Close(false))...)
	checkSpans(t, spans, 2048)
	if err := mappingtest.Conserved(spans); err != nil {
		t.Error(err)
	}
	return spans
}

// calls returns the model calls of a trace, with what is said of them.
func calls(spans []*tracepb.Span) (list []string) {
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "chat") {
			list = append(list, fmt.Sprint(s.Name, " ", attr(s, "gen_ai.usage.input_tokens").GetIntValue(), " ", attr(s, "gen_ai.usage.output_tokens").GetIntValue()))
		}
	}
	return list
}

// TestJoined maps a stream together with the log of its session: the trace is that of the
// stream, with the model and tokens of the log.
func TestJoined(t *testing.T) {
	alone := newJoin(t)
	alone.rows = nil
	want := alone.spans(t)
	for _, chunk := range []int{0, 1, 1000} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			j := newJoin(t)
			j.chunk = chunk
			got := j.spans(t)
			if diff := gocmp.Diff(work(want), work(got)); diff != "" {
				t.Errorf("tools (-alone +joined):\n%s", diff)
			}
			if diff := gocmp.Diff([]string{"chat gpt-5.4-codex 16800 300", "chat gpt-5.4-codex 17200 110", "chat gpt-5.4-codex 17306 70"}, calls(got)); diff != "" {
				t.Errorf("model calls:\n%s", diff)
			}
			if a, b := totalsOf(want), totalsOf(got); a != b {
				t.Errorf("alone\n%+v, joined\n%+v", a, b)
			}
			root := got[len(got)-1]
			if !attr(root, "spantee.session_log").GetBoolValue() || attr(root, "gen_ai.request.model").GetStringValue() != "gpt-5.4-codex" || attr(root, "gen_ai.request.reasoning.level").GetStringValue() != "medium" {
				t.Error(root)
			}
			for i, s := range got {
				if s.StartTimeUnixNano != want[i].StartTimeUnixNano || s.EndTimeUnixNano != want[i].EndTimeUnixNano {
					t.Errorf("%s has other times than without the log", s.Name)
				}
			}
		})
	}
}

// TestJoinedLog has logs that say less than they should, or something else. The sums are
// those of the stream in each case.
func TestJoinedLog(t *testing.T) {
	without := func(rows []string, text string) []string {
		return slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return strings.Contains(row, text) })
	}
	plain := newJoin(t)
	plain.rows = nil
	alone := plain.spans(t)
	first, last := "chat gpt-5.4-codex 16800 300", "chat gpt-5.4-codex 17306 70"
	for name, c := range map[string]struct {
		change func(j *join)
		want   []string // nil if the log adds nothing
	}{
		"behind the stream": {func(j *join) { j.late = 2 }, []string{first, "chat gpt-5.4-codex 17200 110", last}},
		"two calls behind":  {func(j *join) { j.rows = j.rows[:15] }, []string{first, "chat gpt-5.4-codex 0 0", "chat gpt-5.4-codex 34506 180"}},
		"one call missing":  {func(j *join) { j.rows = without(j.rows, `"total_tokens":34410`) }, []string{first, "chat gpt-5.4-codex 0 0", last}},
		"no counts":         {func(j *join) { j.rows = without(j.rows, "token_count") }, []string{"chat gpt-5.4-codex 0 0", "chat gpt-5.4-codex 0 0", "chat gpt-5.4-codex 0 0"}},
		"a hidden call": {func(j *join) {
			row := strings.NewReplacer("09:00:06.100Z", "09:00:07.000Z", `"total_token_usage":{"input_tokens":16800`, `"total_token_usage":{"input_tokens":16900`, `"last_token_usage":{"input_tokens":16800`, `"last_token_usage":{"input_tokens":100`).Replace(j.rows[11])
			j.rows = slices.Insert(j.rows, 14, row)
		}, []string{first, "chat gpt-5.4-codex 100 300", "chat gpt-5.4-codex 17200 110", last}},
		"of earlier runs": {func(j *join) { j.since = joinedStart.Add(time.Hour) }, nil},
		"of another session": {func(j *join) {
			j.rows = []string{strings.ReplaceAll(strings.Join(j.rows, ""), "01a1f0c2-91d4", "01a1f0c2-91d5")}
		}, nil},
		"of another program": {func(j *join) { j.rows = []string{"{}\n", "null\n", `{"type":"event_msg"}` + "\n", "not JSON\n"} }, nil},
		"of a new format":    {func(j *join) { j.rows = []string{strings.ReplaceAll(strings.Join(j.rows, ""), "payload", "body")} }, nil},
		"of a thread that was resumed": {func(j *join) {
			earlier := strings.NewReplacer("T09:", "T08:", "0000000000aa", "0000000000ab").Replace(strings.Join(j.rows, ""))
			now := strings.NewReplacer(`"total_token_usage":{"input_tokens":16800,"cached_input_tokens":9000,"output_tokens":300`, `"total_token_usage":{"input_tokens":68106,"cached_input_tokens":45352,"output_tokens":780`,
				`"total_token_usage":{"input_tokens":34000,"cached_input_tokens":22600,"output_tokens":410`, `"total_token_usage":{"input_tokens":85306,"cached_input_tokens":58952,"output_tokens":890`,
				`"total_token_usage":{"input_tokens":51306,"cached_input_tokens":36352,"output_tokens":480`, `"total_token_usage":{"input_tokens":102612,"cached_input_tokens":72704,"output_tokens":960`).Replace(strings.Join(j.rows[1:], ""))
			j.rows = []string{earlier, now}
			j.lines[10] = strings.NewReplacer("51306", "102612", "36352", "72704", "480", "960").Replace(j.lines[10])
		}, []string{first, "chat gpt-5.4-codex 17200 110", last}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJoin(t)
			c.change(&j)
			got := j.spans(t)
			if c.want == nil {
				if diff := gocmp.Diff(alone, got, protocmp.Transform()); diff != "" {
					t.Errorf("(-alone +joined):\n%s", diff)
				}
				return
			}
			if diff := gocmp.Diff(c.want, calls(got)); diff != "" {
				t.Errorf("model calls:\n%s", diff)
			}
			if tokens := rootTokens(got); name != "no counts" && tokens != [4]int64{51306, 480, 36352, 0} {
				t.Errorf("root: %v", tokens)
			}
			if diff := gocmp.Diff(work(alone), work(got)); diff != "" {
				t.Errorf("tools (-alone +joined):\n%s", diff)
			}
		})
	}
}

// TestJoinNothing asks for logs that are not joined.
func TestJoinNothing(t *testing.T) {
	m, err := mapping.New(mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range m.Map([]byte(`{"type":"thread.started","thread_id":"../*/../../etc-passwd-x"}` + "\n" + `{"type":"turn.started"}` + "\n" + initLine + "\n")) {
	}
	for _, session := range []string{"", "../*/../../etc-passwd-x", m.Stats().Session, "01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"} {
		if m.Join(session, time.Time{}) != nil {
			t.Errorf("%q is joined", session)
		}
	}
}

// FuzzJoined joins any log: the tools, their order and times are those of the stream.
func FuzzJoined(f *testing.F) {
	j := newJoin(f)
	f.Add([]byte(strings.Join(j.rows, "")), uint16(100))
	for _, in := range fixtures(f) {
		f.Add(in, uint16(1000))
	}
	j.rows = nil
	want := work(j.spans(f))
	f.Fuzz(func(t *testing.T, log []byte, chunk uint16) {
		j := newJoin(t)
		j.rows, j.chunk, j.opts = []string{string(log)}, int(chunk), mapping.Options{Content: content.Full}
		if diff := gocmp.Diff(want, work(j.spans(t))); diff != "" {
			t.Errorf("tools (-alone +joined):\n%s", diff)
		}
	})
}
