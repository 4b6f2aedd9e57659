package agent

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// codexLog is a rollout, the session log of Codex, a file below ~/.codex/sessions. Unlike
// the stream, it has times, models, and the tokens of each model call. Shapes are those of
// 0.40 to 0.159.
var codexLog = Agent{
	Flag:     "codex-log",
	Name:     "codex",
	Provider: "openai",
	objects:  func() objectDecoder { return newCodexLogDecoder() },
	Proof:    shapes("type=session_meta|turn_context|response_item|event_msg|compacted timestamp payload !payload.model_provider=trae"),
	Lines:    shapes("type=token_usage_record timestamp payload"),
	last:     []string{"call_id"},
	TurnEnds: true,
	Folders: Folders{
		Variable: "CODEX_HOME", Default: ".codex", Names: []string{"sessions", "archived_sessions"},
		LogOf: "*/*/*/rollout-*-%s.jsonl",
	},
	Log: true,
	ends: endings{
		"event_msg/task_complete": {"type": succeeded, "payload.error": failedWith},
		"event_msg/turn_complete": {"type": succeeded, "payload.error": failedWith},
		"response_item/message":   {"type": succeeded, "payload.error": failedWith}, // in builds without the lines above
	},
	Kin: func(_ string, rows iter.Seq[*Marks]) (kin []string, all bool) {
		for _, id := range firstValues(rows, "payload", "id", "session_id", "parent_thread_id", "forked_from_id") {
			kin = append(kin, "codex "+id)
		}
		return kin, true
	},
}

// A codexLogDecoder decodes the rollouts of threads: of sessions, their forks and their
// sub-agents. Only the first row of a rollout says whose it is.
type codexLogDecoder struct {
	lineOf[codexRow, *codexRow]
	threads map[string]*codexThread
	files   map[int]*codexFile
	turns   memory[uint64] // the turns that were read, by thread: a fork begins with copies
}

func newCodexLogDecoder() *codexLogDecoder {
	return &codexLogDecoder{threads: map[string]*codexThread{}, files: map[int]*codexFile{}, turns: newMemory[uint64]()}
}

// A codexFile is a rollout as far as it was read.
type codexFile struct {
	*codexThread
	codexPlace // of the current row
}

// A codexPlace is where a row is in a rollout, and in each copy of it: the nth row of a time.
type codexPlace struct {
	at Instant // the latest timestamp so far
	n  int
}

// next moves to a row.
func (p *codexPlace) next(at Instant) {
	if at > p.at {
		*p = codexPlace{at: at}
	}
	p.n++
}

// isAfter reports whether a row comes after another.
func (p codexPlace) isAfter(q codexPlace) bool { return p.at > q.at || p.at == q.at && p.n > q.n }

// A codexThread is an agent at work: a session, or a sub-agent of one.
type codexThread struct {
	id, session     []byte
	read            codexPlace        // of its last row
	input           int               // that has this row
	call            []byte            // that started the sub-agent
	spawned         map[string][]byte // the calls that started this thread's own sub-agents, by their threads
	calls           []codexCall       // in flight
	over            map[string]bool   // the calls of the run that are not
	facts           Facts             // of its runs
	model, provider []byte

	copied   bool    // the rows so far are copies of another thread's
	ownAfter Instant // when its own rows may begin, if the log that it copies was not read: copies have the time of the fork
	tasks    bool    // the build marks where runs begin and end
	logRun           // its end is held in builds that do not mark it
	begin    held    // the beginning of a run, until its model is known
	speaking bool    // the model call goes on
	counted  bool    // its tokens are known
	failed   bool    // the run reported an error
	spoke    Instant // when the model began to say the next message, 0 if that is not known
	total    Usage   // of the thread so far
}

// A codexCall is a tool call in flight.
type codexCall struct {
	id      []byte
	script  bool    // which makes calls itself
	spawns  bool    // it starts a sub-agent
	outcome Tool    // what was reported of it besides its output
	asked   Instant // by its row
	began   Instant // by its item, 0 if that has no time
	ended   Instant
	started []*codexThread // the sub-agents that it started
}

