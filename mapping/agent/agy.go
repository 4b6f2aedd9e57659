package agent

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// agy is Google's Antigravity CLI, run with --output-format stream-json. A line has an event
// instead of a type. A step of the conversation is a prompt, a model call, a call of a tool or
// what the CLI does itself; its lines have its index, and the last one how long it took. A
// process that reads its prompts from stdin prints a result for each of them. The counts in a
// result are the conversation's so far.
var agy = Agent{
	Flag:     "agy",
	Name:     "agy",
	Commands: []string{"agy"},
	Provider: "gcp.gemini",
	TurnEnds: true,
	Lengths:  true,
	objects:  func() objectDecoder { return &agyDecoder{conversations: map[string]*agyConversation{}} },
	Proof: shapes(
		"!type event=init conversation_id init.tools=[",
		"!type event=init conversation_id init.permission_mode",
		"!type event=init conversation_id init.cwd",
		"!type event=init conversation_id init.model",
		"!type event=step_update step_update.conversation_id step_update.step_index step_update.step_type",
		"!type event=result result.conversation_id result.status result.num_turns",
		"!type event=result result.conversation_id result.status result.duration_seconds",
		"!type event=result result.conversation_id result.status result.response",
		"!type !event conversation_id status response num_turns usage.thinking_tokens",
	),
	ends: endings{"result": { // of --output-format json, it is the whole line
		"result.status": only("SUCCESS"), "result.error": failedWith, "status": only("SUCCESS"), "error": failedWith,
	}},
	Lines: shapes(
		"!type event=step_update step_update.step_type step_update.step_index",
		"!type event=step_update step_update.step_type step_update.state",
		"!type event=result result.status result.response",
		"!type event=result result.status result.num_turns",
	),
}

// An agyDecoder remembers the conversations of a stream. A line that names none is of the
// current one.
type agyDecoder struct {
	lineOf[agyLine, *agyLine]
	conversations map[string]*agyConversation
	current       *agyConversation
}

// An agyConversation is the state of a conversation.
type agyConversation struct {
	id     []byte
	init   held            // the start of the next run, which waits for its first step
	model  []byte          // of all runs
	facts  Facts           // of all runs
	tools  map[string]bool // that the agent has, nil if they are not stated
	status string          // of the last result, "" before the first one
	total  Usage           // so far, by that result
	length Instant         // so far, by that result
	agyRun                 // the current one, or the last one
}

// An agyRun is the state of a run.
type agyRun struct {
	running bool
	resumed bool                // the conversation began in another process
	own     Usage               // of its model calls
	steps   map[string]*agyStep // whose lines have begun
	call    string              // the step of the last model call
	called  bool                // that call has called a tool
	end     held                // of that call: its tools are printed first
}

// An agyStep is a step whose first line has come.
type agyStep struct {
	began Instant // when that line came
	ended bool
}

func (d *agyDecoder) Flush(_ int, dst []Event) []Event {
	for _, id := range slices.Sorted(maps.Keys(d.conversations)) {
		c := d.conversations[id]
		dst = c.endCall(c.init.take(dst), true)
	}
	return dst
}

func (d *agyDecoder) events(dst []Event) []Event {
	l := &d.line
	c := d.current
	if len(l.conversation) > 0 || c == nil {
		if c = d.conversations[string(l.conversation)]; c == nil {
			if len(d.conversations) >= maxSteps {
				dst = d.Flush(0, dst)
				clear(d.conversations)
			}
			c = &agyConversation{id: bytes.Clone(l.conversation)}
			d.conversations[string(c.id)] = c
		}
		d.current = c
	}
	from := len(dst)
	switch string(l.typ) {
	case "init":
		dst = c.begin(l, dst)
	case "step_update":
		dst = c.step(l, dst)
	case "result":
		dst = c.result(l, dst)
	default:
		dst = append(dst, Event{Kind: Unknown})
	}
	inSession(c.id, dst[from:])
	return dst
}

// begin handles the first line of a process, which waits for a prompt.
func (c *agyConversation) begin(l *agyLine, dst []Event) []Event {
	dst = c.endCall(c.init.take(dst), true)
	kept := l.Kept()
	c.model, c.facts, c.tools, c.agyRun = kept.Model, kept.Facts, l.tools, agyRun{}
	c.init = hold(Event{Kind: RunStart, Session: c.id, Arrival: l.Arrival, Model: c.model, Facts: c.facts})
	return append(dst, Event{Kind: Ignored})
}

