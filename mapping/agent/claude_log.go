package agent

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// claudeLog is a session log of Claude Code, a file below ~/.claude/projects. Its rows
// hold the messages of the stream, but no row begins or ends a run: a run is a prompt and
// what follows it up to the model's last word. The rows are known from
// versions 1.0.0 to 2.1.290.
var claudeLog = Agent{
	Flag:     "claude-log",
	Name:     "claude-code",
	Provider: "anthropic",
	objects:  newClaudeLogDecoder,
	last:     []string{"sessionId", "timestamp", "uuid", "requestId"},
	Proof: shapes(
		"type sessionId uuid isSidechain !sessionId=session-*",
		"type=summary summary leafUuid",
		"type=queue-operation operation sessionId",
		"type=file-history-snapshot snapshot messageId",
		"type=last-prompt lastPrompt sessionId",
	),
	Lines:    shapes("type=api-request*|atis-latch|tools-used|cost-state sessionId"),
	TurnEnds: true,
	ends: endings{"assistant": {
		"type": succeeded, "error": failedWith, "isApiErrorMessage": failedIf, "apiErrorStatus": failedWith, "message.error": failedWith,
	}},
	Folders: Folders{Variable: "CLAUDE_CONFIG_DIR", Default: ".claude", Names: []string{"projects"}},
	Log:     true,
	Kin:     claudeKin,

	CopiesNameless: true,
}

// claudeKin returns the path and the id of a log's session, and the id and the timestamp of
// its first prompt: a fork begins with a copy of that row, which may have an id of its own.
func claudeKin(path string, rows iter.Seq[*Marks]) (kin []string, all bool) {
	session, _, _ := strings.Cut(path, string(filepath.Separator)+"subagents"+string(filepath.Separator))
	kin = []string{"claude " + strings.TrimSuffix(session, ".jsonl")}
	id := ""
	for m := range rows {
		if id == "" {
			if id = m.value("", "sessionId"); id != "" {
				kin = append(kin, "claude "+id)
			}
		}
		if prompt := m.value("", "uuid"); prompt != "" && m.value("", "type") == "user" {
			return append(kin, "claude "+prompt, "claude "+m.value("", "timestamp")), true
		}
	}
	return kin, false
}

// A claudeLogDecoder decodes the logs of the sessions of a folder, and of their sub-agents.
type claudeLogDecoder struct {
	claudeDecoder
	row   claudeRow
	logs  map[string]*claudeLogSession
	files map[int][]*claudeLogSession // whose rows an input has
	rows  memory[uint64]              // that were read, by session: a fork begins with copies
	calls memory[uint64]              // the model calls, by the agent that made them
}

func newClaudeLogDecoder() objectDecoder {
	return &claudeLogDecoder{
		claudeDecoder: *newClaudeDecoder(claudeDialect{callIDs: true, finalUsage: true}),
		logs:          map[string]*claudeLogSession{}, files: map[int][]*claudeLogSession{}, rows: newMemory[uint64](), calls: newMemory[uint64](),
	}
}

// A claudeLogSession is what the rows of a session depend on, besides its claudeSession.
type claudeLogSession struct {
	logRun
	begin   held                   // the beginning of a run, if the model answers
	asked   bool                   // a prompt begins it: it is a run even if there is no answer
	over    bool                   // no answer continues the run whose end is held back
	calls   map[string]bool        // of the main agent in this run, without a result
	called  bool                   // the main agent has called a tool, and has not ended its answer
	waiting bool                   // for an answer to the main agent's latest request
	aside   held                   // what sub-agents did since the end that is held back: a run ends before that
	stops   bool                   // rows of the main agent say why the model stopped
	last    Instant                // when the main agent's latest row was written
	waits   map[string]*claudeWait // of the main agent, and of sub-agents by their calls
	prompts map[uint64][][]byte    // the calls whose sub-agents have not said anything yet, by the hash of their prompts
	agents  map[string][]byte      // the calls of sub-agents, by the sub-agent's id
	runs    int                    // since the costs of the session were last stated
	total   claudeTotal            // those costs
	resumed bool                   // the session goes on with another one's, whose costs it includes
	flow    []byte                 // the call of the latest workflow that runs
	flows   map[string]bool        // the calls of workflows
	flowOf  map[string][]byte      // the same, by the workflow's id
	chains  map[string][]byte      // the same by the id of a sub-agent's row, in builds without ids of sub-agents
}