// A codexRow is a row of a rollout.
type codexRow struct {
	codexLine
	name, namespace []byte   // of a tool
	custom          []byte   // the input of a tool that takes a text
	texts           [][]byte // of a message
	kinds           [][]byte // of what the texts tell, since 0.171
	parent, fork    []byte   // the threads that the row's one comes from
	child           []byte   // the thread of a sub-agent
	turn            []byte
	last, total     Usage  // of the last model call, and of the thread
	response        []byte // the id of that call

	itemName  []byte
	completed Instant // when an item was, 0 if the row does not say
}

// item reads a member of an item. The log has more of them than the stream.
func (l *codexRow) item(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.itemName = r.Str()
		l.itemType = snakeCase(l.itemName)
	case "tool":
		l.isCall = true
		l.toolName = snakeCase(r.Str())
	case "receiver_thread_ids":
		again := *r
		for range again.Elements() {
			l.child = readID(&again)
		}
		l.codexLine.item(r, key)
	case "process_id", "parsed_cmd", "source", "stdout", "stderr", "formatted_output", "duration", "auto_approved":
	default:
		l.codexLine.item(r, key)
	}
}

// snakeCase returns CommandExecution as command_execution.
func snakeCase(name []byte) []byte {
	out := make([]byte, 0, len(name)+4)
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			if c += 'a' - 'A'; i > 0 && out[len(out)-1] != '_' {
				out = append(out, '_')
			}
		}
		out = append(out, c)
	}
	return out
}

// begin returns an empty row. The first one of a line uses the memory of the row before.
func (d *codexLogDecoder) begin(first bool) lineReader {
	if !first {
		return d.lineOf.begin(first)
	}
	l := &d.line
	tool := l.tool()
	*tool = Tool{ArgumentFacts: tool.ArgumentFacts[:0], OutcomeFacts: tool.OutcomeFacts[:0]}
	facts, texts, kinds := l.Facts[:0], l.texts[:0], l.kinds[:0]
	*l = codexRow{texts: texts, kinds: kinds}
	l.Tool, l.Facts = tool, facts
	return l
}

var _ lineReader = (*codexRow)(nil) // linters do not see that lineOf uses it

func (l *codexRow) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "timestamp", "type":
		l.line.field(r, key)
	case "payload":
		l.payload(r)
	case "call_id": // of the payload of a row that was cut
		l.member(r, key)
	}
}

func (d *codexLogDecoder) Flush(input int, dst []Event) []Event {
	if f := d.files[input]; f != nil && f.input == input {
		dst = f.end.take(f.release(dst))
	}
	return dst
}

func (d *codexLogDecoder) events(dst []Event) []Event {
	l := &d.line
	from := len(dst)
	t, dst := d.thread(dst)
	if t == nil {
		return append(dst, Event{Kind: Ignored})
	}
	switch {
	case !t.copied:
		dst = d.threadEvents(t, dst)
	case l.total.Known:
		t.total = l.total
	}
	switch {
	case len(dst) > from:
	case t.copied, len(t.end) > 0, len(t.begin) > 0, string(l.typ) != "event_msg", string(l.subtype) == "token_count": // its time is not the run's: a resume repeats such rows
		dst = append(dst, Event{Kind: Ignored})
	default:
		dst = append(dst, d.event(t, Ignored))
	}
	return dst
}

func (l *codexRow) payload(r *jsonscan.Reader) {
	for key := range r.Members() {
		l.member(r, key)
	}
}

