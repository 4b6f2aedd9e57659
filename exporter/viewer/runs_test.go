package viewer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// Runs are selected like sessions of the list, and are those that ended.
func TestRunsAreSelected(t *testing.T) {
	s := newStore(t)
	failing := fails(span(1, 3, 1, "execute_tool read", 1, 2, str(semconv.ToolName, "read")))
	s.Add(from("a", span(1, 1, 0, "invoke_agent a", 1, 2, str(semconv.AgentName, "a"), str(semconv.RequestModel, "m"), str(semconv.ProcessWorkingDirectory, "/x")),
		span(1, 2, 1, "execute_tool shell", 1, 2, str(semconv.ToolName, "shell"), str(semconv.ProcessCommandLine, "go test")), failing))
	s.Add(from("b", fails(span(2, 1, 0, "invoke_agent b", 3, 4, str(semconv.AgentName, "b"), str(semconv.ErrorType, "timeout")))))
	s.Open("source", from("c", span(3, 1, 0, "invoke_agent c", 5, 6, str(semconv.AgentName, "c"))))
	s.Add(from("d", span(4, 1, 0, TestSpan, 3, 4)))
	day := "day:" + time.Unix(1, 0).Format(time.DateOnly)
	for _, tt := range []struct {
		query Query
		only  string
		want  string
	}{
		{Query{}, "", "a b"},
		{Query{Agent: "a"}, "", "a"},
		{Query{Model: "m"}, "", "a"},
		{Query{Folder: "/x"}, "", "a"},
		{Query{Failed: true}, "", "a b"},
		{Query{Since: 3e6}, "", "b"},
		{Query{Search: "test"}, "", "a"},
		{Query{Search: "failed:yes"}, "", "a b"},
		{Query{Search: "nothing"}, "", ""},
		{Query{Agent: "b", Failed: true}, "", "b"},
		{Query{}, "agent:a", "a"},
		{Query{}, "model:m", "a"},
		{Query{}, "model:unknown", "b"},
		{Query{}, "folder:/x", "a"},
		{Query{}, "tool:shell", "a"},
		{Query{}, "failing tool:shell", ""},
		{Query{}, "failing tool:read", "a"},
		{Query{}, "error:timeout", "b"},
		{Query{}, day, "a b"},
		{Query{}, "day:2026-01-01", ""},
		{Query{}, "no such:thing", ""},
	} {
		q := RunsQuery{Query: tt.query, By: "agent"}
		if tt.only != "" {
			q.Only = []string{tt.only}
		}
		var got []string
		r := s.Runs(q)
		for _, g := range r.Groups {
			got = append(got, g.Name)
		}
		if strings.Join(got, " ") != tt.want || r.All.Runs != len(got) {
			t.Errorf("%+v: %q of %d, want %q", tt, got, r.All.Runs, tt.want)
		}
	}
	if r := s.Runs(RunsQuery{By: "day", Only: []string{"day:2026-01-01", "agent:a"}}); len(r.Days) != 1 || r.Days[0].Runs != 1 || r.All.Runs != 0 {
		t.Errorf("days %+v, all %+v", r.Days, r.All)
	}
}

