package mapping

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// TestShortener feeds long lines in chunks. Only the beginning of their long strings
// is kept, and how long they were is not forgotten.
func TestShortener(t *testing.T) {
	t.Parallel()
	pieces := []string{"a", `\n`, `\\`, `\"`, `\u00e9`, `\ud83d\ude00`, "é", strings.Repeat("x", 100), `\ud83d`, `\ude00`, `\u12`, `\x`, "1"}
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 0))
		text := func(size int) []byte {
			var b []byte
			for len(b) < size {
				b = append(b, pieces[random.IntN(len(pieces))]...)
			}
			return b
		}
		long, short := text(maxWhole+random.IntN(maxWhole)), text(1000)
		line := fmt.Appendf(nil, `{"first":"%s","short":"%s","again":"%s","n":1}`, long, short, long)
		chunk := 1 + random.IntN(64<<10)
		if seed%2 == 0 {
			chunk = 1 + random.IntN(16)
		}

		var got []byte
		l := lines{max: maxLine, line: func(line, _ []byte) { got = bytes.Clone(line) }}
		for p := range slices.Chunk(append(line, '\n'), chunk) {
			l.Write(p)
		}
		if len(got) > maxWhole+2*maxHead {
			t.Errorf("seed %d: %d bytes are kept", seed, len(got))
		}
		if n := jsonscan.Len(got); n != len(line) {
			t.Errorf("seed %d: the line was %d bytes long, want %d", seed, n, len(line))
		}
		r := jsonscan.Reader{B: got}
		for key := range r.Members() {
			want := map[string][]byte{"first": long, "short": short, "again": long}[string(key)]
			if want == nil {
				r.Skip()
				continue
			}
			s := r.Str()
			if n := jsonscan.UnquotedLen(s); n != jsonscan.UnquotedLen(want) {
				t.Errorf("seed %d: %s has %d bytes, want %d", seed, key, n, jsonscan.UnquotedLen(want))
			}
			if !bytes.HasPrefix(s, want[:min(len(want), minHead)]) {
				t.Errorf("seed %d: %s does not begin as it did", seed, key)
			}
		}
		if r.Bad || !r.End() {
			t.Errorf("seed %d: what is left is not JSON", seed)
		}
		if l.short.on {
			t.Errorf("seed %d: the next line would be shortened", seed)
		}
	}
}

// A long string that never ends is shortened too.
func TestShortenerUnterminated(t *testing.T) {
	line := []byte(`{"a":"` + strings.Repeat("x", 2*maxWhole))
	var got []byte
	l := lines{max: maxLine, line: func(line, _ []byte) { got = bytes.Clone(line) }}
	for p := range slices.Chunk(line, 1000) {
		l.Write(p)
	}
	l.end()
	if n := jsonscan.Len(got); len(got) > maxWhole+maxHead || n != len(line) {
		t.Errorf("%d bytes are left of %d, not of %d", len(got), n, len(line))
	}
}
