package mapping_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
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
	arrivals    []int // of the lines, in ms
	late        int   // so many rows come only when the stream has ended
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
	return join{arrivals: joinedArrivals, lines: read("codex/plain.jsonl"), rows: read("codex-log/piped.jsonl"), since: joinedStart.Add(-time.Second)}
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
	var log *mapping.JoinedLog
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
		clock = joinedStart.Add(time.Duration(j.arrivals[i]) * time.Millisecond)
		take(rows)
		if log != nil {
			rows = nil
		}
		spans = append(spans, decoded(t, m.Map([]byte(line)))...)
		if log == nil {
			log = m.JoinLog(m.Stats().Session, j.since)
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
			if diff := gocmp.Diff(when(want), when(got)); diff != "" {
				t.Errorf("times (-alone +joined):\n%s", diff)
			}
		})
	}
}

// at moves a row to a time of day.
func at(clock, row string) string {
	return row[:len(`{"timestamp":"2026-10-02T`)] + clock + row[len(`{"timestamp":"2026-10-02T09:00:00.000`):]
}

// joinedTotal is how many input tokens the run uses.
const joinedTotal = 51306

// resumed returns the row of a model call, or the line with the usage, in a thread that has
// used as much before.
func resumed(row string) string {
	for _, n := range []int{16800, 34000, 51306} {
		for _, total := range []string{`"total_token_usage":{"input_tokens":`, `"usage":{"input_tokens":`} {
			row = strings.Replace(row, total+strconv.Itoa(n), total+strconv.Itoa(n+joinedTotal), 1)
		}
	}
	return row
}

// TestJoinedLog has logs that say less than they should, later, or something else. Tools,
// their order and all times are those of the stream, and the sums agree.
func TestJoinedLog(t *testing.T) {
	without := func(rows []string, text string) []string {
		return slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return strings.Contains(row, text) })
	}
	const (
		total               = joinedTotal
		first, second, last = "chat gpt-5.4-codex 16800 300", "chat gpt-5.4-codex 17200 110", "chat gpt-5.4-codex 17306 70"
		none, secondAndLast = "chat gpt-5.4-codex 0 0", "chat gpt-5.4-codex 34506 180"
	)
	for name, c := range map[string]struct {
		change func(j *join)
		total  int      // input tokens of the root
		want   []string // nil if the log adds nothing
	}{
		"behind the stream": {func(j *join) { j.late = 2 }, total, []string{first, second, last}},
		"two calls behind":  {func(j *join) { j.rows = j.rows[:15] }, total, []string{first, none, secondAndLast}},
		"one call missing":  {func(j *join) { j.rows = without(j.rows, `"total_tokens":34410`) }, total, []string{first, none, secondAndLast}},
		"no counts":         {func(j *join) { j.rows = without(j.rows, "token_count") }, total, []string{none, none, none}},
		"counts after the tools": {func(j *join) {
			j.rows[11], j.rows[15] = at("09:00:06.312", j.rows[11]), at("09:00:10.302", j.rows[15])
		}, total, []string{first, second, last}},
		"counts before the tools": {func(j *join) {
			j.rows[11], j.rows[15] = at("09:00:05.900", j.rows[11]), at("09:00:07.900", j.rows[15])
		}, total, []string{first, second, last}},
		"a call that the stream does not show": {func(j *join) {
			row := strings.NewReplacer(`"total_token_usage":{"input_tokens":16800`, `"total_token_usage":{"input_tokens":16900`, `"last_token_usage":{"input_tokens":16800`, `"last_token_usage":{"input_tokens":100`).Replace(at("09:00:07.000", j.rows[11]))
			j.rows = slices.Insert(j.rows, 14, row)
			j.lines[10] = strings.Replace(j.lines[10], "51306", "51406", 1)
			j.rows[16] = strings.Replace(j.rows[16], `"total_token_usage":{"input_tokens":34000`, `"total_token_usage":{"input_tokens":34100`, 1)
		}, total + 100, []string{first, "chat gpt-5.4-codex 17300 410", last}},
		"a run that fails": {func(j *join) {
			j.lines[10] = `{"type":"turn.failed","error":{"message":"stream disconnected"}}`
		}, total, []string{first, second, last}},
		"a stream that is cut": {func(j *join) { j.lines = j.lines[:10] }, total - 17306, []string{first, second, none}},
		"a stream that is cut after a call that it does not show": {func(j *join) {
			j.rows[17] = at("09:00:11.000", j.rows[11]) // after that of the second chat
			j.lines = j.lines[:10]
		}, 2*16800 + 17200, []string{first, second, first}},
		"of a thread that was resumed": {func(j *join) {
			earlier := strings.NewReplacer("T09:", "T08:", "0000000000aa", "0000000000ab").Replace(strings.Join(j.rows, ""))
			for i := range j.rows {
				j.rows[i] = resumed(j.rows[i])
			}
			j.rows[0] = earlier
			j.lines[10] = resumed(j.lines[10])
		}, total, []string{first, second, last}},
		"of a thread that was resumed at once": {func(j *join) {
			earlier := slices.Clone(j.rows)
			for i := range earlier {
				earlier[i] = strings.ReplaceAll(at("08:59:59."+strconv.Itoa(100+i), earlier[i]), "0000000000aa", "0000000000ab")
			}
			j.since = joinedStart.Add(-890 * time.Millisecond) // the earlier run had begun before
			for i := range j.rows {
				j.rows[i] = resumed(j.rows[i])
			}
			j.rows[0] = strings.Join(earlier, "")
			j.lines[10] = resumed(j.lines[10])
		}, total, []string{first, second, last}},
		"that totals less than before": {func(j *join) {
			j.rows = append(strings.SplitAfter(strings.NewReplacer("T09:", "T08:", "0000000000aa", "0000000000ab").Replace(strings.Join(j.rows, "")), "\n"), j.rows[1:]...)
		}, total, []string{first, second, last}},
		"of earlier runs":            {func(j *join) { j.since = joinedStart.Add(time.Hour) }, total, nil},
		"since a run was on its way": {func(j *join) { j.since = joinedStart.Add(7 * time.Second) }, total, nil},
		"of another session": {func(j *join) {
			j.rows = []string{strings.ReplaceAll(strings.Join(j.rows, ""), "01a1f0c2-91d4", "01a1f0c2-91d5")}
		}, total, nil},
		"of another program": {func(j *join) { j.rows = []string{"{}\n", "null\n", `{"type":"event_msg"}` + "\n", "not JSON\n"} }, total, nil},
		"of a new format":    {func(j *join) { j.rows = []string{strings.ReplaceAll(strings.Join(j.rows, ""), "payload", "body")} }, total, nil},
		"a row of 3 MB": {func(j *join) {
			j.rows[2] = `{"timestamp":"2026-10-02T09:00:00.501Z","type":"response_item","payload":{"type":"message","n":[` + strings.Repeat("1,", 1<<20) + "1]}}\n"
		}, total, []string{first, second, last}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJoin(t)
			c.change(&j)
			got := j.spans(t)
			j.rows, j.late = nil, 0
			alone := j.spans(t)
			if c.want == nil {
				if diff := gocmp.Diff(alone, got, protocmp.Transform()); diff != "" {
					t.Errorf("(-alone +joined):\n%s", diff)
				}
				return
			}
			if diff := gocmp.Diff(c.want, calls(got)); diff != "" {
				t.Errorf("model calls:\n%s", diff)
			}
			root := got[len(got)-1]
			if n := attr(root, "spantee.usage.input_tokens").GetIntValue() + attr(root, "gen_ai.usage.input_tokens").GetIntValue(); n != int64(c.total) {
				t.Errorf("%d tokens on the root", n)
			}
			if diff := gocmp.Diff(when(alone), when(got)); diff != "" {
				t.Errorf("times (-alone +joined):\n%s", diff)
			}
		})
	}
}

