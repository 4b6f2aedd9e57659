package agent

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// codex is OpenAI's Codex, run as codex exec --json. Its lines have no times and do
// not mark where a model call begins: everything until a tool ends counts as one
// call. Codex's turn is a run here.
var codex = Agent{
	Flag:     "codex",
	Name:     "codex",
	Commands: []string{"codex"},
	Packages: []string{"@openai/codex"},
	Provider: "openai",
	objects: func() objectDecoder {
		return &codexDecoder{used: map[string]Usage{}, running: map[string]Instant{}, timed: map[string]bool{}}
	},
	Joined: &codexLog,
	resume: []string{"resume"},
	ends: endings{
		"turn.completed": {"type": succeeded, "error": failedWith},
		"turn.failed":    {"error": failedWith},
	},
	Proof: shapes(
		"type=thread.started thread_id !id !data",
		"type=item.started|item.updated|item.completed item.id=item_* item.type",
		"type=item.started|item.completed item.id item.type=agent_message|command_execution|file_change|mcp_tool_call|error",
		"type=turn.completed usage.input_tokens usage.cached_input_tokens",
		"type=turn.failed error.message !id !data",
	),
	Lines: shapes(
		"type=turn.started !id !data",
		"type=turn.completed usage.input_tokens",
		"type=turn.failed error",
		"type=error message !timestamp !source",
		"type=item.started|item.updated|item.completed item.id item.type",
	),
}

// A codexDecoder remembers the current thread, because most lines have no thread
// id. It holds back warnings until the thread that they are about has started.
type codexDecoder struct {
	lineOf[codexLine, *codexLine]
	thread  []byte
	came    Instant            // when the thread's first line came
	process Instant            // when its process was started, 0 if that is not known
	resumes bool               // to go on with a thread
	agents  bool               // the thread has started sub-agents, whose tokens it does not state
	own     *Usage             // of the run's thread, nil if it is not known
	used    map[string]Usage   // by thread, so far: a thread reports its total
	running map[string]Instant // items that have not completed: when their starts were printed
	printed Instant            // when the start of the item was that completed last
	timed   map[string]bool    // calls of the session log whose times a call has got
	begun   bool               // a run has begun and not ended
	worked  bool               // and has had an item
	early   held               // notices, until the next run begins or ends
}

func (d *codexDecoder) Flush(_ int, dst []Event) []Event { return d.early.take(dst) }

func (d *codexDecoder) events(dst []Event) []Event {
	l := &d.line
	d.classify()
	if len(l.Session) > 0 {
		d.thread, d.came, d.agents = bytes.Clone(l.Session), l.Arrival, false
		clear(d.running)
	}
	if l.Kind == Notice && !d.begun && len(d.early) < maxSessions {
		d.early = append(d.early, l.Kept())
		return dst
	}
	from := len(dst)
	switch l.Kind {
	case ToolStart:
		d.running[string(l.ID)] = l.Arrival
		d.agents = d.agents || bytes.HasPrefix(l.itemType, []byte("collab"))
	case ToolEnd:
		d.printed = d.running[string(l.ID)]
		delete(d.running, string(l.ID))
	case RunEnd:
		dst = d.endTurn(d.early.take(dst))
	}
	d.begun = (d.begun || l.begins()) && l.Kind != RunEnd
	d.worked = d.begun && (d.worked || len(l.itemType) > 0 && l.begins())
	if d.begun && len(d.early) > 0 {
		l.Arrival = d.early[0].Arrival // the run's first line
		dst = d.early.take(append(dst, l.Event))
	} else {
		dst = append(dst, l.Event)
	}
	if l.isCall && !codexCalls[string(l.itemType)] { // a call all the same
		dst = append(dst, Event{Kind: Unknown})
	}
	inSession(d.thread, dst[from:])
	return dst
}

func (d *codexDecoder) classify() {
	l := &d.line
	l.Kind = Unknown
	switch string(l.typ) {
	case "thread.started":
		l.Kind = RunStart
	case "turn.started":
		l.Kind, l.Asks = Ignored, true
		if d.thread != nil && !d.worked {
			l.Kind = TurnStart
		}
	case "turn.completed", "turn.failed":
		l.Kind, l.Failed, l.Status = RunEnd, string(l.typ) == "turn.failed", "failed"
		l.settle(&l.Event)
		l.Facts.codexStatus(l.Text)
	case "error":
		l.Kind = RunError
		l.retry()
	case "item.started", "item.updated", "item.completed":
		l.classifyItem()
	}
}

