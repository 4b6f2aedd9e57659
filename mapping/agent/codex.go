package agent

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// codex is OpenAI's Codex, run as codex exec --json. Its lines have no times and do
// not mark where a model call begins: everything until a tool ends counts as one
// call. Codex's turn is a run here.
var codex = Agent{
	Flag:     "codex",
	Name:     "codex",
	Provider: "openai",
	Nameless: true,
	New: func() Decoder {
		return &codexDecoder{used: map[string]Usage{}, running: map[string]bool{}}
	},
	IsProof: func(m *Marks) bool {
		return strings.HasPrefix(m.Type, "thread.") || strings.HasPrefix(m.Type, "turn.") || strings.HasPrefix(m.Type, "item.")
	},
}

// A codexDecoder remembers the current thread, because most lines have no thread
// id. It holds back warnings until the thread that they are about has started.
type codexDecoder struct {
	scanner
	line    codexLine
	thread  []byte
	used    map[string]Usage // by thread, so far: a thread reports its total
	running map[string]bool  // items that have not completed
	begun   bool             // a run has begun and not ended
	early   []Event          // notices, until the next run begins or ends
	arrival Instant          // of the current line
}

// Flush implements [Decoder].
func (d *codexDecoder) Flush(dst []Event) []Event { return d.takeEarly(dst) }

// Decode implements [Decoder].
func (d *codexDecoder) Decode(line Line, dst []Event) []Event {
	d.arrival = line.Arrival
	return d.readObjects(line, dst, d)
}

func (d *codexDecoder) read(r *jsonscan.Reader, dst []Event) ([]Event, bool) {
	l := &d.line
	*l = codexLine{calling: calling{from: &d.pool}}
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.typ = r.Str()
		case "thread_id":
			l.thread = readID(r)
		case "item":
			l.item(r)
		case "usage":
			l.readUsage(r)
		case "message":
			l.Text = r.Str()
		case "error":
			l.Text = errorText(r)
		default:
			r.Skip()
		}
	}
	if len(l.typ) == 0 {
		return dst, false
	}
	d.classify()
	if len(l.thread) > 0 {
		d.thread = bytes.Clone(l.thread)
		clear(d.running)
	}
	if l.Kind == Notice && !d.begun && len(d.early) < maxSessions {
		d.early = append(d.early, d.kept())
		return dst, true
	}
	from := len(dst)
	switch l.Kind {
	case ToolStart:
		d.running[string(l.ID)] = true
	case ToolEnd:
		delete(d.running, string(l.ID))
	case RunEnd:
		dst = d.endTurn(d.takeEarly(dst))
	}
	d.begun = (d.begun || l.begins()) && l.Kind != RunEnd
	if d.begun && len(d.early) > 0 {
		l.Arrival = d.early[0].Arrival // the run's first line
		dst = d.takeEarly(append(dst, l.Event))
	} else {
		dst = append(dst, l.Event)
	}
	for i := from; i < len(dst); i++ {
		dst[i].Session = d.thread
	}
	return dst, true
}

// kept copies the current notice, because it outlives its line.
func (d *codexDecoder) kept() Event {
	l := &d.line
	ev := Event{Kind: Notice, Notice: l.Notice, Facts: slices.Clone(l.Facts), Arrival: d.arrival}
	for i := range ev.Facts {
		ev.Facts[i].Text = bytes.Clone(ev.Facts[i].Text)
	}
	return ev
}

// takeEarly appends the notices that were held back.
func (d *codexDecoder) takeEarly(dst []Event) []Event {
	dst = append(dst, d.early...)
	d.early = nil
	return dst
}

func (d *codexDecoder) classify() {
	l := &d.line
	l.Kind = Unknown
	switch string(l.typ) {
	case "thread.started":
		l.Kind = RunStart
	case "turn.started":
		l.Kind = TurnStart
	case "turn.completed":
		l.Kind = RunEnd
	case "turn.failed":
		l.Kind, l.Failed, l.Status = RunEnd, true, "failed"
	case "error":
		l.Kind = RunError
		l.retry()
	case "item.started", "item.updated", "item.completed":
		l.classifyItem(string(l.typ))
	}
}

// endTurn ends the commands still running in terminals of their own, because no
// more is heard of them after a turn, and subtracts the thread's earlier usage.
func (d *codexDecoder) endTurn(dst []Event) []Event {
	l := &d.line
	if !l.Failed {
		for _, id := range slices.Sorted(maps.Keys(d.running)) {
			c := d.pool.next()
			c.outcome.bool(semconv.ToolIsBackground)
			dst = append(dst, Event{Kind: ToolEnd, ID: []byte(id), Tool: c.finish(), Estimated: true})
		}
	}
	clear(d.running)
	if u := l.Usage; u != nil && u.Known {
		total, before := *u, d.used[string(d.thread)]
		if before.Input <= u.Input && before.Output <= u.Output {
			u.Input -= before.Input
			u.Output -= before.Output
			u.CacheRead = max(0, u.CacheRead-before.CacheRead)
			u.CacheWrite = max(0, u.CacheWrite-before.CacheWrite)
			u.Reasoning = max(0, u.Reasoning-before.Reasoning)
		}
		if len(d.used) >= maxSessions {
			clear(d.used)
		}
		d.used[string(d.thread)] = total
	}
	return dst
}

