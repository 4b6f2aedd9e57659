package viewer

import (
	"encoding/json"
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

// The sums and quantiles are those of the sessions themselves, however many there are.
func TestRunsAreCounted(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(1, 2))
	var durations, calls []float64
	var input, tools, failed int64
	var spans []*tracepb.Span
	const many = 25_000
	longest := 0
	for i := range many {
		took := random.Uint64N(1e6) + 1
		root := span(i+1, 1, 0, "invoke_agent "+[]string{"a", "b"}[i%2], uint64(i), uint64(i)+took, integer(semconv.InputTokens, int64(i)))
		spans = append(spans, root)
		durations = append(durations, float64(took)*1e6)
		if durations[i] > durations[longest] {
			longest = i
		}
		input += int64(i)
		if i%3 == 0 {
			length := random.Uint64N(took)
			tool := span(i+1, 2, 1, "execute_tool shell", uint64(i), uint64(i)+length)
			if i%2 == 0 {
				fails(tool)
				failed++
			}
			spans = append(spans, tool)
			calls = append(calls, float64(length)*1e6)
			tools++
		}
	}
	s.Add(from("x", spans...))
	r := s.Runs(RunsQuery{By: "agent"})
	rank := func(values []float64, q float64) float64 {
		slices.Sort(values)
		return values[max(0, int(float64(len(values))*q+0.999999)-1)]
	}
	near := func(name string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got < want*0.999999 || *got > want*1.000001 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if r.All.Runs != many || r.All.Input != input || r.All.Tools != tools || r.All.ToolErrors != failed || len(r.Groups) != 2 || r.Groups[0].Runs+r.Groups[1].Runs != many {
		t.Errorf("%+v, %d groups", r.All, len(r.Groups))
	}
	if r.Peaks[0].Title != "Slowest" || r.Peaks[0].Session.ID != idOf(span(longest+1, 1, 0, "", 0, 0)).String() {
		t.Errorf("%+v, want %d", r.Peaks[0], longest)
	}
	near("p50", r.All.DurationP50, rank(durations, 0.5))
	near("p95", r.All.DurationP95, rank(durations, 0.95))
	near("tool p50", r.All.ToolP50, rank(calls, 0.5))
	near("shell p95", r.Tools[0].P95, rank(calls, 0.95))
	if r.All.FirstP50 != nil || len(r.Tools) != 1 || r.Tools[0].Calls != int(tools) || r.Tools[0].Failed != int(failed) {
		t.Errorf("%v, %+v", r.All.FirstP50, r.Tools)
	}
	sum := 0
	for _, d := range r.Days {
		sum += d.Runs
	}
	if sum != many {
		t.Errorf("%d runs on %d days", sum, len(r.Days))
	}
}

func TestQuantiles(t *testing.T) {
	for range 2000 {
		values := make([]float32, 1+rand.IntN(60))
		for i := range values {
			values[i] = float32(rand.IntN(10))
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
	if p := r.Peaks[1]; p.Title != "Most expensive" || p.Value != 5 || !p.Computed {
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