// Runs of one day are told one by one. Tools of the same name are told apart by their agents.
func TestRunsOfOneDay(t *testing.T) {
	s := newStore(t)
	const day = 24 * 3600
	agent := func(trace int, name string, start, end uint64) {
		s.Add(from(name, span(trace, 1, 0, "invoke_agent "+name, start, end, str(semconv.AgentName, name), str(semconv.InputMessages, `[{"role":"user","parts":[{"type":"text","content":"fix `+name+`"}]}]`)),
			span(trace, 2, 1, "execute_tool shell", start, start+1, str(semconv.ToolName, "shell"))))
	}
	agent(1, "a", 10*day, 10*day+5)
	agent(2, "b", 10*day+60, 10*day+62)
	r := s.Runs(RunsQuery{})
	if len(r.Each) != 2 || *r.Each[0].DurationP50 != 5e6 || r.Each[1].Session.Prompt != "fix b" || r.Each[1].Tools != 1 {
		t.Errorf("%+v", r.Each)
	}
	if len(r.Tools) != 2 || r.Tools[0].Agent != "a" || r.Tools[1].Agent != "b" || r.Tools[0].Name != "shell" || r.Tools[1].Name != "shell" {
		t.Errorf("%+v", r.Tools)
	}
	agent(3, "a", 12*day, 12*day+1)
	if r := s.Runs(RunsQuery{}); len(r.Each) != 0 || len(r.Days) != 2 || len(r.Tools) != 2 || r.Tools[0].Calls+r.Tools[1].Calls != 3 {
		t.Errorf("%+v", r)
	}
	for i := range maxEach + 5 {
		agent(10+i, "a", 12*day+60+uint64(i), 12*day+70+uint64(i))
	}
	if r := s.Runs(RunsQuery{Query: Query{Since: 11 * day * 1e6}}); len(r.Each) != maxEach || r.Each[maxEach-1].Session.Start != (12*day+60+maxEach+4)*1e6 {
		t.Errorf("%d runs", len(r.Each))
	}
}

// madeRun is a run as TestRunsAreCounted makes it.
type madeRun struct {
	conversation, agent, model, word, tool string
	start, took                            uint64 // seconds
	calls, toolErrors                      int
	failed, timeless, stated, known        bool // known: its tokens are
}

func (m madeRun) spans(n int) []*tracepb.Span {
	root := span(n, 1, 0, "invoke_agent "+m.agent, m.start, m.start+m.took, str(semconv.RequestModel, m.model), str(semconv.InputMessages, m.word), str(semconv.ConversationID, m.conversation))
	if m.known {
		root.Attributes = append(root.Attributes, integer(semconv.InputTokens, 3))
	}
	if m.stated {
		root.Attributes = append(root.Attributes, number(semconv.UsageCost, 0.5))
	}
	if m.failed {
		fails(root)
	}
	list := []*tracepb.Span{root}
	for i := range m.calls {
		call := span(n, i+2, 1, "execute_tool "+m.tool, m.start, m.start+m.took*uint64(i)/4)
		if i < m.toolErrors {
			fails(call)
		}
		list = append(list, call)
	}
	return list
}

// naive are the measures of runs, as the list of all of them gives them.
func naive(name string, list []madeRun) *Measures {
	m := &Measures{Name: name, Runs: len(list)}
	var durations, calls []float64
	for _, r := range list {
		m.Tools += int64(r.calls)
		m.ToolErrors += int64(r.toolErrors)
		if r.failed {
			m.Failed++
		}
		if r.known {
			m.Input += 3
		}
		if r.stated {
			m.Stated += 0.5
			m.StatedRuns++
		} else if r.known && r.model == "m" {
			m.Computed += 6
			m.ComputedRuns++
		}
		if r.timeless {
			m.Timeless++
			continue
		}
		durations = append(durations, float64(r.took)*1e6)
		for i := range r.calls {
			calls = append(calls, float64(r.took*uint64(i)/4)*1e6)
		}
	}
	rank := func(values []float64, percent int) *float64 {
		if len(values) == 0 {
			return nil
		}
		slices.Sort(values)
		return &values[(len(values)*percent+99)/100-1]
	}
	m.DurationP50, m.DurationP95, m.ToolP50, m.ToolP95 = rank(durations, 50), rank(durations, 95), rank(calls, 50), rank(calls, 95)
	return m
}

