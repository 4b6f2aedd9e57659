package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed exceptions.txt
var exceptionsText string

// exceptions are the cells that are not judged because a way of reading does not tell them
// (untold), and those that spantee is known to get wrong (wrong).
type exceptions struct{ rows []*exception }

// An exception holds for some agents, scenarios, ways and cells; "*" is any, "a,b" one of two.
type exception struct {
	Agent, Scenario, Way, Cell, Why string
	Wrong                           bool // spantee's fault: the kit fails when the cell is right
	met, used                       bool // a run was judged that it is about; its cell was wrong
}

// readExceptions reads rows of "untold|wrong AGENT SCENARIO WAY CELL: WHY".
func readExceptions(text string) (*exceptions, error) {
	x := &exceptions{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		row, why, _ := strings.Cut(line, ": ")
		words := strings.Fields(row)
		if len(words) != 5 || why == "" || words[0] != "untold" && words[0] != "wrong" {
			return nil, fmt.Errorf("line %d: invalid row (want untold or wrong, AGENT SCENARIO WAY CELL: WHY)", i+1)
		}
		x.rows = append(x.rows, &exception{Wrong: words[0] == "wrong", Agent: words[1], Scenario: words[2], Way: words[3], Cell: words[4], Why: why})
	}
	return x, nil
}

func match(pattern, s string) bool {
	return pattern == "*" || slices.Contains(strings.Split(pattern, ","), s)
}

func (e *exception) about(k *keptRun, way string) bool {
	return match(e.Agent, k.info.Agent) && match(e.Scenario, k.info.Scenario) && match(e.Way, way)
}

// excuse marks the findings that are excepted.
func (x *exceptions) excuse(r *result) {
	for _, v := range r.verdicts {
		for _, e := range x.rows {
			if !e.about(r.run, v.Way) {
				continue
			}
			e.met = true
			for i := range v.Findings {
				if f := &v.Findings[i]; f.Why == "" && match(e.Cell, f.Cell) {
					f.Why, f.Wrong, e.used = e.Why, e.Wrong, true
				}
			}
		}
	}
}

// passing returns the rows that are said to be wrong, and are right.
func (x *exceptions) passing() (rows []string) {
	for _, e := range x.rows {
		if e.Wrong && e.met && !e.used {
			rows = append(rows, fmt.Sprintf("%s %s %s %s: %s", e.Agent, e.Scenario, e.Way, e.Cell, e.Why))
		}
	}
	return rows
}

// right reports whether nothing is wrong that is not excepted.
func (v *verdict) right() bool {
	return !slices.ContainsFunc(v.Findings, func(f finding) bool { return f.Why == "" })
}