func (l *codexRow) member(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.subtype = r.Str()
	case "id":
		l.ID = readID(r)
	case "call_id":
		l.ToolCallID = readID(r)
	case "name":
		l.name = jsonscan.Unquote(r.Str())
	case "namespace":
		l.namespace = jsonscan.Unquote(r.Str())
	case "role", "status", "model", "cwd":
		l.line.field(r, key)
	case "model_provider":
		l.Provider = wordOf(r)
	case "cli_version":
		l.Facts.word(semconv.AgentVersion, wordOf(r))
	case "effort":
		l.Facts.word(semconv.ReasoningLevel, enumOf(r))
	case "approval_policy":
		l.Facts.word(semconv.PermissionMode, enumOf(r))
	case "turn_id":
		l.turn = readID(r)
	case "parent_thread_id", "sender_thread_id":
		l.parent = readID(r)
	case "new_thread_id":
		l.child = readID(r)
	case "receiver_thread_ids":
		for range r.Elements() {
			l.child = readID(r)
		}
	case "forked_from_id":
		l.fork = readID(r)
	case "source", "subagent", "thread_spawn":
		if r.Peek() == '{' {
			l.payload(r)
		}
	case "item":
		for key := range r.Members() {
			l.item(r, key)
		}
	case "started_at_ms":
		l.Start = millis(r)
	case "completed_at_ms":
		l.completed = millis(r)
	case "content", "summary":
		for range r.Elements() {
			readMember(r, "text", func() { l.texts = append(l.texts, r.Str()) })
		}
	case "internal_chat_message_metadata_passthrough":
		readMember(r, "content_item_kinds", func() {
			for range r.Elements() {
				l.kinds = append(l.kinds, r.Str())
			}
		})
	case "message", "last_agent_message":
		l.Text = r.Str()
	case "arguments": // JSON in a string
		inner := jsonscan.Reader{B: jsonscan.Unquote(r.Str())}
		l.tool().readArguments(&inner)
	case "action":
		l.tool().readArguments(r)
	case "input":
		l.custom = r.Raw()
	case "output":
		l.tool().readResult(r)
	case "exit_code":
		if code, ok := r.Int(); ok {
			l.tool().exited(code)
		}
	case "success":
		if !r.Bool() {
			l.tool().failed()
		}
	case "result":
		for key := range r.Members() {
			switch string(key) {
			case "Err":
				l.tool().failed()
			case "Ok":
				readMember(r, "isError", func() {
					if r.Bool() {
						l.tool().failed()
					}
				})
			}
		}
	case "info":
		for key := range r.Members() {
			switch string(key) {
			case "last_token_usage":
				l.last.read(r)
			case "total_token_usage":
				l.total.read(r)
			}
		}
	case "usage": // of a token_usage_record
		l.last.read(r)
	case "thread_token_usage":
		l.total.read(r)
	case "response_id":
		l.response = readID(r)
	case "reason":
		l.Status = enum(r.Str())
	}
}

// thread returns the thread of the current row, nil if the row was read from another file,
// because somebody copied the rollout.
func (d *codexLogDecoder) thread(dst []Event) (*codexThread, []Event) {
	l, f := &d.line, d.files[d.line.input]
	if f == nil || string(l.typ) == "session_meta" && len(l.ID) > 0 && !f.copied && !bytes.Equal(l.ID, f.id) {
		dst = d.Flush(l.input, dst)
		f = &codexFile{codexThread: d.threads[string(l.ID)]}
		if f.codexThread == nil {
			f.codexThread = d.newThread()
		}
		d.files[l.input] = f
	}
	t := f.codexThread
	if f.next(l.Time); !f.isAfter(t.read) {
		return nil, dst
	}
	t.read, t.input = f.codexPlace, l.input
	if len(l.turn) > 0 {
		own := d.turns.hash(t.id)
		owner, _ := d.turns.keep(d.turns.hash(l.turn), own)
		t.copied = t.copied && (owner != own || l.Time < t.ownAfter)
	}
	return t, dst
}

// newThread returns the thread that a rollout's first row describes.
func (d *codexLogDecoder) newThread() *codexThread {
	l := &d.line
	t := &codexThread{id: bytes.Clone(l.ID), copied: len(l.parent)+len(l.fork) > 0, spawned: map[string][]byte{}, over: map[string]bool{}}
	if string(l.typ) != "session_meta" { // whose it is is not known
		t.id = nil
	}
	t.session = t.id
	if len(l.fork) > 0 && d.threads[string(l.fork)] == nil {
		t.ownAfter = l.Time + 500*Milliseconds
	}
	if parent := d.threads[string(l.parent)]; parent != nil {
		t.session, t.call = parent.session, append([]byte("thread "), t.id...)
		call := parent.called(parent.spawned[string(t.id)])
		if call = cmp.Or(call, parent.spawning(), parent.callInFlight(nil)); call != nil {
			t.call, call.started = call.id, append(call.started, t)
		}
	}
	t.facts, t.provider = l.Facts.kept(), bytes.Clone(l.Provider)
	if len(t.id) > 0 {
		remember(d.threads, t.id, t)
	}
	return t
}

