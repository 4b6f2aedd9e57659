package viewer

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

// Runs is the answer for "runs over time": what the runs of a RunsQuery that ended have in
// common.
type Runs struct {
	Unindexed int         `json:"unindexed,omitempty"`
	Agents    []string    `json:"agents"`
	Models    []string    `json:"models"`
	Folders   []string    `json:"folders"`
	All       *Measures   `json:"all"`
	Groups    []*Measures `json:"groups"`
	Days      []*Measures `json:"days"` // with runs; narrowed to no day
	Each      []*Single   `json:"each"` // the last maxEach runs, if there is only one day
	Tools     []*ToolTime `json:"tools"`
	Peaks     []*Single   `json:"peaks"`

	Errors map[string]int `json:"errors"` // how many runs failed in each way
}

// A RunsQuery selects runs. Only narrows them further, such as to "day:2026-11-25", "tool:shell",
// "failing tool:shell" or "error:timeout".
type RunsQuery struct {
	Query
	By     string // day, agent, model or folder
	Only   []string
	Prices runs.Prices // of runs that do not state their cost
}

// Measures are sums and quantiles of a group of runs. Times are in microseconds, null if none
// is known; a cost is in US dollars.
type Measures struct {
	Name         string   `json:"name"`
	Runs         int      `json:"runs"`
	Failed       int      `json:"failed"`
	Timeless     int      `json:"timeless"` // in no time
	DurationP50  *float64 `json:"durationP50"`
	DurationP95  *float64 `json:"durationP95"`
	FirstP50     *float64 `json:"firstP50"`
	FirstP95     *float64 `json:"firstP95"`
	ToolP50      *float64 `json:"toolP50"`
	ToolP95      *float64 `json:"toolP95"`
	Tools        int64    `json:"tools"`
	ToolErrors   int64    `json:"toolErrors"`
	Input        int64    `json:"input"`
	Output       int64    `json:"output"`
	Stated       float64  `json:"stated"`
	StatedRuns   int      `json:"statedRuns"`
	Computed     float64  `json:"computed"`
	ComputedRuns int      `json:"computedRuns"`

	durations, firsts, calls []float32 // exact to a millionth
}

// A Single is one run, with a title if it has most of something.
type Single struct {
	Title   string  `json:"title,omitempty"`
	Session Session `json:"session"`
	Measures

	row  int64
	most float64
}

// ToolTime is what the calls of an agent's tool took: tools of the same name differ by agent.
type ToolTime struct {
	Name   string   `json:"name"`
	Agent  string   `json:"agent"`
	Calls  int      `json:"calls"`
	Failed int      `json:"failed"`
	Total  int64    `json:"total"`
	P50    *float64 `json:"p50"`
	P95    *float64 `json:"p95"`

	times []float32
}

// A tally adds up runs.
type tally struct {
	RunsQuery
	found        []int64 // rows that the search found, nil without one
	outcomes     []bool  // that the search asks for
	poorer       []int64 // rows of copies that do not count
	all          Measures
	groups, days map[string]*Measures
	byDay        bool // groups are days
	each         []*Single
	tools        map[[2]string]*ToolTime // by agent and name
	called       []*ToolTime             // by the last run
	failures     map[string]int
	peaks        [3]Single // by duration, cost and failed tools

	day      string // of the last run, which began from dayFrom on and before dayTo
	from, to int64
}

// Runs answers a RunsQuery. Its error may be errTooManyWords.
func (s *Store) Runs(ctx context.Context, q RunsQuery) (a Runs, err error) {
	from := s.read.during(ctx)
	l, err := s.offer(from, q.Query)
	if err != nil {
		return a, err
	}
	t := tally{RunsQuery: q, days: make(map[string]*Measures), groups: make(map[string]*Measures), tools: make(map[[2]string]*ToolTime), failures: make(map[string]int)}
	if t.found, t.outcomes, err = s.search(from, q.Search); err != nil {
		return a, err
	}
	if t.poorer, err = poorerRows(from); err != nil {
		return a, err
	}
	if t.byDay = q.By == "day" && !slices.ContainsFunc(q.Only, func(only string) bool { return strings.HasPrefix(only, "day:") }); t.byDay {
		t.groups = t.days
	}
	var o outline
	var b sql.RawBytes
	if err := each(from, func(scan func(...any) error) error {
		if err := scan(&b); err != nil {
			return err
		}
		for r := range outlinesIn(b) {
			if o.read(r.outline); t.selects(r.row, &o) {
				t.add(r.row, &o)
			}
		}
		return nil
	}, `SELECT outlines FROM run`); err != nil {
		return a, err
	}
	a = t.answer()
	a.Unindexed, a.Agents, a.Models, a.Folders = l.Unindexed, l.Agents, l.Models, l.Folders
	for _, one := range slices.Concat(a.Peaks, a.Each) {
		found, _, err := s.sessions(from, listed+`WHERE row = ?`, one.row)
		if err != nil {
			return a, err
		}
		if one.finish(); len(found) > 0 { // it was not removed meanwhile
			one.Session = found[0]
		}
	}
	return a, nil
}

