package viewer

import (
	"slices"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/semconv"
)

// Runs are selected like sessions of the list, and are those that ended.
func TestRunsAreSelected(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent a", 1, 2, str(semconv.AgentName, "a"), str(semconv.RequestModel, "m")),
		span(1, 2, 1, "execute_tool shell", 1, 2, str(semconv.ToolName, "shell"), str(semconv.ProcessCommandLine, "go test"))))
	s.Add(from("b", fails(span(2, 1, 0, "invoke_agent b", 3, 4, str(semconv.AgentName, "b"), str(semconv.ErrorType, "timeout")))))
	s.Open("source", from("c", span(3, 1, 0, "invoke_agent c", 5, 6, str(semconv.AgentName, "c"))))
	for _, tt := range []struct {
		query Query
		want  string
	}{
		{Query{}, "b a"},
		{Query{Agent: "a"}, "a"},
		{Query{Model: "m"}, "a"},
		{Query{Failed: true}, "b"},
		{Query{Since: 3e6}, "b"},
		{Query{Search: "test"}, "a"},
		{Query{Search: "failed:yes"}, "b"},
		{Query{Search: "nothing"}, ""},
		{Query{Agent: "a", Failed: true}, ""},
	} {
		var got []string
		for _, r := range s.Runs(tt.query) {
			got = append(got, r.Agent)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: %q, want %q", tt.query, got, tt.want)
		}
	}
}

func TestPrices(t *testing.T) {
	p, err := ReadPrices(strings.NewReader(`{
		"sample_spec": {"input_cost_per_token": "a number", "mode": "one of chat, embedding"},
		"m": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_read_input_token_cost": 3e-07, "litellm_provider": "x"},
		"image": {"output_cost_per_image": 0.04}
	}`))
	if err != nil || len(p) != 1 || p["m"].Input != 3e-6 || p["m"].Output != 1.5e-5 || *p["m"].CacheRead != 3e-7 || p["m"].CacheWrite != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if found := p.of([]string{"M", "m", "other"}); len(found) != 1 || found["m"].Input == 0 {
		t.Errorf("%+v", found)
	}
	for _, text := range []string{"", "[]", "{}", `{"m": {}}`, `{"m": 1}`} {
		if p, err := ReadPrices(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

// A run says whether its cost is stated: it may be nothing.
func TestRunsStateTheirCost(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent a", 1, 2, integer(semconv.InputTokens, 5))))
	s.Add(from("a", span(2, 1, 0, "invoke_agent a", 3, 4, integer(semconv.UsageCost, 0))))
	stated := []bool{}
	for _, r := range s.Runs(Query{}) {
		stated = append(stated, r.CostStated)
	}
	if !slices.Contains(stated, true) || !slices.Contains(stated, false) {
		t.Errorf("%v", stated)
	}
}
