package runs

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/semconv"
)

// An Activity is what an agent spends time on. Of several at once, the time counts for the
// first.
type Activity int

// The activities. Chat, the model's, is two: it is asked, and then its output comes.
const (
	InApproval Activity = iota
	InTool
	InHook
	InOutput
	InWaiting
	inCaller // a tool that waits for the steps below it. It is counted as a tool.
	InAgent  // the agent's own time
)

var activities = map[Activity]string{
	InApproval: "approvals", InTool: "tools", InHook: "hooks", InOutput: "model output", InWaiting: "waiting for the model", InAgent: "agent's own",
}

// String names the activity as every output does.
func (a Activity) String() string { return activities[a] }

// An Account says what the time of a run went to. The parts add up to the run. The time of
// sub-agents is that of their models and tools. Work in the background does not count, because
// the agent does not wait for it.
type Account struct {
	Parts []Part // that have time, the longest first
	Steps []Part // the same, but tools by what they ran
	Total uint64 // in nanoseconds
}

// A Part is the time of an activity. Each tool has a part of its own.
type Part struct {
	Activity  Activity
	Tool      string // of a step with the program that a shell ran
	Time      uint64 // in nanoseconds
	Calls     int    // of the tool
	Estimated bool   // it rests on a start or end that was inferred
}

// A Share is the part of a run's time that went to steps of one name.
type Share struct {
	Step    string  `json:"step"` // such as "shell npm", or "waiting for the model"
	Seconds float64 `json:"seconds"`
	Calls   int     `json:"calls"` // of a tool
}

// Longest returns at most n steps, those that took longest together.
func (a Account) Longest(n int) []Share {
	list := make([]Share, min(n, len(a.Steps)))
	for i, p := range a.Steps[:len(list)] {
		list[i] = Share{cmp.Or(p.Tool, p.Activity.String()), math.Round(float64(p.Time)/1000) / 1e6, p.Calls}
	}
	return list
}

// Of returns the time of an activity.
func (a Account) Of(activity Activity) (ns uint64) {
	for _, p := range a.Parts {
		if p.Activity == activity {
			ns += p.Time
		}
	}
	return ns
}

// least is the shortest time that says something, in nanoseconds: spantee's times have
// milliseconds, of which it leaves a microsecond free between two spans.
const least = 999_000

// maxTold is how many tools are named in a sentence.
const maxTold = 6

