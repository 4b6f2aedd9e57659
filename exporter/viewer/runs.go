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
	All       *Measures   `json:"all"`
	Groups    []*Measures `json:"groups"`
	Days      []*Measures `json:"days"` // with runs; narrowed to no day
	Tools     []*ToolTime `json:"tools"`
	Errors    []*Failure  `json:"errors"`
	Peaks     []*Peak     `json:"peaks"`
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

// ToolTime is what the calls of a tool took.
type ToolTime struct {
	Name   string   `json:"name"`
	Calls  int      `json:"calls"`
	Failed int      `json:"failed"`
	Total  int64    `json:"total"`
	P50    *float64 `json:"p50"`
	P95    *float64 `json:"p95"`

	times []float32
}

// A Failure is a way in which runs failed.
type Failure struct {
	Name string `json:"name"`
	Runs int    `json:"runs"`
}

// A Peak is the run that has most of something.
type Peak struct {
	Title    string  `json:"title"`
	Value    float64 `json:"value"`
	Computed bool    `json:"computed,omitempty"` // a cost that is not stated
	Session  Session `json:"session"`

	row int64
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
	tools        map[string]*ToolTime
	called       []*ToolTime // by the last run
	failures     map[string]*Failure
	peaks        [3]Peak // by duration, cost and failed tools

	day      string // of the last run, which began from dayFrom on and before dayTo
	from, to int64
}

// Runs answers a RunsQuery. Its error may be errTooManyWords.
func (s *Store) Runs(ctx context.Context, q RunsQuery) (a Runs, err error) {
	from := s.read.during(ctx)
	var l List
	if err := l.facets(from); err != nil {
		return a, err
	}
	if q.Search != "" {
		if l.Unindexed, err = s.catchUp(from); err != nil {
			return a, err
		}
	}
	t := tally{RunsQuery: q, days: make(map[string]*Measures), groups: make(map[string]*Measures), tools: make(map[string]*ToolTime), failures: make(map[string]*Failure)}
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
	a.Unindexed, a.Agents, a.Models = l.Unindexed, l.Agents, l.Models
	for _, p := range a.Peaks {
		found, _, err := s.sessions(from, listed+`WHERE row = ?`, p.row)
		if err != nil {
			return a, err
		}
		if len(found) > 0 { // it was not removed meanwhile
			p.Session = found[0]
		}
	}
	return a, nil
}

// selects reports whether a run is one of the Query.
func (t *tally) selects(row int64, o *outline) bool {
	has := func(rows []int64) bool { _, has := slices.BinarySearch(rows, row); return has }
	switch {
	case t.Failed && o.errors == 0, t.Running, o.start < t.Since, t.Agent != "" && string(o.agent) != t.Agent, t.Model != "" && string(o.model) != t.Model,
		slices.Contains(t.outcomes, o.errors == 0), t.found != nil && !has(t.found):
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
	if !t.byDay {
		measured(t.groups, t.groupOf(o)).add(o, cost, computed)
	}
	t.addCalls(o)
	if len(o.failure) > 0 {
		f := t.failures[string(o.failure)]
		if f == nil {
			f = &Failure{Name: string(o.failure)}
			t.failures[f.Name] = f
		}
		f.Runs++
	}
	if !o.timeless {
		t.peaks[0].challenge(row, float64(o.took), false)
	}
	t.peaks[1].challenge(row, cost, computed)
	t.peaks[2].challenge(row, float64(o.toolErrors), false)
}

func (p *Peak) challenge(row int64, value float64, computed bool) {
	if value > p.Value {
		p.row, p.Value, p.Computed = row, value, computed
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
		tool := t.tools[string(name)]
		if tool == nil {
			tool = &ToolTime{Name: string(name)}
			t.tools[tool.Name] = tool
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

// maxGroups is more than anybody looks at.
const maxGroups = 4000

// answer computes the quantiles.
func (t *tally) answer() Runs {
	a := Runs{All: &t.all, Days: finished(t.days), Tools: []*ToolTime{}, Errors: []*Failure{}, Peaks: []*Peak{}}
	if a.Groups = a.Days; !t.byDay {
		a.Groups = finished(t.groups)
	}
	t.all.finish()
	for _, tool := range t.tools {
		tool.P50, tool.P95 = quantiles(tool.times)
		a.Tools = append(a.Tools, tool)
	}
	slices.SortFunc(a.Tools, func(x, y *ToolTime) int { return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Name, y.Name)) })
	a.Tools = a.Tools[:min(len(a.Tools), maxGroups)]
	a.Errors = slices.AppendSeq(a.Errors, maps.Values(t.failures))
	slices.SortFunc(a.Errors, func(x, y *Failure) int { return cmp.Or(cmp.Compare(y.Runs, x.Runs), cmp.Compare(x.Name, y.Name)) })
	a.Errors = a.Errors[:min(len(a.Errors), maxGroups)]
	for i, title := range []string{"Slowest", "Most expensive", "Most failures"} {
		if p := &t.peaks[i]; p.Value > 0 {
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
