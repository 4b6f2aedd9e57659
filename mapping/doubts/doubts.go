// Package doubts collects what may make a run's success doubtful. Each doubt is a fact of the
// stream.
package doubts

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// Doubts are what a run has shown so far.
type Doubts struct {
	worded        bool // the main agent has said a word
	silent        bool // and none since the result of its last call
	blank         bool // the result states the final text, and that is empty
	noEnd         bool // the stream ended where the build ends a run, but does not say that it ended
	commandFailed bool // the last shell command that ran to its end in the foreground

	denied   int      // calls that were refused
	rejected []string // ids of those whose approvals were rejected, "" if an approval names none

	Cut           int // lines that are parts of events
	Ended         int // calls that have a result
	Running, Open int // when the run ended: work in the background, and calls
}

// A Run is what else is known of a run that has ended.
type Run struct {
	Tools      int  // calls
	Unknown    int  // lines of unknown types
	ResultOnly bool // it was a result and nothing else
	Failed     bool
}

// doubtful are the doubts in the order of their names, each with how often it holds, the
// attribute that says so, "" if it holds once, and whether it is about runs that succeeded.
var doubtful = []struct {
	name, key string
	ofSuccess bool
	count     func(*Doubts, Run) int
}{
	{semconv.DoubtBackground, semconv.RunningTasks, false, func(d *Doubts, _ Run) int { return d.Running }},
	{semconv.DoubtBadLines, semconv.CutLines, false, func(d *Doubts, _ Run) int { return d.Cut }},
	{semconv.DoubtDenied, semconv.DeniedCalls, false, func(d *Doubts, _ Run) int { return d.denied }},
	{semconv.DoubtEmptyAnswer, "", true, func(d *Doubts, r Run) int { return once(d.blank || !d.worded && !r.ResultOnly) }},
	{semconv.DoubtEndsOnTool, "", true, func(d *Doubts, _ Run) int { return once(d.silent) }},
	{semconv.DoubtCommandFailed, "", false, func(d *Doubts, _ Run) int { return once(d.commandFailed) }},
	{semconv.DoubtNoEnd, "", true, func(d *Doubts, _ Run) int { return once(d.noEnd) }},
	{semconv.DoubtNoWork, "", true, func(d *Doubts, r Run) int { return once(!d.worded && r.Tools == 0 && !r.ResultOnly) }},
	{semconv.DoubtOpenCalls, semconv.OpenCalls, false, func(d *Doubts, _ Run) int { return d.Open }},
	{semconv.DoubtUnknownLines, "", false, func(_ *Doubts, r Run) int { return r.Unknown }}, // semconv.UnknownLines says how many
}

func once(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// Of calls do with each doubt about a run: its name, and, if key is not "", the attribute that
// says how often it holds.
func (d *Doubts) Of(r Run, do func(name, key string, count int)) {
	for _, doubt := range doubtful {
		if n := doubt.count(d, r); n > 0 && (!doubt.ofSuccess || !r.Failed) {
			do(doubt.name, doubt.key, n)
		}
	}
}

// Said takes the words of the main agent from an event.
func (d *Doubts) Said(ev *agent.Event) {
	switch ev.Kind {
	case agent.TextDelta, agent.TextMessage:
		if (!d.worded || d.silent) && !isBlank(ev.Text) {
			d.worded, d.silent = true, false
		}
	case agent.RunEnd:
		d.blank = ev.Text != nil && isBlank(ev.Text)
		d.worded = d.worded || !isBlank(ev.Text)
		d.noEnd = ev.NoEnd
	}
}

func isBlank(escaped []byte) bool { return len(bytes.TrimSpace(jsonscan.Unquote(escaped))) == 0 }

// Answered reports whether the main agent has said a word since its last call.
func (d *Doubts) Answered() bool { return d.worded && !d.silent }

// Called takes the result of a call, which may be the main agent's, and a shell command.
func (d *Doubts) Called(id string, ev *agent.Event, call *agent.Tool, main, command bool) {
	d.Ended++
	background := call.OutcomeFacts.Find(semconv.ToolIsBackground) != nil
	if background && ev.Known == agent.Inferred { // it has no result: it runs on, unheard
		d.Running++
		return
	}
	d.silent = d.silent || main
	if isDenial(call) {
		d.deny(id)
		return
	}
	if !command || background || brokenOff[call.ErrorType] || call.OutcomeFacts.Find(semconv.ToolAborted) != nil {
		return // no command, or not one that ran to its end in the foreground
	}
	d.commandFailed = call.ErrorType != ""
}

// brokenOff are the outcomes of commands that did not run to their end.
var brokenOff = map[string]bool{
	"timeout": true, "aborted": true, "interrupted": true, "canceled": true, "cancelled": true, "spawnError": true,
}

// denials are the outcomes of calls that an approval or a permission refused.
var denials = map[string]bool{
	"rejected": true, "declined": true, "denied": true,
	"permission_denied": true, "permissionDenied": true, "readPermissionDenied": true, "writePermissionDenied": true,
}

func isDenial(call *agent.Tool) bool {
	return denials[call.ErrorType] || call.ErrorType != "" && strings.HasSuffix(call.Reason, " by hook")
}

// deny counts a call that was refused, unless its approval has counted it.
func (d *Doubts) deny(call string) {
	i := slices.IndexFunc(d.rejected, func(id string) bool { return id == call || id == "" })
	if i < 0 {
		d.denied++
		return
	}
	d.rejected = slices.Delete(d.rejected, i, i+1)
}

// Rejected counts the call whose approval was rejected. The call may be printed, too.
func (d *Doubts) Rejected(call string) {
	d.denied++
	if len(d.rejected) < maxRejected {
		d.rejected = append(d.rejected, call)
	}
}

// maxRejected is how many rejected calls are remembered until they are printed.
const maxRejected = 2_000
