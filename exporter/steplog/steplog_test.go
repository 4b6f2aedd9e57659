package steplog_test

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	diff "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/steplog"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixtures are streams of several agents: failures, sub-agents, approvals, background work,
// two sessions at once, two runs in a row, no times, no result.
var fixtures = []string{
	"cursor/fix-failing-test", "cursor/tool-failures", "cursor/approvals", "cursor/background-shell", "cursor/killed",
	"claude/subagent", "claude/retry-compaction", "codex/plain", "copilot/subagents", "opencode/interleaved", "pi/two-prompts",
}

// recorded returns the log of a fixture.
func recorded(t *testing.T, fixture string, level content.Level, style tree.Style) string {
	t.Helper()
	var b strings.Builder
	log := steplog.New(steplog.Config{Style: style, Out: &b, Recorded: true})
	for span := range mapped(t, "../../testdata/"+fixture+".jsonl", level) {
		log.Export(span)
	}
	log.Close()
	return b.String()
}

// mapped returns the spans of a recording.
func mapped(t *testing.T, path string, level content.Level) iter.Seq[*runs.Span] {
	return func(yield func(*runs.Span) bool) {
		m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC), Content: level})
		if err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		for out, err := range m.Read(in) {
			if err != nil {
				t.Fatal(err)
			}
			if out.Span != nil && !yield(read(out.Span)) {
				return
			}
		}
	}
}

// read reads a span of which the caller may change the bytes.
func read(wire []byte) *runs.Span {
	span := new(runs.Span)
	if err := span.Read(slices.Clone(wire)); err != nil {
		panic(err) // the mapper's spans are valid
	}
	return span
}

func TestLog(t *testing.T) {
	for _, c := range []struct {
		name  string
		level content.Level
		style tree.Style
	}{
		{"80", content.None, tree.Style{Width: 80}},
		{"120", content.None, tree.Style{Width: 120}},
		{"c_locale", content.None, tree.Style{ASCII: true}},
		{"details", content.Details, tree.Style{}},
		{"full", content.Full, tree.Style{}},
		{"color", content.None, tree.Style{Color: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for _, fixture := range fixtures {
				log := recorded(t, fixture, c.level, c.style)
				got += fixture + "\n" + log + "\n"
				for line := range strings.Lines(log) {
					isRuns := !strings.HasPrefix(line, "+") && !strings.HasPrefix(line, " ")
					if n := tree.Columns(strings.TrimSuffix(line, "\n")); n > min(100, cmp.Or(c.style.Width, 100)) && !isRuns && !c.style.Color {
						t.Errorf("%d columns: %q", n, line)
					}
				}
				if c.style.ASCII && strings.ContainsFunc(log, func(r rune) bool { return r > unicode.MaxASCII }) {
					t.Errorf("%s is not ASCII", fixture)
				}
			}
			compareGolden(t, c.name+".txt", got)
		})
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", name, diff)
	}
}

// At the default level, no line has anything that a user or a model wrote.
func TestNoContent(t *testing.T) {
	const canary = "canary-77aa41"
	quoted := fmt.Sprintf("%q", canary)
	stream := strings.NewReplacer("%s", quoted).Replace(strings.Join([]string{
		`{"type":"system","subtype":"init","apiKeySource":"login","cwd":%s,"model":"GPT-5","session_id":"s"}`,
		`{"type":"user","message":{"content":[{"type":"text","text":%s}]},"session_id":"s"}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":%s}]},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"shellToolCall":{"args":{"command":"rm canary-77aa41","description":%s}}},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"shellToolCall":{"args":{"command":"rm canary-77aa41"},"result":{"failure":{"exitCode":1,"stderr":%s}}}},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"started","call_id":"b","tool_call":{"readToolCall":{"args":{"path":%s}}},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"completed","call_id":"b","tool_call":{"readToolCall":{"args":{"path":%s},"result":{"error":{"errorMessage":%s}}}},"session_id":"s"}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":%s}]},"session_id":"s"}`,
		`{"type":"result","subtype":"error","is_error":true,"result":%s,"session_id":"s"}`, "",
	}, "\n"))
	for level, want := range map[content.Level]int{content.None: 0, content.Details: 7, content.Full: 9} {
		synctest.Test(t, func(t *testing.T) {
			l := start(t, mapping.Options{Content: level})
			l.feed(stream)
			l.close()
			if n := strings.Count(l.b.String(), canary); n != want {
				t.Errorf("%s: %d times, want %d:\n%s", level, n, want, l.b.String())
			}
		})
	}
}

