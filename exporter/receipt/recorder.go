package receipt

import (
	"cmp"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// Limits of what is kept, whatever the stream contains.
const (
	maxRuns        = 1000 // further runs count only in the totals
	maxSubagents   = 1000 // of a run
	maxLongest     = 8    // steps of a run
	maxFailedTools = 50   // of a run
	maxFailures    = 100  // kinds of failures; further ones are semconv.ErrorOther
)

// A Recorder records the spans of a stream. The zero Recorder is ready for use, by several
// goroutines.
type Recorder struct {
	// Prices are for the cost of runs that state none. They must be set before the first span.
	Prices runs.Prices

	mu      sync.Mutex
	records map[string]*record // by trace id
	order   []string           // of the keys of records
	totals  Totals             // of the runs that are not in records any more
	used    spending           // of these runs
	session Usage              // by the roots of all sessions
	omitted int                // how many these are
	noPrice map[string]bool    // models that Prices lacks
}

// A record is what the spans of a run say.
type record struct {
	runs.Run
	start, end uint64 // of the root
	version    string
	stalls     int
	limits     []string

	endedAfterResult bool
	models           runs.Models
	timeline         runs.Timeline
	account          runs.Account
	steps            map[string]*Subagent // what was done below a span, by the span's id
	subagents        []Subagent
	failed           []failedTool // the first maxFailedTools
	busy             periods      // of model calls, tools and approvals
	approvals        periods
}

type failedTool struct {
	FailedTool
	start uint64
}

// Add adds a finished span. Background work may end after the root of its run.
func (r *Recorder) Add(s *runs.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(s.TraceID)
	run := r.records[id]
	if run == nil {
		run = &record{steps: map[string]*Subagent{}}
		if r.records == nil {
			r.records = map[string]*record{}
		}
		r.records[id] = run
		r.order = append(r.order, id)
	}
	run.add(s)
	if !s.StatesTotals() || !s.MayBeRoot() {
		return
	}
	run.addRoot(s)
	r.session.Add(s.SessionUsage())
	if len(r.order) > maxRuns {
		delete(r.records, id)
		r.order = slices.DeleteFunc(r.order, func(other string) bool { return other == id })
		omitted := r.describe(id, run)
		r.totals.addRun(&omitted.Totals)
		if r.used == nil {
			r.used = spending{}
		}
		r.used.add(run, &omitted)
		r.omitted++
	}
}

// Receipt returns what was recorded so far. Runs without a root are interrupted.
func (r *Recorder) Receipt() *Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	receipt := &Receipt{SchemaVersion: SchemaVersion, RunsTotal: r.omitted, UnknownTypes: []UnknownType{}, Runs: []Run{}, Session: r.session}
	receipt.Counts = Counts{Failures: map[string]int{}, LimitsReached: []string{}, Doubts: []string{}, DoubtCounts: map[string]int{}} // in JSON they are never null
	if r.omitted > 0 {
		receipt.addRun(&r.totals)
	}
	used := spending{}
	maps.Copy(used, r.used)
	for _, id := range r.order {
		run := r.describe(id, r.records[id])
		used.add(r.records[id], &run)
		if len(receipt.Runs) == maxRuns { // what ended after the root of an omitted run
			receipt.add(&run.Counts)
			continue
		}
		receipt.addRun(&run.Totals)
		receipt.RunsTotal++
		receipt.Runs = append(receipt.Runs, run)
	}
	for _, u := range used {
		receipt.Add(u.stated.AtLeast(u.calls))
	}
	return receipt
}

// spending is what sessions used, by their ids. A sub-agent may go on after the end of its run:
// some agents then state what it used as the next run's, others do not state it.
type spending map[string]spent

// A spent is what the runs of a session used: as their roots state it, and the sum of their
// model calls.
type spent struct{ stated, calls Usage }

// add adds a run. Sessions beyond a limit count as one.
func (s spending) add(r *record, run *Run) {
	id := cmp.Or(run.SessionID, run.TraceID)
	if _, known := s[id]; !known && len(s) >= 2*maxRuns {
		id = ""
	}
	u := s[id]
	stated, calls := r.StatedUsage()
	stated.Cost, stated.CostKnown = run.Cost, run.CostKnown // it may be computed
	u.stated.Add(stated)
	u.calls.Add(calls)
	s[id] = u
}

// Run returns what was recorded so far of the run with a trace id, in bytes.
func (r *Recorder) Run(trace string) (run Run, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.records[trace]
	if of == nil {
		return run, false
	}
	return r.describe(trace, of), true
}