// Sums and quantiles are those of the runs themselves, however many there are and whatever narrows
// them.
func TestRunsAreCounted(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(1, 2))
	of := func(names ...string) string { return names[random.IntN(len(names))] }
	const day = 24 * 3600
	many := 25_000
	if testing.Short() {
		many = 2500
	}
	var made []madeRun
	var spans []*tracepb.Span
	for i := range many {
		m := madeRun{
			conversation: fmt.Sprint(i), agent: of("a", "b"), model: of("m", "n"), word: of("alpha", "beta"), tool: of("shell", "read"), start: day + random.Uint64N(3*day), took: 4 * (1 + random.Uint64N(1000)),
			failed: random.IntN(5) == 0, stated: random.IntN(3) == 0, known: random.IntN(2) == 0,
		}
		if i%3 == 0 {
			m.calls = random.IntN(4)
			m.toolErrors = random.IntN(m.calls + 1)
		}
		if m.timeless = random.IntN(50) == 0; m.timeless {
			m.took, m.calls, m.toolErrors = 0, 3, 0
		}
		made, spans = append(made, m), append(spans, m.spans(i+1)...)
		if i%7 == 0 { // it is sent without content, too
			m.calls, m.word = 0, ""
			spans = append(spans, m.spans(many+1+i)...)
		}
	}
	random.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	for part := range slices.Chunk(spans, len(spans)/7) { // so that many runs come in parts
		s.Add(from("x", part...))
	}
	for i := 0; i < many; i += 100 {
		if _, err := s.Delete(idOf(span(i+1, 1, 0, "", 0, 0))); err != nil {
			t.Fatal(err)
		}
	}
	s.ok(s.index(func() bool { return false }))

	dayOf := func(m madeRun) string { return time.Unix(int64(m.start), 0).Format(time.DateOnly) }
	by := map[string]func(madeRun) string{"day": dayOf, "agent": func(m madeRun) string { return m.agent }, "model": func(m madeRun) string { return m.model }}
	for _, q := range []RunsQuery{
		{By: "day"},
		{By: "agent"},
		{By: "model", Query: Query{Agent: "a"}},
		{By: "agent", Query: Query{Model: "n", Failed: true}},
		{By: "day", Query: Query{Since: 2 * day * 1e6}},
		{By: "agent", Query: Query{Search: "alpha"}},
		{By: "day", Query: Query{Search: "beta failed:no", Agent: "b"}},
		{By: "agent", Query: Query{Search: "failed:yes"}},
		{By: "agent", Only: []string{"tool:shell"}},
		{By: "day", Only: []string{"failing tool:read", "model:m"}},
		{By: "agent", Query: Query{Running: true}},
		{By: "day", Query: Query{Search: "gamma"}},
	} {
		q.Prices = runs.Prices{"m": runs.Price{Input: 2}}
		groups := make(map[string][]madeRun)
		var all []madeRun
		for i, m := range made {
			failed := m.failed || m.toolErrors > 0
			if i%100 == 0 || q.Running || q.Agent != "" && m.agent != q.Agent || q.Model != "" && m.model != q.Model || q.Failed && !failed || int64(m.start)*1e6 < q.Since ||
				strings.Contains(q.Search, "failed:no") && failed || strings.Contains(q.Search, "failed:yes") && !failed || q.Search != "" && !strings.HasPrefix(q.Search, m.word) && q.Search != "failed:yes" ||
				slices.Contains(q.Only, "tool:shell") && (m.calls == 0 || m.tool != "shell") || slices.Contains(q.Only, "failing tool:read") && (m.toolErrors == 0 || m.tool != "read") || slices.Contains(q.Only, "model:m") && m.model != "m" {
				continue
			}
			all, groups[by[q.By](m)] = append(all, m), append(groups[by[q.By](m)], m)
		}
		want := Runs{All: naive("", all), Groups: []*Measures{}}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			want.Groups = append(want.Groups, naive(name, groups[name]))
		}
		got := s.Runs(q)
		a, _ := json.Marshal(Runs{All: got.All, Groups: got.Groups})
		if b, _ := json.Marshal(want); string(a) != string(b) {
			t.Errorf("%+v:\n%s\nwant\n%s", q, a, b)
		}
		calls, longest := 0, uint64(0)
		for _, tool := range got.Tools {
			calls += tool.Calls
		}
		for _, m := range all {
			longest = max(longest, m.took)
		}
		if calls != int(want.All.Tools) || longest > 0 && (got.Peaks[0].Title != "Slowest" || *got.Peaks[0].DurationP50 != float64(longest)*1e6 || got.Peaks[0].Session.End-got.Peaks[0].Session.Start != int64(longest)*1e6) {
			t.Errorf("%+v: %d calls, %+v", q, calls, got.Peaks)
		}
	}
}