// What full content has of any agent's recording is not in the log at the default level.
func TestNoContentOfAnyAgent(t *testing.T) {
	fixtures, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil || len(fixtures) < 100 {
		t.Fatal(err, len(fixtures))
	}
	texts := 0
	for _, path := range fixtures {
		fixture := strings.TrimSuffix(strings.TrimPrefix(path, "../../testdata/"), ".jsonl")
		log := recorded(t, fixture, content.None, tree.Style{})
		for _, text := range contentOf(t, path) {
			if len(text) < 12 || !strings.ContainsAny(text, " /") { // else it may be a name
				continue
			}
			if texts++; strings.Contains(log, text) {
				t.Errorf("%s: %q is in\n%s", fixture, text, log)
			}
		}
	}
	if texts < 300 {
		t.Errorf("only %d texts were looked for", texts)
	}
}

// contentOf returns texts that spans have only if content is recorded.
func contentOf(t *testing.T, path string) (texts []string) {
	spans := map[content.Level][]map[string]string{}
	for _, level := range []content.Level{content.None, content.Full} {
		for span := range mapped(t, path, level) {
			facts := map[string]string{"message": span.Message}
			span.Each(func(key, text, _ []byte) { facts[string(key)] = string(text) })
			facts["answer"] = span.Answer()
			spans[level] = append(spans[level], facts)
		}
	}
	for i, full := range spans[content.Full] {
		for key, text := range full {
			if !strings.HasSuffix(key, ".id") && spans[content.None][i][key] != text { // the ids of another level are others
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// A live is a stream that is logged while it goes on, in a synctest bubble.
type live struct {
	t        *testing.T
	m        *mapping.Mapper
	log      *steplog.Log
	b        *strings.Builder
	lastLine time.Time
}

func start(t *testing.T, opts mapping.Options, with ...func(*steplog.Config)) *live {
	t.Helper()
	m, err := mapping.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, m: m, b: new(strings.Builder), lastLine: time.Now()}
	cfg := steplog.Config{Out: l.b, Offer: func(line []byte) bool { l.b.Write(line); return true }}
	for _, w := range with {
		w(&cfg)
	}
	l.log = steplog.New(cfg)
	return l
}

// feed feeds lines that come now.
func (l *live) feed(lines string) {
	l.lastLine = time.Now()
	for out := range l.m.Map([]byte(strings.TrimSuffix(lines, "\n") + "\n")) {
		if out.Span != nil {
			l.log.Export(read(out.Span))
		}
	}
}

// wait lets time pass.
func (l *live) wait(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		time.Sleep(min(time.Second, time.Until(until)))
		var open []*runs.Span
		for out := range l.m.Open(time.Now()) {
			open = append(open, read(out.Span))
		}
		l.log.Open(open, time.Since(l.lastLine))
	}
}

func (l *live) close() {
	for out := range l.m.Close(false) {
		if out.Span != nil {
			l.log.Export(read(out.Span))
		}
	}
	l.log.Close()
}

// want compares what was printed since the last call.
func (l *live) want(lines ...string) {
	l.t.Helper()
	if diff := diff.Diff(strings.Join(lines, "\n"), strings.TrimSuffix(l.b.String(), "\n")); diff != "" {
		l.t.Errorf("(-want +got):\n%s", diff)
	}
	l.b.Reset()
}

// cursor returns lines of Cursor.
func cursor(session string, lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, `{"session_id":%q,%s}`+"\n", session, line)
	}
	return b.String()
}

const (
	begin  = `"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev","model":"GPT-5","permissionMode":"default"`
	prompt = `"type":"user","message":{"role":"user","content":[{"type":"text","text":"fix the test"}]}`
	think  = `"type":"thinking","subtype":"delta","text":"hm"`
	say    = `"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}`
	result = `"type":"result","subtype":"success","duration_ms":5,"duration_api_ms":5,"is_error":false,"result":"Done.","usage":{"inputTokens":1000,"outputTokens":20,"cacheReadTokens":0,"cacheWriteTokens":0}`
)

func shell(subtype, id, outcome string) string {
	return fmt.Sprintf(`"type":"tool_call","subtype":%q,"call_id":%q,"tool_call":{"shellToolCall":{"args":{"command":"go test"}%s}}`, subtype, id, outcome)
}

const exit1 = `,"result":{"failure":{"command":"go test","exitCode":1,"stdout":"","stderr":""}}`