// callInFlight returns the call with this id or, if there is none, the newest one.
func (t *codexThread) callInFlight(id []byte) *codexCall {
	if call := t.called(id); call != nil || len(t.calls) == 0 {
		return call
	}
	return &t.calls[len(t.calls)-1]
}

// called returns the call in flight with this id, nil if there is none.
func (t *codexThread) called(id []byte) *codexCall {
	return t.newestCall(func(call *codexCall) bool { return bytes.Equal(call.id, id) })
}

// spawning returns the oldest call in flight whose sub-agent has no rows yet, nil if there is none.
// Such calls run one after the other, and a sub-agent's first row comes before that of its call's
// item.
func (t *codexThread) spawning() *codexCall {
	for i := range t.calls {
		if call := &t.calls[i]; call.spawns && len(call.started) == 0 {
			return call
		}
	}
	return nil
}

// script returns the script that runs, nil if none does.
func (t *codexThread) script() *codexCall {
	return t.newestCall(func(call *codexCall) bool { return call.script })
}

func (t *codexThread) newestCall(is func(*codexCall) bool) *codexCall {
	for i := range slices.Backward(t.calls) {
		if is(&t.calls[i]) {
			return &t.calls[i]
		}
	}
	return nil
}

// end records how a call ended, before its output.
func (call *codexCall) end(c *Tool) {
	call.outcome = Tool{ErrorType: c.ErrorType, Reason: c.Reason, Reported: c.Reported}
	if exit := c.OutcomeFacts.Find(semconv.ProcessExitCode); exit != nil {
		call.outcome.OutcomeFacts.Set(*exit)
	}
}

// event returns an event of a thread at the current row.
func (d *codexLogDecoder) event(t *codexThread, kind Kind) Event {
	return Event{Kind: kind, Session: t.session, Parent: t.call, Time: d.line.Time, Arrival: d.line.Arrival}
}

func (d *codexLogDecoder) threadEvents(t *codexThread, dst []Event) []Event {
	l := &d.line
	switch string(l.typ) {
	case "turn_context":
		t.facts.merge(l.Facts.kept())
		t.model = bytes.Clone(l.Model)
		return t.release(dst)
	case "compacted":
		if t.running {
			ev := d.event(t, Notice)
			ev.Notice = semconv.EventCompaction
			dst = append(t.release(dst), ev)
		}
	case "response_item":
		return d.item(t, dst)
	case "event_msg":
		return d.message(t, dst)
	case "token_usage_record":
		return d.tokens(t, dst)
	default:
		if !codexRows[string(l.typ)] {
			return append(dst, d.event(t, Unknown))
		}
	}
	return dst
}

// start appends the beginning of a run, or holds it back until the run's model is known.
func (d *codexLogDecoder) start(t *codexThread) {
	t.running, t.failed, t.speaking, t.counted, t.calls, t.over = true, false, false, true, t.calls[:0], map[string]bool{}
	t.begin = held{d.event(t, RunStart)}
}

// release appends the beginning of a run that was held back.
func (t *codexThread) release(dst []Event) []Event {
	if len(t.begin) > 0 {
		t.begin[0].Model, t.begin[0].Facts = t.model, t.facts
	}
	return t.begin.take(dst)
}

// finish appends the end of a run.
func (d *codexLogDecoder) finish(t *codexThread, dst []Event, failure string) []Event {
	dst = t.release(dst)
	if !t.running {
		return dst
	}
	t.running, t.end = false, nil
	ev := d.event(t, RunEnd)
	ev.Text, ev.Status, ev.Failed = d.line.Text, cmp.Or(failure, "failed"), failure != ""
	if d.line.settle(&ev); ev.Failed {
		ev.Facts.codexStatus(ev.Text)
	}
	if t.call != nil {
		ev.Kind, ev.ID = TaskEnd, t.id
		if !ev.Failed {
			ev.Status = "completed"
		}
	}
	return append(dst, ev)
}