func (r *record) add(s *runs.Span) {
	if !r.Rooted {
		r.timeline.Add(s)
	}
	r.Add(s)
	r.Calls, r.ToolNames = nil, nil // not in a receipt
	r.models.Add(s)
	switch s.Kind() {
	case runs.Chat:
		r.busy.add(s.Start, s.End)
		if by := r.step(s.Parent); by != nil {
			by.Turns++
			by.Add(s.Usage())
		}
	case runs.Tool:
		r.busy.add(s.Start, s.End)
		r.addFailed(s)
		by, script := r.step(s.Parent), r.steps[string(s.ID)]
		switch {
		case by == nil:
		case s.IsScript() && script != nil:
			by.Tools += script.Tools
			by.ToolsFailed += script.ToolsFailed
		case s.Failed:
			by.ToolsFailed++
			fallthrough
		default:
			by.Tools++
		}
	case runs.Approval:
		r.busy.add(s.Start, s.End)
		r.approvals.add(s.Start, s.End)
	case runs.Agent:
		r.addAgent(s)
	}
}

// addFailed adds a call that failed. Of parallel calls the first may end last.
func (r *record) addFailed(s *runs.Span) {
	if !s.Failed || s.IsScript() {
		return
	}
	detail, _ := s.Detail()
	f := failedTool{FailedTool{
		Tool: s.ToolName(), Program: runs.Cut(s.Bytes(semconv.ProcessExecutable)), Detail: runs.Cut(detail),
		Failure: runs.Cut(s.Failure()), Kind: runs.Cut(s.ErrorType()),
	}, s.Start}
	if s.Has(semconv.ProcessExitCode) {
		code := s.Int(semconv.ProcessExitCode)
		f.ExitCode = &code
	}
	i, _ := slices.BinarySearchFunc(r.failed, f.start+1, func(f failedTool, at uint64) int { return cmp.Compare(f.start, at) })
	if r.failed = slices.Insert(r.failed, i, f); len(r.failed) > maxFailedTools {
		r.failed = r.failed[:maxFailedTools]
	}
}

func (r *record) addAgent(s *runs.Span) {
	by := r.step(s.ID)
	if s.MayBeRoot() || by == nil || len(r.subagents) == maxSubagents {
		return
	}
	delete(r.steps, string(s.ID))
	by.Agent, by.ErrorType, by.Seconds = runs.Cut(s.Subject()), runs.Cut(s.ErrorType()), seconds(s.End-s.Start)
	if !by.TokensKnown {
		by.Add(s.Usage())
	}
	// A model call has both. Some streams state only one of them, or the first count of the other.
	by.TokensKnown = by.InputTokens > 0 && by.OutputTokens > 0
	r.subagents = append(r.subagents, *by)
}

// step returns what was done below a span, nil if there are too many of them.
func (r *record) step(span []byte) *Subagent {
	by := r.steps[string(span)]
	if by == nil && len(r.steps) <= maxSubagents {
		by = new(Subagent)
		r.steps[string(span)] = by
	}
	return by
}

// addRoot adds what only a root says.
func (r *record) addRoot(s *runs.Span) {
	r.start, r.end = s.Start, s.End
	r.version = runs.Cut(s.Bytes(semconv.AgentVersion))
	r.endedAfterResult = s.Bool(semconv.EndedAfterResult)
	if account := r.timeline.Account(); account.Total > 0 {
		r.account = account
	}
	r.timeline = runs.Timeline{} // nobody waits for what ends later
	s.Events(func(e runs.Event) {
		switch string(e.Name) {
		case semconv.EventStall:
			r.stalls++
		case semconv.EventLimit:
			if limit := e.Attributes().Text(semconv.Limit); !slices.Contains(r.limits, limit) {
				r.limits = append(r.limits, limit)
			}
		}
	})
}

// describe returns what is known of a run so far.
func (r *Recorder) describe(id string, of *record) Run {
	run := of.describe(id)
	switch {
	case run.CostKnown:
		run.CostSource = CostStated
	case r.Prices != nil:
		missing := r.Prices.Compute(run.Model, &run.Usage, run.Models)
		for _, model := range missing[:min(len(missing), maxFailures-len(r.noPrice))] {
			if r.noPrice == nil {
				r.noPrice = map[string]bool{}
			}
			r.noPrice[model] = true
		}
		if run.Cost > 0 {
			run.CostSource = CostComputed
		}
	}
	return run
}

// Unpriced returns the models of the receipt whose cost is unknown because Prices lacks
// them, sorted.
func (r *Recorder) Unpriced() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.noPrice))
}