// endTurn ends the commands still running in terminals of their own, because no
// more is heard of them after a turn, and subtracts the thread's earlier usage.
func (d *codexDecoder) endTurn(dst []Event) []Event {
	l := &d.line
	if !l.Failed {
		for _, id := range slices.Sorted(maps.Keys(d.running)) {
			c := new(Tool)
			c.OutcomeFacts.bool(semconv.ToolIsBackground)
			dst = append(dst, Event{Kind: ToolEnd, ID: []byte(id), Tool: c.finish(), Known: Inferred})
		}
	}
	clear(d.running)
	d.own = nil
	if u := l.Usage; u != nil && u.Known {
		total := *u
		before, known := d.used[string(d.thread)]
		switch {
		case !known && d.isResumed(): // it is the thread's
			l.Usage, l.SessionUsage = nil, u
		case before.Input <= u.Input && before.Output <= u.Output:
			u.Sub(&before)
			u.CacheRead, u.CacheWrite = max(0, u.CacheRead), max(0, u.CacheWrite)
		}
		remember(d.used, d.thread, total)
		if d.own = l.Usage; d.agents {
			l.Usage = nil // the run's is not known, but for the logs
		}
	}
	return dst
}

func (d *codexDecoder) started(at Instant, resumes bool) { d.process, d.resumes = at, resumes }

// isResumed reports whether the thread is older than the stream, as far as that is known: its
// id says when it began. A recording may be older than any clock that it is compared with, also
// in a pipe, where its lines come at once.
func (d *codexDecoder) isResumed() bool {
	const (
		old    = 60 * 1000 * Milliseconds // before the first line of a pipe
		atOnce = 250 * Milliseconds
	)
	born := uuidTime(d.thread)
	switch {
	case d.line.recorded:
		return false
	case d.resumes || born == 0:
		return d.resumes
	case d.process != 0:
		return born < d.process
	}
	return born < d.came-old && d.line.Arrival-d.came >= atOnce
}

// uuidTime returns when a UUID of version 7 was made, 0 if it is none.
func uuidTime(id []byte) Instant {
	if len(id) != 36 || id[8] != '-' || id[14] != '7' {
		return 0
	}
	ms, err := strconv.ParseUint(string(id[:8])+string(id[9:13]), 16, 64)
	if err != nil || ms >= maxMillis {
		return 0
	}
	return Instant(ms) * Milliseconds
}

// A codexLine is one line.
type codexLine struct {
	line
	itemType []byte
	toolName []byte // of an MCP server or of a collaboration
	isCall   bool   // the item has a member that only calls have
	built    []byte // the arguments of the call, which stand among other members
}

func (l *codexLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "thread_id":
		l.Session = readID(r)
	case "item":
		for key := range r.Members() {
			l.item(r, key)
		}
		l.subtype = l.itemType
	case "usage":
		l.used().read(r) // the thread's total
	case "message":
		l.Text = r.Str()
	case "error":
		l.Text, _ = readFailure(r)
	case "type":
		l.line.field(r, key)
	}
}

// begins reports whether the line shows that a run has begun.
func (l *codexLine) begins() bool {
	return !slices.Contains([]Kind{Unknown, Ignored, Notice, RunError, RunEnd}, l.Kind)
}

// item reads a member of an item. Members other than the outcome are arguments.
func (l *codexLine) item(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "id":
		l.ID = readID(r)
	case "type":
		l.itemType = r.Str()
	case "text", "message":
		l.Text = r.Str()
	case "status":
		l.isCall = true
		l.line.field(r, key)
	case "aggregated_output", "arguments":
		l.line.field(r, key)
	case "items":
		l.todoList(r)
	case "exit_code":
		if code, ok := r.Int(); ok { // null: still running
			l.tool().exited(code)
		}
	case "result", "agents_states":
		again := *r
		readMember(&again, "isError", func() { l.Failed = again.Bool() })
		l.tool().readResult(r)
	case "error":
		l.tool().ErrorText, _ = readFailure(r)
	case "tool":
		l.isCall = true
		l.toolName = r.Str()
	case "server":
		l.tool().MCP = true
		l.Tool.ArgumentFacts.text(semconv.MCPServer, Detail, r.Str())
	case "changes":
		again := *r
		l.changes(&again)
		l.addArgument(key, r.Raw())
	case "receiver_thread_ids":
		again := *r
		for range again.Elements() {
			l.tool().ArgumentFacts.word(semconv.SubagentID, wordOf(&again))
		}
		l.addArgument(key, r.Raw())
	case "command", "query":
		l.isCall = true
		l.addArgument(key, r.Raw())
	default:
		l.addArgument(key, r.Raw())
	}
}

