// Package condition evaluates conditions over receipts, such as
// "cost > 2 or not succeeded".
package condition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/spantee/spantee/exporter/receipt"
)

// A Condition is a Starlark expression over the fields of a receipt.
type Condition struct {
	expr syntax.Expr
	uses map[string]bool // names in the expression
}

// maxSteps is far more than an expression over the longest receipt takes.
const maxSteps = 10_000_000

// Parse returns an error for whatever can be wrong with a condition before there is a
// receipt.
func Parse(text string) (*Condition, error) {
	c := &Condition{uses: map[string]bool{}}
	var err error
	if c.expr, err = new(syntax.FileOptions).ParseExpr("", text, 0); err != nil {
		return nil, plain(err)
	}
	syntax.Walk(c.expr, func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Ident); ok {
			c.uses[name.Name] = true
		}
		return true
	})
	totals := receipt.Totals{Counts: receipt.Counts{Failures: map[string]int{}, LimitsReached: []string{"max-tools"}}}
	sample, err := json.Marshal(receipt.Receipt{
		Totals: totals, Runs: []receipt.Run{{Totals: totals, Models: []receipt.Model{{}}, Subagents: []receipt.Subagent{{}}}},
	})
	if err != nil {
		return nil, err
	}
	// With one of these, each part of an expression is evaluated, whatever stands before an
	// "and" or an "or".
	for _, number := range []string{":1", ":1000000000"} {
		for _, yes := range []string{":false", ":true"} {
			document := strings.NewReplacer(":0", number, ":false", yes).Replace(string(sample))
			if _, err := c.holds([]byte(document)); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// Holds reports whether the condition is true.
func (c *Condition) Holds(r *receipt.Receipt) (bool, error) {
	document, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	return c.holds(document)
}

// holds evaluates the condition over a receipt in JSON.
func (c *Condition) holds(document []byte) (bool, error) {
	fields, err := fieldsOf(document)
	if err != nil {
		return false, err
	}
	thread := &starlark.Thread{Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(maxSteps)
	value, err := starlark.EvalExprOptions(new(syntax.FileOptions), thread, c.expr, fields)
	if err != nil {
		return false, plain(err)
	}
	holds, ok := value.(starlark.Bool)
	if !ok {
		return false, fmt.Errorf("its value is of type %s, not bool", value.Type())
	}
	return bool(holds), nil
}

// Unstated returns what the condition uses although no agent stated it, "" if nothing.
func (c *Condition) Unstated(r *receipt.Receipt) string {
	switch {
	case c.uses["cost"] && !c.uses["cost_known"] && !r.CostKnown:
		return "cost"
	case !r.TokensKnown && !c.uses["tokens_known"]:
		for _, name := range []string{"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"} {
			if c.uses[name] {
				return name
			}
		}
	}
	return ""
}

// plain returns an error of Starlark without its position: a condition is one line.
func plain(err error) error {
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return errors.New(e.Msg)
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok {
		return errors.New(list[0].Msg)
	}
	return err
}

// fieldsOf returns the fields of a receipt in JSON.
func fieldsOf(document []byte) (starlark.StringDict, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		return nil, err
	}
	fields := starlark.StringDict{"start": starlark.String(""), "end": starlark.String("")} // absent without a run
	for name, v := range members {
		fields[name] = starlarkValue(name, v)
	}
	return fields, nil
}

// starlarkValue returns a JSON value. Objects have their members as fields, but failures
// is a dict, whose keys are any text.
func starlarkValue(name string, v any) starlark.Value {
	switch v := v.(type) {
	case bool:
		return starlark.Bool(v)
	case string:
		return starlark.String(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return starlark.MakeInt64(n)
		}
		f, _ := v.Float64() // it was a float64
		return starlark.Float(f)
	case []any:
		list := make([]starlark.Value, len(v))
		for i := range v {
			list[i] = starlarkValue("", v[i])
		}
		return starlark.NewList(list)
	case map[string]any:
		members := starlark.StringDict{}
		dict := starlark.NewDict(len(v))
		for key, member := range v {
			members[key] = starlarkValue(key, member)
			_ = dict.SetKey(starlark.String(key), members[key]) // a string is hashable
		}
		if name == "failures" {
			return dict
		}
		return starlarkstruct.FromStringDict(starlark.String("run"), members)
	}
	return starlark.None
}