// A claudeWait is what an agent's model is to answer.
type claudeWait struct {
	since    Instant // when it was written, 0 if it is a copy
	answered bool    // by a row that is none
}

// A claudeRow is what a row states besides the line of the stream.
type claudeRow struct {
	*claudeLine
	uuid, parent []byte
	agent        []byte // the id of the sub-agent whose row it is
	sidechain    bool   // it is a sub-agent's
	answers      bool   // the model may have said this just now
	asks         bool   // of an api-request: the main agent's model is asked
	request      []byte // the id of the request to the model
	queued       []byte // what the user, or the program in the user's name, told an agent at work
	maxTurns     bool   // the agent has reached its limit of turns
	notifies     bool   // the program did: background work has ended
	agentCall    []byte // of a progress row: the call that started the sub-agent
	progressOf   []byte // and the sub-agent's id
	version, cwd []byte
}

func (d *claudeLogDecoder) Flush(input int, dst []Event) []Event {
	ended := d.files[input]
	delete(d.files, input)
	for _, s := range ended {
		if !d.isRead(s) {
			dst = s.finish(dst)
		}
	}
	return dst
}

// isRead reports whether an input has the session's rows.
func (d *claudeLogDecoder) isRead(s *claudeLogSession) bool {
	for _, sessions := range d.files {
		if slices.Contains(sessions, s) {
			return true
		}
	}
	return false
}

func (d *claudeLogDecoder) begin(first bool) lineReader {
	d.claudeDecoder.begin(first)
	d.row = claudeRow{claudeLine: &d.line}
	return &d.row
}

func (d *claudeLogDecoder) events(dst []Event) []Event {
	l, row := &d.line, &d.row
	if len(l.Session) == 0 {
		return append(dst, Event{Kind: Ignored})
	}
	s := d.logs[string(l.Session)]
	if s == nil {
		s = &claudeLogSession{prompts: map[uint64][][]byte{}, agents: map[string][]byte{}, chains: map[string][]byte{}, flows: map[string]bool{}, flowOf: map[string][]byte{}, calls: map[string]bool{}, waits: map[string]*claudeWait{}}
		remember(d.logs, l.Session, s)
	}
	if files := d.files[l.input]; !row.sidechain && !slices.Contains(files, s) {
		d.files[l.input] = append(files, s)
	}
	if len(row.uuid) > 0 && d.isCopy(s, d.rows.hash(row.uuid)) {
		return append(dst, Event{Kind: Ignored})
	}
	from := len(dst)
	if row.sidechain {
		if l.Parent = d.callOf(s); s.flows[string(l.Parent)] {
			l.Among = row.agent
		}
	}
	wait := recall(s.waits, l.Parent)
	row.answers = wait.since > 0 && (wait.answered || l.Time-wait.since >= leastCall) && (row.sidechain || len(s.end) == 0)
	again := d.writtenAgain(s)
	switch string(l.typ) {
	case "user", "api-request":
		*wait = claudeWait{since: l.Time}
		if again {
			wait.since = 0
		}
	case "assistant":
		wait.answered = wait.answered || !again
	}
	switch {
	case again && !row.sidechain && string(l.typ) == "assistant":
		s.forget()
	case again:
	case row.sidechain && len(s.end) == 0:
		dst = d.subagent(dst)
	case row.sidechain && len(s.aside) < maxAside && l.Time-s.last < longestHook:
		s.aside = append(s.aside, hold(d.subagent(nil)...)...)
	case row.sidechain:
		dst = d.subagent(s.finish(dst))
	default:
		dst = d.main(s, dst)
		s.last = cmp.Or(l.Time, s.last)
	}
	d.link(s)
	if len(dst) == from {
		dst = append(dst, Event{Kind: Ignored})
	}
	return dst
}