func TestQuantiles(t *testing.T) {
	for range 2000 {
		values := make([]float32, 1+rand.IntN(60))
		for i := range values {
			values[i] = float32(rand.IntN(10))
			if rand.IntN(2) == 0 {
				values[i] = rand.Float32() * 1e9
			}
		}
		sorted := slices.Sorted(slices.Values(values))
		if p50, p95 := quantiles(values); *p50 != float64(sorted[(len(values)+1)/2-1]) || *p95 != float64(sorted[(len(values)*95+99)/100-1]) {
			t.Fatalf("%v and %v of %v", *p50, *p95, sorted)
		}
	}
	if p50, p95 := quantiles(nil); p50 != nil || p95 != nil {
		t.Error("quantiles of nothing")
	}
}

// What a run costs is stated, which may be nothing, or computed, or not known. The sums are
// apart.
func TestRunsTellCostsApart(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent a", 1, 2, integer(semconv.InputTokens, 5), str(semconv.RequestModel, "unknown"))))
	s.Add(from("a", span(2, 1, 0, "invoke_agent a", 3, 4, integer(semconv.UsageCost, 0))))
	s.Add(from("a", span(3, 1, 0, "invoke_agent a", 3, 4, integer(semconv.UsageCost, 2), integer(semconv.InputTokens, 5), str(semconv.RequestModel, "m"))))
	s.Add(from("a", span(4, 1, 0, "invoke_agent a", 3, 4, integer(semconv.InputTokens, 5), str(semconv.RequestModel, "m"))))
	prices := runs.Prices{"m": runs.Price{Input: 1}}
	r := s.Runs(RunsQuery{By: "day", Prices: prices})
	for _, m := range []*Measures{r.All, r.Groups[0], r.Days[0]} {
		if m.Stated != 2 || m.StatedRuns != 2 || m.Computed != 5 || m.ComputedRuns != 1 {
			t.Errorf("%+v", m)
		}
	}
	if p := r.Peaks[1]; p.Title != "Most expensive" || p.Computed != 5 || p.ComputedRuns != 1 {
		t.Errorf("%+v", p)
	}
}

// Of a run whose times are not known nothing is said of times.
func TestRunsWithoutTimes(t *testing.T) {
	s := newStore(t)
	if b, err := json.Marshal(s.Runs(RunsQuery{})); err != nil || strings.Contains(string(b), `s":null`) {
		t.Errorf("a list is missing: %s %v", b, err)
	}
	var timeless []*tracepb.Span
	for i := range 4 {
		name, parent := "execute_tool shell", 1
		if i == 0 {
			name, parent = "invoke_agent a", 0
		}
		sp := span(1, i+1, parent, name, 5, 5)
		sp.EndTimeUnixNano += uint64(i+1) * 1000
		timeless = append(timeless, sp)
	}
	s.Add(from("a", timeless...))
	if r := s.Runs(RunsQuery{}); r.All.Timeless != 1 || r.All.DurationP50 != nil || r.All.ToolP50 != nil || r.Tools[0].P50 != nil || r.Tools[0].Calls != 3 || len(r.Peaks) != 0 {
		t.Errorf("%+v, %+v, %+v", r.All, r.Tools[0], r.Peaks)
	}
	s.Add(from("a", span(2, 1, 0, "invoke_agent a", 5, 15)))
	r := s.Runs(RunsQuery{})
	if r.All.Runs != 2 || *r.All.DurationP50 != 10e6 || len(r.Peaks) != 1 {
		t.Errorf("%+v, %+v", r.All, r.Peaks)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"toolP50":null`) {
		t.Errorf("%s %v", b, err)
	}
}
