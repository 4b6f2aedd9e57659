package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// walk rebuilds a value from what a reader says of it.
func walk(r *Reader) any {
	switch r.Peek() {
	case '{':
		m := map[string]any{}
		for key := range r.Members() {
			m[string(Unquote(key))] = walk(r)
		}
		return m
	case '[':
		a := []any{}
		for range r.Elements() {
			a = append(a, walk(r))
		}
		return a
	case '"':
		return string(Unquote(r.Str()))
	}
	return json.Number(r.Raw())
}

// normal is what encoding/json says of a value, in walk's terms.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			m[key] = normal(value)
		}
		return m
	case []any:
		a := []any{}
		for _, value := range v {
			a = append(a, normal(value))
		}
		return a
	case bool:
		if v {
			return json.Number("true")
		}
		return json.Number("false")
	case nil:
		return json.Number("null")
	}
	return v
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[true,null,{"c":"d"}],"e":-1.5e3}`, `{"a":"\u00e9\ud83d\ude00\n\"\\"}`, `[]`, `""`, ` {"a" : [ ] , "b":{} } `,
		`{"a":"\w","b":1}`, `{"a":"unfinished`, `{"a"}`, `{,}`, `{"a":1 "b":2}`, `[1 2]`, `{"a":tru`, "{\"a\":\"\xff\"}", `"\ud800"`, `"\`,
		strings.Repeat("[", 1000), strings.Repeat(`{"a":`, 1000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if depth(in) > 5000 {
			return // walk recurses, unlike reader
		}
		r := &Reader{B: in}
		got := walk(r)
		skipped := &Reader{B: in}
		skipped.Skip()
		if r.I > len(in) || skipped.I > len(in) {
			t.Fatal("read past the end")
		}
		d := json.NewDecoder(bytes.NewReader(in))
		d.UseNumber()
		var want any
		if !json.Valid(in) || !utf8.Valid(in) || d.Decode(&want) != nil {
			return // it must only come to an end
		}
		if g, w := marshal(t, got), marshal(t, normal(want)); g != w {
			t.Errorf("read %s, want %s", g, w)
		}
		if r.Bad || skipped.Bad || skipped.I != r.I {
			t.Errorf("walked to %d (bad %v), skipped to %d (bad %v)", r.I, r.Bad, skipped.I, skipped.Bad)
		}
	})
}

func depth(b []byte) int { return bytes.Count(b, []byte("[")) + bytes.Count(b, []byte("{")) }

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(toStrings(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// toStrings makes numbers strings: Marshal has opinions on them.
func toStrings(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = toStrings(value)
		}
	case []any:
		for i, value := range v {
			v[i] = toStrings(value)
		}
	case json.Number:
		return "number " + string(v)
	}
	return v
}

func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`a\nb`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\w\`, `\u12`, `\#555,5;`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		got := Unquote(s)
		if w := WholeEscapes(s, len(s)/2); len(Unquote(s[:w]))+UnquotedLen(s[w:]) != UnquotedLen(s) {
			t.Errorf("%q and %q are %d and %d bytes, want %d", s[:w], s[w:], len(Unquote(s[:w])), UnquotedLen(s[w:]), UnquotedLen(s))
		}
		if len(got) != UnquotedLen(s) {
			t.Errorf("UnquotedLen(%q) = %d, unquote has %d bytes", s, UnquotedLen(s), len(got))
		}
		var want string
		if quoted := append(append([]byte{'"'}, s...), '"'); utf8.Valid(s) && json.Unmarshal(quoted, &want) == nil && want != string(got) {
			t.Errorf("Unquote(%q) = %q, want %q", s, got, want)
		}
	})
}

func TestInteger(t *testing.T) {
	for in, want := range map[string]int64{
		`12`: 12, `"12"`: 12, `-3`: -3, `1.5e3`: 1500, `"50"`: 50, `1790000000020`: 1790000000020, `1234567890123456789`: 1234567890123456789,
		`1e300`: 0, `""`: 0, `"x"`: 0, `{}`: 0, `null`: 0, `99999999999999999999`: 0, `NaN`: 0,
	} {
		r := &Reader{B: []byte(in)}
		if got, ok := r.Int(); got != want || ok != (want != 0) {
			t.Errorf("integer of %s = %d, %v, want %d", in, got, ok, want)
		}
	}
}