func (row *claudeRow) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "uuid":
		row.uuid = readID(r)
	case "parentUuid":
		row.parent = readID(r)
	case "agentId":
		row.agent = readID(r)
		row.sidechain = row.sidechain || len(row.agent) > 0
	case "isSidechain":
		row.sidechain = r.Bool() || row.sidechain
	case "requestId":
		row.request = readID(r)
	case "toolDenialKind":
		row.denials = append(row.denials, claudeDenial{denied: len(r.Str()) > 0})
	case "permissionDecision":
		var d claudeDenial
		d.decision(r)
		row.denials = append(row.denials, d)
	case "toolUseResult":
		row.readOutcome(r)
	case "attachment":
		for key := range r.Members() {
			switch string(key) {
			case "prompt":
				row.queued = firstText(readBlocks(r))
			case "type":
				row.maxTurns = string(r.Str()) == "max_turns_reached"
			case "commandMode":
				row.notifies = string(r.Str()) == "task-notification"
			}
		}
	case "version":
		row.version = wordOf(r)
	case "cwd":
		row.cwd = r.Str()
	case "params": // of an api-request
		readMember(r, "model", func() { row.Model = jsonscan.Unquote(r.Str()) })
	case "thread":
		readMember(r, "type", func() { row.asks = string(r.Str()) == "none" })
	case "parentToolUseID":
		row.agentCall = readID(r)
	case "compactMetadata":
		for key := range r.Members() {
			row.Facts.read(r, lineFacts, key)
		}
	case "data":
		readMember(r, "agentId", func() { row.progressOf = readID(r) })
	case "parent_tool_use_id", "session_id", "result", "event": // of the stream
	default:
		row.claudeLine.field(r, key)
	}
}

// main appends the events of a row of the session's main agent.
func (d *claudeLogDecoder) main(s *claudeLogSession, dst []Event) []Event {
	l := &d.line
	switch string(l.typ) {
	case "user":
		return d.userRow(s, dst)
	case "assistant":
		s.waiting = false
		return d.answer(s, dst)
	case "system":
		return d.systemRow(s, dst)
	case "attachment":
		return d.queued(s, dst)
	case "api-request":
		return d.asked(s, dst)
	case "cost-state":
		if d.isCopy(s, d.rows.hash(l.object)) {
			return dst
		}
		return d.cost(s, dst)
	}
	return d.other(dst)
}

// asked appends that the agent asks its model. Other requests, such as those for titles, are
// not the main agent's or come when no run is open.
func (d *claudeLogDecoder) asked(s *claudeLogSession, dst []Event) []Event {
	if d.row.asks && len(s.end) == 0 {
		s.waiting = true
		return s.add(dst, d.asks())
	}
	return dst
}

// add appends an event of the run, or holds it back with the run's beginning.
func (s *claudeLogSession) add(dst []Event, ev Event) []Event {
	switch {
	case s.running:
		return append(dst, ev)
	case s.asked:
		s.begin = append(s.begin, hold(ev)...)
	}
	return dst
}

// cost appends what the session has cost so far, which a process writes at its end.
func (d *claudeLogDecoder) cost(s *claudeLogSession, dst []Event) []Event {
	l := &d.line
	used, ok := l.total.since(s.total, &Usage{})
	if !ok {
		used = l.total
	}
	if s.running && l.total.usage.CostKnown {
		ev, cost := d.event(RunUsage), &Usage{Cost: used.usage.Cost, CostKnown: true}
		if s.runs == 1 && !s.resumed {
			ev.Usage, ev.Models = cost, used.models
			ev.Facts.int(semconv.APIMillis, used.apiMillis)
		} else {
			ev.SessionUsage = cost
		}
		dst = append(dst, ev)
	}
	s.total, s.runs, s.resumed = l.total, 0, false
	return dst
}

