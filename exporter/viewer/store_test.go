package viewer

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func str(key, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
}

func integer(key string, v int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}}
}

func number(key string, v float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}}
}

// span is the nth of a trace, so many seconds long; parent is zero for a root.
func span(trace, nth, parent int, name string, from, to uint64, attrs ...*commonpb.KeyValue) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: binary.BigEndian.AppendUint64(make([]byte, 8), uint64(trace)),
		SpanId:  binary.BigEndian.AppendUint64(nil, uint64(nth)),
		Name:    name, StartTimeUnixNano: from * 1e9, EndTimeUnixNano: to * 1e9, Attributes: attrs,
	}
	if parent > 0 {
		s.ParentSpanId = binary.BigEndian.AppendUint64(nil, uint64(parent))
	}
	op, what, _ := strings.Cut(name, " ")
	switch op {
	case "invoke_agent":
		s.Attributes = append(s.Attributes, str(semconv.OperationName, op), str(semconv.AgentName, what))
	case "execute_tool":
		s.Attributes = append(s.Attributes, str(semconv.OperationName, op), str(semconv.ToolName, what))
	}
	return s
}

func fails(s *tracepb.Span) *tracepb.Span {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	return s
}

func from(service string, spans ...*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{str(keyService, service)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}},
	}}
}

func idOf(s *tracepb.Span) traceID { return traceID(s.TraceId) }

// Children may come before their root, and long after it.
func TestStoreJoinsWhatComesLate(t *testing.T) {
	s := newStore(t)
	child := span(1, 2, 1, "execute_tool shell", 10, 20)
	s.Add(from("a", child))
	got, ok := s.Session(idOf(child))
	if !ok || got.Ended || got.Tools != 1 {
		t.Errorf("without its root: %+v", got)
	}
	s.Add(from("a", span(1, 1, 0, "invoke_agent cursor-agent", 5, 30, integer(semconv.InputTokens, 7))))
	s.Add(from("b", fails(span(1, 3, 1, "execute_tool read", 6, 40))))
	got, _ = s.Session(idOf(child))
	if !got.Ended || got.Spans != 3 || got.Tools != 2 || got.ToolErrors != 1 || got.Agent != "cursor-agent" ||
		got.Input != 7 || got.Start != 5e6 || got.End != 30e6 || got.Failure != "" {
		t.Errorf("whole: %+v", got)
	}
}

// The errors of a run are its failed tools; that it failed is its state. Nothing else that fails counts.
func TestErrorsAreFailedTools(t *testing.T) {
	s := newStore(t)
	s.Add(from("a",
		span(1, 1, 0, "invoke_agent hook", 1, 9), fails(span(1, 2, 1, "hook Stop", 7, 8)), fails(span(1, 3, 1, "chat m", 2, 3)), span(1, 4, 1, "execute_tool shell", 3, 4),
		fails(span(2, 1, 0, "invoke_agent failed", 1, 9)), span(3, 1, 0, "invoke_agent tool", 1, 9), fails(span(3, 2, 1, "execute_tool shell", 3, 4))))
	for search, want := range map[string]int{"failed:yes": 2, "failed:no": 1} {
		if runs := s.Runs(RunsQuery{Query: Query{Search: search}}); s.matching(search) != want || runs.All.Runs != want {
			t.Errorf("%s: %d sessions and %d runs, want %d", search, s.matching(search), runs.All.Runs, want)
		}
	}
	if runs := s.Runs(RunsQuery{Query: Query{Failed: true}}); runs.All.Runs != 2 || s.List(Query{Failed: true, Limit: 9}).Matching != 2 {
		t.Errorf("%+v", runs.All)
	}
}

func TestStoreReplacesDuplicates(t *testing.T) {
	s := newStore(t)
	for range 3 {
		s.Add(from("a", span(1, 1, 0, "invoke_agent one", 0, 1), fails(span(1, 2, 1, "execute_tool shell", 0, 1))))
	}
	s.Add(from("a", span(1, 2, 1, "execute_tool shell", 0, 2)))
	l := s.List(Query{Limit: 10})
	if got := l.Sessions[0]; len(l.Sessions) != 1 || got.Spans != 2 || got.ToolErrors != 0 || got.End != 1e6 {
		t.Errorf("%+v", l.Sessions)
	}
	spans, _ := s.Spans(idOf(span(1, 1, 0, "", 0, 0)), 0)
	if len(spans) != 2 {
		t.Errorf("%d spans", len(spans))
	}
	// Also where there are too many to look at each.
	for range 2 {
		for i := range 100 {
			s.Add(from("a", span(2, i+1, 0, "x", 0, 1)))
		}
	}
	if spans, _ := s.Spans(idOf(span(2, 1, 0, "", 0, 0)), 0); len(spans) != 100 {
		t.Errorf("%d spans", len(spans))
	}
}

