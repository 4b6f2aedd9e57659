package condition_test

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/condition"
)

// What can be wrong with a condition is found before the run, and without evaluating it.
func TestInvalidConditions(t *testing.T) {
	const only = "want only names, literals, comparisons, and, or, not, in, and arithmetic"
	for text, want := range map[string]string{
		"cst > 2":                               `unknown field cst at "cst > 2" (example: tools_failed > 3 or cost > 2)`,
		"tools > 1 and tols > 3":                `unknown field tols at "tols > 3" (example: `,
		"tools_failed > 3 )":                    `unexpected ')' at ")" (example: `,
		"cost >> 2":                             `unknown operator >> at "cost >> 2" (example: `,
		"turns or len(failures) > 2":            only + ` at "len(failures) > 2" (example: `,
		"turns or\ntols > 3":                    `cannot parse it from "`,
		"(turns or\ntols > 3)":                  `unknown field tols at "tols > 3)" (example: `,
		"cost > 'a'":                            "> does not combine a number and a text",
		"tools > 100 and cost > 'a'":            "> does not combine a number and a text",
		"succeeded or tools_failed > 'a'":       "> does not combine a number and a text",
		"succeeded == 1":                        "== does not combine a boolean and a number",
		"runs < runs":                           "< does not combine a list and a list",
		"1 in failures":                         "in does not combine a number and a dict",
		"not succeeded > 'a'":                   "> does not combine a boolean and a text",
		"-succeeded":                            "- needs a number, not a boolean",
		"cost.seconds > 1":                      "cost is a number, which has no fields",
		"cost >":                                "it ends too early (example: tools_failed > 3 or cost > 2)",
		"cost = 2":                              `cannot parse it from "= 2" on (example: `,
		"1 < tools < 3":                         "does not associate",
		"cost > 2; succeeded":                   `cannot parse it from "2; succeeded" on`,
		"load('x', 'y')":                        `cannot parse it from "load('x', 'y')" on`,
		"print('x')":                            only,
		"len(runs) > 1":                         only,
		"runs[0]":                               only,
		"any([r.succeeded for r in runs])":      only,
		"[x for x in runs]":                     only,
		"{'a': 1}":                              only,
		"lambda: 1":                             only,
		"1 if succeeded else 2":                 only,
		"runs.append":                           "runs is a list, which has no fields",
		"b'x' == b'x'":                          only,
		"'x' * 1000000000":                      "* does not combine a text and a number",
		"[1] * 1000000000":                      "* does not combine a list and a number",
		"'a' + 'b' == 'ab'":                     "+ does not combine a text and a text",
		"'%1000000000d' % 1":                    "% does not combine a text and a number",
		"1 << 500 > 1":                          "unknown operator <<",
		"~tools":                                only,
		strings.Repeat("(", 5000) + "1":         "longer than 4096 bytes",
		strings.Repeat("not ", 900) + "x":       "unknown field x",
		strings.Repeat("(", 2000) + "1":         "excessive nesting",
		"[" + strings.Repeat("1,", 2000) + "x]": "unknown field x",
	} {
		if _, err := condition.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Truth is Starlark's: a number, a text or a list can be a condition.
func TestTruth(t *testing.T) {
	r := &receipt.Receipt{Totals: receipt.Totals{Counts: receipt.Counts{
		Tools: 3, Failures: map[string]int{"denied": 1}, LimitsReached: []string{"max-tools"},
		Doubts: []string{"denied"}, DoubtCounts: map[string]int{"denied": 2},
	}}}
	for text, want := range map[string]bool{
		"tools": true, "turns": false, "limits_reached": true, "runs": false, "failures": true, "''": false, "'x'": true,
		"[]": false, "[0]": true, "(1, 2)": true, "0.0": false, "runs or tools": true, "tools and runs": false,
		"tools / 2 == 1.5": true, "tools // 2 == 1": true, "'max' in 'max-tools'": true, "3 in [tools]": true,
		"doubts": true, "not doubts": false, `"denied" in doubts`: true, `"no_work" in doubts`: false, `"denied" in doubt_counts`: true,
		"succeeded and doubts": false, `doubts == ["denied"]`: true,
		"not turns": true, "'denied' in failures and 'other' not in failures": true,
	} {
		c, err := condition.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if holds, err := c.Holds(r); holds != want || err != nil {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
}