// Types of rows, and of rows that the program itself wrote, that say nothing of a run, or
// nothing that others do not.
var (
	claudeRows = set(
		"api-request-shape", "api-request-blob", // what a request contained
		"atis-latch", "session-owner", "memory-mode", "isolation-latch", "relocated", "observer-ref", // the program's own state
		"continued-in", "derived-from", "ended-by-model", // other sessions, whose rows say so too
		"tools-used", // names, which the calls have
		"attachment", "system", "progress", "summary", "queue-operation", "file-history-snapshot", "file-history-delta",
		"last-prompt", "custom-title", "ai-title", "task-summary", "tag", "agent-name", "agent-color", "agent-setting", "pr-link",
		"permission-mode", "mode", "worktree-state", "content-replacement", "attribution-snapshot", "speculation-accept")
	claudeRemarks = set("stop_hook_summary", "local_command", "informational", "away_summary", "microcompact_boundary",
		"bridge_status", "thinking", "memory_saved", "agents_killed", "api_metrics", "file_snapshot", "permission_retry",
		"scheduled_task_fire")
)

// other counts a row of an unknown type.
func (d *claudeLogDecoder) other(dst []Event) []Event {
	if claudeRows[string(d.line.typ)] {
		return dst
	}
	return append(dst, Event{Kind: Unknown, Session: d.line.Session})
}

// subagent appends the events of a row of a sub-agent.
func (d *claudeLogDecoder) subagent(dst []Event) []Event {
	switch string(d.line.typ) {
	case "user":
		return d.user(dst)
	case "assistant":
		if d.copied() {
			return dst
		}
		return d.assistant(dst)
	case "api-request":
		return append(dst, d.asks())
	}
	return d.other(dst)
}

// asks returns that an agent asks its model.
func (d *claudeLogDecoder) asks() Event {
	ev := d.event(TurnStart)
	ev.Asks, ev.Model, ev.Parent, ev.Among = true, d.line.Model, d.line.Parent, d.line.Among
	return ev
}

// copied reports whether the row repeats a model call of another session or agent.
func (d *claudeLogDecoder) copied() bool {
	l := &d.line
	if len(l.message) == 0 {
		return false
	}
	own, at := d.calls.hash(l.Session, l.Parent), fmt.Append(nil, l.Time)
	owner, _ := d.calls.keep(d.calls.hash(l.message, d.row.request, l.content), own)
	then, _ := d.calls.keep(d.calls.hash(l.message, d.row.request, l.content, at), own)
	return owner != own && (then != own || !d.row.answers)
}

// writtenAgain reports whether a message was read in a row with another id: builds write
// rows again at a resume, or copy them into another session, all at once. Gateways repeat the ids of
// messages, and models what they say: what a model has had the time to say is no copy.
func (d *claudeLogDecoder) writtenAgain(s *claudeLogSession) bool {
	l, row := &d.line, &d.row
	var id uint64
	isNew := false
	switch {
	case len(l.content) == 0:
		return false
	case len(l.message) > 0: // a row whose counts have grown says more
		said := [][]byte{l.message, row.request, l.Parent, l.content, fmt.Append(nil, l.usage.Input, l.usage.Output)}
		id = d.rows.hash(said...)
		then := d.isCopy(s, d.rows.hash(append(said, fmt.Append(nil, l.Time))...))
		isNew = row.answers && !then
	case l.blocks != nil && l.blocks[0].Kind == ToolEnd:
		id = d.rows.hash([]byte("result"), l.content)
		_, isNew = d.session(&l.Event).calls[string(l.blocks[0].ID)] // its call is open
	case row.sidechain || len(row.parent) == 0: // several may get the same prompt at once
		return false
	default:
		id = d.rows.hash([]byte("said"), l.content, fmt.Append(nil, l.Time))
	}
	if isNew {
		d.rows.keep(id, d.rows.hash(l.Session))
		return false
	}
	return d.isCopy(s, id)
}

