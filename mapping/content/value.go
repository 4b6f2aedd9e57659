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
	fixed bool     // never cut: one of our own texts, or an object that needs all of its members
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
	// margin is how far past the maximum attribute size a text is searched for
	// secrets, because no part of a secret that begins before the cut may be left.
	margin = 4 << 10

	maxDepth = 32
	maxItems = 2048 // in a whole value
)

func stringValue(s string) Value { return Value{kind: text, text: s} }
func fixedValue(s string) Value  { return Value{kind: text, text: s, fixed: true} }

// member adds a member to an object.
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

// A valueReader reads JSON into a Value and redacts secrets.
type valueReader struct {
	*Capture
	room  int      // for texts
	items int      // that may still come
	lost  int      // bytes for which there was no room
	found []string // secrets, each followed by its mark
	marks []string // marks, each twice, so that they replace themselves and nothing is found in them
}

// Value reads JSON. Text that is not JSON becomes a string.
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

// searchWhole looks for secrets that only their context reveals: a value whose name
// is in another member, or an argument after an option.
func (vr *valueReader) searchWhole(raw []byte) {
	text := string(heads(raw, vr.max+margin, vr.room))
	for _, f := range vr.redactor.FindAcross(text) {
		for piece := range pieces(text[f.Start:f.End]) {
			vr.remember(unescape([]byte(piece)), f.Mark())
		}
	}
}

// pieces iterates over what a secret has in each string of JSON: a program may join
// them.
func pieces(secret string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, inside := 0, true
		for i := 0; i < len(secret); i++ {
			switch {
			case secret[i] == '\\':
				i++
			case secret[i] == '"' && inside:
				if !yield(secret[start:i]) {
					return
				}
				inside = false
			case secret[i] == '"':
				start, inside = i+1, true
			}
		}
		if inside {
			yield(secret[start:])
		}
	}
}

// heads returns the first limit bytes of JSON, with each string shortened to its
// first longest bytes.
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

// wholeEscapes returns the length of a prefix of an escaped text: about n bytes,
// without a partial escape at its end.
func wholeEscapes(escaped []byte, n int) int {
	for i := max(0, n-12); i < n; i++ {
		if escaped[i] == '\\' {
			return i
		}
	}
	return n
}

// forget removes from all strings the secrets found in any of them: Cursor writes a
// command down as a whole and again word by word.
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

// full reports whether no more items fit. If so, it skips one.
func (vr *valueReader) full(r *jsonscan.Reader) bool {
	if vr.items--; vr.items >= 0 {
		return false
	}
	vr.lost += len(r.Raw())
	return true
}

// nameOfValue returns the name that applies to the value in
// {"name":"TOKEN","value":".."}, or "value" if there is none.
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

// take returns how many bytes of a text that may have escapes fit into the room.
func (vr *valueReader) take(escaped []byte) int {
	n := min(len(escaped), vr.room, vr.max+margin)
	if n < len(escaped) {
		n = wholeEscapes(escaped, n)
		vr.lost += jsonscan.UnquotedLen(escaped) - jsonscan.UnquotedLen(escaped[:n])
	}
	vr.room -= n
	return n
}

// redacted removes the secrets from a text. If the text is not whole, it removes
// the margin, too.
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

// without returns s[start:end] with each secret replaced by its mark. The mark of a
// secret that lies only partly in that range stands where the secret begins.
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