// describe returns what is known of the run so far.
func (r *record) describe(trace string) Run {
	run := Run{
		TraceID: hex.EncodeToString([]byte(trace)), SessionID: r.Conversation,
		Agent: r.Agent, Version: r.version, Model: r.Model, ErrorType: r.ErrorType, Slowest: r.account.String(), Longest: r.account.Longest(maxLongest),
		Models: append([]Model{}, r.models.List...), Subagents: append([]Subagent{}, r.subagents...),
	}
	start, end := r.start, r.end
	if !r.Rooted {
		start, end, run.ErrorType = r.Start, r.End, semconv.ErrorInterrupted
	}
	run.FailedTools = make([]FailedTool, len(r.failed))
	for i, f := range r.failed {
		run.FailedTools[i], run.FailedTools[i].AtMillis = f.FailedTool, int64((f.start-min(start, f.start))/1e6)
	}
	run.Succeeded, run.EndedAfterResult = run.ErrorType == "", r.endedAfterResult
	run.Times = Times{
		Start: instant(start), End: instant(end), Seconds: seconds(end - start),
		Model: seconds(uint64(r.Stated.ModelTime)), Tool: seconds(uint64(r.Stated.ToolTime)),
		Approval: seconds(r.approvals.within(start, end)), Idle: seconds(end - start - r.busy.within(start, end)),
		Retry: r.RetryDelay.Seconds(),
	}
	in := func(activity runs.Activity) float64 { return seconds(r.account.Of(activity)) }
	run.Time = Spent{
		Waiting: in(runs.InWaiting), Output: in(runs.InOutput), Tool: in(runs.InTool),
		Hook: in(runs.InHook), Approval: in(runs.InApproval), Own: in(runs.InAgent),
	}
	run.Counts = Counts{
		Spans: r.Spans, Turns: r.Turns, Tools: r.Tools, ToolsFailed: r.ToolErrors,
		Failures: map[string]int{}, Retries: int(r.Stated.Retries), Reconnects: int(r.Stated.Reconnects), Compactions: int(r.Stated.Compactions), Stalls: r.stalls, LimitsReached: append([]string{}, r.limits...),
		Doubts: []string{}, DoubtCounts: map[string]int{},
	}
	maps.Copy(run.Failures, r.Failures)
	for _, d := range r.Doubts {
		run.Doubts = append(run.Doubts, d.Name)
		run.DoubtCounts[d.Name] = d.Count
	}
	run.Usage = r.Usage()
	if len(run.Models) == 0 && (run.TokensKnown || run.CostKnown) { // the agent states only totals
		run.Models = []Model{{Model: run.Model, Usage: run.Usage}}
	}
	return run
}

// addRun adds a run, or several, but for what they used.
func (t *Totals) addRun(run *Totals) {
	first := t.Spans == 0
	t.Succeeded = run.Succeeded && (first || t.Succeeded)
	t.EndedAfterResult = t.EndedAfterResult || run.EndedAfterResult
	if first || run.Start.Before(t.Start) {
		t.Start = run.Start
	}
	if first || run.End.After(t.End) {
		t.End = run.End
	}
	add := func(sum *float64, more float64) { *sum = math.Round((*sum+more)*1e6) / 1e6 } // as decimals add up
	add(&t.Seconds, run.Seconds)
	add(&t.Model, run.Model)
	add(&t.Tool, run.Tool)
	add(&t.Approval, run.Approval)
	add(&t.Idle, run.Idle)
	add(&t.Retry, run.Retry)
	add(&t.Time.Waiting, run.Time.Waiting)
	add(&t.Time.Output, run.Time.Output)
	add(&t.Time.Tool, run.Time.Tool)
	add(&t.Time.Hook, run.Time.Hook)
	add(&t.Time.Approval, run.Time.Approval)
	add(&t.Time.Own, run.Time.Own)
	if t.CostSource != CostComputed {
		t.CostSource = cmp.Or(run.CostSource, t.CostSource)
	}
	t.add(&run.Counts)
}

func (c *Counts) add(more *Counts) {
	c.Spans += more.Spans
	c.Turns += more.Turns
	c.Tools += more.Tools
	c.ToolsFailed += more.ToolsFailed
	c.Retries += more.Retries
	c.Reconnects += more.Reconnects
	c.Compactions += more.Compactions
	c.Stalls += more.Stalls
	for kind, n := range more.Failures {
		if c.Failures == nil {
			c.Failures = map[string]int{}
		}
		if c.Failures[kind] == 0 && len(c.Failures) >= maxFailures {
			kind = semconv.ErrorOther
		}
		c.Failures[kind] += n
	}
	for _, limit := range more.LimitsReached {
		if !slices.Contains(c.LimitsReached, limit) {
			c.LimitsReached = append(c.LimitsReached, limit)
		}
	}
	for name, n := range more.DoubtCounts {
		if c.DoubtCounts == nil {
			c.DoubtCounts = map[string]int{}
		}
		c.DoubtCounts[name] += n
		if i, found := slices.BinarySearch(c.Doubts, name); !found {
			c.Doubts = slices.Insert(c.Doubts, i, name)
		}
	}
}

func instant(ns uint64) time.Time { return time.Unix(0, int64(ns)).UTC() }

func seconds(ns uint64) float64 { return math.Round(float64(ns)/1000) / 1e6 }