// addArgument adds an argument that stands among other members of the line.
func (l *codexLine) addArgument(key, value []byte) {
	if n := len(l.built); n > 0 {
		l.built[n-1] = ','
	} else {
		l.built = append(l.built, '{')
	}
	l.built = append(append(append(l.built, '"'), key...), `":`...)
	l.built = append(append(l.built, value...), '}')
	r := jsonscan.Reader{B: value}
	switch r.Peek() {
	case '"':
		l.tool().argument(key, bytes.TrimPrefix(r.Str(), []byte("file://")))
	case '[':
		if string(key) == "command" {
			l.tool().argument(key, commandOf(&r))
		}
	}
}

// changes reads [{"path":..,"kind":"add"}] or {"<path>":{"type":"add"}}, and keeps the first
// path.
func (l *codexLine) changes(r *jsonscan.Reader) {
	facts := &l.tool().ArgumentFacts
	change := func(path []byte) {
		if facts.addInt(semconv.ToolTotalFiles, 1); facts.number(semconv.ToolTotalFiles) == 1 {
			facts.text(semconv.FilePath, Detail, path)
		}
	}
	if r.Peek() == '{' {
		for path := range r.Members() {
			change(path)
		}
		return
	}
	for range r.Elements() {
		var path []byte
		readMember(r, "path", func() { path = r.Str() })
		change(path)
	}
}

// todoList reads [{"text":..,"completed":false}].
func (l *codexLine) todoList(r *jsonscan.Reader) {
	again := *r
	var done, open int64
	for range again.Elements() {
		completed := false
		readMember(&again, "completed", func() { completed = again.Bool() })
		if completed {
			done++
		} else {
			open++
		}
	}
	l.Facts.int(semconv.ToolTodosCompleted, done)
	l.Facts.int(semconv.ToolTodosPending, open)
	l.Facts.json(semconv.TodoItems, r.Raw())
}

func (l *codexLine) classifyItem() {
	completed := string(l.typ) == "item.completed"
	switch string(l.itemType) {
	case "agent_message", "reasoning":
		switch {
		case !completed || len(l.Text) == 0:
			l.Kind = Ignored
		case string(l.itemType) == "reasoning":
			l.Kind = ThinkingMessage
		default:
			l.Kind = TextMessage
		}
	case "error":
		l.warn(l.Text)
	case "todo_list":
		l.Kind, l.Notice = Notice, semconv.EventTodoList
	case "":
	default:
		switch {
		case !l.isCall:
			return // no known kind of call
		case completed:
			l.Kind = ToolEnd
		case string(l.typ) == "item.started":
			l.Kind = ToolStart
		default:
			l.Kind = Ignored
			return
		}
		l.finishTool(l.itemType)
	}
}

// codexCalls are the types of items that are calls, and those that only the log has.
var codexCalls = set("command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search",
	"collab_agent_tool_call", "dynamic_tool_call", "image_view", "image_generation", "sleep")

// finishTool completes a call that is an item of this type.
func (l *codexLine) finishTool(itemType []byte) {
	c := l.tool()
	if len(l.built) > 0 {
		c.Arguments = l.built
	}
	if c.named(itemType); c.Name == "command_execution" {
		c.Name = "shell"
	}
	if name := word(jsonscan.Unquote(l.toolName)); name != "" {
		c.Name = name
	}
	switch {
	case l.Kind == ToolStart:
		c.Result, c.OutcomeFacts = nil, nil
	case l.Status == "declined":
		c.rejected()
	case l.Status == "failed", l.Failed, len(c.ErrorText) > 0:
		c.failed()
	}
	c.finish()
}

// codexStatus records the HTTP status that only an error's text states, as in "unexpected status
// 401 Unauthorized: .." and "exceeded retry limit, last status: 429 Too Many Requests".
func (f *Facts) codexStatus(text []byte) {
	for _, before := range []string{"unexpected status ", "last status: "} {
		_, rest, ok := bytes.Cut(text, []byte(before))
		if status, _ := (&jsonscan.Reader{B: rest[:min(len(rest), 3)]}).Int(); ok && status >= 100 && f.Find(semconv.HTTPResponseStatus) == nil {
			f.int(semconv.HTTPResponseStatus, status)
		}
	}
}

// retry distinguishes "Reconnecting... 2/5" from an error that ends the run.
func (l *codexLine) retry() {
	_, counts, ok := bytes.Cut(l.Text, []byte("Reconnecting... "))
	if !ok {
		return
	}
	l.Kind, l.Notice = Notice, semconv.EventRetry
	var attempt, limit int64
	if n, _ := fmt.Sscanf(string(counts), "%d/%d", &attempt, &limit); n == 2 {
		l.Facts.int(semconv.Attempt, attempt)
		l.Facts.int(semconv.MaxAttempts, limit)
	}
	l.Text = nil
}
