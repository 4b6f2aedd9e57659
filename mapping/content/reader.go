package content

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spantee/spantee/mapping/jsonscan"
)

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
	shown := raw
	if longest := vr.max + margin; len(raw) > longest {
		shown = appendHeads(nil, raw, longest, vr.room)
	}
	text := string(shown)
	for _, f := range vr.redactor.Find(text) {
		for piece := range pieces(text[f.Start:f.End]) {
			vr.remember(unescape([]byte(piece)), f.Mark())
		}
	}
}

// pieces iterates over what a finding has in each string of JSON, of which it may cover
// several.
func pieces(secret string) iter.Seq[string] {
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

// appendHeads appends the first limit bytes of JSON to b, which is empty, with each
// string shortened to its first longest bytes.
func appendHeads(b, raw []byte, longest, limit int) []byte {
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
			b = append(b, raw[from:start+jsonscan.WholeEscapes(s, longest)]...)
			from = r.I - 1
		}
	}
	rest := raw[from:]
	b = append(b, rest[:min(len(rest), max(0, limit-len(b)))]...)
	return b[:min(len(b), limit)]
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
		for key := range r.Members() {
			if vr.full(r) {
				v.open = true
				continue
			}
			shown, itsName := vr.name(key)
			if itsName == "value" {
				itsName = nameOfValue(v.items)
			}
			item := vr.read(r, itsName, depth+1)
			item.name = shown
			v.items = append(v.items, item)
		}
		return v
	case '[':
		v := Value{kind: array}
		for range r.Elements() {
			if vr.full(r) {
				v.open = true
				continue
			}
			item := vr.read(r, name, depth+1)
			v.items = append(v.items, item)
			if name = ""; item.kind == text && strings.HasPrefix(item.text, "--") {
				name = item.text // ["--password", ".."]
			}
		}
		return v
	case '"':
		return vr.text(name, r.Str())
	}
	raw := r.Raw()
	if isLiteral(raw) {
		if _, secret := vr.redactor.Named(name, string(raw)); !secret {
			return Value{text: string(raw)}
		}
	}
	return vr.text(name, raw)
}

// isLiteral reports whether JSON that is not a string, an array or an object is valid.
func isLiteral(raw []byte) bool {
	switch string(raw) {
	case "true", "false", "null":
		return true
	}
	return len(raw) < 64 && json.Valid(raw)
}

// name reads the name of a member: redacted for display, and as the rules see it.
func (vr *valueReader) name(key []byte) (shown, name string) {
	n := vr.take(key)
	whole := n == len(key)
	if known, ok := vr.harmless[string(key)]; ok && whole {
		return known, known
	}
	name = string(jsonscan.Unquote(key))
	before := name
	if !whole {
		before = string(jsonscan.Unquote(key[:n]))
	}
	shown = vr.redacted("", before, whole)
	const longest, most = 64, 1024
	if whole && shown == name && len(key) <= longest && len(vr.harmless) < most {
		vr.harmless[string(key)] = name
	}
	return shown, name
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
func nameOfValue(members []Value) string {
	for i := range members {
		if m := &members[i]; (m.name == "name" || m.name == "key") && m.kind == text {
			return m.text
		}
	}
	return "value"
}

// unescape decodes what stands between the quotes of a JSON string.
func unescape(escaped []byte) string {
	return valid(string(jsonscan.Unquote(escaped)))
}

// valid is strings.ToValidUTF8, four times as fast for text that is valid.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// text reads what stands between a string's quotes.
func (vr *valueReader) text(name string, escaped []byte) Value {
	n := vr.take(escaped)
	whole := n == len(escaped)
	v := stringValue(vr.redacted(name, unescape(escaped[:n]), whole))
	v.open = !whole
	return v
}

// take returns how many bytes of a text that may have escapes fit into the room.
func (vr *valueReader) take(escaped []byte) int {
	n := min(len(escaped), vr.room, vr.max+margin)
	if n < len(escaped) {
		n = jsonscan.WholeEscapes(escaped, n)
		vr.lost += jsonscan.UnquotedLen(escaped[n:])
	}
	vr.room -= n
	return n
}

// redacted removes the secrets from a text. If the text is not whole, it removes
// the margin, too.
func (vr *valueReader) redacted(name, s string, whole bool) string {
	s = valid(s)
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