func TestStoreTellsWhatIsNew(t *testing.T) {
	s := newStore(t)
	_, seq := s.Changes(0, 10)
	first, second := span(1, 1, 0, "x", 0, 1), span(1, 2, 1, "x", 0, 1)
	s.Add(from("a", first, span(2, 1, 0, "x", 0, 1)))
	ids, seq := s.Changes(seq, 10)
	if len(ids) != 2 {
		t.Errorf("changed: %v", ids)
	}
	_, spans := s.Spans(idOf(first), 0)
	s.Add(from("a", second))
	if ids, _ := s.Changes(seq, 10); len(ids) != 1 || ids[0] != idOf(first) {
		t.Errorf("changed: %v", ids)
	}
	if fresh, _ := s.Spans(idOf(first), spans); len(fresh) != 1 || string(fresh[0].SpanId) != string(second.SpanId) {
		t.Errorf("%d spans are new", len(fresh))
	}
}

func TestStoreRejects(t *testing.T) {
	s := newStore(t)
	noID, short := span(1, 0, 0, "x", 0, 1), span(1, 2, 0, "x", 0, 1)
	short.TraceId = short.TraceId[:4]
	backwards := span(1, 4, 0, "ok", 9, 5)
	if n := s.Add(from("a", noID, short, backwards)); n != 2 {
		t.Errorf("%d rejected", n)
	}
	if got, _ := s.Session(idOf(backwards)); got.Spans != 1 || got.End < got.Start {
		t.Errorf("%+v", got)
	}
}

func TestListFinds(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent cursor-agent", 0, 1, str(semconv.RequestModel, "GPT-5"), str(semconv.ConversationID, "c-17"), str(semconv.ProcessWorkingDirectory, "/src/shop")),
		fails(span(1, 2, 1, "execute_tool shell", 0, 1))))
	s.Add(from("a", span(2, 1, 0, "invoke_agent codex", 5, 6, str(semconv.RequestModel, "Sonnet"))))
	s.Add(from("web", span(3, 1, 0, "GET /", 9, 10)))
	s.Open("process", from("a", span(2, 2, 1, "chat Sonnet", 6, 7)))
	second := s.List(Query{Limit: 9}).Sessions[1].Start
	tests := []struct {
		q    Query
		want string // the last digits of the ids
	}{
		{Query{}, "321"},
		{Query{Search: "shell"}, "1"},
		{Query{Search: "gpt cursor"}, "1"},
		{Query{Search: "gpt codex"}, ""},
		{Query{Search: "c-17"}, "1"},
		{Query{Search: "get"}, "3"},
		{Query{Search: "00000000000000000000000000000002"}, "2"},
		{Query{Failed: true}, "1"},
		{Query{Running: true}, "2"},
		{Query{Since: second}, "32"},
		{Query{Since: second + 1}, "3"},
		{Query{Agent: "web"}, "3"},
		{Query{Model: "Sonnet"}, "2"},
		{Query{Folder: "/src/shop"}, "1"},
		{Query{Folder: "/src"}, ""},
		{Query{Offset: 1}, "21"},
	}
	for _, tt := range tests {
		tt.q.Limit = max(tt.q.Limit, 9)
		l := s.List(tt.q)
		got := ""
		for _, session := range l.Sessions {
			got += session.ID[31:]
		}
		if got != tt.want || l.Total != 3 {
			t.Errorf("%+v: %q of %d, want %q", tt.q, got, l.Total, tt.want)
		}
	}
	if l := s.List(Query{Limit: 9}); strings.Join(l.Agents, " ") != "codex cursor-agent web" || strings.Join(l.Models, " ") != "GPT-5 Sonnet" || strings.Join(l.Folders, " ") != "/src/shop" {
		t.Errorf("%v %v %v", l.Agents, l.Models, l.Folders)
	}
}

