package redact

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// TestPatterns makes up texts that each pattern matches and checks that looking
// around words only finds what looking everywhere does.
func TestPatterns(t *testing.T) {
	t.Parallel()
	var file struct{ Rules []pattern }
	if err := json.Unmarshal(gitleaks, &file); err != nil {
		t.Fatal(err)
	}
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("func add(a, b int) int { return a + b }\n", 100)
	samples, tried := 10, 0
	if testing.Short() {
		samples = 3
	}
	for _, p := range slices.Concat(rulesTable().patterns, file.Rules) {
		re := regexp.MustCompile(p.Regex)
		parsed, err := syntax.Parse(p.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		for n := range samples {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(len(p.Regex)))) // of its own: a new pattern changes no other's texts
			sample := example(rng, parsed)
			if !slices.ContainsFunc(p.Keywords, func(k string) bool { return strings.Contains(strings.ToLower(sample), k) }) {
				sample = p.Keywords[0] + " " + sample
			}
			text := newView(filler + sample + "\n" + filler).text
			for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
				search := newSearch(p)
				start, end := group(m, search.Group)
				if secret := text[start:end]; entropy(secret) < p.Entropy || placeholder(secret) || !search.looks(secret) || m[1]-m[0] > search.reach {
					continue
				}
				tried++
				if !slices.ContainsFunc(r.Find(text), func(f Finding) bool { return f.Start <= start && end <= f.End }) {
					t.Errorf("%s does not find %q in %q", p.ID, text[start:end], sample)
				}
			}
		}
	}
	if tried < 100*samples {
		t.Errorf("%d texts tried", tried)
	}
}

// example makes up a text that matches.
func example(rng *rand.Rand, re *syntax.Regexp) string {
	var b strings.Builder
	times := 0
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		for { // a letter, unless there is none in it
			i := 2 * rng.IntN(len(re.Rune)/2)
			c := re.Rune[i] + rng.Int32N(min(re.Rune[i+1]-re.Rune[i], 90)+1)
			if ' ' < c && c <= '~' || times > 20 {
				return string(c)
			}
			times++
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return string(rune('a' + rng.IntN(26)))
	case syntax.OpCapture:
		return example(rng, re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			b.WriteString(example(rng, sub))
		}
	case syntax.OpAlternate:
		return example(rng, re.Sub[rng.IntN(len(re.Sub))])
	case syntax.OpQuest:
		times = rng.IntN(2)
	case syntax.OpStar, syntax.OpPlus:
		times = 1 + rng.IntN(30)
	case syntax.OpRepeat:
		times = re.Min
		if re.Max != 0 {
			times += rng.IntN(max(1, min(30, re.Max-re.Min+1)))
		}
	}
	for range times {
		b.WriteString(example(rng, re.Sub[0]))
	}
	return b.String()
}
