package redact_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/spantee/spantee/mapping/redact"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

func TestNamed(t *testing.T) {
	r := newRedactor(t)
	for _, c := range []struct{ name, in, want string }{
		{"password", "hunter2", "[redacted:assignment]"},
		{"DB_PASSWORD", "hunter2", "[redacted:assignment]"},
		{"clientSecret", "a1b2" + "c3d4e5f6", "[redacted:assignment]"},
		{"api_keys", "a1b2" + "c3d4e5f6", "[redacted:assignment]"},
		{"Authorization", "Bearer abcdef", "Bearer [redacted:authorization]"},
		{"cookie", "sid=abcdef", "[redacted:cookie]"},
		{"path", "hunter2", ""},
		{"password", "********", ""},
		{"token", "identifier", "[redacted:assignment]"},
		{"tokens", "identifier", ""},
		{"passphrase", "correct horse battery", "[redacted:assignment]"},
		{"token", "null", ""},
		{"token", "https://example.com/token", ""},
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

func TestHarmlessName(t *testing.T) {
	r := newRedactor(t)
	for _, name := range []string{
		"", "success", "error_max_turns", "Bash", "execute_tool", "mcp__github__create_pull_request", "mcp__claude_ai_Google_Drive__search_files", "go", "python3.12", "./gradlew", "npx",
		"x86_64-linux-gnu-gcc", "node_modules/.bin/eslint", "claude-sonnet-4-5-20250929", "gpt-5.1-codex-max", "toolu_01A09q90qw90lq917835lq9", "toolu_vrtx_01A09q90qw90lq917835lq9",
		"call_AbC123dEf456GhI789jKl012\nfc_0a1b2c3d4e5f60718293a4b5c6d7e8f9", "call-bb11656a-0c9e-4b7a-9d55-0f4b7a1f2c3d-1\nfc_35bc3e26-1f2e-4a5b-8c7d-9e0f1a2b3c4d_1",
		"6f1c2f9e-3c5d-4c9d-8f6b-2f9e3c5d4c9d", "59ff63a6-3c5d-4c9d-8f6b-2f9e3c5d4c9d-0-c94p", "req_011CSHoEeqs5C35K2UUqR7Fy", "Grep_0", "read_file-1763000000000-4f2a9c7d1e3b8", "functions.Bash:0", "tool_6f1c2f9e-3c5d-4c9d-8f6b-2f9e3c5d4c9d",
	} {
		if !r.HarmlessName(name) {
			t.Errorf("%q is not harmless", name)
		}
	}
	for _, s := range redacttest.All() {
		if s.Kind == "vendor tokens" && len(s.Parts) == 1 && len(s.Bare) < 256 && !strings.Contains(s.Bare, "/") && r.HarmlessName(s.Bare) {
			t.Errorf("%s is harmless", s.Name)
		}
	}
	for _, secret := range []string{
		"q8Zr2LmX7vKp4TnB", "a1b2c3d4-e5f6a7b8c9-d1e2f3a4b5", "f3a9c1e07b5d42869a0c3e1f7d5b2468", "password=hunter22", "https://bob:hunter22@host", strings.Repeat("a", 300),
	} {
		if r.HarmlessName(secret) {
			t.Errorf("%q is harmless", secret)
		}
	}
}

func TestOwnRules(t *testing.T) {
	r := newRedactor(t, `ticket=SHOP-\d+`, `pin=pin is (\d{4})`)
	const text = "SHOP-12: the pin is 4711, see SHOP-7"
	got := redacted(text, r.Find(text))
	if want := "[redacted:ticket]: the pin is [redacted:pin], see [redacted:ticket]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again := redacted(got, r.Find(got)); again != got {
		t.Errorf("redacted twice: %q", again)
	}
}

func TestWrongRules(t *testing.T) {
	for own, want := range map[string]string{
		"noregex": `invalid redaction rule "noregex" (want NAME=REGEX)`,
		"a=(":     "redaction rule a: error parsing regexp: missing closing ): `(`",
	} {
		if _, err := redact.New([]string{own}); err == nil || err.Error() != want {
			t.Errorf("New(%q): %v, want %s", own, err, want)
		}
	}
}

// FuzzRedact looks for secrets in any text: findings are in order, apart and
// within it, and between characters.
func FuzzRedact(f *testing.F) {
	r := newRedactor(f, `ticket=SHOP-\d+`)
	for _, s := range redacttest.All() {
		f.Add(s.Bare)
		f.Add(quote(s.Bare))
	}
	for _, s := range redacttest.Harmless() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		found := r.Find(text)
		for _, found := range found {
			if found.Start < last || found.End <= found.Start || found.End > len(text) {
				t.Fatalf("%v of %d bytes, after %d", found, len(text), last)
			}
			last = found.End
		}
		if got := redacted(text, found); utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		if held := r.MaybePrefix(text); held < 0 || held > len(text) {
			t.Errorf("%d bytes of %d are held back", held, len(text))
		}
		r.HarmlessName(text)
	})
}

