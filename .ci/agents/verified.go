package main

import (
	"fmt"
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// What was verified is written into the docs and the product by the kit, and by nobody else.
const (
	verifiedPage  = "mapping/agent/README.md"
	verifiedBegin = "<!-- verified -->\n"
	verifiedEnd   = "<!-- end of verified -->\n"
	verifiedGo    = "mapping/agent/verified.go"
	readme        = "README.md"
	buildsFile    = ".ci/agents/builds.txt"
)

// A row says what was verified of an agent.
type row struct{ Agent, Build, Day, Right, Live, Log string }

const notRun = "not run"

func (r row) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", r.Agent, r.Build, r.Day, r.Right, r.Live, r.Log)
}

const tableHead = "| agent | build | day | scenarios right | misattributed live | by log |\n|---|---|---|---|---|---|\n"

// readTable returns the page with the table, and its rows by agent.
func readTable() (page string, rows map[string]row, err error) {
	text, err := os.ReadFile(verifiedPage)
	if err != nil {
		return "", nil, err
	}
	_, rest, begins := strings.Cut(string(text), verifiedBegin)
	table, _, ends := strings.Cut(rest, verifiedEnd)
	if !begins || !ends {
		return "", nil, fmt.Errorf("%s has no place for the table", verifiedPage)
	}
	rows = map[string]row{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) == 6 && cells[0] != "| agent" {
			r := row{strings.TrimPrefix(cells[0], "| "), cells[1], cells[2], cells[3], cells[4], strings.TrimSuffix(cells[5], " |")}
			if !strings.HasPrefix(r.Right, notRun) {
				rows[r.Agent] = r
			}
		}
	}
	return string(text), rows, nil
}

// tableOf returns the table of all agents, in the order of the entries.
func tableOf(rows map[string]row) string {
	text := tableHead
	for _, e := range entries {
		r, ok := rows[e.Title]
		if !ok && !e.packaged() {
			continue
		}
		if !ok {
			r = row{e.Title, e.build(), "", notRun, "", ""}
		}
		text += r.String()
	}
	for _, name := range slices.Sorted(maps.Keys(unavailable)) {
		if _, ok := rows[name]; ok { // by --bin
			continue
		}
		text += row{name, "", "", notRun + ": " + unavailable[name], "", ""}.String()
	}
	return text
}

// rowOf sums up what was found of an agent.
func rowOf(e *agentEntry, results []*result, day time.Time) row {
	r := row{Agent: e.Title, Build: e.build(), Day: day.Format(time.DateOnly)}
	right := map[string]bool{}
	var live, log [2]float64
	for _, res := range results {
		name := res.run.info.Scenario
		if _, seen := right[name]; !seen {
			right[name] = true
		}
		for _, v := range res.verdicts {
			if !v.allRight() {
				right[name] = false
			}
			if v.Times == nil || v.Times.Skipped != "" {
				continue
			}
			switch v.Way {
			case wayPipe:
				live[0], live[1] = live[0]+v.Times.Wrong, live[1]+v.Times.Run
			case wayLog:
				log[0], log[1] = log[0]+v.Times.Wrong, log[1]+v.Times.Run
			}
		}
	}
	n := 0
	for _, ok := range right {
		if ok {
			n++
		}
	}
	r.Right = fmt.Sprintf("%d of %d", n, len(right))
	share := func(of [2]float64) string {
		if of[1] == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f %%", percent(of[0], of[1]))
	}
	r.Live, r.Log = share(live), share(log)
	return r
}

// allRight reports whether nothing is wrong but what the way of reading does not tell.
func (v *verdict) allRight() bool {
	return !slices.ContainsFunc(v.Findings, func(f finding) bool { return f.Why == "" || f.Wrong })
}

// accept writes what was found: shapes, builds, the tables, and the leaf of the product.
func accept(results []*result) error {
	byAgent := map[string][]*result{}
	for _, r := range results {
		byAgent[r.run.info.Agent] = append(byAgent[r.run.info.Agent], r)
	}
	page, rows, err := readTable()
	if err != nil {
		return err
	}
	for _, e := range entries {
		of := byAgent[e.Name]
		if len(of) == 0 {
			continue
		}
		e.Version = strings.Replace(e.Version, e.build(), of[0].run.info.Version, 1)
		s := shapes{}
		latest := 0.0
		for _, r := range of {
			if err := s.add(r.run.folder); err != nil {
				return err
			}
			latest = max(latest, r.run.info.End)
		}
		if err := os.MkdirAll(shapeFolder, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(shapeFolder, e.Name+".txt"), []byte(s.text(e.build())), 0o644); err != nil {
			return err
		}
		rows[e.Title] = rowOf(e, of, time.Unix(int64(latest), 0).UTC())
	}
	return writeVerified(page, rows)
}

