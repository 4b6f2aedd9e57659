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
	for _, price := range []string{"0", "1", "1e-999", "null", `"text"`, "[]"} {
		text := `{"m": {"input_cost_per_token": 0.5, "cache_read_input_token_cost": ` + price + `}, "n": {"input_cost_per_token": 1}}`
		if _, err := ReadPrices(strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", price, err)
		}
	}
	for _, name := range append(priceNames, "Input_Cost_Per_Token") {
		for _, price := range []string{"1e308", "1e999", "-1e999", "-5", "-1e-9", "1.01", "2", "100000000000000000000000000000000000"} {
			text := `{"a": {"input_cost_per_token": 0.5}, "name of a model": {"output_cost_per_token": 0.1, "` + name + `": ` + price + `}}`
			if _, err := ReadPrices(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "name of a model") {
				t.Errorf("%s %s: %v", name, price, err)
			}
		}
	}
	const valid = `{"m": {"input_cost_per_token": 0.5}}`
	for _, text := range []string{"", "[]", "{}", `{"m": {}}`, `{"m": 1}`, valid + "x", valid + valid, valid + "\n]", valid + " null", "\x00" + valid, valid[1:], `{"m": {"input_cost_per_token": NaN}}`, `{"m": {"input_cost_per_token": Infinity}}`} {
		if p, err := ReadPrices(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}