func TestStoreConcurrentSafe(t *testing.T) {
	s := newStore(t)
	rounds := 300
	if testing.Short() { // as with the race detector, which makes each many times slower
		rounds = 60
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range rounds {
				s.Add(from("a", span(i%50+1, g*1000+i%7+1, 0, "x", 0, 1)))
				s.List(Query{Limit: 5})
				s.Spans(idOf(span(i%50+1, 1, 0, "", 0, 0)), 0)
				s.Changes(0, 3)
			}
		})
	}
	wg.Wait()
}

// Every word may be anywhere: in what was said, done or printed.
func TestListFindsContent(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 0, 1, str(semconv.InputMessages, `[{"role":"user","parts":[{"type":"text","content":"Fix the Coupon\n code"}]}]`)),
		span(1, 2, 1, "execute_tool shell", 0, 1, str(semconv.ToolResult, `{"stdout":"--- FAIL: TestTotalWithCoupon"}`))))
	s.Add(from("a", span(2, 1, 0, "invoke_agent x", 5, 6)))
	for words, want := range map[string]int{"coupon": 1, "testtotal fix": 1, "testtotal nothing": 0, "x": 2} {
		l := s.List(Query{Search: words, Limit: 9})
		if l.Matching != want {
			t.Errorf("%s: %d sessions, want %d", words, l.Matching, want)
		}
	}
	l := s.List(Query{Search: "testtotal", Limit: 9})
	id, _ := parseTraceID(l.Sessions[0].ID)
	found, ok, err := s.Hits(t.Context(), id, "testtotal")
	if !ok || err != nil || found.Total != 1 || found.Hits[0].Span != "0000000000000002" || found.Hits[0].Name != "shell" || strings.Join(found.Hits[0].Text, "|") != "--- FAIL: |TestTotalWithCoupon|" {
		t.Errorf("%+v %v", found, err)
	}
	s.Add(from("a", span(3, 1, 0, "invoke_agent x", 7, 8), span(3, 2, 1, "execute_tool shell", 7, 8, str(semconv.ToolResult, strings.Repeat("beginning ", 9)+"needle"+strings.Repeat(" continuation", 20)))))
	id, _ = parseTraceID(s.List(Query{Search: "needle", Limit: 9}).Sessions[0].ID)
	found, _, err = s.Hits(t.Context(), id, "needle")
	if got := strings.Join(found.Hits[0].Text, ""); err != nil || !regexp.MustCompile(`^…( beginning)+ needle( continuation)+ …$`).MatchString(strings.Join(strings.Fields(got), " ")) {
		t.Errorf("the excerpt is %q %v", got, err) // of whole words
	}
	if got := l.Sessions[0].Prompt; got != "Fix the Coupon code" {
		t.Errorf("the prompt is %q", got)
	}
}

// matching returns how many sessions a search finds.
func (s testStore) matching(words string) int {
	s.t.Helper()
	return s.List(Query{Search: words, Limit: 9}).Matching
}

// The text of a session comes with many requests, and changes.
func TestSearchFollowsSessions(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 0, 1, str(semconv.ToolResult, "early"))))
	s.Open("other", from("a", span(1, 2, 1, "execute_tool shell", 1, 2, str(semconv.ToolResult, "running"))))
	if s.matching("early running") != 1 || s.matching("failed:yes") != 0 || s.matching("failed:no early") != 1 {
		t.Error("what came with two requests is not found")
	}
	s.Add(from("a", fails(span(1, 2, 1, "execute_tool shell", 1, 2, str(semconv.ToolResult, "finished")))))
	if s.matching("running") != 0 || s.matching("early finished failed:yes") != 1 || s.matching("failed:no") != 0 {
		t.Error("an open span did not end")
	}
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 0, 1, str(semconv.ToolResult, "late"))))
	if s.matching("early") != 0 || s.matching("late finished") != 1 {
		t.Error("a span was not replaced")
	}
	if ok, err := s.Delete(idOf(span(1, 1, 0, "", 0, 0))); !ok || err != nil {
		t.Error(ok, err)
	}
	if n := s.number(`SELECT count(*) FROM search`); n != 0 {
		t.Errorf("%d rows are left in the index", n)
	}
	alone := span(3, 1, 0, "execute_tool shell", 1, 2)
	s.Open("other", from("a", alone))
	if s.matching("tool:shell id:"+idOf(alone).String()) != 1 {
		t.Error("a session without a span that ended is not found")
	}
}

