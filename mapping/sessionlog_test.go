package mapping_test

import (
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
)

// loggedStart is when the session of testdata/codex/plain began, of which
// testdata/codex-log/piped is the log.
var loggedStart = time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC)

// A logged stream has a log, which is read before one of its lines.
type logged struct {
	lines, rows []string
	before      int // the number of a line
	since       time.Time
}

func newLogged(t testing.TB) logged {
	t.Helper()
	read := func(name string) []string {
		b, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(strings.Lines(string(b)))
	}
	return logged{lines: read("codex/plain.jsonl"), rows: read("codex-log/piped.jsonl"), before: 4, since: loggedStart.Add(-time.Second)}
}

// spans maps the lines, one a second. known says whether the log had what was looked for.
func (l logged) spans(t testing.TB) (spans []*tracepb.Span, known bool) {
	t.Helper()
	clock := loggedStart
	m, err := mapping.New(mapping.Options{Redactor: redactor(), Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range l.lines {
		if i == l.before {
			known = m.Learn(m.Stats().Session, l.since, []byte(strings.Join(l.rows, "")))
		}
		clock = clock.Add(time.Second)
		spans = append(spans, decoded(t, m.Map([]byte(line)))...)
	}
	spans = append(spans, decoded(t, m.Close(false))...)
	checkSpans(t, spans, 2048)
	return spans, known
}

// TestSessionLog reads the log of a stream's session: the trace is that of the stream, with
// the model and the settings of the log.
func TestSessionLog(t *testing.T) {
	const total = 51306
	replaced := func(rows []string, old, new string) []string {
		return strings.SplitAfter(strings.ReplaceAll(strings.Join(rows, ""), old, new), "\n")
	}
	// resumed makes a thread of one that has used as much before.
	resumed := func(l *logged) {
		earlier := strings.NewReplacer("T09:", "T08:", "0000000000aa", "0000000000ab", "gpt-5.4-codex", "gpt-old").Replace(strings.Join(l.rows, ""))
		for _, n := range []int{16800, 34000, total} {
			l.rows = replaced(l.rows, fmt.Sprintf(`"total_token_usage":{"input_tokens":%d`, n), fmt.Sprintf(`"total_token_usage":{"input_tokens":%d`, n+total))
		}
		l.rows = append([]string{earlier}, l.rows[1:]...)
		last := len(l.lines) - 1
		l.lines[last] = strings.Replace(l.lines[last], `"input_tokens":51306`, `"input_tokens":102612`, 1)
	}
	for name, c := range map[string]struct {
		change func(l *logged)
		chats  []string // nil if the log says nothing
	}{
		"early":               {func(*logged) {}, []string{"gpt-5.4-codex", "gpt-5.4-codex", "gpt-5.4-codex"}},
		"late":                {func(l *logged) { l.before = 8 }, []string{"", "gpt-5.4-codex", "gpt-5.4-codex"}},
		"resumed":             {resumed, []string{"gpt-5.4-codex", "gpt-5.4-codex", "gpt-5.4-codex"}},
		"only an earlier run": {func(l *logged) { l.since = loggedStart.Add(time.Hour) }, nil},
		"of another session":  {func(l *logged) { l.rows = replaced(l.rows, "01a1f0c2-91d4", "01a1f0c2-91d5") }, nil},
		"of another program":  {func(l *logged) { l.rows = []string{"{}\n", "null\n", `{"type":"event_msg"}` + "\n", "not JSON\n"} }, nil},
		"of a new format":     {func(l *logged) { l.rows = replaced(l.rows, "payload", "body") }, nil},
		"cut within a row":    {func(l *logged) { l.rows[2] = l.rows[2][:40] }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogged(t)
			c.change(&l)
			got, known := l.spans(t)
			plain := newLogged(t)
			plain.rows = nil
			alone, _ := plain.spans(t)
			if known != (c.chats != nil) {
				t.Fatalf("known: %t", known)
			}
			if !known {
				if diff := gocmp.Diff(alone, got, protocmp.Transform()); diff != "" {
					t.Errorf("(-alone +with the log):\n%s", diff)
				}
				return
			}
			var chats []string
			for i, s := range got {
				if strings.HasPrefix(s.Name, "chat") {
					chats = append(chats, attr(s, "gen_ai.request.model").GetStringValue())
				}
				if s.StartTimeUnixNano != alone[i].StartTimeUnixNano || s.EndTimeUnixNano != alone[i].EndTimeUnixNano {
					t.Errorf("%s has other times", s.Name)
				}
			}
			if diff := gocmp.Diff(c.chats, chats); diff != "" {
				t.Errorf("models of the chats (-want +got):\n%s", diff)
			}
			root := got[len(got)-1]
			if !attr(root, "spantee.session_log").GetBoolValue() || attr(root, "gen_ai.request.model").GetStringValue() != "gpt-5.4-codex" || attr(root, "gen_ai.request.reasoning.level").GetStringValue() != "medium" {
				t.Error(root)
			}
			if n := attr(root, "gen_ai.usage.input_tokens").GetIntValue(); n != total {
				t.Errorf("%d tokens, want %d", n, total)
			}
		})
	}
}

// TestNoSessionLog asks for logs that are not read.
func TestNoSessionLog(t *testing.T) {
	m, err := mapping.New(mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range m.Map([]byte(`{"type":"thread.started","thread_id":"../*/../../etc-passwd-x"}` + "\n" + `{"type":"turn.started"}` + "\n" + initLine + "\n")) {
	}
	for _, session := range []string{"", "../*/../../etc-passwd-x", m.Stats().Session, "01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"} {
		if _, pattern := m.SessionLog(session); pattern != "" {
			t.Errorf("%q has the log %q", session, pattern)
		}
	}
}

// FuzzSessionLog reads any log: all spans and times are those of the stream.
func FuzzSessionLog(f *testing.F) {
	l := newLogged(f)
	f.Add([]byte(strings.Join(l.rows, "")))
	for _, in := range fixtures(f) {
		f.Add(in)
	}
	l.rows = nil
	want, _ := l.spans(f)
	f.Fuzz(func(t *testing.T, log []byte) {
		l := newLogged(t)
		l.rows = []string{string(log)}
		got, _ := l.spans(t)
		for i, s := range got {
			if len(got) != len(want) || s.StartTimeUnixNano != want[i].StartTimeUnixNano || s.EndTimeUnixNano != want[i].EndTimeUnixNano {
				t.Fatalf("span %d of %d differs, want %d", i, len(got), len(want))
			}
		}
	})
}
