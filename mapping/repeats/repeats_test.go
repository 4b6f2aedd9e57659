package repeats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/agent"
)

// TestRepeats reads a call from each word: the tool, and its arguments after a dot.
func TestRepeats(t *testing.T) {
	for calls, want := range map[string]string{
		"A A A":                   "1 2 3",
		"A B A B A B":             "1 1 1 2 2 3",
		"A B C A B C A B C":       "1 1 1 1 1 2 2 2 3",
		"A B C D A B C D A B C D": "1 1 1 1 1 1 1 2 2 2 2 3",
		"A B C D E A B C D E":     "1 1 1 1 1 1 1 1 1 1",
		"A B A A B A A":           "1 1 1 2 1 2 2",
		"A.1 A.2 A.3":             "1 1 1",
		"A.1 B.1":                 "1 1",
	} {
		var p Repeats
		var got []string
		for call := range strings.FieldsSeq(calls) {
			name, argument, _ := strings.Cut(call, ".")
			got = append(got, fmt.Sprint(p.Called(&agent.Tool{Name: name, Arguments: []byte(`{"x":"` + argument + `"}`)})))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", calls, got, want)
		}
	}
}

func TestCanonicalArguments(t *testing.T) {
	var p Repeats
	for i, arguments := range []string{
		`{"a":1,"b":{"c":"é","d":[1,2]},"toolCallId":"1"}`,
		`{ "b": {"d":[1,2], "c":"\u00e9"}, "toolCallId":"2", "a":1 }`,
		`{"toolCallId":"3","a":1.0,"b":{"c":"é","d":[1,2]}}`,
	} {
		if got := p.Called(&agent.Tool{Name: "t", Arguments: []byte(arguments)}); got != i+1 {
			t.Errorf("%s is call %d in a row, want %d", arguments, got, i+1)
		}
	}
	for _, other := range []string{`{"a":1,"b":{"c":"é","d":[2,1]}}`, `{"a":`, `{"a":2}`, `{"a":null}`, `{"a":"1"}`, `{"a":[1]}`, `[{"a":1}]`, `"a"`, strings.Repeat("[", 10_000)} {
		if got := p.Called(&agent.Tool{Name: "t", Arguments: []byte(other)}); got != 1 {
			t.Errorf("%.20s is call %d in a row", other, got)
		}
	}
	seeds := map[uint64]bool{}
	for range 8 {
		var p Repeats
		p.Called(&agent.Tool{Name: "t", Arguments: []byte("{}")})
		seeds[p.last[0]] = true
	}
	if len(seeds) < 8 {
		t.Error("the hash has no key of its own in each run")
	}
}
