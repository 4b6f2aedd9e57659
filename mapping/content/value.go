package content

import (
	"strings"

	"github.com/spantee/spantee/mapping/redact"
)

// A Value is a piece of JSON that is to become an attribute.
type Value struct {
	kind  valueKind
	open  bool   // the end was cut: of the text, or of the items
	fixed bool   // never cut: one of our own texts, or an object that needs all of its members
	typed bool   // an array of messages or parts, in which no mark may stand
	name  string // of a member
	text  string // of a string; a literal as it stands
	items []Value
}

// Size returns about how many bytes a value takes.
func (v *Value) Size() int {
	n := 80 + len(v.name) + len(v.text)
	for i := range v.items {
		n += v.items[i].Size()
	}
	return n
}

type valueKind byte

const (
	literal valueKind = iota // a number, true, false, null
	text
	array
	object
)

type finding = redact.Finding

const (
	// margin is how far past the maximum attribute size a text is searched for
	// secrets, because no part of a secret that begins before the cut may be left.
	margin = 4 << 10

	maxDepth = 32
	maxItems = 2048 // in a whole value
)

func stringValue(s string) Value { return Value{kind: text, text: s} }
func fixedValue(s string) Value  { return Value{kind: text, text: s, fixed: true} }

// named returns a value as a member of an object.
func named(name string, v Value) Value {
	v.name = name
	return v
}

// fixedObject returns an object that needs all of its members.
func fixedObject(members ...Value) Value { return Value{kind: object, fixed: true, items: members} }

// forget removes from all strings the secrets found in any of them: Cursor writes a
// command down as a whole and again word by word.
func (v *Value) forget(secrets *strings.Replacer) {
	if v.kind == text {
		v.text = secrets.Replace(v.text)
	}
	for i := range v.items {
		v.items[i].name = secrets.Replace(v.items[i].name)
		v.items[i].forget(secrets)
	}
}

// append appends v as JSON.
func (v *Value) append(b []byte) []byte {
	switch v.kind {
	case literal:
		return append(b, v.text...)
	case text:
		b = appendQuoted(b, v.text)
		if v.open {
			b = append(append(b[:len(b)-1], Truncated...), '"')
		}
		return b
	}
	b = append(b, brackets[v.kind][0])
	for i := range v.items {
		if i > 0 {
			b = append(b, ',')
		}
		if v.kind == object {
			b = append(appendQuoted(b, v.items[i].name), ':')
		}
		b = v.items[i].append(b)
	}
	if v.open {
		if len(v.items) > 0 {
			b = append(b, ',')
		}
		b = append(b, marks[v.kind]...)
	}
	return append(b, brackets[v.kind][1])
}

var (
	brackets = [...]string{array: "[]", object: "{}"}

	// marks are the last items of arrays and objects whose ends were cut.
	marks = [...]string{array: `"` + Truncated + `"`, object: `"` + Truncated + `":true`}
)