// speak appends the beginning of a model call, before its first output.
func (d *codexLogDecoder) speak(t *codexThread, dst []Event) []Event {
	if !t.running {
		d.start(t)
	}
	dst, t.end = t.release(dst), nil
	if !t.speaking {
		t.speaking, t.counted = true, false
		ev := d.event(t, TurnStart)
		ev.Model, ev.Provider = t.model, t.provider
		dst = append(dst, ev)
	}
	return dst
}

// item appends the events of what the model said, or got to read.
func (d *codexLogDecoder) item(t *codexThread, dst []Event) []Event {
	l := &d.line
	switch typ := string(l.subtype); {
	case typ == "message" && l.role == "assistant":
		dst = d.speak(t, dst)
		for _, text := range l.texts {
			ev := d.said(t, TextMessage, text)
			ev.Start, t.spoke = t.spoke, 0
			dst = append(dst, ev)
		}
		if end := d.event(t, RunEnd); !t.tasks && t.call == nil {
			d.line.settle(&end)
			t.end = held{end}
		}
	case typ == "message" && l.role == "user":
		for i, text := range l.texts {
			if !l.prompts(i) {
				continue // the surroundings
			}
			if !t.tasks || !t.running {
				dst = t.finish(dst)
				d.start(t)
			}
			dst = append(t.release(dst), d.said(t, Prompt, text))
		}
	case typ == "reasoning":
		if dst = d.speak(t, dst); len(l.texts) == 0 {
			l.texts = [][]byte{nil}
		}
		for _, text := range l.texts {
			dst = append(dst, d.said(t, ThinkingMessage, text))
		}
	case strings.HasSuffix(typ, "_call"):
		return d.called(t, d.speak(t, dst))
	case strings.HasSuffix(typ, "_output"):
		return d.returned(t, dst)
	case !codexResponses[typ]:
		return append(dst, d.event(t, Unknown))
	}
	return dst
}

// prompts reports whether a text in the user's name is the user's.
func (l *codexRow) prompts(i int) bool {
	if len(l.kinds) == len(l.texts) {
		return bytes.HasPrefix(l.kinds[i], []byte("user."))
	}
	return !bytes.HasPrefix(l.texts[i], []byte("<")) && !bytes.HasPrefix(l.texts[i], []byte("# AGENTS.md"))
}

func (d *codexLogDecoder) said(t *codexThread, kind Kind, text []byte) Event {
	ev := d.event(t, kind)
	ev.Text = text
	return ev
}

// called appends the start of a tool call. A search has no end.
func (d *codexLogDecoder) called(t *codexThread, dst []Event) []Event {
	l := &d.line
	ev, c := d.event(t, ToolStart), l.tool()
	ev.ID, ev.Tool = l.ToolCallID, c
	name := l.name // of a namespace that is no server's, as the stream has it
	if bytes.HasPrefix(l.namespace, []byte("mcp__")) {
		name = slices.Concat(bytes.TrimSuffix(l.namespace, []byte("__")), []byte("__"), l.name)
	}
	if len(name) == 0 {
		name = bytes.TrimSuffix(l.subtype, []byte("_call"))
	}
	if c.named(name); len(l.custom) > 0 {
		c.Arguments = l.custom
	}
	c.finish()
	if len(ev.ID) == 0 {
		ev.Kind, ev.ID = ToolCall, l.ID
	} else if len(t.calls) < maxSessions {
		t.calls = append(t.calls, codexCall{id: bytes.Clone(ev.ID), asked: l.Time, script: len(l.custom) > 0 && string(name) == "exec", spawns: bytes.HasSuffix(name, []byte("spawn_agent"))})
	}
	return append(dst, ev)
}

