package jsonscan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/spantee/spantee/mapping/jsonscan"
)

func TestGap(t *testing.T) {
	s := append([]byte(`a\n`), jsonscan.AppendGap(nil, 1300, 1234)...)
	s = append(s, `\"b`...)
	if got, want := jsonscan.UnquotedLen(s), len("a\n")+1234+len(`"b`); got != want {
		t.Errorf("%s is %d bytes long, want %d", s, got, want)
	}
	if got, want := jsonscan.Len(s), len(`a\n`)+1300+len(`\"b`); got != want {
		t.Errorf("%s was %d bytes long, want %d", s, got, want)
	}
	if got := string(jsonscan.Unquote(s)); got != "a\n\"b" {
		t.Errorf("%s is %q", s, got)
	}
	for _, other := range []string{`\#`, `\#;`, `\#1`, `\#1;`, `\#1,;`, `\#x,1;`, `\#1,12345678901234567890;`} {
		if got := string(jsonscan.Unquote([]byte(other))); got != other[1:] {
			t.Errorf("%s is %q", other, got)
		}
		if got := jsonscan.Len([]byte(other)); got != len(other) {
			t.Errorf("%s was %d bytes long", other, got)
		}
	}
}

// TestEscape adds up what Next counts, for strings of pieces that are hard to tell
// apart.
func TestEscape(t *testing.T) {
	pieces := []string{"a", "é", `\n`, `\\`, `\"`, `\u00e9`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `\u12`, `\u`, `\x`, "u", "1"}
	random := rand.New(rand.NewPCG(1, 0))
	for range 100_000 {
		var s []byte
		for range random.IntN(8) {
			s = append(s, pieces[random.IntN(len(pieces))]...)
		}
		var e jsonscan.Escape
		sum, quotes := 0, 0
		for _, c := range s {
			if c == '"' && !e.Quotes() {
				quotes++
			}
			sum += e.Next(c)
		}
		if sum += e.End(); sum != jsonscan.UnquotedLen(s) || quotes > 0 {
			t.Fatalf("%s: %d bytes and %d quotes, want %d", s, sum, quotes, jsonscan.UnquotedLen(s))
		}
	}
}