// isCopy reports whether something was read before. If another session has it, this one goes on
// with that.
func (d *claudeLogDecoder) isCopy(s *claudeLogSession, id uint64) bool {
	own := d.rows.hash(d.line.Session)
	owner, known := d.rows.keep(id, own)
	s.resumed = s.resumed || known && owner != own
	return known
}

// forget forgets the prompt of an answer that was read before: both are copies.
func (s *claudeLogSession) forget() {
	if s.asked && !s.running {
		s.begin, s.asked = nil, false
	}
}

// start appends the beginning of a run that a prompt begins, if it is held back.
func (s *claudeLogSession) start(dst []Event) []Event {
	if s.asked {
		dst, s.asked, s.over, s.running, s.called = s.begin.take(dst), false, false, true, false
		s.runs++
		clear(s.calls)
	}
	return dst
}

// finish appends the end of the run if it was held back, and the run of a prompt that has no
// answer.
func (s *claudeLogSession) finish(dst []Event) []Event {
	return s.start(s.aside.take(s.logRun.finish(dst)))
}

// queued appends the events of what an agent at work was told.
func (d *claudeLogDecoder) queued(s *claudeLogSession, dst []Event) []Event {
	switch {
	case d.row.maxTurns && s.running:
		s.end, s.over = hold(d.runEnd("error_max_turns")), true // as the stream has it
	case d.row.notifies:
		return d.notified(s, dst, d.row.queued)
	case s.running && len(s.end) == 0 && len(d.row.queued) > 0:
		return append(dst, d.prompt(d.row.queued))
	}
	return dst
}

// notified appends the end of background work, which makes the model go on.
func (d *claudeLogDecoder) notified(s *claudeLogSession, dst []Event, text []byte) []Event {
	if _, again := d.rows.keep(d.rows.hash([]byte("notification"), d.line.Session, text), 0); again {
		return dst
	}
	dst = d.notification(s, s.finish(dst), text)
	if !s.running {
		s.begin = hold(d.runStart())
	}
	return dst
}

// userRow appends the events of tool results, or of what else the model gets to read.
func (d *claudeLogDecoder) userRow(s *claudeLogSession, dst []Event) []Event {
	l := &d.line
	text := firstText(l.blocks)
	switch {
	case len(l.blocks) == 0 || l.blocks[0].Kind == ToolEnd || !l.synthetic && text == nil:
		for i := range l.blocks { // results
			if b := &l.blocks[i]; b.Kind == ToolEnd {
				delete(s.calls, string(b.ID))
			}
		}
		if s.asked && s.running { // the prompt came while a tool was running
			dst = append(dst, s.begin[1:]...)
			s.begin, s.asked = nil, false
		}
		return d.beside(s, dst)
	case bytes.HasPrefix(text, []byte("[Request interrupted by user")):
		dst = s.start(dst)
		if s.running && len(s.end) == 0 {
			s.end = hold(d.runEnd(semconv.ErrorInterrupted))
		}
		s.over = len(s.end) > 0
		return dst
	case bytes.HasPrefix(text, []byte("<local-command-")), bytes.HasPrefix(text, []byte("<bash-")), bytes.HasPrefix(text, []byte("<command-name>/exit<")):
		return dst // ran without the model
	case l.synthetic:
		if s.waiting && len(s.end) == 0 { // the answer was empty, and has no row
			s.waiting = false
			dst = s.add(dst, d.event(TurnEnd))
		}
		return d.beside(s, dst)
	case bytes.HasPrefix(text, []byte("<task-notification>")):
		return d.notified(s, dst, text)
	case bytes.HasPrefix(text, []byte("<command-")):
		dst = s.finish(dst)
		s.begin = hold(d.runStart(), d.prompt(text))
		return dst
	case s.running && s.called && len(s.end) == 0 && len(s.calls) == 0 && l.Time-s.last < longestCall: // said to an agent at work
		return append(dst, d.prompt(text))
	case s.running && s.asked: // and another one
		s.begin = append(s.begin, hold(d.prompt(text))...)
		return dst
	default:
		dst = s.finish(dst)
		s.begin, s.asked = hold(d.runStart(), d.prompt(text)), true
		return dst
	}
}

