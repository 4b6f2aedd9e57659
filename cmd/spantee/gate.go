package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/spantee/spantee/exporter/receipt"
)

// A gate is the condition of --fail-if: a Starlark expression over the fields of a
// receipt.
type gate struct {
	text string
	expr syntax.Expr
	uses map[string]bool // names in the expression
}

// maxSteps is far more than an expression over the longest receipt takes.
const maxSteps = 10_000_000

// newGate returns nil without a condition. The error is a usage error: what can be wrong
// is found before the run.
func newGate(text string) (*gate, error) {
	if text == "" {
		return nil, nil
	}
	wrong := func(err error) error { return usageError{fmt.Errorf("invalid --fail-if %q: %w", text, err)} }
	g := &gate{text: text, uses: map[string]bool{}}
	var err error
	if g.expr, err = new(syntax.FileOptions).ParseExpr("", text, 0); err != nil {
		return nil, wrong(plain(err))
	}
	syntax.Walk(g.expr, func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Ident); ok {
			g.uses[name.Name] = true
		}
		return true
	})
	for _, sample := range samples() {
		if _, err := g.holds(sample); err != nil {
			return nil, wrong(err)
		}
	}
	return g, nil
}

// samples returns receipts with which each part of an expression is evaluated at least
// once, whatever stands before an "and" or an "or".
func samples() (list []*receipt.Receipt) {
	for _, n := range []int{1, 1e9} {
		for _, yes := range []bool{false, true} {
			usage := receipt.Usage{
				InputTokens: int64(n), OutputTokens: int64(n), CacheReadTokens: int64(n), CacheWriteTokens: int64(n),
				ReasoningTokens: int64(n), Cost: float64(n), TokensKnown: yes, CostKnown: yes,
			}
			f := float64(n)
			totals := receipt.Totals{
				Succeeded: yes, Usage: usage, Times: receipt.Times{Seconds: f, Model: f, Tool: f, Approval: f, Idle: f},
				Counts: receipt.Counts{Spans: n, Turns: n, Tools: n, ToolsFailed: n, Retries: n, Stalls: n, Failures: map[string]int{}, LimitsReached: []string{"max-tools"}},
			}
			list = append(list, &receipt.Receipt{
				Complete: yes, ExitStatus: n % 256, RunsTotal: n, Totals: totals,
				Delivery: receipt.Delivery{Delivered: n, Spooled: n, Rejected: n, Dropped: n},
				Runs: []receipt.Run{{
					Totals: totals, Models: []receipt.Model{{Usage: usage}},
					Subagents: []receipt.Subagent{{Seconds: f, Turns: n, Tools: n, ToolsFailed: n, Usage: usage}},
				}},
			})
		}
	}
	return list
}

// holds reports whether the condition is true.
func (g *gate) holds(r *receipt.Receipt) (bool, error) {
	fields, err := fieldsOf(r)
	if err != nil {
		return false, err
	}
	thread := &starlark.Thread{Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(maxSteps)
	value, err := starlark.EvalExprOptions(new(syntax.FileOptions), thread, g.expr, fields)
	if err != nil {
		return false, plain(err)
	}
	holds, ok := value.(starlark.Bool)
	if !ok {
		return false, fmt.Errorf("its value is of type %s, not bool", value.Type())
	}
	return bool(holds), nil
}

// fails reports whether the condition is true. What cannot be evaluated counts as true.
func (g *gate) fails(r *receipt.Receipt, problem func(error)) bool {
	if g == nil {
		return false
	}
	if name := g.unstated(r); name != "" {
		problem(fmt.Errorf("--fail-if uses %s, which the agent did not state: it counts as 0", name))
	}
	holds, err := g.holds(r)
	switch {
	case err != nil:
		problem(fmt.Errorf("cannot evaluate --fail-if %q: %w", g.text, err))
	case holds:
		problem(fmt.Errorf("--fail-if is true: %s", g.text))
	}
	return holds || err != nil
}

// unstated returns what the condition uses although no agent stated it, "" if nothing.
func (g *gate) unstated(r *receipt.Receipt) string {
	switch {
	case g.uses["cost"] && !g.uses["cost_known"] && !r.CostKnown:
		return "cost"
	case !r.TokensKnown && !g.uses["tokens_known"]:
		for _, name := range []string{"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"} {
			if g.uses[name] {
				return name
			}
		}
	}
	return ""
}

// plain returns the error without Starlark's position in a line, which is all there is.
func plain(err error) error {
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return errors.New(e.Msg)
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok {
		return errors.New(list[0].Msg)
	}
	return err
}

// fieldsOf returns the fields of a receipt, as its JSON names them.
func fieldsOf(r *receipt.Receipt) (starlark.StringDict, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	fields := starlark.StringDict{"start": starlark.String(""), "end": starlark.String("")} // absent without a run
	for name, v := range document {
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
