package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The kit finds faults: with each of these mappings, which are wrong, it finds the cell that is
// wrong in a kept run that is right with the present mapping.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds spantee four times")
	}
	const (
		file = "mapping/mapper.go"
		loop = "\tfor i := range m.events {\n\t\tev := &m.events[i]\n"
	)
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(tree, file))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(source), loop) != 1 {
		t.Fatalf("%s has no loop over the events to be changed", file)
	}
	for _, mutant := range []struct{ name, before, within, cell string }{
		{name: "right"},
		{name: "a failure swallowed", within: "if ev.Kind == agent.ToolEnd && ev.Tool != nil {\nev.Tool.ErrorType = \"\"\n}\n", cell: cellFailed},
		{name: "tokens doubled", within: "if ev.Usage != nil {\nev.Usage.Input *= 2\n}\n", cell: cellTokens},
		{name: "a tool's end taken from the next line", cell: cellOrder, before: `
	for i := range heldEnds {
		heldEnds[i].Time, heldEnds[i].Arrival, heldEnds[i].Length, heldEnds[i].End = m.events[0].Time, m.events[0].Arrival, 0, 0
	}
	events := heldEnds
	heldEnds = nil
	for i := range m.events {
		if ev := &m.events[i]; ev.Kind == agent.ToolEnd {
			heldEnds = append(heldEnds, ev.Kept())
		} else {
			events = append(events, *ev)
		}
	}
	m.events = events
`, within: "if ev.Kind == agent.ToolEnd {\nm.sessions.dispatch(m.sessions.find(a, ev.Session), ev) // and not from the session's log\ncontinue\n}\n"},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			text := strings.Replace(string(source), loop, mutant.before+loop+mutant.within, 1)
			if mutant.before != "" {
				text = strings.Replace(text, "\tm.events = events\n", "\tm.events = events\n\tif len(m.events) == 0 {\n\t\treturn\n\t}\n", 1)
				text = strings.Replace(text, "\tfor i := range heldEnds {", "\tif len(m.events) == 0 {\n\t\treturn\n\t}\n\tfor i := range heldEnds {", 1) + "\nvar heldEnds []agent.Event\n"
			}
			dir := t.TempDir()
			binary := filepath.Join(dir, "spantee")
			if err := buildShifted(tree, binary, dir, map[string]string{filepath.Join(tree, file): text}); err != nil {
				t.Fatal(err)
			}
			if found := findings(t, binary, dir); mutant.cell == "" && len(found) > 0 || mutant.cell != "" && !slices.Contains(found, mutant.cell) {
				t.Errorf("the wrong cells are %q, want %q", found, mutant.cell)
			}
		})
	}
}

// findings maps the runs in testdata with a spantee, and returns the cells that are wrong.
func findings(t *testing.T, binary, dir string) (cells []string) {
	t.Helper()
	folders, err := findRuns("testdata/kept")
	if err != nil || len(folders) == 0 {
		t.Fatal("no runs", err)
	}
	var runs []*keptRun
	for _, folder := range folders {
		k, err := readRun(folder)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, k)
	}
	results, err := mapAgain(binary, runs, func(k *keptRun) (string, error) { return filepath.Join(dir, k.name()), nil })
	if err != nil {
		t.Fatal(err)
	}
	x, err := readExceptions(exceptionsText)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		x.excuse(r)
		for _, v := range r.verdicts {
			for _, f := range v.Findings {
				if v.Way == wayPipe && f.Why == "" {
					t.Logf("%s, %s: %s: %s", r.run.name(), v.Way, f.Cell, f.Text)
					cells = append(cells, f.Cell)
				}
			}
		}
	}
	return cells
}
