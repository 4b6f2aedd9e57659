package redact

import (
	"strings"
	"testing"
)

// TestView decodes texts, and finds a word of each where it is written.
func TestView(t *testing.T) {
	for _, c := range []struct{ in, want, word, written string }{
		{"plain", "plain", "plain", "plain"},
		{`{\"a\": \"b\\nc\"}`, "{\"a\": \"b\nc\"}", "b\nc", `b\\nc`},
		{`a\u003db\u0026c`, "a=b&c", "b", "b"},
		{`a\u003db\u0026c`, "a=b&c", "=b&", `\u003db\u0026`},
		{"\x1b[1;32ma\x1b[0m=\x1b[33mb\x1b[0m", "a=b", "b", "b"},
		{"\x1b[1;32ma\x1b[0m=\x1b[33mb\x1b[0m", "a=b", "a=b", "a\x1b[0m=\x1b[33mb"},
		{`\u001b[32ma\x1b[0m\033[1mb\e[0m`, "ab", "b", "b"},
		{"\x1b]8;;x\atext\x1b]8;;\a", "text", "text", "text"},
		{"a%3Db%26c", "a=b&c", "=", "%3D"},
		{"100%22ab", `100"ab`, "ab", "ab"},
		{"5% of 20%ab", "5% of 20%ab", "20%ab", "20%ab"},
		{"&quot;a&quot;: &#34;b&#34;", `"a": "b"`, "b", "b"},
		{"a && b & c &amp; d", "a && b & c & d", "d", "d"},
		{"curl \\\n  -u x", "curl    -u x", "-u", "-u"},
		{`C:\dir\file`, `C:\dir\file`, `\dir`, `\dir`},
		{`\`, `\`, `\`, `\`},
		{"a\x1b", "a\x1b", "a", "a"},
		{`größe=\"ü\"`, `größe="ü"`, "ü", "ü"},
	} {
		v := newView(c.in)
		if v.text != c.want {
			t.Errorf("%q is read as %q, want %q", c.in, v.text, c.want)
			continue
		}
		at := strings.Index(v.text, c.word)
		if got := c.in[v.start(at):v.end(at+len(c.word))]; got != c.written {
			t.Errorf("%q: %q is written as %q, want %q", c.in, c.word, got, c.written)
		}
	}
}

// TestClosing finds the ends of strings in strings.
func TestClosing(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`"ab" "c"`, "ab"},
		{`"a\"b" c`, `a"b`},
		{`"{\"a\":\"b\"}" c`, `{"a":"b"}`},
		{`\"a\\\"b\" c"`, `a"b`},
		{`\"a" b`, "a"},
		{"\"a\nb\"", "a"},
		{`"a\nb"`, "a\nb"},
		{`"ab`, "ab"},
	} {
		v := newView(c.in)
		if got := v.text[1:v.closing(0, 100)]; got != c.want {
			t.Errorf("%s: the first string is %q, want %q", c.in, got, c.want)
		}
	}
}
