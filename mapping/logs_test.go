package mapping_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/mappingtest"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// logFolders are the fixtures that consist of several session logs: the folders in those
// of the agents.
func logFolders(t testing.TB) (folders []string) {
	t.Helper()
	files, err := filepath.Glob("../testdata/*-log/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) == "" {
			folders = append(folders, file)
		}
	}
	if len(folders) == 0 {
		t.Fatal("no folders of logs")
	}
	return folders
}

// logsIn returns the logs of a folder, as one group.
func logsIn(t testing.TB, folder string) []sessionlog.Log {
	t.Helper()
	var logs []sessionlog.Log
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		log, ok := sessionlog.Find(path, b[:min(len(b), sessionlog.HeadSize)])
		if !ok {
			t.Fatalf("%s is no log", path)
		}
		log.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
		logs = append(logs, log)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	groups := sessionlog.Group(logs)
	if len(groups) != 1 {
		t.Fatalf("%s: %d groups", folder, len(groups))
	}
	return groups[0]
}

func spansOfLogs(t testing.TB, logs []sessionlog.Log, opts mapping.Options) (spans []*tracepb.Span, m *mapping.Mapper) {
	t.Helper()
	opts.Redactor, opts.Source, opts.Written = redactor(), mapping.Recording, recorded
	m, err := mapping.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	for out, err := range m.ReadLogs(logs) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Span != nil {
			spans = append(spans, decode(t, out.Span))
		}
	}
	checkSpans(t, spans, max(opts.MaxAttributeBytes, 2048))
	return spans, m
}

