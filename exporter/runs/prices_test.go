package runs

import (
	"math"
	"strings"
	"testing"
)

func TestPrices(t *testing.T) {
	p, err := ReadPrices(strings.NewReader(`{
		"sample_spec": {"input_cost_per_token": "a number", "mode": "one of chat, embedding"},
		"m": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_read_input_token_cost": 3e-07, "litellm_provider": "x"},
		"image": {"output_cost_per_image": 0.04}
	}`))
	if err != nil || len(p) != 1 || p["m"].Input != 3e-6 || p["m"].Output != 1.5e-5 || *p["m"].CacheRead != 3e-7 || p["m"].CacheWrite != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for _, tt := range []struct {
		model string
		usage Usage
		want  float64
		known bool
	}{
		{"m", Usage{InputTokens: 1000, OutputTokens: 100}, 0.0045, true},
		{"m", Usage{InputTokens: 1000, OutputTokens: 100, CacheReadTokens: 800, CacheWriteTokens: 100}, 0.00234, true},
		{"m", Usage{InputTokens: 10, CacheReadTokens: 20}, 6e-6, true}, // of a sender that counts them apart
		{"m", Usage{}, 0, false},
		{"M", Usage{InputTokens: 1000}, 0, false},
	} {
		if cost, known := p.Cost(tt.model, tt.usage); math.Abs(cost-tt.want) > 1e-12 || known != tt.known {
			t.Errorf("%s %+v: %v, %v", tt.model, tt.usage, cost, known)
		}
	}
	for _, text := range []string{"", "[]", "{}", `{"m": {}}`, `{"m": 1}`} {
		if p, err := ReadPrices(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}