// Many sessions are read in another way than few. Sessions are found in the order of the list.
func TestSearchInManySessions(t *testing.T) {
	s := newStore(t)
	const many = fewRows + 200
	var spans []*tracepb.Span
	for i := range many {
		status := []string{"even", "odd"}[i%2]
		spans = append(spans, span(i+1, 1, 0, "invoke_agent "+status, uint64(i), uint64(i)+1, str(semconv.RequestModel, status)))
	}
	s.adders.Add(1) // nothing is indexed in the background
	s.Add(from("a", spans...))
	if l := s.List(Query{Search: "invoke"}); l.Unindexed != many {
		t.Errorf("%d sessions are said not to be indexed", l.Unindexed)
	}
	s.adders.Add(-1)
	s.ok(s.index(func() bool { return false }))
	for _, tt := range []struct {
		q      Query
		latest int
		want   int
	}{
		{Query{Search: "invoke"}, 0, 0},
		{Query{Search: "agent:a"}, many, many},
		{Query{Search: "agent:a", Offset: 100}, many - 100, many},
		{Query{Search: "agent:a", Model: "odd"}, many, many / 2},
		{Query{Search: "agent:a", Model: "even"}, many - 1, many / 2},
		{Query{Search: "even"}, many - 1, many / 2},
		{Query{Search: "even agent:a", Offset: 1}, many - 3, many / 2},
		{Query{Search: "agent:a failed:yes"}, 0, 0},
		{Query{Search: "agent:a", Sort: "duration", Ascending: true}, 1, many},
	} {
		tt.q.Limit = 5
		l := s.List(tt.q)
		if l.Matching != tt.want || tt.want > 0 && (len(l.Sessions) != 5 || l.Sessions[0].ID != idOf(span(tt.latest, 1, 0, "", 0, 0)).String()) {
			t.Errorf("%+v: %d, %d, first %v", tt.q, l.Matching, len(l.Sessions), l.Sessions)
		}
	}
}

// What is not indexed when a store is closed is indexed by the next search.
func TestSearchIndexesWhatIsLeft(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path)
	s.adders.Add(1) // nothing is indexed in the background
	filler := strings.Repeat("filler ", maxDocument/7+1)
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 0, 1, str("x", "first "+filler)), span(1, 2, 1, "x", 0, 1, str("x", "second "+filler)), span(1, 3, 1, "x", 0, 1, str("x", "third"))))
	s.Add(from("a", span(2, 1, 0, "invoke_agent x", 0, 1, str("x", "fourth"))))
	documents := 0
	s.ok(s.index(func() bool { documents++; return documents > 3 }))
	if left := s.number(`SELECT count(*) FROM unindexed`); left != 2 {
		t.Errorf("%d sessions are left, want 2", left)
	}
	s.Close()
	s = openStore(t, path)
	defer s.Close()
	for _, word := range []string{"first", "second", "third", "fourth"} {
		if n := s.matching(word); n != 1 {
			t.Errorf("%s: %d sessions", word, n)
		}
	}
	if left := s.number(`SELECT count(*) FROM unindexed`); left != 0 {
		t.Errorf("%d sessions are left, want none", left)
	}
}

// Close does not wait until all text is indexed.
func TestCloseEndsIndexing(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path)
	s.adders.Add(1) // nothing is indexed in the background
	const sessions = 20
	filler := strings.Repeat("filler ", maxDocument/7+1)
	for i := range sessions {
		s.Add(from("a", span(i+1, 1, 0, "invoke_agent x", 0, 1, str("x", filler))))
	}
	s.adders.Add(-1)
	for s.number(`SELECT count(*) FROM unindexed`) == sessions {
		<-time.After(time.Millisecond)
	}
	s.Close()
	s = openStore(t, path)
	defer s.Close()
	if s.number(`SELECT count(*) FROM unindexed`) == 0 {
		t.Error("all sessions were indexed first")
	}
}

// If all text is indexed, a list waits for no writer of a file, and writes nothing.
func TestListWaitsForNobody(t *testing.T) {
	s := openStore(t, newPath(t))
	defer s.Close()
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 0, 1)))
	s.ok(s.index(func() bool { return false }))
	s.ok(s.write.transaction(func() error {
		s.ok(s.write.exec(`UPDATE clock SET seq = seq + 1`))
		if n := s.matching("x"); n != 1 {
			t.Errorf("%d sessions", n)
		}
		return nil
	}))
}

