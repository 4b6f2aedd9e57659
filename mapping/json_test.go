package mapping

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// walk rebuilds a value from what a reader says of it.
func walk(r *reader) any {
	switch r.peek() {
	case '{':
		m := map[string]any{}
		for key := range r.members() {
			m[string(unquote(key))] = walk(r)
		}
		return m
	case '[':
		a := []any{}
		for range r.elements() {
			a = append(a, walk(r))
		}
		return a
	case '"':
		return string(unquote(r.str()))
	}
	return json.Number(r.raw())
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
		r := &reader{b: in}
		got := walk(r)
		skipped := &reader{b: in}
		skipped.skip()
		if r.i > len(in) || skipped.i > len(in) {
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
		if r.bad || skipped.bad || skipped.i != r.i {
			t.Errorf("walked to %d (bad %v), skipped to %d (bad %v)", r.i, r.bad, skipped.i, skipped.bad)
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
	for _, s := range []string{`a\nb`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\w\`, `\u12`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		got := unquote(s)
		if len(got) != unquotedLen(s) {
			t.Errorf("unquotedLen(%q) = %d, unquote has %d bytes", s, unquotedLen(s), len(got))
		}
		var want string
		if quoted := append(append([]byte{'"'}, s...), '"'); utf8.Valid(s) && json.Unmarshal(quoted, &want) == nil && want != string(got) {
			t.Errorf("unquote(%q) = %q, want %q", s, got, want)
		}
	})
}

// FuzzCursor checks what decodeCursor takes from an object against
// encoding/json.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413274}`,
		`{"type":"tool_call","subtype":"completed","call_id":"a\nb","tool_call":{"shellToolCall":{"args":{"command":"FOO=1 /bin/ls -l","simpleCommands":["cd","ls"]},"result":{"isBackground":false,"failure":{"exitCode":3,"stdout":"x"}}},"startedAtMs":"1"},"timestamp_ms":"1785894413274"}`,
		`{"type":"interaction_query","subtype":"response","query_type":"shellRequestQuery","response":{"id":0,"shellRequestResponse":{"approved":{}}}}`,
		`{"type":"result","subtype":"success","duration_ms":5,"usage":{"inputTokens":1,"cacheReadTokens":2}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"text":3}]},"timestamp_ms":{}}`,
		`{"type":["x"],"tool_call":{"ToolCall":1,"aToolCall":[]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var l cursorLine
		r := &reader{b: in}
		ok := decodeCursor(r, &l)
		if ok && r.i > len(in) {
			t.Fatal("read past the end")
		}
		var want map[string]any // a struct would take keys of another case, too
		if !bytes.HasPrefix(bytes.TrimSpace(in), []byte("{")) || !json.Valid(in) || !utf8.Valid(in) || bytes.Contains(in, []byte(`\`)) {
			return
		}
		if json.Unmarshal(in, &want) != nil {
			return
		}
		if !ok {
			t.Error("valid JSON, but not decoded")
		}
		if s, _ := want["type"].(string); s != string(l.typ) {
			t.Errorf("type %q, want %q", l.typ, s)
		}
		if s, _ := want["session_id"].(string); s != string(l.session) {
			t.Errorf("session %q, want %q", l.session, s)
		}
	})
}

// FuzzShape checks that a line read by the shape of another says what it says
// when it is decoded.
func FuzzShape(f *testing.F) {
	const delta = `{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413274}`
	for _, s := range []string{
		`{"type":"thinking","subtype":"delta","text":"a \"b\" \u00e9","session_id":"s","timestamp_ms":1785894413275}`,
		`{"type":"thinking","subtype":"delta","text":7,"session_id":"s","timestamp_ms":1785894413275}`,
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413275}{}`,
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413275e2}`,
		`{"type":"thinking","subtype":"delta","text":"hm","text":"hm","timestamp_ms":1,"timestamp_ms":2}`,
		`{"type":"thinking","subtype":"delta","text":"\","session_id":"s","timestamp_ms":1}`,
		delta,
	} {
		f.Add([]byte(s), []byte(delta))
		f.Add([]byte(delta), []byte(s))
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var s shape
		var l cursorLine
		whole := &reader{b: first}
		if bytes.Contains(first, []byte("\n")) || bytes.Contains(second, []byte("\n")) || !decodeCursor(whole, &l) || !whole.end() {
			return
		}
		s.learn(first, &l)
		var got event
		if !s.read(second, &got) {
			return
		}
		var want cursorLine
		r := &reader{b: second}
		if !decodeCursor(r, &want) || r.peek() != 0 {
			t.Fatalf("%q is no line, but read by the shape of %q", second, first)
		}
		if !reflect.DeepEqual(got, want.event) {
			t.Errorf("by shape %+v, decoded %+v", got, want.event)
		}
	})
}

func TestInteger(t *testing.T) {
	for in, want := range map[string]int64{
		`12`: 12, `"12"`: 12, `-3`: -3, `1.5e3`: 1500, `"50"`: 50,
		`1e300`: 0, `""`: 0, `"x"`: 0, `{}`: 0, `null`: 0, `99999999999999999999`: 0, `NaN`: 0,
	} {
		r := &reader{b: []byte(in)}
		if got, ok := r.integer(); got != want || ok != (want != 0) {
			t.Errorf("integer of %s = %d, %v, want %d", in, got, ok, want)
		}
	}
}

func TestExecutable(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"go test ./..."}`:                                                                     "go",
		`{"command":"FOO=secret /usr/bin/make all"}`:                                                      "make",
		`{"command":"PASSWORD=\"hunter2 correct horse\" ./deploy.sh"}`:                                    "",
		`{"command":"\"/home/dev/Acme Merger/run.sh\" x"}`:                                                "",
		`{"command":"","simpleCommands":["C:\\tools\\git.exe"]}`:                                          "git.exe",
		`{"command":"cd /x && go build","simpleCommands":["cd","go"]}`:                                    "go",
		`{"command":"cd /x","simpleCommands":["cd"]}`:                                                     "cd",
		`{"command":"$(echo secret) x"}`:                                                                  "",
		`{"command":"\"my secret\" x"}`:                                                                   "",
		`{"command":""}`:                                                                                  "",
		`{"command":"x","parsingResult":{"executableCommands":[{"name":"cd"},{"args":[],"name":"npm"}]}}`: "npm",
	} {
		var c toolCall
		c.readArgs(&reader{b: []byte(args)})
		got := ""
		for _, kv := range c.arguments {
			got = kv.Value.GetStringValue()
		}
		if got != want {
			t.Errorf("executable of %s = %q, want %q", args, got, want)
		}
	}
}
