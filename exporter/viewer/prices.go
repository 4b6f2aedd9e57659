package viewer

import (
	"encoding/json"
	"errors"
	"io"
)

// Prices are what models cost, by their names.
type Prices map[string]Price

// A Price is what a model's tokens cost, in US dollars each. Its names in JSON are those of
// LiteLLM's model_prices_and_context_window.json.
type Price struct {
	Input      float64  `json:"input_cost_per_token"`
	Output     float64  `json:"output_cost_per_token"`
	CacheRead  *float64 `json:"cache_read_input_token_cost,omitempty"`     // Input if it is missing
	CacheWrite *float64 `json:"cache_creation_input_token_cost,omitempty"` // the same
}

// ReadPrices reads a file in LiteLLM's format. Models that are not priced by tokens are
// left out.
func ReadPrices(r io.Reader) (Prices, error) {
	var models map[string]json.RawMessage
	if err := json.NewDecoder(r).Decode(&models); err != nil {
		return nil, err
	}
	prices := make(Prices)
	for name, model := range models {
		var p Price
		if json.Unmarshal(model, &p) == nil && (p.Input > 0 || p.Output > 0) { // sample_spec has text in place of prices
			prices[name] = p
		}
	}
	if len(prices) == 0 {
		return nil, errors.New("no model has an input_cost_per_token or output_cost_per_token")
	}
	return prices, nil
}

// of returns the prices of those models that have one.
func (p Prices) of(models []string) Prices {
	found := make(Prices)
	for _, m := range models {
		if price, ok := p[m]; ok {
			found[m] = price
		}
	}
	return found
}