// A tool that hangs: the chat that called it is printed, and then a line a minute.
func TestHungTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{})
		l.feed(cursor("s", begin, prompt))
		l.wait(2 * time.Second)
		l.feed(cursor("s", say))
		l.wait(time.Second)
		l.feed(cursor("s", shell("started", "a", "")))
		l.wait(9 * time.Second)
		l.want()
		l.wait(time.Second)
		l.want()
		l.wait(49 * time.Second)
		l.want()
		l.wait(2 * time.Minute)
		l.want(
			"+01:03.0    shell go       running for 60s",
			"+02:03.0    shell go       running for 2m00s")
		l.feed(cursor("s", shell("completed", "a", exit1)))
		l.wait(time.Second)
		l.want("+03:02.0  ✗ shell go       2m59s  exit 1")
		l.feed(cursor("s", say, result))
		l.want(
			"cursor-agent ended after 3m03s · 1 tool, 1 failed · 1,000 tokens in, 20 out",
			"doubts: the last command failed (last_command_failed)",
			"✗ shell go  exit 1  at 3.00s",
			"shell 98 %, model 2 % (2 waiting)")
		l.close()
		l.want("")
	})
}

// A model that says nothing: the log says what it waits for.
func TestSilentModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{})
		l.feed(cursor("s", begin, prompt))
		l.wait(60 * time.Second)
		l.want("+01:00.0    chat GPT-5     waiting for the model for 60s")
		l.feed(cursor("s", think))
		l.wait(59 * time.Second)
		l.want()
		l.wait(2 * time.Second)
		l.want("+02:00.0    chat GPT-5     thinking for 2m00s, silent for 60s")
		l.feed(cursor("s", say))
		l.wait(61 * time.Second)
		l.want("+03:00.0    chat GPT-5     thinking for 3m00s") // what it said waits for the next line
		l.close()
		l.want(
			"+02:01.0    chat GPT-5     2m01s  first chunk 1m00s",
			"✗ cursor-agent failed after 3m02s: incomplete: the stream ended without a result · 0 tools",
			"model 67 % (33 waiting), agent's own 33 %")
	})
}

// A user who is asked: the model that asked has nothing more to say, and waits for nothing.
func TestSilentUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{})
		l.feed(cursor("s", begin, prompt))
		l.wait(2 * time.Second)
		l.feed(cursor("s", `"type":"interaction_query","subtype":"request","query_type":"shellRequestQuery","query":{"id":1,"shellRequestQuery":{"args":{"command":"go test"}}}`))
		l.wait(2 * time.Minute)
		l.want(
			"+01:02.0    approval shell  waiting for 60s",
			"+02:02.0    approval shell  waiting for 2m00s")
		l.close()
	})
}

// A call that waits for its approval does not run.
func TestCallWaitsForApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{})
		l.feed(cursor("s", begin, prompt, say, shell("started", "a", "")))
		l.wait(2 * time.Second)
		l.b.Reset()
		l.feed(cursor("s", `"type":"interaction_query","subtype":"request","query_type":"shellRequestQuery","query":{"id":0,"shellRequestQuery":{"args":{"command":"go test","toolCallId":"a"}}}`))
		l.wait(61 * time.Second)
		l.want("+01:02.0    approval shell  waiting for 60s")
		l.close()
	})
}

// A prompt without an answer took no time.
func TestNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{})
		l.feed(cursor("s", begin, prompt))
		l.close()
		l.want(
			"+00:00.0  ✗ chat GPT-5            incomplete: the stream does not show its end",
			"✗ cursor-agent failed: incomplete: the stream ended without a result · 0 tools")
	})
}

// An agent that has said nothing at all yet, and one that stays after its result.
func TestSilentProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{Process: &mapping.Process{Agent: agent.OfCommand([]string{"cursor-agent"}), Executable: "cursor-agent"}})
		l.wait(61 * time.Second)
		l.want("+01:00.0    cursor-agent   silent for 60s")
		l.feed(cursor("s", begin, prompt, say, result))
		l.wait(61 * time.Second)
		l.want("+02:02.0    cursor-agent   silent for 60s")
		l.close()
	})
}

// Work that a run has left running goes on after it, and so does the log.
func TestBackgroundAfterTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{})
		l.feed(cursor("s", begin, prompt, say, shell("started", "a", ""),
			shell("completed", "a", `,"result":{"isBackground":true,"success":{"command":"go test","shellId":7,"pid":8,"exitCode":0,"stdout":"","stderr":""}}`), say))
		l.wait(time.Second)
		l.feed(cursor("s", result))
		l.b.Reset()
		l.wait(time.Minute)
		l.want("+01:01.0    background shell  running for 60s")
		l.feed(cursor("r", begin, prompt))
		l.wait(time.Minute)
		l.close()
		l.want(
			"+02:01.0  6b9ccc38    background shell  running for 2m00s",
			"+01:00.0  1c238d92    chat GPT-5        waiting for the model for 60s",
			"+02:01.0  6b9ccc38    background shell  2m01s  estimated",
			"+01:00.0  1c238d92  ✗ chat GPT-5        1m00s  incomplete: the stream does not show its end",
			"1c238d92  ✗ cursor-agent failed after 1m00s: incomplete: the stream ended without a result · 0 tools",
			"1c238d92  model 100 % (all waiting)")
	})
}

