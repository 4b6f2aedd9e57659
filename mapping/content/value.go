package content

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/redact"
)

// A Value is a piece of JSON that is to become an attribute.
type Value struct {
	kind  valueKind
	text  string   // of a string; a literal as it stands
	open  bool     // the end of the text was cut
	fixed bool     // never cut: a text of ours, or an object that is nothing without one of its members
	typed bool     // an array of messages or parts, in which no mark may stand
	names []string // of an object's members
	items []Value
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
	// margin is how far past the longest attribute a text is searched for
	// secrets: of one that begins before the cut nothing may be left.
	margin = 4 << 10

	maxDepth = 32
	maxItems = 2048 // in all of a value
)

func stringValue(s string) Value { return Value{kind: text, text: s} }
func fixedValue(s string) Value  { return Value{kind: text, text: s, fixed: true} }

// member adds one to an object.
func (v Value) member(name string, item Value) Value {
	v.kind = object
	v.names, v.items = append(v.names, name), append(v.items, item)
	return v
}

// Clone returns a value that can be cut without cutting v.
func (v Value) Clone() Value {
	v.names, v.items = slices.Clone(v.names), slices.Clone(v.items)
	for i := range v.items {
		v.items[i] = v.items[i].Clone()
	}
	return v
}

// A valueReader turns JSON into a value without secrets.
type valueReader struct {
	*Capture
	room  int      // for texts
	items int      // that may still come
	lost  int      // bytes for which there was no room
	found []string // secrets and, after each, its mark
	marks []string // and these, twice: nothing is to be found in them
}

// Value reads JSON. What is no JSON becomes a string.
func (c *Capture) Value(raw []byte) (v Value, lost int) {
	vr := valueReader{Capture: c, room: 4 * (c.max + margin), items: maxItems}
	vr.searchWhole(raw)
	r := jsonscan.Reader{B: raw}
	v = vr.read(&r, "", 0)
	if !r.End() || r.Bad {
		return c.stringOf(raw)
	}
	if len(vr.found) > 0 {
		v.forget(strings.NewReplacer(slices.Concat(vr.marks, vr.found)...))
	}
	return v, vr.lost
}

// searchWhole looks for secrets that only their neighbours give away: a value
// whose name stands in another member, an argument after an option.
func (vr *valueReader) searchWhole(raw []byte) {
	text := string(heads(raw, vr.max+margin, vr.room))
	for _, f := range vr.redactor.Find(text) {
		vr.remember(unescape([]byte(text[f.Start:f.End])), f.Mark())
	}
}

// heads returns the beginning of JSON, up to limit bytes, of whose strings only the
// first longest bytes count.
func heads(raw []byte, longest, limit int) []byte {
	if len(raw) <= longest {
		return raw
	}
	var b []byte
	r := jsonscan.Reader{B: raw}
	from := 0
	for len(b)+r.I-from < limit {
		quote := bytes.IndexByte(raw[r.I:], '"')
		if quote < 0 {
			break
		}
		r.I += quote
		start := r.I + 1
		if s := r.Quoted(); len(s) > longest {
			b = append(b, raw[from:start+wholeEscapes(s, longest)]...)
			from = r.I - 1
		}
	}
	rest := raw[from:]
	b = append(b, rest[:min(len(rest), max(0, limit-len(b)))]...)
	return b[:min(len(b), limit)]
}

// wholeEscapes returns the length of the beginning of an escaped text that has about
// n bytes and ends with no half of an escape.
func wholeEscapes(escaped []byte, n int) int {
	for i := max(0, n-12); i < n; i++ {
		if escaped[i] == '\\' {
			return i
		}
	}
	return n
}

// forget takes out of all strings what was found to be a secret in one: Cursor
// writes a command down as a whole and again word by word.
func (v *Value) forget(secrets *strings.Replacer) {
	if v.kind == text {
		v.text = secrets.Replace(v.text)
	}
	for i := range v.names {
		v.names[i] = secrets.Replace(v.names[i])
	}
	for i := range v.items {
		v.items[i].forget(secrets)
	}
}

// stringOf makes a string of a text.
func (c *Capture) stringOf(raw []byte) (v Value, lost int) {
	vr := valueReader{Capture: c, room: c.max + margin}
	n := vr.take(raw)
	v = stringValue(vr.redacted("", string(raw[:n]), n == len(raw)))
	v.open = n < len(raw)
	return v, vr.lost
}