// What may come between an answer and its continuation, which a hook can ask for.
const (
	longestHook = 60 * 1000 * Milliseconds
	maxAside    = 1000 // events of sub-agents
)

// longestCall is how long an agent waits for its model. A prompt that comes later is for one
// that was killed and has resumed its session.
const longestCall = 10 * 60 * 1000 * Milliseconds

// beside appends the events of a user row that is no prompt. It says nothing of a run if
// there is none, such as the explanation of a local command.
func (d *claudeLogDecoder) beside(s *claudeLogSession, dst []Event) []Event {
	switch {
	case s.running:
		return d.user(dst)
	case s.asked:
		s.begin = append(s.begin, hold(d.user(nil)...)...)
	}
	return dst
}

// answer appends the events of a message of the model.
func (d *claudeLogDecoder) answer(s *claudeLogSession, dst []Event) []Event {
	l := &d.line
	if s.over {
		dst = s.finish(dst)
	}
	switch {
	case d.copied():
		s.forget()
		return dst
	case string(l.Model) == "<synthetic>" && !l.apiError && !s.running && !s.asked:
		return dst
	}
	if !s.running && !s.asked {
		if s.asked = true; len(s.begin) == 0 {
			s.begin = hold(d.runStart())
		}
	}
	dst, s.end = s.start(s.aside.take(dst)), nil
	dst = d.assistant(dst)
	answers := false
	for i := range l.blocks {
		switch b := &l.blocks[i]; b.Kind {
		case ToolStart:
			remember(s.calls, b.ID, true)
			s.called = true
		case ToolEnd:
			delete(s.calls, string(b.ID))
		}
		answers = l.blocks[i].Kind == TextMessage
	}
	switch failure := d.session(&l.Event).fault; {
	case failure != "":
		s.end = hold(d.runEnd(failure))
	case string(l.stop) == "end_turn", string(l.stop) == "stop_sequence", string(l.stop) == "refusal", string(l.stop) == "max_tokens",
		len(l.stop) == 0 && !s.stops && answers && len(s.calls) == 0: // some builds do not say why the model stopped
		s.end = hold(d.runEnd(""))
	}
	s.stops = s.stops || len(l.stop) > 0 && string(l.Model) != "<synthetic>"
	return dst
}

// systemRow appends the events of a row that the program itself wrote.
func (d *claudeLogDecoder) systemRow(s *claudeLogSession, dst []Event) []Event {
	l := &d.line
	switch string(l.subtype) {
	case "turn_duration":
		s.over = len(s.end) > 0
		return dst
	case "compact_boundary":
		l.Kind, l.Notice = Notice, semconv.EventCompaction
		dst = s.finish(dst)
	case "api_error":
		l.Kind, l.Notice, s.waiting = Notice, semconv.EventRetry, false
	default:
		if !claudeRemarks[string(l.subtype)] && !claudeNotes[string(l.subtype)] {
			dst = append(dst, Event{Kind: Unknown, Session: l.Session})
		}
		return dst
	}
	return s.add(dst, l.Event)
}

// event returns an event of the current row, without what the row states of a message.
func (d *claudeLogDecoder) event(kind Kind) Event {
	l := &d.line
	return Event{Kind: kind, Session: l.Session, Time: l.Time, Arrival: l.Arrival}
}

func (d *claudeLogDecoder) runStart() Event {
	ev := d.event(RunStart)
	ev.Facts = d.line.Facts
	ev.Facts.word(semconv.AgentVersion, d.row.version)
	ev.Facts.text(semconv.ProcessWorkingDirectory, Detail, d.row.cwd)
	return ev
}