// Runs of one trace, in which each has the times of its own.
func TestOneTraceparent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
		l := start(t, mapping.Options{Parent: parent})
		for range 2 {
			l.feed(cursor("s", begin, prompt))
			l.wait(3 * time.Second)
			l.feed(cursor("s", say, result))
			l.want(
				"cursor-agent ended after 3.00s · 0 tools · 1,000 tokens in, 20 out",
				"model 100 % (all waiting)")
			l.wait(time.Second)
		}
		l.close()
	})
}

// Open spans of a session log end with its last row, but the step goes on.
func TestSessionLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{Source: mapping.Followed}, func(c *steplog.Config) { c.Logged = true })
		stamped := func(line string) string {
			return cursor("s", fmt.Sprintf(`"timestamp_ms":%d,%s`, time.Now().UnixMilli(), line))
		}
		l.feed(stamped(begin) + stamped(think))
		l.wait(2 * time.Second)
		l.feed(stamped(shell("started", "a", "")))
		l.wait(61 * time.Second)
		l.want("+01:02.0    shell go       running for 60s")
		l.close()
	})
}

// Two sessions at once have the beginnings of their traces' ids, which spantee show takes.
func TestTwoSessionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{}, func(c *steplog.Config) { c.Fold = steplog.GitHub })
		l.feed(cursor("s", begin, prompt))
		l.wait(time.Second)
		l.feed(cursor("s", say, shell("started", "a", "")))
		l.wait(11 * time.Second)
		l.feed(cursor("r", begin, prompt))
		l.wait(5 * time.Second)
		l.feed(cursor("r", say, shell("started", "b", "")))
		l.wait(60 * time.Second)
		l.feed(cursor("s", shell("completed", "a", exit1), say))
		l.feed(cursor("s", result))
		l.feed(cursor("r", shell("completed", "b", exit1), result))
		l.close()
		l.want(
			"+01:02.0  6b9ccc38    shell go       running for 60s",
			"+01:17.0  6b9ccc38  ✗ shell go       1m16s  exit 1",
			"6b9ccc38  cursor-agent ended after 1m17s · 1 tool, 1 failed · 1,000 tokens in, 20 out",
			"6b9ccc38  doubts: the last command failed (last_command_failed)",
			"6b9ccc38  ✗ shell go  exit 1  at 1.00s",
			"6b9ccc38  shell 99 %, model 1 % (all waiting)",
			"+01:05.0  38acf4ba  ✗ shell go       1m00s  exit 1",
			"38acf4ba  cursor-agent ended after 1m05s · 1 tool, 1 failed · 1,000 tokens in, 20 out",
			"38acf4ba  doubts: no answer after the last tool call (ends_on_tool) · the last command failed (last_command_failed)",
			"38acf4ba  ✗ shell go  exit 1  at 5.00s",
			"38acf4ba  shell 92 %, model 8 % (all waiting)")
	})
}

// Lines of stderr that nobody reads are counted, and the count stands where they would.
func TestLostLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := false
		var l *live
		l = start(t, mapping.Options{}, func(c *steplog.Config) {
			c.Offer = func(line []byte) bool {
				if !full {
					l.b.Write(line)
				}
				return !full
			}
		})
		step := func(id string) {
			l.feed(cursor("s", shell("started", id, ""), shell("completed", id, exit1)))
			l.wait(time.Second)
		}
		l.feed(cursor("s", begin, prompt))
		step("a")
		full = true
		step("b")
		step("c")
		full = false
		step("d")
		full = true
		l.feed(cursor("s", result))
		l.close()
		l.want(
			"+00:00.0  ✗ shell go              exit 1",
			"… lines lost here, because stderr was full: 2",
			"+00:03.0  ✗ shell go              exit 1",
			"… lines lost here, because stderr was full: 7")
	})
}

// A step has its line within a second of the line that ended it, whatever else is open. The model
// that called it is shown in the words that its span will have.
func TestStepsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, mapping.Options{Content: content.Full})
		said := `"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"The token is gh"}]},"timestamp_ms":1790000000000`
		l.feed(cursor("s", begin, prompt, said))
		l.wait(2 * time.Second)
		l.want()
		l.feed(cursor("s", shell("started", "a", ""), shell("started", "b", "")))
		l.wait(15 * time.Second)
		l.want("+00:02.0    chat GPT-5     2.00s  The token is gh")
		l.feed(cursor("s", shell("completed", "a", exit1)))
		l.wait(time.Second)
		l.want("+00:17.0  ✗ shell          15.0s  go test  exit 1")
		l.close()
	})
}

