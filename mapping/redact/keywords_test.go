package redact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMatcher compares what a matcher finds with a search for each word at each place.
func TestMatcher(t *testing.T) {
	words := []string{"ab", "a.", "abc", "bcb", "abca", "cabc", "bcabca", "ccc", "c:"}
	m := newMatcher(words)
	const alphabet = "abcABC.:x "
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := make([]byte, r.IntN(12))
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		type found struct{ word, start, end int }
		var got, want []found
		m.find(string(text), func(word, start, end int) { got = append(got, found{word, start, end}) })
		for start := range text {
			rest := strings.ToLower(string(text[start:]))
			for i, w := range words {
				if strings.HasPrefix(rest, w) {
					want = append(want, found{i, start, start + len(w)})
				}
			}
		}
		byWord := func(a, b found) int { return (a.start-b.start)*len(words) + a.word - b.word }
		slices.SortStableFunc(got, byWord)
		if !slices.Equal(got, want) {
			t.Fatalf("in %q: found %v, want %v", text, got, want)
		}
	}
}