func writeVerified(page string, rows map[string]row) error {
	before, rest, _ := strings.Cut(page, verifiedBegin)
	_, after, _ := strings.Cut(rest, verifiedEnd)
	files := map[string]string{verifiedPage: before + verifiedBegin + tableOf(rows) + verifiedEnd + after, buildsFile: buildsText()}
	leaf, err := leafText(rows)
	if err != nil {
		return err
	}
	files[verifiedGo] = leaf
	if files[readme], err = readmeText(rows); err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// leafText is the product's table of verified builds.
func leafText(rows map[string]row) (string, error) {
	text := `// Code generated by .ci/agents; DO NOT EDIT.

package agent

// verified are the newest builds that spantee was checked with, by the agent's name.
var verified = map[string]string{
`
	for _, e := range entries {
		if r, ok := rows[e.Title]; ok {
			text += fmt.Sprintf("%q: %q,\n", agent.Find(e.Flag).Name, r.Build)
		}
	}
	formatted, err := format.Source([]byte(text + "}\n"))
	return string(formatted), err
}

// readmeText is the top page with the kit's column in its table of agents, the last one.
func readmeText(rows map[string]row) (string, error) {
	page, err := os.ReadFile(readme)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	in, found := false, false
	for line := range strings.Lines(string(page)) {
		switch {
		case strings.HasPrefix(line, "| agent | command |"):
			in, found = true, true
		case !strings.HasPrefix(line, "|"):
			in = false
		}
		if in {
			line = withColumn(line, rows)
		}
		text.WriteString(line)
	}
	if !found {
		return "", fmt.Errorf("%s has no table of agents", readme)
	}
	return text.String(), nil
}

// columnsBefore is how many columns the table has before the kit's.
const columnsBefore = 6

func withColumn(line string, rows map[string]row) string {
	cells := strings.Split(strings.TrimSpace(line), "|")
	cells = cells[1 : columnsBefore+1]
	last := " "
	switch name := strings.TrimSpace(cells[0]); name {
	case "agent":
		last = " verified with "
	case "---":
		last = "---"
	default:
		for _, r := range rows {
			if strings.TrimSuffix(name, " CLI") == strings.TrimSuffix(r.Agent, " CLI") {
				last = " " + r.Build + " "
			}
		}
	}
	return "|" + strings.Join(cells, "|") + "|" + last + "|\n"
}

// buildsText are the pinned builds.
func buildsText() string {
	text := "# The builds that the kit runs. It writes this file with --accept.\n"
	for _, e := range entries {
		if !e.packaged() {
			continue
		}
		text += e.Name + " " + e.Package + " " + e.Version + "\n"
	}
	return text
}

// checkPinned fails if the pinned builds, the tables and the leaf differ.
func checkPinned() error {
	page, rows, err := readTable()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if r, ok := rows[e.Title]; ok && e.packaged() && r.Build != e.build() {
			return fmt.Errorf("%s was verified with %s, and %s is pinned: run the kit with --accept", e.Title, r.Build, e.build())
		}
		_, build, err := readShapes(filepath.Join(shapeFolder, e.Name+".txt"))
		if err != nil {
			return err
		}
		if build != "" && build != e.build() {
			return fmt.Errorf("the shapes of %s are of %s, and %s is pinned: run the kit with --accept", e.Title, build, e.build())
		}
	}
	if !strings.Contains(page, verifiedBegin+tableOf(rows)+verifiedEnd) {
		return fmt.Errorf("%s: the table is not as the kit writes it", verifiedPage)
	}
	leaf, err := leafText(rows)
	if err != nil {
		return err
	}
	top, err := readmeText(rows)
	if err != nil {
		return err
	}
	for path, want := range map[string]string{verifiedGo: leaf, readme: top} {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if string(text) != want {
			return fmt.Errorf("%s differs from %s: run the kit with --accept", path, verifiedPage)
		}
	}
	return nil
}