// step handles a line of a step.
func (c *agyConversation) step(l *agyLine, dst []Event) []Event {
	kind := l.kind
	if c.isTool(l) {
		kind = "tool"
	}
	known := c.steps[string(l.index)]
	switch {
	case known != nil && known.ended, kind == "checkpoint" && !c.running, kind == "system_message", kind == "unknown":
		return append(dst, Event{Kind: Ignored})
	case kind != "user_input" && kind != "agent_response" && kind != "checkpoint" && kind != "tool":
		l.subtype = []byte(l.kind)
		return append(dst, Event{Kind: Unknown})
	}
	if !c.running {
		c.init = nil
		c.agyRun = agyRun{running: true, steps: map[string]*agyStep{}}
		c.resumed = c.status == "" && kind == "user_input" && len(l.index) > 0 && string(l.index) != "0"
		dst = append(dst, Event{Kind: RunStart, Model: c.model, Facts: c.facts})
	}
	s := recall(c.steps, l.index)
	first := s.began == 0
	if first {
		s.began = l.Arrival
	}
	at := l.Arrival
	if s.ended = ends[l.state]; s.ended && l.recorded {
		at = max(at, s.began+l.Length)
	}
	switch kind {
	case "user_input":
		if first {
			dst = append(c.endCall(dst, true), Event{Kind: Prompt})
		}
	case "tool":
		dst = c.tool(l, first, s.ended, at, dst)
	default:
		dst = c.modelCall(l, s.ended, at, dst)
	}
	return append(dst, Event{Kind: Ignored})
}

// ends are the states in which a step has ended.
var ends = set("DONE", "ERROR", "CANCELED", "CANCELLED", "FAILED")

// isTool reports whether a step is a call of a tool. In older builds, the type of such a step
// is the name of the tool.
func (c *agyConversation) isTool(l *agyLine) bool {
	switch l.kind {
	case "tool", "subagent":
		return true
	case "", "user_input", "agent_response", "checkpoint", "system_message", "unknown":
		return false
	}
	return l.Tool != nil && l.Tool.Name != "" || len(c.tools) == 0 || c.tools[l.kind]
}

// modelCall handles a line of a model call. A checkpoint is a call that the CLI makes itself.
func (c *agyConversation) modelCall(l *agyLine, ended bool, at Instant, dst []Event) []Event {
	if l.kind == "checkpoint" && (!ended || l.Usage == nil) {
		return dst
	}
	if c.call != string(l.index) || len(c.end) > 0 {
		dst = append(c.endCall(dst, false), Event{Kind: TurnStart})
		c.call, c.called = string(l.index), false
	}
	if len(l.Text) > 0 {
		dst = append(dst, Event{Kind: TextDelta, Text: l.Text, Arrival: at})
	}
	if !ended {
		return dst
	}
	end := Event{Kind: TurnEnd, Session: c.id, Arrival: at, Usage: l.Usage}
	if l.Usage != nil {
		c.own.Add(l.Usage)
	}
	if l.state != "DONE" {
		end.Failed, end.Status = true, l.errorType()
		return append(dst, end)
	}
	c.end = hold(end)
	return append(dst, Event{Kind: TextEnd, Arrival: at})
}

// endCall appends the end of the last model call. final says that no other call follows.
func (c *agyConversation) endCall(dst []Event, final bool) []Event {
	for i := range c.end {
		c.end[i].Final = final && !c.called
	}
	return c.end.take(dst)
}

// tool handles a line of a call of a tool.
func (c *agyConversation) tool(l *agyLine, first, ended bool, at Instant, dst []Event) []Event {
	call := l.tool()
	if call.Name == "" && l.kind != "tool" {
		call.named([]byte(l.kind))
	}
	if first {
		c.called = true
		started := *call
		started.Result, started.OutcomeFacts = nil, nil
		dst = append(dst, Event{Kind: ToolStart, ID: l.index, Tool: started.finish()})
	}
	if !ended {
		return dst
	}
	switch {
	case bytes.Contains(l.fault, []byte("permission check failed")), bytes.Contains(l.fault, []byte("denied permission")):
		call.rejected()
		call.ErrorText = l.fault
	case l.state == "CANCELED", l.state == "CANCELLED":
		call.ErrorType, call.Reason = "canceled", "canceled"
	case l.state != "DONE" || len(l.fault) > 0:
		call.failedAs(l.errorType(), l.fault)
		if code, ok := bytes.CutPrefix(l.fault, []byte("exit status ")); ok && call.ArgumentFacts.Find(semconv.ProcessCommandLine) != nil {
			if n, err := strconv.ParseInt(string(code), 10, 32); err == nil {
				call.exited(n)
			}
		}
	}
	end := Event{Kind: ToolEnd, ID: l.index, Tool: call.finish(), Length: l.Length, Arrival: at}
	end.inferIf(first && l.Length == 0)
	return append(dst, end)
}