func TestListIsSorted(t *testing.T) {
	s := newStore(t)
	for i, length := range []uint64{3, 1, 2} {
		s.Add(from("a", span(i+1, 1, 0, "invoke_agent x", uint64(10-i), uint64(10-i)+length, integer(semconv.InputTokens, int64(10*length)))))
	}
	s.Add(from("a", fails(span(1, 2, 1, "chat m", 10, 11)), fails(span(1, 3, 1, "chat m", 11, 12)), fails(span(3, 2, 1, "execute_tool shell", 8, 9)))) // errors are of tools
	for sort, want := range map[string]string{"": "123", "errors": "321", "duration": "132", "-duration": "231", "input": "132", "nonsense": "123"} {
		got := ""
		for _, session := range s.List(Query{Sort: strings.TrimPrefix(sort, "-"), Ascending: strings.HasPrefix(sort, "-"), Limit: 9}).Sessions {
			got += session.ID[31:]
		}
		if got != want {
			t.Errorf("by %q: %s, want %s", sort, got, want)
		}
	}
}

// Tokens and cost are the root's, or else the sum of the calls.
func TestUsage(t *testing.T) {
	s := newStore(t)
	chat := func(trace, nth int, in int64) *tracepb.Span {
		return span(trace, nth, 1, "chat m", 1, 2, str(semconv.OperationName, "chat"), integer(semconv.InputTokens, in), integer(semconv.CacheReadTokens, 1))
	}
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2, integer(semconv.UsageInput, 100)), chat(1, 2, 60), chat(1, 3, 70)))
	s.Add(from("a", span(2, 1, 0, "invoke_agent x", 0, 2), chat(2, 2, 60), chat(2, 3, 70)))
	l := s.List(Query{Limit: 9})
	if a, b := l.Sessions[0], l.Sessions[1]; a.Input != 100 || b.Input != 130 || b.Cached != 2 || b.Turns != 2 {
		t.Errorf("%+v %+v", a, b)
	}
}

// A sub-agent ends before its session, which was asked something else.
func TestPromptIsTheSessions(t *testing.T) {
	asked := func(text string) string {
		return `[{"role":"user","parts":[{"type":"text","content":"` + text + `"}]}]`
	}
	for name, root := range map[string]*tracepb.Span{
		"":       span(1, 1, 0, "invoke_agent main", 1, 9),
		"Fix it": span(1, 1, 0, "invoke_agent main", 1, 9, str(semconv.InputMessages, asked("Fix it"))),
	} {
		s := newStore(t)
		s.Add(from("a", span(1, 3, 2, "invoke_agent explore", 3, 5, str(semconv.InputMessages, asked("List the callers")))))
		s.Add(from("a", root))
		if got, _ := s.Session(idOf(root)); got.Prompt != name || got.Agent != "main" {
			t.Errorf("%+v, want %q", got, name)
		}
	}
}

// A request may have a span twice, and spans that were stored before: the last one counts.
func TestStoreReplacesWithinRequests(t *testing.T) {
	s := newStore(t)
	var first, second []*tracepb.Span
	for i := range 40 {
		first = append(first, span(1, i+1, 0, fmt.Sprint("first ", i), 0, 1))
		second = append(second, span(1, i%30+21, 0, fmt.Sprint("second ", i), 0, 1))
	}
	s.Add(from("a", first...))
	s.Add(from("a", second...))
	list, _ := s.Spans(idOf(first[0]), 0)
	got := make(map[string]string)
	for _, sp := range list {
		got[sp.GetName()] = string(sp.GetSpanId())
	}
	for i := range 40 {
		_, ok := got[fmt.Sprint("first ", i)]
		_, again := got[fmt.Sprint("second ", i)]
		if ok != (i < 20) || again != (i >= 10) {
			t.Errorf("%d: %v %v", i, ok, again)
		}
	}
	if session, _ := s.Session(idOf(first[0])); len(list) != 50 || session.Spans != 50 {
		t.Errorf("%d spans, %d in the list", len(list), session.Spans)
	}
}