// TestLogFolders compares the traces of logs that are read together with those that they
// must become, and their sums with the totals.
func TestLogFolders(t *testing.T) {
	for _, folder := range logFolders(t) {
		t.Run(short(folder), func(t *testing.T) {
			logs := logsIn(t, folder)
			spans, m := spansOfLogs(t, logs, mapping.Options{})
			stats := m.Stats()
			compareGolden(t, folder+".trace", fmt.Sprintf("%d lines: %d bad, %d unknown, %d unpaired\n\n%s",
				stats.Lines, stats.BadLines, stats.Unknown, stats.EndsWithoutStart, treetest.Golden(spans)))
			if err := mappingtest.Conserved(spans); err != nil {
				t.Error(err)
			}
			var want map[string]totals
			b, err := os.ReadFile(filepath.Join(filepath.Dir(folder), "totals.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			if got := totalsOf(spans); got != want[filepath.Base(folder)] {
				t.Errorf("the trace has\n%+v, the logs\n%+v", got, want[filepath.Base(folder)])
			}
			again, _ := spansOfLogs(t, logs, mapping.Options{})
			if !bytes.Equal(encode(t, spans), encode(t, again)) {
				t.Error("other spans the second time")
			}
			if full, _ := spansOfLogs(t, logs, mapping.Options{Content: content.Full}); len(full) != len(spans) {
				t.Errorf("%d spans with content, %d without", len(full), len(spans))
			}
		})
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

// TestLogsReadLater reads a session from its second run on, as after a restart: the spans
// have the ids that they would have had.
func TestLogsReadLater(t *testing.T) {
	b, err := os.ReadFile("../testdata/claude-log/prompts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := feed{}.spans(t, b)
	known := map[string]bool{}
	for _, s := range all {
		known[string(s.SpanId)] = true
	}
	later, _ := feed{}.spans(t, b[bytes.Index(b, []byte("Are you still there?"))-300:])
	if len(later) == 0 {
		t.Fatal("no spans")
	}
	for _, s := range later {
		if !known[string(s.SpanId)] {
			t.Errorf("%s has another id", s.Name)
		}
	}
	if !strings.HasPrefix(later[0].Name, "chat") {
		t.Errorf("the first span is %s", later[0].Name)
	}
}

// TestCutLogs cuts logs after a row, as they are when the agent is killed: what is open
// ends with the last row, whatever it says, and the root counts all that was done.
func TestCutLogs(t *testing.T) {
	for _, c := range []struct {
		log  string
		rows int
		span string // the end of its name, or the id of its response
		end  time.Duration
	}{
		{"codex-log/parallel-tools", 12, "codex", 3000 * time.Millisecond},
		{"codex-log/parallel-tools", 12, "shell cat", 3000 * time.Millisecond},
		{"codex-log/plain", 20, "codex", 9000 * time.Millisecond},
		{"codex-log/tool-failures", 15, "codex", 6500 * time.Millisecond},
		{"claude-log/background-agent", 3, "claude-code", 10000 * time.Millisecond},
		{"claude-log/sidechains", 8, "claude-code", 3600 * time.Millisecond},
		{"claude-log/sidechains", 8, "msg_01SideY", 3500 * time.Millisecond},
		{"claude-log/subagents", 3, "msg_01SubY", 3400 * time.Millisecond},
		{"claude-log/subagents", 4, "msg_01SubY", 3400 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.log, " ", c.rows, " ", c.span), func(t *testing.T) {
			spans, _ := spansOfLogs(t, cutLogs(t, "../testdata/"+c.log, c.rows), mapping.Options{})
			if err := mappingtest.Conserved(spans); err != nil {
				t.Error(err)
			}
			all := totalsOf(spans)
			if got, want := rootTokens(spans), [][4]int64{{all.Input, all.Output, all.CacheRead, all.CacheWrite}}; !slices.Equal(got, want) {
				t.Errorf("the root has the tokens %v, the model calls %v", got, want)
			}
			var start, last uint64
			for _, s := range spans {
				if len(s.ParentSpanId) == 0 {
					start = s.StartTimeUnixNano
				}
				if strings.HasSuffix(s.Name, c.span) || attr(s, "gen_ai.response.id").GetStringValue() == c.span {
					last = max(last, s.EndTimeUnixNano)
				}
			}
			if end := time.Duration(last - start).Round(time.Millisecond); end != c.end {
				t.Errorf("ends after %v, want %v", end, c.end)
			}
		})
	}
}

// cutLogs returns the logs of a fixture, the oldest one without the rows after the first ones.
func cutLogs(t *testing.T, fixture string, rows int) []sessionlog.Log {
	t.Helper()
	var logs []sessionlog.Log
	if info, err := os.Stat(fixture); err == nil && info.IsDir() {
		logs = logsIn(t, fixture)
	} else {
		logs = logsIn(t, fixture+".jsonl")
	}
	b, err := os.ReadFile(logs[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:rows], nil)
	logs[0].Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(cut)), nil }
	return logs
}

// TestCopiedLogs reads logs together with copies of them: a row counts once, whichever files
// have it.
func TestCopiedLogs(t *testing.T) {
	files, err := filepath.Glob("../testdata/*-log/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(whole, []byte("\n")) {
			continue // half a row is a bad line in each file
		}
		rows := slices.Collect(bytes.Lines(whole))
		log := func(path string, n int) sessionlog.Log {
			b := bytes.Join(rows[:n], nil)
			log, ok := sessionlog.Find(path, b)
			if !ok {
				t.Fatalf("%s is no log", path)
			}
			log.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
			return log
		}
		want, _ := spansOfLogs(t, []sessionlog.Log{log(file, len(rows))}, mapping.Options{})
		for _, n := range [][2]int{{len(rows), len(rows)}, {len(rows) * 2 / 3, len(rows)}, {len(rows), len(rows) * 2 / 3}} {
			groups := sessionlog.Group([]sessionlog.Log{log(file, n[0]), log(filepath.FromSlash("other/copy.jsonl"), n[1])})
			if len(groups) != 1 {
				t.Fatalf("%s: %d groups", file, len(groups))
			}
			spans, _ := spansOfLogs(t, groups[0], mapping.Options{})
			if diff := gocmp.Diff(treetest.Golden(want), treetest.Golden(spans)); diff != "" {
				t.Errorf("%s: %d and %d of %d rows (-alone +with a copy):\n%s", file, n[0], n[1], len(rows), diff)
			}
		}
	}
}