// selects reports whether a run is one of the Query.
func (t *tally) selects(row int64, o *outline) bool {
	has := func(rows []int64) bool { _, has := slices.BinarySearch(rows, row); return has }
	well := len(o.failure) == 0 && o.toolErrors == 0
	switch {
	case t.Failed && well, t.Running, o.start < t.Since, t.Agent != "" && string(o.agent) != t.Agent, t.Model != "" && string(o.model) != t.Model, t.Folder != "" && string(o.folder) != t.Folder,
		slices.Contains(t.outcomes, well), t.found != nil && !has(t.found):
		return false
	}
	return !has(t.poorer)
}

// add adds a run, if it is among those that the query is narrowed to.
func (t *tally) add(row int64, o *outline) {
	if o.start < t.from || o.start >= t.to {
		at := time.UnixMicro(o.start)
		begin := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.Local)
		t.day, t.from, t.to = at.Format(time.DateOnly), begin.UnixMicro(), begin.AddDate(0, 0, 1).UnixMicro()
	}
	other, otherDay := t.leavesOut(o)
	if other {
		return
	}
	cost, computed := o.usage.Cost, false
	if !o.usage.CostKnown {
		cost, computed = t.Prices.Cost(string(o.model), o.usage)
	}
	measured(t.days, t.day).add(o, cost, computed)
	if otherDay {
		return
	}
	t.all.add(o, cost, computed)
	if len(t.days) == 1 {
		one := &Single{row: row}
		one.add(o, cost, computed)
		t.each = append(t.each[max(0, len(t.each)-maxEach+1):], one)
	}
	if !t.byDay {
		measured(t.groups, t.groupOf(o)).add(o, cost, computed)
	}
	t.addCalls(o)
	if len(o.failure) > 0 && (t.failures[string(o.failure)] > 0 || len(t.failures) < maxGroups) {
		t.failures[string(o.failure)]++
	}
	took := float64(o.took)
	if o.timeless {
		took = 0
	}
	for i, value := range []float64{took, cost, float64(o.toolErrors)} {
		if value > t.peaks[i].most {
			t.peaks[i] = Single{row: row, most: value}
			t.peaks[i].add(o, cost, computed)
		}
	}
}

// leavesOut reports whether a run is not what the query is narrowed to, and whether that is
// only because of its day.
func (t *tally) leavesOut(o *outline) (other, otherDay bool) {
	for _, only := range t.Only {
		key, value, _ := strings.Cut(only, ":")
		is := false
		switch key {
		case "day":
			otherDay = otherDay || t.day != value
			continue
		case "agent", "model", "folder":
			is = groupName(o, key) == value
		case "error":
			is = string(o.failure) == value
		case "tool":
			is = slices.ContainsFunc(o.toolNames, func(name []byte) bool { return string(name) == value })
		case "failing tool":
			is = slices.ContainsFunc(o.calls, func(c runs.Call) bool {
				return c.Failed && int(c.Tool) < len(o.toolNames) && string(o.toolNames[c.Tool]) == value
			})
		}
		if !is {
			return true, false
		}
	}
	return false, otherDay
}

func (t *tally) groupOf(o *outline) string {
	if t.By == "day" {
		return t.day
	}
	return groupName(o, t.By)
}

func groupName(o *outline, by string) string {
	name := o.folder
	switch by {
	case "agent":
		name = o.agent
	case "model":
		name = o.model
	}
	if len(name) == 0 {
		return "unknown"
	}
	return string(name)
}

func measured(groups map[string]*Measures, name string) *Measures {
	m := groups[name]
	if m == nil {
		m = &Measures{Name: name}
		groups[name] = m
	}
	return m
}

