package mapping

import (
	"bytes"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// doubts collects what may make a run's success doubtful. Each doubt is a fact of the stream.
type doubts struct {
	worded        bool // the main agent has said a word
	silent        bool // and none since the result of its last call
	blank         bool // the result states the final text, and that is empty
	commandFailed bool // the last shell command that ran to its end in the foreground
	ended         int  // calls that have a result

	denied   int             // calls that were refused
	deniedBy map[string]bool // ids of the calls that are counted because an approval was rejected
	unnamed  int             // rejected approvals that name no call

	running, open int // when the run ended: work in the background, and calls
}

// doubtful are the doubts in the order of their names, each with how often it holds, the
// attribute that says so, "" if it holds once, and whether it is about runs that succeeded.
var doubtful = []struct {
	name, key string
	ofSuccess bool
	count     func(r *run) int
}{
	{semconv.DoubtBackground, semconv.RunningTasks, false, func(r *run) int { return r.doubts.running }},
	{semconv.DoubtDenied, semconv.DeniedCalls, false, func(r *run) int { return r.doubts.denied }},
	{semconv.DoubtEmptyAnswer, "", true, func(r *run) int { return once(r.doubts.blank || !r.doubts.worded && !r.resultOnly) }},
	{semconv.DoubtEndsOnTool, "", true, func(r *run) int { return once(r.doubts.silent) }},
	{semconv.DoubtCommandFailed, "", false, func(r *run) int { return once(r.doubts.commandFailed) }},
	{semconv.DoubtNoWork, "", true, func(r *run) int { return once(!r.doubts.worded && r.counts.tools == 0 && !r.resultOnly) }},
	{semconv.DoubtOpenCalls, semconv.OpenCalls, false, func(r *run) int { return r.doubts.open }},
	{semconv.DoubtUnknownLines, "", false, func(r *run) int { return r.counts.unknown }}, // semconv.UnknownLines says how many
}

func once(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// addDoubts adds to a root what makes it doubtful.
func (r *run) addDoubts(root *span) {
	var names []string
	for _, d := range doubtful {
		n := d.count(r)
		if n == 0 || d.ofSuccess && root.errorType != "" {
			continue
		}
		names = append(names, d.name)
		if d.key != "" {
			root.attributes.int(d.key, int64(n))
		}
	}
	if len(names) > 0 {
		root.attributes.words(semconv.Doubts, names...)
	}
}

// said takes the words of the main agent from an event.
func (d *doubts) said(ev *agent.Event) {
	switch ev.Kind {
	case agent.TextDelta, agent.TextMessage:
		if (!d.worded || d.silent) && !isBlank(ev.Text) {
			d.worded, d.silent = true, false
		}
	case agent.RunEnd:
		d.blank = ev.Text != nil && isBlank(ev.Text)
		d.worded = d.worded || !isBlank(ev.Text)
	}
}

func isBlank(escaped []byte) bool { return len(bytes.TrimSpace(jsonscan.Unquote(escaped))) == 0 }

// called takes the result of a call.
func (d *doubts) called(t *tool, ev *agent.Event, call *agent.Tool) {
	d.ended++
	background := call.OutcomeFacts.Find(semconv.ToolIsBackground) != nil
	if background && ev.Estimated { // it has no result: it runs on, unheard
		d.running++
		return
	}
	if t.inv.ref == rootRef {
		d.silent = true
	}
	if isDenial(call) {
		d.deny(t.id)
		return
	}
	if !t.command || background || brokenOff[call.ErrorType] || call.OutcomeFacts.Find(semconv.ToolAborted) != nil {
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
func (d *doubts) deny(call string) {
	switch {
	case d.deniedBy[call]:
		delete(d.deniedBy, call)
	case d.unnamed > 0:
		d.unnamed--
	default:
		d.denied++
	}
}

// rejected counts the call whose approval was rejected. The call may be printed, too.
func (d *doubts) rejected(call string) {
	d.denied++
	switch {
	case call == "":
		d.unnamed++
	case len(d.deniedBy) < maxOpen:
		if d.deniedBy == nil {
			d.deniedBy = map[string]bool{}
		}
		d.deniedBy[call] = true
	}
}

// endDoubts records what is still open when the run ends.
func (r *run) endDoubts() {
	d := &r.doubts
	d.open = r.counts.tools - d.ended
	for _, t := range r.tools {
		if t.inv.task != nil {
			d.open-- // it belongs to a sub-agent that works on in the background
		}
	}
	for _, t := range r.tasks {
		d.running += once(t.over == 0)
	}
}