// A run is one session whatever was sent of it: the copy that has most stands for all, in any
// order, and links to the others lead to it.
func TestOneRunIsListedOnce(t *testing.T) {
	copyOf := func(trace int, content string, ended bool) []*tracepb.ResourceSpans {
		attributes := []*commonpb.KeyValue{str(semconv.ConversationID, "c"), number(semconv.UsageCost, 2), str(semconv.RequestModel, "m")}
		root := span(trace, 1, 0, "invoke_agent a", 5, 9, attributes...)
		tool := span(trace, 2, 1, "execute_tool shell", 6, 7, str(semconv.ConversationID, "c"))
		if content != "" {
			tool.Attributes = append(tool.Attributes, str(semconv.ToolResult, "word "+content))
		}
		if !ended {
			return from("a", tool)
		}
		return from("a", tool, root)
	}
	none, details, full := copyOf(1, "", true), copyOf(2, "some", true), copyOf(3, "some more of it", true)
	cut := copyOf(4, strings.Repeat("longest, but without an end ", 10), false)
	for _, order := range [][][]*tracepb.ResourceSpans{{none, details, full}, {full, none, details}, {details, full, none, cut}, {cut, none, full, details, none}} {
		s := newStore(t)
		for _, spans := range order {
			s.Add(spans)
		}
		other := span(9, 1, 0, "invoke_agent a", 6, 9, str(semconv.ConversationID, "c"), number(semconv.UsageCost, 1)) // a later run
		s.Add(from("a", other))
		alone := 0
		if slices.ContainsFunc(order, func(spans []*tracepb.ResourceSpans) bool { return &spans[0] == &cut[0] }) {
			alone = 1 // it might be anybody's
		}
		want := idOf(span(3, 1, 0, "", 0, 0)).String()
		l := s.List(Query{Limit: 10})
		if l.Total != 2+alone || l.Matching != 2+alone || len(l.Sessions) != 2+alone || l.Sessions[len(l.Sessions)-1].ID == "" || l.Spans != 3+alone {
			t.Errorf("%d of %d are listed, with %d spans", len(l.Sessions), l.Total, l.Spans)
		}
		if l := s.List(Query{Limit: 10, Search: "word some"}); l.Matching != 1 || l.Sessions[0].ID != want {
			t.Errorf("found %+v", l.Sessions)
		}
		if r := s.Runs(RunsQuery{}); r.All.Stated != 3 || r.All.StatedRuns != 2 {
			t.Errorf("%v $ of %d runs", r.All.Stated, r.All.StatedRuns)
		}
		for trace := 1; trace <= 3; trace++ {
			id := idOf(span(trace, 1, 0, "", 0, 0))
			if o, found := s.Overview(id, 1); found && (o.Session.ID != want || trace < 3 && len(o.Spans) != 2) {
				t.Errorf("%d leads to %s with %d spans", trace, o.Session.ID, len(o.Spans))
			}
		}
		if found, err := s.Pin(idOf(span(1, 1, 0, "", 0, 0)), true); !found || err != nil {
			t.Error(found, err)
		}
		if session, _ := s.Session(idOf(span(3, 1, 0, "", 0, 0))); !session.Pinned {
			t.Error("the pin of a poorer copy is lost")
		}
		if found, err := s.Delete(idOf(span(3, 1, 0, "", 0, 0))); !found || err != nil {
			t.Error(found, err)
		}
		if l := s.List(Query{}); l.Total != 1+alone {
			t.Errorf("%d sessions are left", l.Total)
		}
	}
}

// Of many copies of a span in a request only the last is stored.
func TestStoreTakesCopiesOnce(t *testing.T) {
	s := newStore(t)
	var copies []*tracepb.Span
	for i := range 10_000 {
		copies = append(copies, span(1, 1, 0, fmt.Sprintf("invoke_agent %d", i), 1, 2))
	}
	if rejected := s.Add(append(from("a", copies...), from("a", &tracepb.Span{}, &tracepb.Span{})...)); rejected != 2 {
		t.Errorf("%d are rejected", rejected)
	}
	if spans, last := s.Spans(idOf(copies[0]), 0); len(spans) != 1 || last != 1 || spans[0].GetName() != "invoke_agent 9999" {
		t.Errorf("%d spans, the last is number %d", len(spans), last)
	}
	if size := s.number(`SELECT sum(length(wire)) FROM batch`); size > 1000 {
		t.Errorf("%d bytes are stored", size)
	}
}