// A codexLine is one line.
type codexLine struct {
	Event
	calling
	typ, thread []byte
	itemType    []byte
	toolName    []byte // of an MCP server or of a collaboration
	todos       facts
}

// begins reports whether the line shows that a run has begun.
func (l *codexLine) begins() bool {
	switch l.Kind {
	case Unknown, Ignored, Notice, RunError, RunEnd:
		return false
	}
	return true
}

// item reads the item of a line. Its members other than the outcome are arguments.
func (l *codexLine) item(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "id":
			l.ID = readID(r)
		case "type":
			l.itemType = r.Str()
		case "text", "message":
			l.Text = r.Str()
			l.Bytes = jsonscan.UnquotedLen(l.Text)
		case "status":
			l.Status = enum(jsonscan.Unquote(r.Str()))
		case "items":
			l.todoList(r)
		case "aggregated_output":
			l.tool().readOutput(r)
		case "exit_code":
			if r.Peek() == 'n' { // null: still running
				r.Skip()
			} else if code, ok := r.Int(); ok {
				l.tool().exited(code)
			}
		case "result", "agents_states":
			l.tool().readResult(r)
		case "error":
			l.tool().ErrorText = errorText(r)
		case "arguments":
			l.tool().readArguments(r)
		case "tool":
			l.toolName = r.Str()
		case "server":
			l.tool().MCP = true
			l.call.arguments.text(semconv.MCPServer, Detail, r.Str())
		case "changes":
			again := *r
			l.changes(&again)
			l.tool().argue(key, r.Raw())
		case "receiver_thread_ids":
			again := *r
			for range again.Elements() {
				l.tool().arguments.word(semconv.SubagentID, []byte(word(jsonscan.Unquote(again.Str()))))
			}
			l.tool().argue(key, r.Raw())
		default:
			l.tool().argue(key, r.Raw())
		}
	}
}

// changes reads [{"path":..,"kind":"add"}], and keeps the first path.
func (l *codexLine) changes(r *jsonscan.Reader) {
	for n := range r.Elements() {
		l.tool().arguments.int(semconv.ToolTotalFiles, int64(n+1))
		for key := range r.Members() {
			if value := r.Raw(); string(key) == "path" && n == 0 && len(value) > 2 {
				l.call.arguments.text(semconv.FilePath, Detail, bytes.Trim(value, `"`))
			}
		}
	}
}

// todoList reads [{"text":..,"completed":false}].
func (l *codexLine) todoList(r *jsonscan.Reader) {
	again := *r
	var done, open int64
	for range again.Elements() {
		completed := false
		for key := range again.Members() {
			if string(key) == "completed" {
				completed = again.Bool()
			} else {
				again.Skip()
			}
		}
		if completed {
			done++
		} else {
			open++
		}
	}
	l.todos.int(semconv.ToolTodosCompleted, done)
	l.todos.int(semconv.ToolTodosPending, open)
	l.todos.set(Fact{Key: semconv.TodoItems, Kind: FactJSON, Level: Full, Text: r.Raw()})
}

func (l *codexLine) classifyItem(typ string) {
	completed := typ == "item.completed"
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
		l.Kind, l.Notice = Notice, semconv.EventWarning
		l.Facts = []Fact{{Key: semconv.Message, Kind: FactText, Level: Full, Text: l.Text}}
	case "todo_list":
		l.Kind, l.Notice, l.Facts = Notice, semconv.EventTodoList, l.todos
	case "":
	default: // any other kind is a tool
		switch {
		case completed:
			l.Kind = ToolEnd
		case typ == "item.started":
			l.Kind = ToolStart
		default:
			l.Kind = Ignored
			return
		}
		l.finishTool()
	}
}

func (l *codexLine) finishTool() {
	c := l.tool()
	c.named(l.itemType)
	if name := word(jsonscan.Unquote(l.toolName)); name != "" {
		c.Name = name
	}
	switch {
	case l.Kind == ToolStart:
		c.Result, c.outcome = nil, c.outcome[:0]
	case l.Status == "declined":
		c.rejected()
	case l.Status == "failed", len(c.ErrorText) > 0:
		c.failed()
	}
	l.Status = ""
	l.Tool = c.finish()
}

// readUsage reads a thread's total. Its input includes what was cached.
func (l *codexLine) readUsage(r *jsonscan.Reader) {
	u := new(Usage)
	l.Usage = u
	for key := range r.Members() {
		switch string(key) {
		case "input_tokens":
			readCount(r, &u.Input, &u.Known)
		case "cached_input_tokens":
			readCount(r, &u.CacheRead, &u.Known)
		case "cache_write_input_tokens":
			readCount(r, &u.CacheWrite, &u.Known)
		case "output_tokens":
			readCount(r, &u.Output, &u.Known)
		case "reasoning_output_tokens":
			readCount(r, &u.Reasoning, &u.Known)
		default:
			r.Skip()
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
	attempt, rest, _ := bytes.Cut(counts, []byte("/"))
	limit, _, _ := bytes.Cut(rest, []byte(" "))
	var f facts
	for i, text := range [][]byte{attempt, limit} {
		r := jsonscan.Reader{B: text}
		if n, ok := r.Int(); ok && n > 0 {
			f.int([]string{semconv.Attempt, semconv.MaxAttempts}[i], n)
		}
	}
	l.Facts, l.Text = f, nil
}
