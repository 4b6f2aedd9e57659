// Package condition evaluates conditions over receipts, such as
// "cost > 2 or not succeeded".
//
// A condition is one Starlark expression of the receipt's fields, literals, comparisons,
// "and", "or", "not", "in", and arithmetic on numbers. It has no calls, loops or
// repetitions, so evaluating it takes as many steps as it has operators.
package condition

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/spantee/spantee/exporter/receipt"
)

// A Condition is a checked expression over the fields of a receipt.
type Condition struct {
	expr syntax.Expr
	uses map[string]bool // names in the expression
}

// maxLength bounds the depth to which the parser and the checks recurse, in bytes.
const maxLength = 4096

// Parse parses and checks a condition. It returns an error for an unknown field, for types
// that cannot be combined, and for any expression that conditions do not have. Nothing is
// evaluated.
func Parse(text string) (*Condition, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("longer than %d bytes", maxLength)
	}
	expr, err := new(syntax.FileOptions).ParseExpr("", text, 0)
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return nil, parseError(text, e)
	} else if err != nil {
		return nil, err
	}
	c := &Condition{expr: expr, uses: map[string]bool{}}
	_, err = c.check(expr)
	if e, ok := errors.AsType[placedError](err); ok {
		err = fmt.Errorf("%w at %q %s", e.error, from(text, offset(text, e.at)), example)
	}
	return c, err
}

const example = "(example: tools_failed > 3 or cost > 2)"

// offset returns where a position is in a text, in runes.
func offset(text string, at syntax.Position) int {
	n, lines := int(at.Col)-1, strings.SplitAfter(text, "\n")
	for _, line := range lines[:min(max(0, int(at.Line)-1), len(lines))] {
		n += utf8.RuneCountInString(line)
	}
	return min(max(0, n), utf8.RuneCountInString(text))
}

// from returns the beginning of a text from an offset on.
func from(text string, at int) string {
	const most = 40
	rest := []rune(text)[at:]
	if len(rest) > most {
		return string(rest[:most]) + "…"
	}
	return string(rest)
}

// parseError names the place where a condition cannot be parsed.
func parseError(text string, e syntax.Error) error {
	all, at := []rune(text), offset(text, e.Pos)
	switch {
	case !strings.HasPrefix(e.Msg, "got "): // else it is about tokens of the parser's
		return fmt.Errorf("%s at %q %s", e.Msg, from(text, at), example)
	case strings.TrimSpace(string(all[at:])) == "":
		return fmt.Errorf("it ends too early %s", example)
	}
	for at > 0 && all[at-1] != ' ' && all[at-1] != '\n' { // the position may be the end of a word
		at--
	}
	return fmt.Errorf("cannot parse it from %q on %s", from(text, at), example)
}

// A placedError is what is wrong with the expression at a place.
type placedError struct {
	error
	at syntax.Position
}

// Holds reports whether the condition is true, by Starlark's rules: zero, an empty text and
// an empty list are false. A comparison with a field of an object that the receipt lacks is
// false. An error is a division by zero.
func (c *Condition) Holds(r *receipt.Receipt) (bool, error) {
	v, err := eval(c.expr, fieldsOf(r))
	return v != nil && bool(v.Truth()), err
}