// A fold a run, which ends before the run's own lines: they say what failed.
func TestFolds(t *testing.T) {
	const erase = "\x1b[0K"
	ofSecond := erase + "section_%s:%d:spantee_%s\r" + erase
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() // the bubble's
	for fold, marks := range map[steplog.Fold][4]string{
		steplog.GitHub: {"::group::cursor-agent", "::endgroup::", "::group::cursor-agent", "::endgroup::"},
		steplog.GitLab: {
			fmt.Sprintf(ofSecond, "start", began+1, "6b9ccc38") + "cursor-agent", fmt.Sprintf(ofSecond, "end", began+1, "6b9ccc38"),
			fmt.Sprintf(ofSecond, "start", began+2, "18ad459f") + "cursor-agent", fmt.Sprintf(ofSecond, "end", began+2, "18ad459f"),
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := start(t, mapping.Options{}, func(c *steplog.Config) { c.Fold = fold })
			for range 2 {
				l.feed(cursor("s", begin, prompt, say))
				l.wait(time.Second)
				l.feed(cursor("s", shell("started", "a", ""), shell("completed", "a", exit1), say, result))
			}
			l.close()
			var want []string
			for i := range 2 {
				want = append(want, marks[2*i],
					"+00:01.0  ✗ shell go              exit 1", marks[2*i+1],
					"cursor-agent ended after 1.00s · 1 tool, 1 failed · 1,000 tokens in, 20 out",
					"doubts: the last command failed (last_command_failed)",
					"✗ shell go  exit 1  at 1.00s",
					"model 100 % (estimated)")
			}
			l.want(want...)
		})
	}
}

// What a shell command or a tool is named cannot be taken for a mark or an escape.
func TestHostileNames(t *testing.T) {
	var b strings.Builder
	log := steplog.New(steplog.Config{Out: &b, Recorded: true, Fold: steplog.GitHub})
	root := &tracepb.Span{TraceId: make([]byte, 16), SpanId: []byte("12345678"), Name: "invoke_agent a\n::error::b", EndTimeUnixNano: 1e9}
	for i, name := range []string{"\x1b[2J\r\n::stop-commands::x", "::error::x", "##[error]x"} {
		step := &tracepb.Span{TraceId: make([]byte, 16), SpanId: []byte{byte(i), 2, 3, 4, 5, 6, 7, 8}, ParentSpanId: root.SpanId, Name: "execute_tool " + name, EndTimeUnixNano: 1e9}
		step.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: name}
		log.Export(runs.Of(step))
	}
	log.Export(runs.Of(root))
	log.Close()
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "::") && line != "::group::\n" && line != "::endgroup::\n" || strings.Contains(line, "##[") || strings.Contains(line, "\x1b") {
			t.Errorf("%q", line)
		}
	}
}

// However many runs and steps never end, what is kept of them is bounded.
func TestBounds(t *testing.T) {
	var b strings.Builder
	log := steplog.New(steplog.Config{Out: &b, Recorded: true})
	span := &tracepb.Span{TraceId: make([]byte, 16), SpanId: []byte("22345678"), ParentSpanId: []byte("12345678"), Name: "execute_tool read", EndTimeUnixNano: 1e9}
	step := runs.Of(span)
	for range 20_000 {
		log.Export(step)
	}
	if n := strings.Count(b.String(), "\n"); n < 10_000 {
		t.Errorf("%d of 20,000 lines were printed", n)
	}
}

// A line begins with hours from an hour on.
func TestHours(t *testing.T) {
	var b strings.Builder
	log := steplog.New(steplog.Config{Out: &b, Recorded: true})
	const hour = 3600e9
	log.Export(runs.Of(&tracepb.Span{TraceId: make([]byte, 16), SpanId: []byte("22345678"), ParentSpanId: []byte("12345678"), Name: "execute_tool read", EndTimeUnixNano: hour - 6e7}))
	log.Export(runs.Of(&tracepb.Span{TraceId: make([]byte, 16), SpanId: []byte("12345678"), Name: "invoke_agent pi", EndTimeUnixNano: 25*hour + 61e9}))
	log.Close()
	if want := "+59:59.9    read           1h00m\npi ended after 25h01m · 1 tool\nagent's own 96 %, read 4 %\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