// when returns when each span began and ended. Chats have the model in their names.
func when(spans []*tracepb.Span) (list []string) {
	for _, s := range spans {
		name, _, _ := strings.Cut(s.Name, " gpt")
		list = append(list, fmt.Sprint(name, " ", s.StartTimeUnixNano, " ", s.EndTimeUnixNano, " ", s.Status))
	}
	slices.Sort(list) // a chat may be sent later than without a log
	return list
}

// TestJoinedTurns joins the log of a thread with two turns, the first of which fails, to
// the stream of one process.
func TestJoinedTurns(t *testing.T) {
	j := newJoin(t)
	again := newJoin(t)
	j.lines[10] = `{"type":"turn.failed","error":{"message":"stream disconnected"}}` + "\n"
	for _, line := range again.lines[2:] {
		j.lines = append(j.lines, resumed(line))
	}
	j.arrivals = slices.Clone(joinedArrivals)
	for _, ms := range joinedArrivals[2:] {
		j.arrivals = append(j.arrivals, 60_000+ms)
	}
	for _, row := range again.rows[1:] {
		j.rows = append(j.rows, strings.NewReplacer("T09:00:", "T09:01:", "0000000000aa", "0000000000ab", "gpt-5.4-codex", "gpt-6").Replace(resumed(row)))
	}
	got := j.spans(t)
	turn := []string{"chat gpt-5.4-codex 16800 300", "chat gpt-5.4-codex 17200 110", "chat gpt-5.4-codex 17306 70"}
	if diff := gocmp.Diff(append(turn, "chat gpt-6 16800 300", "chat gpt-6 17200 110", "chat gpt-6 17306 70"), calls(got)); diff != "" {
		t.Errorf("model calls:\n%s", diff)
	}
	for _, s := range got {
		if n := attr(s, "spantee.usage.input_tokens").GetIntValue(); len(s.ParentSpanId) == 0 && n != 51306 {
			t.Errorf("%d tokens on a root", n)
		}
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
		if m.JoinLog(session, time.Time{}) != nil {
			t.Errorf("%q is joined", session)
		}
	}
}

// FuzzJoined joins any log: all spans and times are those of the stream.
func FuzzJoined(f *testing.F) {
	j := newJoin(f)
	f.Add([]byte(strings.Join(j.rows, "")), uint16(100))
	for _, in := range fixtures(f) {
		f.Add(in, uint16(1000))
	}
	j.rows = nil
	want := when(j.spans(f))
	f.Fuzz(func(t *testing.T, log []byte, chunk uint16) {
		j := newJoin(t)
		j.rows, j.chunk, j.opts = []string{string(log)}, int(chunk), mapping.Options{Content: content.Full}
		got := j.spans(t)
		for _, s := range got {
			if strings.HasPrefix(s.Name, "chat") {
				s.Name = "chat"
			}
		}
		if diff := gocmp.Diff(want, when(got)); diff != "" {
			t.Errorf("times (-alone +joined):\n%s", diff)
		}
	})
}