func (vr *valueReader) read(r *jsonscan.Reader, name string, depth int) Value {
	c := r.Peek()
	if depth >= maxDepth && (c == '{' || c == '[') {
		vr.lost += len(r.Raw())
		return fixedValue(Truncated)
	}
	switch c {
	case '{':
		v := Value{kind: object}
		dropped := false
		for key := range r.Members() {
			if vr.full(r) {
				dropped = true
				continue
			}
			named, _ := vr.string("", key)
			itsName := string(jsonscan.Unquote(key))
			if itsName == "value" {
				itsName = v.nameOfValue()
			}
			v = v.member(named, vr.read(r, itsName, depth+1))
		}
		if dropped {
			v.markEnd()
		}
		return v
	case '[':
		v := Value{kind: array}
		dropped := false
		for range r.Elements() {
			if vr.full(r) {
				dropped = true
				continue
			}
			item := vr.read(r, name, depth+1)
			v.items = append(v.items, item)
			if name = ""; item.kind == text && strings.HasPrefix(item.text, "--") {
				name = item.text // ["--password", ".."]
			}
		}
		if dropped {
			v.markEnd()
		}
		return v
	case '"':
		return vr.text(name, r.Str())
	}
	raw := r.Raw()
	if _, secret := vr.redactor.Named(name, string(raw)); !secret && len(raw) < 64 && json.Valid(raw) {
		return Value{text: string(raw)}
	}
	return vr.text(name, raw)
}

// full tells whether no more items can be taken. It then skips one.
func (vr *valueReader) full(r *jsonscan.Reader) bool {
	if vr.items--; vr.items >= 0 {
		return false
	}
	vr.lost += len(r.Raw())
	return true
}

// nameOfValue is what goes before value in {"name":"TOKEN","value":".."}.
func (v *Value) nameOfValue() string {
	for i, n := range v.names {
		if (n == "name" || n == "key") && v.items[i].kind == text {
			return v.items[i].text
		}
	}
	return "value"
}

// unescape decodes what stands between the quotes of a JSON string.
func unescape(escaped []byte) string {
	return strings.ToValidUTF8(string(jsonscan.Unquote(escaped)), "\uFFFD")
}

// string reads what stands between a string's quotes, and tells if that is all.
func (vr *valueReader) string(name string, escaped []byte) (s string, whole bool) {
	n := vr.take(escaped)
	whole = n == len(escaped)
	return vr.redacted(name, string(jsonscan.Unquote(escaped[:n])), whole), whole
}

func (vr *valueReader) text(name string, escaped []byte) Value {
	s, whole := vr.string(name, escaped)
	v := stringValue(s)
	v.open = !whole
	return v
}

// take tells how much of a text that may have escapes there is room for.
func (vr *valueReader) take(escaped []byte) int {
	n := min(len(escaped), vr.room, vr.max+margin)
	if n < len(escaped) {
		n = wholeEscapes(escaped, n)
		vr.lost += jsonscan.UnquotedLen(escaped[n:])
	}
	vr.room -= n
	return n
}

// redacted takes the secrets out of a text. If that is not the whole of it the
// margin goes, too.
func (vr *valueReader) redacted(name, s string, whole bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	shown := len(s)
	if !whole {
		shown = Prefix(s, max(0, shown-margin))
		vr.lost += len(s) - shown
	}
	var secrets []finding
	if f, ok := vr.redactor.Named(name, s); ok {
		secrets = []finding{f}
	} else {
		secrets = vr.redactor.Find(s)
	}
	for _, f := range secrets {
		vr.remember(s[f.Start:f.End], f.Mark())
	}
	return without(s, secrets, 0, shown)
}

func (vr *valueReader) remember(secret, mark string) {
	const shortest, most = 5, 64
	if len(secret) >= shortest && len(vr.found) < 2*most {
		vr.found = append(vr.found, secret, mark)
		vr.marks = append(vr.marks, mark, mark)
	}
}

// without returns what lies from start to end of a text, and in the place of a
// secret its mark: of one that lies partly there where it begins.
func without(s string, secrets []finding, start, end int) string {
	var b strings.Builder
	at := start
	for _, f := range secrets {
		if f.End <= start {
			continue
		}
		if f.Start >= end {
			break
		}
		if f.Start > at {
			b.WriteString(s[at:f.Start])
		}
		if f.Start >= start {
			b.WriteString(f.Mark())
		}
		at = f.End
	}
	if at == start && b.Len() == 0 {
		return s[start:max(start, end)]
	}
	if at < end {
		b.WriteString(s[at:end])
	}
	return b.String()
}

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
	case array:
		b = append(b, '[')
		for i := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = v.items[i].append(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i := range v.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, v.names[i]), ':')
		b = v.items[i].append(b)
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes a string as JSON, with no more escapes than it needs:
// they count against the longest attribute.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
