package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
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
	in := json.NewDecoder(r)
	if err := in.Decode(&models); err != nil {
		return nil, err
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, errors.New("there is text after the JSON object")
	}
	prices := make(Prices)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		var stated map[string]json.RawMessage
		if json.Unmarshal(models[name], &stated) != nil {
			continue
		}
		if err := checkPrices(stated); err != nil {
			return nil, fmt.Errorf("model %q: %w", name, err)
		}
		var p Price
		if json.Unmarshal(models[name], &p) == nil && (p.Input > 0 || p.Output > 0) { // sample_spec has text in place of prices
			prices[name] = p
		}
	}
	if len(prices) == 0 {
		return nil, errors.New("no model has an input_cost_per_token or output_cost_per_token")
	}
	return prices, nil
}

// maxPrice is more than any model's token costs, in US dollars.
const maxPrice = 1

var priceNames = []string{"input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost"}

// checkPrices returns an error for a price that no token has.
func checkPrices(stated map[string]json.RawMessage) error {
	for name, value := range stated {
		var number json.Number
		isPrice := func(price string) bool { return strings.EqualFold(price, name) }                            // as encoding/json compares
		if !slices.ContainsFunc(priceNames, isPrice) || json.Unmarshal(value, &number) != nil || number == "" { // text, or null
			continue
		}
		price, err := number.Float64()
		if err != nil || price < 0 || price > maxPrice {
			return fmt.Errorf("%s is %.20s (want 0 to %d USD)", name, number, maxPrice)
		}
	}
	return nil
}

// Cost returns what a model's tokens cost, in US dollars. It is not known of a model without a
// price, and of a run that does not state its tokens.
func (p Prices) Cost(model string, u Usage) (cost float64, known bool) {
	price, known := p[model]
	if !known || u.InputTokens == 0 && u.OutputTokens == 0 {
		return 0, false
	}
	each := func(special *float64) float64 {
		if special != nil {
			return *special
		}
		return price.Input
	}
	plain := max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return float64(plain)*price.Input + float64(u.CacheReadTokens)*each(price.CacheRead) +
		float64(u.CacheWriteTokens)*each(price.CacheWrite) + float64(u.OutputTokens)*price.Output, true
}

// Compute adds the cost of a run that states none, and of each of its models. model is that
// of tokens that the agent does not state by model. It returns the models without a price:
// their cost counts as 0, and the run's is then not known.
func (p Prices) Compute(model string, used *Usage, models []Model) (missing []string) {
	rest, known, total := *used, true, Usage{}
	price := func(model string, u Usage) (cost float64, ok bool) {
		if u.InputTokens == 0 && u.OutputTokens == 0 {
			return 0, false
		}
		if cost, ok = p.Cost(model, u); ok {
			total.Add(Usage{Cost: cost, CostKnown: true})
		} else {
			missing, known = append(missing, model), false
		}
		return cost, ok
	}
	for i := range models {
		m := &models[i]
		rest.InputTokens -= m.InputTokens
		rest.OutputTokens -= m.OutputTokens
		rest.CacheReadTokens -= m.CacheReadTokens
		rest.CacheWriteTokens -= m.CacheWriteTokens
		if m.CostKnown {
			total.Add(Usage{Cost: m.Cost, CostKnown: true})
		} else {
			m.Cost, m.CostKnown = price(m.Model, m.Usage)
		}
	}
	_, _ = price(model, Usage{
		InputTokens: max(0, rest.InputTokens), OutputTokens: max(0, rest.OutputTokens),
		CacheReadTokens: max(0, rest.CacheReadTokens), CacheWriteTokens: max(0, rest.CacheWriteTokens),
	})
	used.Cost, used.CostKnown = total.Cost, total.CostKnown && known
	return missing
}