// returned appends the end of a tool call.
func (d *codexLogDecoder) returned(t *codexThread, dst []Event) []Event {
	l := &d.line
	t.speaking = false
	ev, c := d.event(t, ToolEnd), l.tool()
	ev.ID, ev.Tool = l.ToolCallID, c
	text := bytes.Trim(resultText(c.Result), `"`)
	const longest = 4 << 10                                                             // of what stands before the output; it may name the command
	head, _, headed := bytes.Cut(text[:min(len(text), longest)], []byte(`\nOutput:\n`)) // the output may name other exit codes
	for line := range bytes.SplitSeq(head, []byte(`\n`)) {
		if bytes.HasPrefix(line, []byte("Process exited with code ")) || bytes.HasPrefix(line, []byte("Exit code: ")) {
			c.exitedAsText(line)
			break
		}
		if !headed {
			break
		}
	}
	switch {
	case bytes.Contains(head[:min(len(head), 200)], []byte("rejected by user")):
		c.rejected()
	case bytes.HasPrefix(text, []byte("unsupported ")) && bytes.Contains(head, []byte("call: ")):
		c.noSuchTool()
	case bytes.HasPrefix(text, []byte("aborted")), !headed && bytes.Contains(head, []byte(`\naborted by user`)):
		c.failed()
		c.ErrorType, c.Reason = semconv.ErrorInterrupted, "interrupted by the user"
	case bytes.HasPrefix(text, []byte("Script failed")):
		c.ErrorType, c.Reason = "error", "the script failed"
	}
	remember(t.over, ev.ID, true)
	t.calls = slices.DeleteFunc(t.calls, func(call codexCall) bool {
		if !bytes.Equal(call.id, ev.ID) {
			return false
		}
		if call.began > 0 && call.began < call.ended && call.ended <= ev.Time { // its rows are written earlier, and later
			if ev.Start, ev.End = call.began, call.ended; call.began == call.asked {
				ev.Asked = call.asked
			}
		}
		c.OutcomeFacts.merge(call.outcome.OutcomeFacts)
		if c.ErrorType == "" {
			c.ErrorType, c.Reason, c.Reported = call.outcome.ErrorType, call.outcome.Reason, call.outcome.Reported
		}
		for _, child := range call.started {
			if child.running || !child.tasks { // or has not begun
				c.Background, c.Task = true, child.id
			}
		}
		return true
	})
	if c.ErrorType != "" {
		c.ErrorText = text
	}
	c.finish()
	return append(dst, ev)
}

// message appends the events of a message from the program.
func (d *codexLogDecoder) message(t *codexThread, dst []Event) []Event {
	l := &d.line
	switch string(l.subtype) {
	case "task_started", "turn_started":
		t.tasks = true
		d.start(t)
	case "task_complete", "turn_complete":
		failure := ""
		if t.failed && len(l.Text) == 0 {
			failure = "failed"
		}
		return d.finish(t, dst, failure)
	case "turn_aborted":
		return d.finish(t, dst, cmp.Or(l.Status, semconv.ErrorInterrupted))
	case "token_count":
		return d.tokens(t, dst)
	case "error", "stream_error":
		if !t.running {
			return dst
		}
		l.Kind = RunError
		l.retry()
		t.failed = t.failed || l.Kind == RunError
		ev := d.event(t, l.Kind)
		ev.Notice, ev.Facts, ev.Text = l.Notice, l.Facts, l.Text
		return append(t.release(dst), ev)
	case "exec_command_end", "mcp_tool_call_end", "patch_apply_end":
		if call := t.called(l.ToolCallID); call != nil {
			call.end(l.tool())
		}
	case "collab_agent_spawn_end":
		d.spawns(t, t.callInFlight(l.ToolCallID))
	case "item_completed":
		return d.completed(t, dst)
	default:
		if !codexMessages[string(l.subtype)] {
			return append(dst, d.event(t, Unknown))
		}
	}
	return dst
}

// spawns records which call started a sub-agent.
func (d *codexLogDecoder) spawns(t *codexThread, call *codexCall) {
	if child := d.line.child; call != nil && len(child) > 0 {
		remember(t.spawned, child, call.id)
	}
}