func (m *Measures) add(o *outline, cost float64, computed bool) {
	m.Runs++
	if len(o.failure) > 0 {
		m.Failed++
	}
	if o.timeless {
		m.Timeless++
	} else {
		m.durations = push(m.durations, o.took)
		if o.firstChunk > 0 {
			m.firsts = push(m.firsts, o.firstChunk)
		}
		for _, call := range o.calls {
			m.calls = push(m.calls, call.Took.Microseconds())
		}
	}
	m.Tools += o.tools
	m.ToolErrors += o.toolErrors
	m.Input += o.usage.InputTokens
	m.Output += o.usage.OutputTokens
	switch {
	case computed:
		m.Computed += cost
		m.ComputedRuns++
	case o.usage.CostKnown:
		m.Stated += cost
		m.StatedRuns++
	}
}

func (t *tally) addCalls(o *outline) {
	t.called = t.called[:0]
	for _, name := range o.toolNames {
		tool := t.tools[[2]string{string(o.agent), string(name)}]
		if tool == nil {
			tool = &ToolTime{Name: string(name), Agent: string(o.agent)}
			t.tools[[2]string{tool.Agent, tool.Name}] = tool
		}
		t.called = append(t.called, tool)
	}
	for _, call := range o.calls {
		if int(call.Tool) >= len(t.called) {
			continue
		}
		tool := t.called[call.Tool]
		tool.Calls++
		if call.Failed {
			tool.Failed++
		}
		if !o.timeless {
			tool.Total += call.Took.Microseconds()
			tool.times = push(tool.times, call.Took.Microseconds())
		}
	}
}

const (
	maxGroups = 4000 // more than anybody looks at
	maxEach   = 100
)

// answer computes the quantiles.
func (t *tally) answer() Runs {
	a := Runs{All: &t.all, Days: finished(t.days), Tools: []*ToolTime{}, Errors: t.failures, Peaks: []*Single{}, Each: []*Single{}}
	if len(t.days) == 1 {
		a.Each = t.each
	}
	if a.Groups = a.Days; !t.byDay {
		a.Groups = finished(t.groups)
	}
	t.all.finish()
	for _, tool := range t.tools {
		tool.P50, tool.P95 = quantiles(tool.times)
		a.Tools = append(a.Tools, tool)
	}
	slices.SortFunc(a.Tools, func(x, y *ToolTime) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Agent, y.Agent))
	})
	a.Tools = a.Tools[:min(len(a.Tools), maxGroups)]
	for i, title := range []string{"Slowest", "Most expensive", "Most failures"} {
		if p := &t.peaks[i]; p.most > 0 {
			p.Title = title
			a.Peaks = append(a.Peaks, p)
		}
	}
	return a
}

// finished returns groups with their quantiles, by name.
func finished(groups map[string]*Measures) []*Measures {
	list := slices.AppendSeq([]*Measures{}, maps.Values(groups)) // in JSON it is a list without any, too
	slices.SortFunc(list, func(a, b *Measures) int { return cmp.Compare(a.Name, b.Name) })
	list = list[max(0, len(list)-maxGroups):] // the latest days
	for _, m := range list {
		m.finish()
	}
	return list
}

func (m *Measures) finish() {
	m.DurationP50, m.DurationP95 = quantiles(m.durations)
	m.FirstP50, m.FirstP95 = quantiles(m.firsts)
	m.ToolP50, m.ToolP95 = quantiles(m.calls)
	m.durations, m.firsts, m.calls = nil, nil, nil
}

// push appends a value. The list doubles: append would copy a long one more often.
func push(values []float32, v int64) []float32 {
	if len(values) == cap(values) {
		values = slices.Grow(values, len(values)+1)
	}
	return append(values, float32(max(0, v)))
}

// quantiles returns the values of the nearest ranks, nil if there are no values.
func quantiles(values []float32) (p50, p95 *float64) {
	if len(values) == 0 {
		return nil, nil
	}
	a, b := ranked(values, (len(values)+1)/2-1), ranked(values, (len(values)*95+99)/100-1)
	return &a, &b
}

// ranked returns the value that sorting would put at rank, of which it finds some bits at a time:
// sorting a million values would take longer than reading them. None is negative, so that they are
// in the order of their bits.
func ranked(values []float32, rank int) float64 {
	const bits, digit = 11, 1<<11 - 1
	var known, mask uint32
	for shift := 2 * bits; shift >= 0; shift -= bits {
		var counts [digit + 1]int
		for _, v := range values {
			if b := math.Float32bits(v); b&mask == known {
				counts[b>>shift&digit]++
			}
		}
		next := uint32(0)
		for ; rank >= counts[next]; next++ {
			rank -= counts[next]
		}
		known |= next << shift
		mask |= digit << shift
	}
	return float64(math.Float32frombits(known))
}
