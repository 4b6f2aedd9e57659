package condition_test

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/receipt/condition"
)

// What can be wrong with a condition is found before the run.
func TestInvalidConditions(t *testing.T) {
	for text, want := range map[string]string{
		"cst > 2":                                "undefined: cst",
		"cost > 'a'":                             "> string not implemented",
		"tools > 100 and cost > 'a'":             "> string not implemented",
		"succeeded or tools_failed > 'a'":        "int > string not implemented",
		"any([r.modl == 'x' for r in runs])":     "no .modl attribute",
		"cost":                                   "its value is of type int, not bool",
		"cost >":                                 "got end of file",
		"cost = 2":                               "want EOF",
		"[x for x in range(100000000)] == []":    "too many steps",
		"any([len(r.tools) > 1 for r in runs])":  "int has no len",
		"cost > 2; succeeded":                    "want EOF",
		"load('x', 'y')":                         "want primary expression",
		"runs[0].subagents[0].cost > input_toks": "undefined: input_toks",
	} {
		if _, err := condition.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