// result handles the end of a run.
func (c *agyConversation) result(l *agyLine, dst []Event) []Event {
	end := Event{Kind: RunEnd, Length: l.Length, Text: l.response, Facts: l.Facts}
	if l.state != "SUCCESS" && (l.state != "" || len(l.fault) > 0) {
		end.Failed, end.Status, end.Text = true, l.errorType(), l.fault
	}
	l.settle(&end)
	switch {
	case c.running:
	case len(c.init) > 0: // it died before its first step
		dst = c.init.take(dst)
	case c.status != "" && end.Failed && c.status != l.state: // it could not read the next prompt
		c.agyRun = agyRun{}
		dst = append(dst, Event{Kind: RunStart, Model: c.model, Facts: c.facts})
	}
	total := Usage{}
	if l.Usage != nil {
		total = *l.Usage
	}
	if c.own != total { // it states the conversation's
		end.Length, end.Usage = c.since(end.Length, &total)
	}
	if total.Known {
		c.total = total
	}
	c.length, c.status = max(c.length, l.Length), cmp.Or(l.state, "none")
	c.running = false
	return append(c.endCall(dst, true), end)
}

// since returns what a run took and used by its result, which states how long the conversation
// took and what it used. It returns 0 and nil if only the steps say that.
func (c *agyConversation) since(length Instant, total *Usage) (Instant, *Usage) {
	rest := total.copied()
	rest.Sub(&c.total)
	switch {
	case c.resumed:
		return 0, nil
	case !total.Known || rest.Input < c.own.Input || rest.Output < c.own.Output:
		return max(0, length-c.length), nil
	}
	return max(0, length-c.length), rest
}

// An agyLine is one line. The meaning of a member does not depend on the object that it is in.
type agyLine struct {
	line
	conversation []byte
	kind         string // of the step
	index        []byte // of the step
	state        string // of the step, or how the run ended
	response     []byte
	tools        map[string]bool
}

// errorType returns the type of an error: its name, or the state.
func (l *agyLine) errorType() string {
	if l.state == "ERROR" && l.code != "" {
		return l.code
	}
	if l.state == "CANCELLED" {
		return "canceled"
	}
	return cmp.Or(strings.ToLower(l.state), "error")
}

func (l *agyLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "event":
		l.typ = r.Str()
	case "init", "step_update", "result":
		for key := range r.Members() {
			l.field(r, key)
		}
	case "conversation_id":
		if id := readID(r); len(id) > 0 {
			l.conversation = id
		}
	case "step_index":
		l.index = readID(r)
	case "step_type":
		l.kind = string(enumOf(r))
	case "state", "status":
		l.state = strings.ToUpper(string(enumOf(r)))
	case "text_delta":
		l.Text = r.Str()
	case "response":
		l.response = r.Str()
	case "duration_seconds":
		l.Length = seconds(r)
	case "num_turns":
		if r.Skip(); len(l.typ) == 0 { // the lone result of --output-format json
			l.typ = []byte("result")
		}
	case "usage":
		l.usage(r)
	case "tools":
		l.tools = map[string]bool{}
		for range r.Elements() {
			l.tools[string(jsonscan.Unquote(r.Str()))] = true
		}
	case "tool_info":
		l.toolInfo(r)
	case "subagent_info":
		l.subagents(r)
	case "denied_actions":
		for n := range r.Elements() {
			l.Facts.int(semconv.PermissionDenials, int64(n+1))
			r.Skip()
		}
	case "model", "cwd", "permission_mode", "tool_name", "error":
		l.line.field(r, key)
	}
}

// usage reads token counts. The input leaves out the cached tokens. Zeros stand for counts that
// are not known.
func (l *agyLine) usage(r *jsonscan.Reader) {
	var u Usage
	u.read(r)
	if u.addCached(); u.Input+u.Output > 0 {
		l.Usage = &u
	}
}

func (l *agyLine) toolInfo(r *jsonscan.Reader) {
	c := l.tool()
	for key := range r.Members() {
		switch string(key) {
		case "name":
			if name := r.Str(); len(name) > 0 {
				c.named(name)
			}
		case "parameters", "output", "error":
			l.line.field(r, key)
		}
	}
}

// subagents reads {"subagents":[{"type_name":..,"role":..,"conversation_id":..}]}.
func (l *agyLine) subagents(r *jsonscan.Reader) {
	c, start := l.tool(), r.I
	readMember(r, "subagents", func() {
		for n := range r.Elements() {
			for key := range r.Members() {
				switch string(key) {
				case "type_name":
					if kind := wordOf(r); n == 0 && len(kind) > 0 {
						c.Subagent = string(kind)
						c.ArgumentFacts.word(semconv.SubagentType, kind)
					}
				case "role":
					if role := r.Str(); n == 0 {
						c.ArgumentFacts.text(semconv.ToolDescription, Detail, role)
					}
				case "conversation_id":
					if id := wordOf(r); n == 0 {
						c.OutcomeFacts.word(semconv.SubagentID, id)
					}
				}
			}
		}
	})
	c.Arguments = r.B[start:r.I]
}

// seconds reads a duration in seconds.
func seconds(r *jsonscan.Reader) Instant {
	s, err := strconv.ParseFloat(string(bytes.Trim(r.Raw(), `"`)), 64)
	if err != nil || s < 0 || s > maxMillis/1000 {
		return 0
	}
	return Instant(math.Round(s*1000)) * Milliseconds
}