// A request that cannot be added does not fail others at the same time.
func TestStoreAddsAtTheSameTime(t *testing.T) {
	s := newStore(t)
	_, err := s.write.conn.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON origin WHEN instr(new.wire, 'bad') BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	s.ok(err)
	services := []string{"a", "b", "bad", "c", "d"}
	errs := make([]error, len(services))
	var adding sync.WaitGroup
	for i, service := range services {
		request := encode(t, from(service, span(i+1, 1, 0, "invoke_agent x", 0, 1)))
		adding.Go(func() { _, errs[i] = s.Store.Add(request) })
	}
	adding.Wait()
	for i, service := range services {
		if (errs[i] != nil) != (service == "bad") {
			t.Errorf("%s: %v", service, errs[i])
		}
	}
	if l := s.List(Query{Limit: 10}); l.Total != 4 {
		t.Errorf("%d sessions", l.Total)
	}
}

// Few failed sessions are sorted as many are.
func TestListSortsFailed(t *testing.T) {
	s := newStore(t)
	for i, length := range []uint64{3, 1, 2} {
		s.Add(from("a", fails(span(i+1, 1, 0, "invoke_agent x", uint64(10-i), uint64(10-i)+length))))
	}
	s.Add(from("a", span(4, 1, 0, "invoke_agent x", 50, 60)))
	s.Add(from("a", fails(span(1, 2, 1, "chat m", 10, 11)), fails(span(1, 3, 1, "chat m", 11, 12)), fails(span(3, 2, 1, "execute_tool shell", 8, 9)))) // errors are of tools
	for sort, want := range map[string]string{"": "123", "errors": "321", "duration": "132"} {
		l, got := s.List(Query{Failed: true, Sort: sort, Limit: 9}), ""
		for _, session := range l.Sessions {
			got += session.ID[31:]
		}
		if got != want || l.Matching != 3 {
			t.Errorf("by %q: %s of %d, want %s", sort, got, l.Matching, want)
		}
	}
}

// A list that is asked for again has only what changed, and where everything is.
func TestListTellsWhatChanged(t *testing.T) {
	s := newStore(t)
	for n := range 3 {
		s.Add(from("a", span(n+1, 1, 0, "x", uint64(n), uint64(n)+1)))
	}
	id := func(n int) string { return idOf(span(n, 1, 0, "", 0, 0)).String() }
	ids := func(sessions []Session) (list []string) {
		for _, session := range sessions {
			list = append(list, session.ID)
		}
		return list
	}
	all := s.List(Query{Limit: 2})
	if !slices.Equal(all.Order, []string{id(3), id(2)}) || !slices.Equal(ids(all.Sessions), all.Order) {
		t.Errorf("%v, and %v in full", all.Order, ids(all.Sessions))
	}
	for _, change := range []struct {
		name        string
		do          func()
		order, full []string
	}{
		{"nothing", func() {}, all.Order, nil},
		{"a span", func() { s.Add(from("a", span(2, 2, 1, "y", 1, 2))) }, all.Order, []string{id(2)}},
		{"an open span", func() { s.Open("p", from("a", span(3, 3, 1, "z", 2, 3))) }, all.Order, []string{id(3)}},
		{"a pin", func() { _, err := s.Pin(idOf(span(3, 1, 0, "", 0, 0)), true); s.ok(err) }, all.Order, []string{id(3)}},
		{"elsewhere", func() { s.Add(from("a", span(1, 2, 1, "y", 0, 1))) }, all.Order, nil},
		{"a new one", func() { s.Add(from("a", span(4, 1, 0, "x", 9, 10))) }, []string{id(4), id(3)}, []string{id(4)}},
		{"one that goes", func() { _, err := s.Delete(idOf(span(4, 1, 0, "", 0, 0))); s.ok(err) }, []string{id(3), id(2)}, nil},
	} {
		change.do()
		l := s.List(Query{Limit: 2, After: all.Seq})
		if !slices.Equal(l.Order, change.order) || !slices.Equal(ids(l.Sessions), change.full) {
			t.Errorf("%s: %v, want %v; %v in full, want %v", change.name, l.Order, change.order, ids(l.Sessions), change.full)
		}
		all = l
	}
}

// Traces that all look like one run are no copies, and cost no more than others.
func TestTooManyCopies(t *testing.T) {
	s := newStore(t)
	const traces = 2000
	for i := range traces {
		s.Add(from("a", span(i+1, 1, 0, "invoke_agent a", 1, 9, str("gen_ai.conversation.id", "c"), str("gen_ai.agent.name", "a"))))
	}
	if l := s.List(Query{Limit: 9}); l.Total < traces-maxCopies {
		t.Errorf("%d sessions", l.Total)
	}
}