// TestLogsOfTheFuture reads logs with timestamps that are not believed to their ends.
func TestLogsOfTheFuture(t *testing.T) {
	want, _ := spansOfLogs(t, logsIn(t, "../testdata/codex-log/fork"), mapping.Options{})
	logs := logsIn(t, "../testdata/codex-log/fork")
	for i := range logs {
		b, err := os.ReadFile(logs[i].Path)
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.ReplaceAll(b, []byte(`"timestamp":"2026-`), []byte(`"timestamp":"2150-`))
		logs[i].Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	if spans, _ := spansOfLogs(t, logs, mapping.Options{}); len(spans) != len(want) {
		t.Errorf("%d spans, want %d", len(spans), len(want))
	}
}

// TestForkAlone reads a fork without the log that it copies: only its own turns count.
func TestForkAlone(t *testing.T) {
	logs := logsIn(t, "../testdata/codex-log/fork")
	spans, _ := spansOfLogs(t, logs[len(logs)-1:], mapping.Options{})
	if got := totalsOf(spans); got.Runs != 1 || got.Turns != 1 || got.Input != 700 {
		t.Errorf("%+v", got)
	}
}

// TestTwoWorkflows reads the logs of two workflows that run at once: each agent is below the call
// of the workflow in whose folder its log is.
func TestTwoWorkflows(t *testing.T) {
	logs := logsIn(t, "../testdata/claude-log/workflow")
	for i := range logs {
		b, err := os.ReadFile(logs[i].Path)
		if err != nil {
			t.Fatal(err)
		}
		if rows := slices.Collect(bytes.Lines(b)); !strings.Contains(logs[i].Path, "subagents") { // a second call behind the first
			second := bytes.Join(rows[1:3], nil)
			for _, edit := range [][2]string{{"00:04.000Z", "00:05.500Z"}, {"00:04.100Z", "00:05.700Z"}, {"toolu_wf", "toolu_wf2"}, {"wf_ab12", "wf_cd34"}, {`"id":"mw1"`, `"id":"mw1b"`}, {`"uuid":"0`, `"uuid":"a`}} {
				second = bytes.ReplaceAll(second, []byte(edit[0]), []byte(edit[1]))
			}
			b = slices.Concat(bytes.Join(rows[:3], nil), second, bytes.Join(rows[3:], nil))
		}
		if strings.HasSuffix(logs[i].Path, "b1.jsonl") {
			logs[i].Path = strings.Replace(logs[i].Path, "wf_ab12", "wf_cd34", 1)
		}
		logs[i].Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	spans, _ := spansOfLogs(t, logs, mapping.Options{})
	byID := map[string]*tracepb.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
	}
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var got []string
	for _, s := range spans {
		if above := byID[string(s.ParentSpanId)]; above != nil && s.Name == "invoke_agent subagent" {
			got = append(got, times(above, began)+" > "+times(s, began))
		}
	}
	slices.Sort(got)
	want := []string{"background Workflow 4.100-60.000 > invoke_agent subagent 8.000-60.000", "background Workflow 5.700-60.000 > invoke_agent subagent 9.000-60.000"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRepeatedIDs reads a fork in which all messages say the same. Gateways give all of them the
// same ids: each is a model call all the same, unless it is copied.
func TestRepeatedIDs(t *testing.T) {
	edited := func(edits ...[2]string) totals {
		logs := logsIn(t, "../testdata/claude-log/fork")
		for i := range logs {
			b, err := os.ReadFile(logs[i].Path)
			if err != nil {
				t.Fatal(err)
			}
			for _, edit := range edits {
				b = regexp.MustCompile(edit[0]).ReplaceAll(b, []byte(edit[1]))
			}
			logs[i].Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
		}
		spans, _ := spansOfLogs(t, logs, mapping.Options{})
		return totalsOf(spans)
	}
	words, counts := [2]string{`"type":"text","text":"[^"]*"`, `"type":"text","text":"Done."`}, [2]string{`_tokens":\d+`, `_tokens":9`}
	want := edited(words, counts)
	if want.Runs != 3 || want.Turns != 4 || want.Tools != 1 {
		t.Fatalf("%+v", want)
	}
	for _, request := range []string{`"requestId":"req_1"`, `"version":"2.1.290"`} {
		got := edited(words, counts, [2]string{`"id":"msg_[^"]*"`, `"id":"msg_1"`}, [2]string{`"requestId":"[^"]*"`, request}, [2]string{`toolu_01ForkT`, `call_1`})
		if got != want {
			t.Errorf("with %s: %+v, want %+v", request, got, want)
		}
	}
}

// TestWordlessRows adds to a log rows of its model calls that have no words: they are
// no calls of their own.
func TestWordlessRows(t *testing.T) {
	b, err := os.ReadFile("../testdata/claude-log/plain.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var more bytes.Buffer
	for line := range bytes.Lines(b) {
		more.Write(line)
		if before, rest, ok := bytes.Cut(line, []byte(`"content":[`)); ok && bytes.Contains(before, []byte(`"role":"assistant"`)) {
			_, after, _ := bytes.Cut(rest, []byte(`}],"stop_reason"`))
			row := slices.Concat(before, []byte(`"content":[{"type":"text","text":""}],"stop_reason"`), after)
			more.Write(bytes.Replace(row, []byte(`"uuid":"b`), []byte(`"uuid":"f`), 1))
		}
	}
	want, _ := feed{}.spans(t, b)
	got, _ := feed{}.spans(t, more.Bytes())
	if totalsOf(got) != totalsOf(want) || len(got) != len(want) {
		t.Errorf("with rows without words\n%+v, without\n%+v", totalsOf(got), totalsOf(want))
	}
	if more.Len() < len(b)*3/2 {
		t.Error("few rows were added")
	}
}

// TestPipedAndLogged compares what the stream of a session gives with what its log gives:
// the same calls of tools in the same order with the same outcomes, as many sub-agents,
// and the same tokens and cost. Streams of Claude Code estimate the output of a call, and
// count small helper calls, which the log does not have.
func TestPipedAndLogged(t *testing.T) {
	streams := fixtures(t)
	for stream, log := range map[string]string{
		"claude/plain": "claude-log/plain", "claude/subagent": "claude-log/piped", "claude/resumed-session": "claude-log/resumed-session",
		"codex/plain": "codex-log/piped", "codex/scripts": "codex-log/code-mode", "pi/plain": "pi-log/piped",
	} {
		t.Run(stream, func(t *testing.T) {
			piped, _ := feed{}.spans(t, streams["../testdata/"+stream])
			var logged []*tracepb.Span
			if in, ok := streams["../testdata/"+log]; ok {
				logged, _ = feed{}.spans(t, in)
			} else {
				logged, _ = spansOfLogs(t, logsIn(t, "../testdata/"+log), mapping.Options{})
			}
			if diff := gocmp.Diff(work(piped), work(logged)); diff != "" {
				t.Errorf("tools (-piped +logged):\n%s", diff)
			}
			a, b := totalsOf(piped), totalsOf(logged)
			switch stream {
			case "claude/plain", "claude/subagent", "claude/resumed-session": // the output is only in the result
				a.Output, b.Output, a.Cost = 0, 0, 0
				fallthrough
			case "pi/plain":
				if a != b {
					t.Errorf("piped\n%+v, logged\n%+v", a, b)
				}
			default: // the stream has no model calls
				a.Turns, b.Turns = 0, 0
				if a != b {
					t.Errorf("piped\n%+v, logged\n%+v", a, b)
				}
			}
			if strings.HasPrefix(stream, "claude/") && stream != "claude/subagent" && !slices.Equal(rootTokens(piped), rootTokens(logged)) {
				t.Errorf("root: piped %v, logged %v", rootTokens(piped), rootTokens(logged))
			}
		})
	}
}

// work returns the calls of tools in order, and the sub-agents. Codex has other names for
// its tools in the log, and scripts around them.
func work(spans []*tracepb.Span) (list []string) {
	names := strings.NewReplacer("apply_patch", "file_change", "exec_command", "shell")
	spans = slices.SortedStableFunc(slices.Values(spans), func(a, b *tracepb.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	for _, s := range spans {
		if !strings.HasPrefix(s.Name, "chat") && !strings.HasPrefix(s.Name, "hook") && attr(s, "spantee.tool.calls") == nil {
			list = append(list, names.Replace(s.Name)+" "+s.Status.GetMessage())
		}
	}
	return list
}

// rootTokens returns the tokens of each run.
func rootTokens(spans []*tracepb.Span) (list [][4]int64) {
	for _, s := range spans {
		if len(s.ParentSpanId) == 0 {
			var tokens [4]int64
			for i, key := range []string{"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"} {
				tokens[i] = attr(s, "spantee.usage."+key).GetIntValue()
			}
			list = append(list, tokens)
		}
	}
	return list
}

// TestSessionsOfAFolder groups, by what they have in common, Claude Code's logs by session, with forks and sub-agents.
func TestSessionsOfAFolder(t *testing.T) {
	row := func(typ, session, uuid string, second int) string {
		return fmt.Sprintf(`{"type":%q,"sessionId":%q,"uuid":%q,"isSidechain":false,"timestamp":"2026-11-03T10:00:%02d.000Z"}`+"\n", typ, session, uuid, second)
	}
	var logs []sessionlog.Log
	for _, file := range []struct{ path, head string }{
		{"p/one.jsonl", row("attachment", "one", "a", 0) + row("user", "one", "b", 1)},
		{"p/one/subagents/agent-1.jsonl", row("user", "one", "c", 2)},
		{"p/fork.jsonl", row("user", "fork", "b", 1)},
		{"p/copy.jsonl", row("user", "copy", "g", 1)},    // with ids of its own
		{"p/agent-2.jsonl", row("user", "fork", "d", 3)}, // as older builds name it
		{"p/other.jsonl", row("user", "other", "e", 4)},
		{"p/begun.jsonl", row("attachment", "begun", "f", 5)},
	} {
		log, ok := sessionlog.Find(filepath.FromSlash(file.path), []byte(file.head))
		if begun := strings.Contains(file.path, "begun"); !ok || log.KinKnown == begun {
			t.Errorf("%s: %+v", file.path, log)
		}
		logs = append(logs, sessionlog.Log{Path: log.Path, First: log.First, Kin: log.Kin}) // as follow does, whatever the folder
	}
	var got [][]string
	for _, group := range sessionlog.Group(logs) {
		var paths []string
		for _, log := range group {
			paths = append(paths, filepath.ToSlash(log.Path))
		}
		got = append(got, paths)
	}
	want := [][]string{{"p/one.jsonl", "p/fork.jsonl", "p/copy.jsonl", "p/one/subagents/agent-1.jsonl", "p/agent-2.jsonl"}, {"p/other.jsonl"}, {"p/begun.jsonl"}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestGroupLogs groups logs that do not name each other: one of Claude Code may copy any other
// of its folder.
func TestGroupLogs(t *testing.T) {
	for folder, want := range map[string]int{"claude-log": 1, "codex-log": 2} {
		var logs []sessionlog.Log
		for _, name := range []string{"plain.jsonl", "cut.jsonl"} {
			path := filepath.Join("../testdata", folder, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			log, ok := sessionlog.Find(path, b)
			if !ok {
				t.Fatal(path, " is no log")
			}
			logs = append(logs, log)
		}
		if n := len(sessionlog.Group(logs)); n != want {
			t.Errorf("%s: %d groups, want %d", folder, n, want)
		}
	}
}