// String is empty without times:
//
//	model 88 % (79 waiting; estimated), shell 9 %, edit 2 %, read 1 %
//
// The percentages add up to 100. What rounds to 0 is left out, and only the whole run is 100 %.
func (a Account) String() string {
	type told struct {
		what      string
		percent   int
		time      uint64
		estimated bool
	}
	var model, waiting, others told
	var list []told
	model.what, others.what = "model", "other tools"
	tools := 0
	for i, percent := range a.percentages() {
		p := a.Parts[i]
		next := told{percent: percent, time: p.Time, estimated: p.Estimated}
		switch p.Activity {
		case InOutput, InWaiting:
			if p.Activity == InWaiting {
				waiting = next
			}
			model.percent += percent
			model.time += p.Time
			model.estimated = model.estimated || p.Estimated && percent > 0
			continue
		case InTool:
			if tools++; tools > maxTold {
				others.percent += percent
				others.time += p.Time
				others.estimated = others.estimated || p.Estimated && percent > 0
				continue
			}
			next.what = p.Tool
		default:
			next.what = p.Activity.String()
		}
		list = append(list, next)
	}
	list = append(list, model)
	slices.SortStableFunc(list, func(a, b told) int { return cmp.Compare(b.percent, a.percent) })
	share := func(t told) string {
		if t.percent == 100 && a.Total-t.time >= least {
			return ">99"
		}
		return strconv.Itoa(t.percent)
	}
	var parts []string
	for _, t := range append(list, others) {
		var notes []string
		switch {
		case t != model || waiting.percent == 0:
		case t.time-waiting.time < least:
			notes = append(notes, "all waiting")
		default:
			notes = append(notes, share(waiting)+" waiting")
		}
		if t.estimated {
			notes = append(notes, "estimated")
		}
		part := fmt.Sprintf("%s %s %%", t.what, share(t))
		if len(notes) > 0 {
			part += " (" + strings.Join(notes, "; ") + ")"
		}
		if t.percent > 0 {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// percentages are those of the parts, rounded by the largest remainder so that they are 100.
func (a Account) percentages() []int {
	list, byRemainder := make([]int, len(a.Parts)), make([]int, len(a.Parts))
	left := 100
	remainder := func(i int) float64 {
		return 100*float64(a.Parts[i].Time)/float64(a.Total) - float64(list[i])
	}
	for i, p := range a.Parts {
		list[i], byRemainder[i] = int(100*float64(p.Time)/float64(a.Total)), i
		left -= list[i]
	}
	slices.SortStableFunc(byRemainder, func(i, j int) int { return cmp.Compare(remainder(j), remainder(i)) })
	for _, i := range byRemainder[:min(max(0, left), len(byRemainder))] {
		list[i]++
	}
	return list
}

// Inferred reports whether the start or the end of the span was inferred.
func (s *Span) Inferred() (start, end bool) {
	if s.Has(semconv.TimeStart) || s.Has(semconv.TimeEnd) {
		return s.Text(semconv.TimeStart) == inferred, s.Text(semconv.TimeEnd) == inferred
	}
	start = s.Bool(semconv.TimeEstimated) // of earlier versions
	return start, start
}

const inferred = "inferred"

// Estimated reports whether the span's duration rests on an inferred start or end.
func (s *Span) Estimated() bool {
	start, end := s.Inferred()
	return start || end
}

// output returns when the output of a model call began, 0 if that is unknown. A call whose start
// was inferred from its first chunk does not state a time to it.
func (s *Span) output() uint64 {
	if first := s.FirstChunk(); first > 0 {
		return s.Start + uint64(first)
	}
	for _, event := range s.events {
		e := readEvent(event)
		if kind, _, _ := bytes.Cut(e.Name, []byte(".")); string(kind) == "text" || string(kind) == "thinking" {
			return max(s.Start, e.Time)
		}
	}
	return 0
}

// A stretch is time of one step in one activity.
type stretch struct {
	of                         partKey
	start, end                 uint64
	calls                      int // 1 of a tool
	startInferred, endInferred bool
}

type partKey struct {
	activity   Activity
	tool, what string
}

// stretches are what the steps below the root spent time on.
func (t *Timeline) stretches(root *step) (list []stretch) {
	known := slices.ContainsFunc(t.steps, func(s step) bool { return s.kind == Chat || s.kind == Tool || s.kind == Approval || s.kind == Hook })
	var walk func(s *step, below Kind)
	walk = func(s *step, below Kind) {
		add := func(activity Activity, start, end uint64, startInferred, endInferred bool) {
			of, calls := partKey{activity: activity}, 0
			if activity == InTool || activity == inCaller {
				of.tool, of.what = s.tool, s.what
			}
			if s.kind == Tool {
				calls = 1
			}
			list = append(list, stretch{of, start, end, calls, startInferred, endInferred})
		}
		works := func(c *step) bool { return c.kind != Approval && c.kind != Hook }
		switch {
		case s.root:
		case s.kind == Chat && s.output > 0:
			first := min(s.output, s.end)
			add(InWaiting, s.start, first, s.startInferred, false)
			add(InOutput, first, s.end, first == s.start && s.startInferred, s.endInferred)
		case s.kind == Chat:
			add(InWaiting, s.start, s.end, s.startInferred, s.endInferred)
		case s.kind == Approval:
			add(InApproval, s.start, s.end, s.startInferred, s.endInferred)
		case s.kind == Hook:
			add(InHook, s.start, s.end, s.startInferred, s.endInferred)
		case s.kind == Tool && slices.ContainsFunc(s.children, works):
			add(inCaller, s.start, s.end, s.startInferred, s.endInferred)
		case s.kind == Tool, len(s.children) == 0 && (s.kind == Agent && below != Tool || s.kind == Other && !known):
			add(InTool, s.start, s.end, s.startInferred, s.endInferred)
		}
		for _, c := range s.children {
			walk(c, s.kind)
		}
	}
	walk(root, Other)
	return list
}

// touching is how far siblings that hand over to one another are apart at most, in nanoseconds.
const touching = 1000

// Account returns what the time of the run went to. It is empty without times or a root.
func (t *Timeline) Account() Account {
	root := t.link()
	if root == nil || root.end-root.start < uint64(timeless(len(t.steps))) {
		return Account{}
	}
	list := t.stretches(root)
	if len(list) == 0 {
		return Account{}
	}
	type edge struct {
		at       uint64
		step     int // 1 or -1
		of       *stretch
		inferred bool
	}
	var edges []edge
	for i := range list {
		s := &list[i]
		if start, end := max(s.start, root.start), min(s.end, root.end); start < end {
			edges = append(edges, edge{start, 1, s, s.startInferred}, edge{end, -1, s, s.endInferred})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	parts := map[partKey]*Part{}
	spend := func(of partKey, time uint64, calls int, inferred bool) {
		if of.activity == inCaller {
			of.activity = InTool
		}
		if parts[of] == nil {
			parts[of] = &Part{Activity: of.activity, Tool: of.what}
		}
		parts[of].add(Part{Time: time, Calls: calls, Estimated: inferred})
	}
	active := map[*stretch]bool{}
	own := partKey{activity: InAgent}
	last, lastInferred, before := root.start, root.startInferred, own
	// pass spends the time until an edge.
	pass := func(until uint64, inferred bool) {
		if until == last {
			return
		}
		first := InAgent
		for s := range active {
			first = min(first, s.of.activity)
		}
		var now []*stretch
		for s := range active {
			if s.of.activity == first {
				now = append(now, s)
			}
		}
		slices.SortFunc(now, func(a, b *stretch) int {
			return cmp.Or(cmp.Compare(a.of.tool, b.of.tool), cmp.Compare(a.of.what, b.of.what), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
		})
		time := until - last
		switch {
		case len(now) == 0 && time <= touching:
			spend(before, time, 0, false)
		case len(now) == 0:
			spend(own, time, 0, inferred || lastInferred)
			before = own
		default:
			for i, s := range now { // which share it evenly
				from, to := time*uint64(i)/uint64(len(now)), time*uint64(i+1)/uint64(len(now))
				spend(s.of, to-from, s.calls, s.startInferred || s.endInferred)
				s.calls = 0
			}
			before = now[0].of
		}
	}
	for _, e := range edges {
		pass(e.at, e.inferred)
		if last, lastInferred = e.at, e.inferred; e.step > 0 {
			active[e.of] = true
		} else {
			delete(active, e.of)
		}
	}
	pass(root.end, root.endInferred)
	byTool := map[partKey]*Part{}
	for of, p := range parts {
		of.what = ""
		if byTool[of] == nil {
			byTool[of] = &Part{Activity: of.activity, Tool: of.tool}
		}
		byTool[of].add(*p)
	}
	return Account{Total: root.end - root.start, Parts: longest(byTool), Steps: longest(parts)}
}

func (p *Part) add(more Part) {
	p.Time += more.Time
	p.Calls += more.Calls
	p.Estimated = p.Estimated || more.Estimated
}

// longest returns the parts that have time, the longest first.
func longest(parts map[partKey]*Part) (list []Part) {
	for _, p := range slices.SortedFunc(maps.Values(parts), func(a, b *Part) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Activity, b.Activity), cmp.Compare(a.Tool, b.Tool))
	}) {
		if p.Time > 0 {
			list = append(list, *p)
		}
	}
	return list
}