// Types of rows, items, messages and responses that say nothing that others do not.
var (
	codexRows = set("session_meta", "inter_agent_communication", "inter_agent_communication_metadata", "world_state",
		"tool_manifest", "sampling_boundary")
	codexItems = set("user_message", "hook_prompt", "agent_message", "plan", "reasoning", "context_compaction",
		"sub_agent_activity", "entered_review_mode", "exited_review_mode")
	codexMessages = set("user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content",
		"agent_reasoning_section_break", "session_configured", "thread_name_updated", "thread_goal_updated",
		"thread_rolled_back", "thread_settings_applied", "context_compacted", "model_reroute", "warning", "deprecation_notice", "background_event",
		"turn_diff", "plan_update", "undo_started", "undo_completed", "shutdown_complete", "item_started", "raw_response_item",
		"entered_review_mode", "exited_review_mode", "mcp_startup_update", "mcp_startup_complete", "mcp_tool_call_begin",
		"exec_command_begin", "exec_command_output_delta", "terminal_interaction", "patch_apply_begin", "patch_apply_updated",
		"web_search_begin", "web_search_end", "image_generation_begin", "image_generation_end", "view_image_tool_call",
		"exec_approval_request", "apply_patch_approval_request", "elicitation_request", "request_user_input",
		"request_permissions", "guardian_assessment", "guardian_warning", "dynamic_tool_call_request",
		"dynamic_tool_call_response", "hook_started", "hook_completed", "sub_agent_activity",
		"collab_agent_spawn_begin", "collab_agent_interaction_begin", "collab_agent_interaction_end",
		"collab_waiting_begin", "collab_waiting_end", "collab_close_begin", "collab_close_end", "collab_resume_begin",
		"collab_resume_end")
	codexResponses = set("message", "ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "agent_message", "other")
)

// completed appends a call that a script made. The items of other calls, which have rows of
// their own, say how these ended.
func (d *codexLogDecoder) completed(t *codexThread, dst []Event) []Event {
	l := &d.line
	isCall := codexCalls[string(l.itemType)]
	if string(l.itemType) == "agent_message" {
		t.spoke = l.Start
	}
	if !isCall && !codexItems[string(l.itemType)] {
		isCall = l.isCall
		l.typ, l.subtype = l.subtype, l.itemName
		dst = append(dst, d.event(t, Unknown))
	}
	if !isCall || !t.running {
		return dst
	}
	l.Kind = ToolEnd
	l.finishTool(l.itemType)
	own, script := t.called(l.ID), t.script()
	spawn := len(l.toolName) == 0 || string(l.toolName) == "spawn_agent"
	switch {
	case own != nil:
		own.end(l.Tool)
		if own.began, own.ended = l.Start, l.completed; string(l.itemType) == "command_execution" {
			own.began = commandStart(l.Start, own.asked)
		}
	case script == nil && spawn:
		own = t.callInFlight(nil)
	}
	if spawn {
		d.spawns(t, cmp.Or(own, script))
	}
	if own != nil || t.over[string(l.ID)] {
		return dst
	}
	ev := d.event(t, ToolCall)
	ev.ID, ev.Tool, ev.Start, ev.End = l.ID, l.Tool, l.Start, l.completed
	if script != nil {
		ev.ToolCallID = script.id
	}
	return append(t.release(dst), ev)
}

// tokens appends what a model call used. Since 0.171, a token_usage_record states it before
// the token_count does. A count that repeats the thread's total is about something else, such
// as the limits of the account.
func (d *codexLogDecoder) tokens(t *codexThread, dst []Event) []Event {
	l := &d.line
	used := l.last
	if l.total.Known {
		if l.total == t.total {
			return dst
		}
		if !used.Known {
			used = l.total
			used.Sub(&t.total)
		}
		t.total = l.total
	}
	if used.Input+used.Output == 0 || !t.running {
		return dst
	}
	if end := t.end; t.counted { // the call's output is not in the log
		t.speaking = false
		dst = d.speak(t, dst)
		t.end = end
	}
	t.speaking, t.counted = false, true
	ev := d.event(t, TurnEnd)
	ev.Usage, ev.ModelCallID = &used, l.response
	return append(dst, ev)
}
