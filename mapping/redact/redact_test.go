package redact_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spantee/spantee/mapping/redact"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

func newRedactor(t testing.TB, own, off []string) *redact.Redactor {
	t.Helper()
	r, err := redact.New(own, off)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSecrets(t *testing.T) {
	r := newRedactor(t, nil, nil)
	all := redacttest.All()
	if len(all) < 100 {
		t.Errorf("%d secrets", len(all))
	}
	for _, s := range all {
		for where, text := range map[string]string{
			"alone":          s.Text,
			"in code":        "func f() {\n\tx := 1 // " + s.Text + "\n}\n",
			"in long text":   strings.Repeat("some words and more of them, ", 900) + "\n" + s.Text + "\n" + strings.Repeat("and further words. ", 900),
			"after umlauts":  "größer als ſ und K: " + s.Text,
			"between quotes": quote(s.Text),
			"after \\n":      `"x\n` + strings.TrimPrefix(s.Text, "the value is ") + `"`,
		} {
			got := r.Text(text)
			for _, part := range s.Parts {
				if strings.Contains(got, part) {
					t.Errorf("%s, %s: %q is still in %q", s.Name, where, part, around(got, part))
				}
			}
			if again := r.Text(got); again != got {
				t.Errorf("%s, %s: redacted twice it is %q, not %q", s.Name, where, again, got)
			}
		}
	}
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return b.String()
}

func around(s, part string) string {
	i := strings.Index(s, part)
	return s[max(0, i-60):min(len(s), i+len(part)+20)]
}

func TestHarmless(t *testing.T) {
	r := newRedactor(t, nil, nil)
	for _, text := range redacttest.Harmless() {
		for _, in := range []string{text, "x\n" + text + "\ny", quote(text)} {
			if got := r.Text(in); got != in {
				t.Errorf("%q became %q", in, got)
			}
		}
	}
	files, err := filepath.Glob("../../testdata/cursor/*.[jt]*")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Find(string(b)) {
			t.Errorf("%s: %s finds %q", file, f.Rule, b[f.Start:f.End])
		}
	}
}

func TestNamed(t *testing.T) {
	r := newRedactor(t, nil, nil)
	for _, c := range []struct{ name, in, want string }{
		{"password", "hunter2", "[redacted:assignment]"},
		{"DB_PASSWORD", "hunter2", "[redacted:assignment]"},
		{"clientSecret", "a1b2" + "c3d4e5f6", "[redacted:assignment]"},
		{"Authorization", "Bearer abcdef", "Bearer [redacted:authorization]"},
		{"cookie", "sid=abcdef", "[redacted:cookie]"},
		{"path", "hunter2", ""},
		{"password", "********", ""},
		{"token", "identifier", "[redacted:assignment]"},
		{"passphrase", "correct horse battery", "[redacted:assignment]"},
		{"token", "null", ""},
		{"password", "[redacted:assignment]", ""},
	} {
		got := ""
		if f, ok := r.Named(c.name, c.in); ok {
			got = c.in[:f.Start] + f.Mark() + c.in[f.End:]
		}
		if got != c.want {
			t.Errorf("%s: %q became %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestOwnRules(t *testing.T) {
	r := newRedactor(t, []string{`ticket=SHOP-\d+`, `pin=pin is (\d{4})`}, nil)
	got := r.Text("SHOP-12: the pin is 4711, see SHOP-7")
	if want := "[redacted:ticket]: the pin is [redacted:pin], see [redacted:ticket]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again := r.Text(got); again != got {
		t.Errorf("redacted twice: %q", again)
	}
}

func TestRulesOff(t *testing.T) {
	const text = "password=hunter2 https://a:b2c4@host"
	off := newRedactor(t, nil, []string{"assignment", "url-credentials"})
	if got := off.Text(text); got != text {
		t.Errorf("%q became %q", text, got)
	}
	if f, ok := off.Named("password", "hunter2"); ok {
		t.Errorf("%s finds hunter2", f.Rule)
	}
	if _, err := redact.New([]string{"mine=x"}, []string{"mine", "jwt", "aws-access-token"}); err != nil {
		t.Error(err)
	}
}

func TestWrongRules(t *testing.T) {
	for _, c := range []struct{ own, off, want string }{
		{"", "no-such-rule", `redaction rule "no-such-rule" is not known`},
		{"noregex", "", `redaction rule "noregex" is not NAME=REGEX`},
		{"a=(", "", "redaction rule a: error parsing regexp: missing closing ): `(`"},
	} {
		var own, off []string
		if c.own != "" {
			own = []string{c.own}
		}
		if c.off != "" {
			off = []string{c.off}
		}
		if _, err := redact.New(own, off); err == nil || err.Error() != c.want {
			t.Errorf("New(%q, %q): %v, want %s", own, off, err, c.want)
		}
	}
}

// FuzzRedact redacts any text: findings are in order, apart and within it, and
// what is redacted stays so.
func FuzzRedact(f *testing.F) {
	r := newRedactor(f, []string{`ticket=SHOP-\d+`}, nil)
	for _, s := range redacttest.All() {
		f.Add(s.Text)
	}
	for _, s := range redacttest.Harmless() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, found := range r.Find(text) {
			if found.Start < last || found.End <= found.Start || found.End > len(text) {
				t.Fatalf("%v of %d bytes, after %d", found, len(text), last)
			}
			last = found.End
		}
		if utf8.ValidString(text) && !utf8.ValidString(r.Text(text)) {
			t.Errorf("%q is not UTF-8", r.Text(text))
		}
	})
}

// BenchmarkText is of what an agent reads and prints: code, in which there is
// a secret now and then.
func BenchmarkText(b *testing.B) {
	r := newRedactor(b, nil, nil)
	var text strings.Builder
	secrets := redacttest.All()
	for i := 0; text.Len() < 1<<20; i++ {
		for _, name := range []string{"redact.go", "rules.go", "assignment.go", "headers.go", "../session.go", "../json.go"} {
			code, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			text.Write(code)
		}
		text.WriteString(secrets[i%len(secrets)].Text)
	}
	r.Text(text.String())
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		r.Text(text.String())
	}
}

// BenchmarkLoad is what the first text has to wait for.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		newRedactor(b, nil, nil).Text("")
	}
}