// hostile are texts that make a careless search look at the same bytes again
// and again.
func hostile(size int) map[string]string {
	all := map[string]string{}
	for _, unit := range []string{
		"password", "password=", "password: ", "password=\"", "password='", "\"", "'", "=", "\\", "\\\\\"", "\\\"", "\x1b[", "\x1b]", "%3D", "%", "&quot;", "tokens: [", "tokens: {\"a\":",
		"secret: {", "token:\n", "- token: |\n", "name: token\n", "\"name\": \"token\", ", "value: x\nname: token\n", "api_key\t", "| password ", "password,a,b\n", "password  a\n", "curl -u ", "curl '",
		"mysql -p", "echo x | sudo -S ", "://", "://a:", "://a@", "eyJ", "sk-", "pat", "key-", "-----BEGIN PRIVATE KEY-----", "PRIVATE KEY-----\n", "private-lines: 1\n", "\"kty\"", "\"kty\":{", "kind: secret\n", "data:\n kind: secret\n",
		":5432:", "@tcp(", "@//", "cookie: a=b", "set-cookie: [", "authorization: digest ", "auth=(", "securestring -asplaintext ", "basicauth(\"", "a.G", "\ttrue\t", "psk ", "<password ", "<password>", "password is ", "password or ", "password || ",
		strings.Repeat("QUJD", 16) + "\n", strings.Repeat("QUJD", 16), "password=\\\"", "secret=%22", "facebook", "x ", "the password for a ",
		"echo a ", "echo a|sudo ", "sudo <<<", "://a:b/c", "-----BEGIN PRIVATE KEY-----\nx: y", "machine x login y ", "cookie: a", "set-cookie: [\"a=bbbb\",", "curl -u a -u ", "curl \"",
		"kind: secret\ndata:\n a: b\n", "name=\"token\" {", "curl cargo sudo ", "authorization: basic a b ",
		"\"ab\" + ", "\"ab\" + 'cd'.", "'ab''cd'", "\"ab\"\n", "[\"ab\", \"cd\", ", "concat(\"ab\",\"cd\",", "[\"ab\", \"cd\"].join(\"\")", "\"a\" // b\n + ", "=ab\"cd", "\u200b", "\u00ad\xe2",
		"{\"text\":\"npm_" + strings.Repeat("a1B2", 9) + "\"},", "npm_" + strings.Repeat("a1B2", 9) + "\n", "npm_" + strings.Repeat("a1B2", 9) + "<b>",
	} {
		all[unit] = strings.Repeat(unit, size/len(unit))
	}
	for _, member := range []string{`"password x y",`, `"a\npassword: b",`, `"password=\"x\"",`, `"password":"x y",`, `"AAAA\n",`} {
		all[member] = "[" + strings.Repeat(member, size/len(member)) + "1]"
	}
	return all
}

// TestHostile finds a secret after each of them: what bounds the cost of a text
// must not hide what follows. A search that is not linear takes minutes.
func TestHostile(t *testing.T) {
	t.Parallel()
	r := newRedactor(t)
	size := 32 << 10
	if testing.Short() {
		size = 8 << 10
	}
	for unit, text := range hostile(size) {
		const secret = "lantern" + "4711"
		text += "\n\nexport DB_PASSWORD=" + secret + "\n"
		found := r.Find(text)
		if n := len(found); n == 0 || text[found[n-1].Start:found[n-1].End] != secret {
			t.Errorf("after %q the secret is not found", unit)
		}
		r.MaybePrefix(text)
	}
}

// TestLinear compares what ten times as much hostile text costs, in allocations.
func TestLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const size, most = 4 << 10, 12
	r := newRedactor(t)
	cost := func(text string) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.Find(text)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs - before.Mallocs)
	}
	long := hostile(10 * size)
	for unit, text := range hostile(size) {
		const start = 256 // what any text costs
		if once, tenfold := cost(text), cost(long[unit]); tenfold > most*once+start {
			t.Errorf("%q: %.0f allocations, for ten times as much text %.0f", unit, once, tenfold)
		}
	}
}

// BenchmarkHostile measures each of them.
func BenchmarkHostile(b *testing.B) {
	r := newRedactor(b)
	for unit, text := range hostile(32 << 10) {
		b.Run(quote(unit[:min(len(unit), 24)]), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Find(text)
			}
		})
	}
}

// BenchmarkFind is of what an agent reads and prints: code, in which there is a
// secret now and then.
func BenchmarkFind(b *testing.B) {
	r := newRedactor(b)
	var text strings.Builder
	secrets := redacttest.All()
	for i := 0; text.Len() < 1<<20; i++ {
		for _, name := range []string{"redact.go", "rules.go", "fields.go", "view.go", "../sessions.go", "../lines.go"} {
			code, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			text.Write(code)
		}
		text.WriteString(secrets[i%len(secrets)].Text)
	}
	r.Find(text.String())
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		r.Find(text.String())
	}
}

// BenchmarkLoad is what the first text has to wait for.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		newRedactor(b).Find("")
	}
}

// TestConcurrent uses a Redactor that is still loading its rules.
func TestConcurrent(t *testing.T) {
	r := newRedactor(t)
	secrets := redacttest.All()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, s := range secrets {
				if got := redacted(s.Text, r.Find(s.Text)); leftIn(got, s) != "" {
					t.Errorf("%s is not found", s.Name)
				}
			}
		})
	}
	wg.Wait()
}