func (d *claudeLogDecoder) prompt(text []byte) Event {
	ev := d.event(Prompt)
	ev.Text = text
	return ev
}

func (d *claudeLogDecoder) runEnd(failure string) Event {
	ev := d.event(RunEnd)
	ev.Status, ev.Failed = failure, failure != ""
	d.line.settle(&ev)
	return ev
}

// notification appends the end of background work, which a message in the user's name
// reports.
func (d *claudeLogDecoder) notification(s *claudeLogSession, dst []Event, text []byte) []Event {
	element := func(name string) []byte {
		_, rest, _ := bytes.Cut(text, []byte("<"+name+">"))
		value, _, _ := bytes.Cut(rest, []byte("</"+name+">"))
		return value
	}
	ev := d.event(TaskEnd)
	ev.ID, ev.Status, ev.Wakes = []byte(word(element("task-id"))), enum(element("status")), true
	ev.Parent, ev.Failed = s.agents[string(ev.ID)], ev.Status != "completed"
	ev.Facts.text(semconv.TaskDetail, Full, element("summary"))
	if bytes.Equal(ev.Parent, s.flow) {
		s.flow = nil
	}
	if len(ev.ID) == 0 {
		return dst
	}
	return append(dst, ev)
}

// link remembers which calls start sub-agents, and which sub-agents they started.
func (d *claudeLogDecoder) link(s *claudeLogSession) {
	l, row := &d.line, &d.row
	if len(row.progressOf) > 0 && len(row.agentCall) > 0 {
		s.started(row.progressOf, row.agentCall)
	}
	for i := range l.blocks {
		b := &l.blocks[i]
		switch {
		case b.startsSubagent():
			r := jsonscan.Reader{B: b.Tool.Arguments}
			readMember(&r, "prompt", func() {
				prompt := d.rows.hash(jsonscan.Unquote(r.Str()))
				s.prompts[prompt] = append(s.prompts[prompt], bytes.Clone(b.ID))
			})
		case b.Kind == ToolEnd && len(l.result.Task) > 0:
			if s.started(l.result.Task, b.ID); len(l.workflow) > 0 {
				s.flow = bytes.Clone(b.ID)
				remember(s.flows, s.flow, true)
				remember(s.flowOf, l.workflow, s.flow)
			}
		}
	}
}

// workflowOf returns the call of the workflow that started the sub-agent with this log. No row says
// which it is, but the log's folder does, in workflows/<id>. Otherwise it is the latest one that
// runs, nil if none does.
func (s *claudeLogSession) workflowOf(path string) []byte {
	folder := filepath.Dir(path)
	if call := s.flowOf[filepath.Base(folder)]; call != nil && filepath.Base(filepath.Dir(folder)) == "workflows" {
		return call
	}
	return s.flow
}

// started records which call started a sub-agent.
func (s *claudeLogSession) started(agent, call []byte) {
	if s.agents[string(agent)] == nil {
		remember(s.agents, agent, bytes.Clone(call))
	}
}

// callOf returns the call that started the sub-agent of the current row. A row may come
// before the log states that: the first one repeats the prompt in the call's arguments.
func (d *claudeLogDecoder) callOf(s *claudeLogSession) []byte {
	l, row := &d.line, &d.row
	call := s.agents[string(row.agent)]
	if len(row.agent) == 0 {
		call = s.chains[string(row.parent)]
	}
	if call == nil {
		prompt := d.rows.hash(jsonscan.Unquote(firstText(l.blocks)))
		if calls := s.prompts[prompt]; len(calls) > 0 {
			call, s.prompts[prompt] = calls[0], calls[1:]
		} else if call = s.workflowOf(l.path); call == nil {
			call = append([]byte("sub-agent "), cmp.Or(string(row.agent), string(row.uuid))...)
		}
		s.started(row.agent, call)
	}
	if len(row.agent) == 0 {
		remember(s.chains, row.uuid, call)
	}
	return call
}
