package redact_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/redact"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

func newRedactor(t testing.TB, own ...string) *redact.Redactor {
	t.Helper()
	r, err := redact.New(own)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// redacted returns a text with marks in the place of what is found.
func redacted(text string, found []redact.Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		b.WriteString(text[at:f.Start])
		b.WriteString(f.Mark())
		at = f.End
	}
	return b.String() + text[at:]
}

// places are texts that a secret can stand in.
func places(secret string) map[string]string {
	filler := strings.Repeat("some words and more of them, ", 900)
	return map[string]string{
		"alone":          secret,
		"between lines":  "first line\n" + secret + "\nlast line\n",
		"after code":     "func f() {\n\treturn 1\n}\n\n" + secret + "\n",
		"in a long text": filler + "\n" + secret + "\n" + filler,
		"after umlauts":  "größer als ſ und K\n" + secret,
		"in JSON":        quote("x\n" + secret + "\ny"),
		"in JSON twice":  quote(quote("x\n" + secret + "\ny")),
		"a member":       `{"stdout":` + quote(secret) + `}`,
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

// leftIn returns a part of a secret that is still in a text, "" if there is none.
func leftIn(text string, s redacttest.Secret) string {
	for _, part := range s.Parts {
		if strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// A tally counts by kind how many secrets were found of how many.
type tally struct {
	kinds        []string
	found, tried map[string]int
}

func (c *tally) add(kind string, found bool) {
	if c.tried == nil {
		c.found, c.tried = map[string]int{}, map[string]int{}
	}
	if c.tried[kind]++; c.tried[kind] == 1 {
		c.kinds = append(c.kinds, kind)
	}
	if found {
		c.found[kind]++
	}
}

func (c *tally) log(t *testing.T) (found, tried int) {
	for _, kind := range c.kinds {
		t.Logf("%-44s %3d of %3d", kind, c.found[kind], c.tried[kind])
		found, tried = found+c.found[kind], tried+c.tried[kind]
	}
	t.Logf("%-44s %3d of %3d", "all", found, tried)
	return found, tried
}

// TestSecrets looks for every secret of the list in every place: all must be
// found.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r := newRedactor(t)
	var count tally
	for _, s := range redacttest.All() {
		found := true
		for where, text := range places(s.Bare) {
			got := redacted(text, r.Find(text))
			if part := leftIn(got, s); part != "" {
				found = false
				t.Errorf("%s, %s, %s: %q is still in %q", s.Kind, s.Name, where, part, around(got, part))
			}
			if strings.HasPrefix(where, "in JSON") && !json.Valid([]byte(got)) {
				t.Errorf("%s, %s: %.300q is not JSON", s.Name, where, got)
			}
			if again := redacted(got, r.Find(got)); again != got {
				t.Errorf("%s, %s: redacted twice it is %.300q, not %.300q", s.Name, where, again, got)
				break
			}
		}
		count.add(s.Kind, found)
	}
	if _, tried := count.log(t); tried < 700 {
		t.Errorf("%d secrets", tried)
	}
}

// TestNeighbors looks for every secret behind forty others.
func TestNeighbors(t *testing.T) {
	t.Parallel()
	r := newRedactor(t)
	secrets := redacttest.All()
	neighbors := 40
	if testing.Short() {
		neighbors = 10
	}
	for i, s := range secrets {
		for n := 1; n <= neighbors; n++ {
			before := secrets[(i+n*37)%len(secrets)]
			text := before.Text + s.Text
			if part := leftIn(redacted(text, r.Find(text)), s); part != "" {
				t.Errorf("%s behind %s: %q is shown", s.Name, before.Name, part)
			}
		}
	}
}

// TestManyCommands finds the passwords of all commands of a script, but looks for no
// more than eight programs in a line.
func TestManyCommands(t *testing.T) {
	r := newRedactor(t)
	const command, secret = "curl -u bob:", "velvet" + "4711"
	script := strings.Repeat(command+secret+" https://h\n", 20)
	if got := redacted(script, r.Find(script)); strings.Contains(got, secret) {
		t.Errorf("%q is shown", got)
	}
	for programs, found := range map[int]bool{7: true, 8: false} {
		line := strings.Repeat("cargo ", programs) + command + secret
		if got := len(r.Find(line)) > 0; got != found {
			t.Errorf("behind %d programs, found: %v", programs, got)
		}
	}
}

// TestNesting finds a value behind a nested object, but not in the next one.
func TestNesting(t *testing.T) {
	r := newRedactor(t)
	const secret = "lantern" + "4711" + "Xk29"
	for text, found := range map[string]bool{
		`{"name":"DB_PASSWORD","meta":{"a":{"b":1},"c":2},"value":"` + secret + `"}`:           true,
		`[{"name":"DB_PASSWORD","meta":{"a":{"b":1}}},{"title":"x","value":"` + secret + `"}]`: false,
		`{"tokens":{"a":{"b":["x"]},"c":["y"],"d":"` + secret + `"}}`:                          true,
		`{"tokens":{"a":{"b":["x"]},"c":["y"]},"d":"` + secret + `"}`:                          false,
		`{"tokens":["x",["y"]],"title":"` + secret + `"}`:                                      false,
	} {
		if got := strings.Contains(redacted(text, r.Find(text)), "[redacted:"); got != found {
			t.Errorf("%s: found: %v", text, got)
		}
	}
}

func around(s, part string) string {
	i := strings.Index(s, part)
	return s[max(0, i-60):min(len(s), i+len(part)+20)]
}

// TestHeldOut measures how much is found of a list that no rule was written
// for. It fails if that gets less.
func TestHeldOut(t *testing.T) {
	const atLeast = 284
	r := newRedactor(t)
	var count tally
	for _, s := range redacttest.HeldOut() {
		found := true
		for _, text := range places(s.Bare) {
			found = found && leftIn(redacted(text, r.Find(text)), s) == ""
		}
		count.add(s.Kind, found)
	}
	if found, tried := count.log(t); found < atLeast {
		t.Errorf("found %d of %d, which once were %d", found, tried, atLeast)
	}
}

// TestMissed keeps the list of what is missed true.
func TestMissed(t *testing.T) {
	r := newRedactor(t)
	var count tally
	for _, s := range redacttest.Missed() {
		found := true
		for _, text := range places(s.Bare) {
			found = found && leftIn(redacted(text, r.Find(text)), s) == ""
		}
		if count.add(s.Kind, found); found {
			t.Errorf("%s is found: it belongs with the others", s.Name)
		}
	}
	count.log(t)
}

func TestHarmless(t *testing.T) {
	r := newRedactor(t)
	for _, text := range redacttest.Harmless() {
		for _, in := range []string{text, "x\n" + text + "\ny", quote(text)} {
			if got := redacted(in, r.Find(in)); got != in {
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

// TestMaybePrefix cuts every secret off everywhere: what is not held back must
// not show a piece of it.
func TestMaybePrefix(t *testing.T) {
	t.Parallel()
	r := newRedactor(t)
	for n, s := range redacttest.All() {
		text := []string{"", "first line\n", "and some words "}[n%3] + s.Bare + "\nlast line\n"
		whole := redacted(text, r.Find(text))
		from := strings.Index(text, s.Parts[0])
		for cut := max(1, from); cut <= min(len(text), from+150); cut++ {
			cut := text[:cut]
			held := r.MaybePrefix(cut)
			if held > len(cut) {
				t.Fatalf("%s: %d bytes of %d are held back", s.Name, held, len(cut))
			}
			shown := shownOf(cut, r.Find(cut), len(cut)-held)
			if got := pieceIn(shown, whole, s.Parts); got != "" {
				t.Errorf("%s: after %d bytes %q is shown in %q", s.Name, len(cut), got, shown)
				break
			}
		}
	}
	for _, harmless := range []string{"a line\nand the next\n", "words\n\n"} {
		if held := r.MaybePrefix(harmless); held != 0 {
			t.Errorf("%d bytes of %q are held back", held, harmless)
		}
	}
}

// pieceIn returns a piece of a secret that is in shown and not in whole.
func pieceIn(shown, whole string, parts []string) string {
	const size = 6
	for _, part := range parts {
		for i := 0; i+size <= len(part); i++ {
			if piece := part[i : i+size]; strings.Contains(shown, piece) && !strings.Contains(whole, piece) {
				return piece
			}
		}
	}
	return ""
}

// shownOf returns the first n bytes of a text without what was found.
func shownOf(text string, found []redact.Finding, n int) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		if f.Start >= n {
			break
		}
		b.WriteString(text[at:f.Start])
		at = f.End
	}
	if at < n {
		b.WriteString(text[at:n])
	}
	return b.String()
}