// Unstated returns what the condition uses although no agent stated it, "" if nothing.
func (c *Condition) Unstated(r *receipt.Receipt) string {
	switch {
	case c.uses["cost"] && !c.uses["cost_known"] && !r.CostKnown && r.Cost == 0:
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

// check returns the kind of an expression's value.
func (c *Condition) check(e syntax.Expr) (kind, error) {
	k, err := c.checkAlone(e)
	if _, placed := errors.AsType[placedError](err); err != nil && !placed { // else it is in a part of e
		start, _ := e.Span()
		err = placedError{err, start}
	}
	return k, err
}

func (c *Condition) checkAlone(e syntax.Expr) (kind, error) {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return c.check(e.X)
	case *syntax.Literal:
		switch e.Token {
		case syntax.INT, syntax.FLOAT:
			return number, nil
		case syntax.STRING:
			return text, nil
		}
	case *syntax.ListExpr:
		return list, c.checkAll(e.List)
	case *syntax.TupleExpr:
		return list, c.checkAll(e.List)
	case *syntax.Ident:
		if e.Name == "True" || e.Name == "False" {
			return boolean, nil
		}
		c.uses[e.Name] = true
		return kindOf(receiptType, e.Name)
	case *syntax.DotExpr:
		if object, ok := e.X.(*syntax.Ident); ok {
			c.uses[object.Name] = true
			return kindOfMember(object.Name, e.Name.Name)
		}
	case *syntax.UnaryExpr:
		if e.Op == syntax.NOT || e.Op == syntax.MINUS || e.Op == syntax.PLUS {
			return c.checkUnary(e)
		}
	case *syntax.BinaryExpr:
		return c.checkBinary(e)
	}
	return 0, errors.New("want only names, literals, comparisons, and, or, not, in, and arithmetic")
}

func (c *Condition) checkAll(list []syntax.Expr) error {
	for _, e := range list {
		if _, err := c.check(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *Condition) checkUnary(e *syntax.UnaryExpr) (kind, error) {
	x, err := c.check(e.X)
	if err == nil && e.Op == syntax.NOT {
		return boolean, nil
	}
	if err == nil && x != number {
		err = fmt.Errorf("%s needs a number, not a %s", e.Op, x)
	}
	return number, err
}

func (c *Condition) checkBinary(e *syntax.BinaryExpr) (kind, error) {
	x, err := c.check(e.X)
	if err != nil {
		return 0, err
	}
	y, err := c.check(e.Y)
	if err != nil {
		return 0, err
	}
	result, ok := boolean, true
	switch e.Op {
	case syntax.AND, syntax.OR:
		if x == y { // the value is that of one operand
			result = x
		}
	case syntax.EQL, syntax.NEQ:
		ok = x == y
	case syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		ok = x == y && (x == number || x == text)
	case syntax.IN, syntax.NOT_IN:
		ok = y == list || x == text && (y == dict || y == text)
	case syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT:
		result, ok = number, x == number && y == number
	default:
		return 0, fmt.Errorf("unknown operator %s", e.Op)
	}
	if !ok {
		return 0, fmt.Errorf("%s does not combine a %s and a %s", e.Op, x, y)
	}
	return result, nil
}

// eval returns the value of a checked expression, nil if it is a field of an absent object.
func eval(e syntax.Expr, fields fields) (starlark.Value, error) {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return eval(e.X, fields)
	case *syntax.Literal:
		return literal(e.Value), nil
	case *syntax.ListExpr:
		return evalAll(e.List, fields)
	case *syntax.TupleExpr:
		return evalAll(e.List, fields)
	case *syntax.Ident:
		if e.Name == "True" || e.Name == "False" {
			return starlark.Bool(e.Name == "True"), nil
		}
		return fields.value(e.Name), nil
	case *syntax.DotExpr:
		return fields.member(e.X.(*syntax.Ident).Name, e.Name.Name), nil
	case *syntax.UnaryExpr:
		x, err := eval(e.X, fields)
		if err != nil {
			return nil, err
		}
		if e.Op == syntax.NOT {
			return starlark.Bool(x == nil || !bool(x.Truth())), nil
		}
		if x == nil {
			return nil, nil
		}
		return starlark.Unary(e.Op, x)
	}
	return evalBinary(e.(*syntax.BinaryExpr), fields)
}

func evalAll(exprs []syntax.Expr, fields fields) (starlark.Value, error) {
	values := make(starlark.Tuple, 0, len(exprs))
	for _, e := range exprs {
		v, err := eval(e, fields)
		if err != nil {
			return nil, err
		}
		if v != nil {
			values = append(values, v)
		}
	}
	return starlark.NewList(values), nil
}

func evalBinary(e *syntax.BinaryExpr, fields fields) (starlark.Value, error) {
	x, err := eval(e.X, fields)
	if err != nil {
		return nil, err
	}
	if e.Op == syntax.AND || e.Op == syntax.OR {
		if holds := x != nil && bool(x.Truth()); holds == (e.Op == syntax.OR) {
			return x, nil
		}
		return eval(e.Y, fields)
	}
	y, err := eval(e.Y, fields)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		if x == nil || y == nil {
			return starlark.False, nil
		}
		holds, err := starlark.Compare(e.Op, x, y)
		return starlark.Bool(holds), err
	case syntax.IN, syntax.NOT_IN:
		if x == nil || y == nil {
			return starlark.False, nil
		}
	}
	if x == nil || y == nil {
		return nil, nil
	}
	return starlark.Binary(e.Op, x, y)
}
