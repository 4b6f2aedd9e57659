package agent

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// toolCall reads {"<kind>ToolCall":{"args":{..},"result":{..}},..}. The kind is the
// key that ends in ToolCall, whatever its siblings are: every version adds kinds,
// and keys of metadata.
func (l *cursorLine) toolCall(r *jsonscan.Reader) {
	t := l.tool()
	for key := range r.Members() {
		kind, isTool := bytes.CutSuffix(key, []byte("ToolCall"))
		switch {
		case isTool && len(kind) > 0:
			t.Name = word(kind)
			t.MCP = t.Name == "mcp"
			l.readTool(r)
		case string(key) == "function": // {"name":..,"arguments":..}, from 2025
			l.readTool(r)
		case string(key) == "startedAtMs", string(key) == "completedAtMs":
			l.field(r, key)
		case string(key) == "toolCallId":
			l.toolCallID = readID(r)
		case string(key) == "hookAdditionalContexts":
			t.readHooks(r)
		}
	}
}

func (l *cursorLine) readTool(r *jsonscan.Reader) {
	t := l.tool()
	for key := range r.Members() {
		start := r.I
		switch string(key) {
		case "args":
			t.readArguments(r)
		case "arguments":
			t.Arguments = r.Raw()
			if len(t.Arguments) > 0 && t.Arguments[0] == '"' { // JSON in a string
				t.Arguments = jsonscan.Unquote(bytes.Trim(t.Arguments, `"`))
			}
		case "name":
			if name := word(jsonscan.Unquote(r.Str())); t.Name == "" {
				t.Name = name
			}
		case "result":
			l.readResult(r)
			t.Result = r.B[start:r.I]
			t.OutcomeFacts.int(semconv.ToolResultBytes, int64(len(t.Result)))
		case "description":
			t.ArgumentFacts.text(semconv.ToolDescription, Detail, r.Str())
		}
	}
}

// readHooks reads [{"hookEventName":..,"content":..}], what hooks added to the
// model's context.
func (t *Tool) readHooks(r *jsonscan.Reader) {
	var names []string
	for range r.Elements() {
		for key := range r.Members() {
			switch string(key) {
			case "hookEventName":
				if name := string(enumOf(r)); name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			case "content":
				t.OutcomeFacts.addInt(semconv.ToolHookBytes, int64(jsonscan.UnquotedLen(r.Str())))
			}
		}
	}
	t.OutcomeFacts.word(semconv.ToolHooks, []byte(strings.Join(names, " ")))
}

// maxCall is the longest plausible call.
const maxCall = Instant(24 * time.Hour)

// ownLength returns how long a call took by the clock of the tool runner, or as its
// result says, 0 if neither does. It records the former.
func ownLength(startedAt, completedAt Instant, outcome *Facts) Instant {
	known := Instant(0)
	if took := completedAt - startedAt; startedAt != 0 && 0 <= took && took <= maxCall {
		outcome.int(semconv.ToolDuration, int64(took/Milliseconds))
		if took > 0 {
			return took
		}
		known = 1 // less than a millisecond
	}
	for _, key := range [...]string{semconv.ToolDuration, semconv.ToolExecutionTime} {
		if took := outcome.number(key); 0 < took && took < int64(maxCall/Milliseconds) {
			return Instant(took) * Milliseconds
		}
	}
	return known
}

// finishTool combines what the line states about a call, in whatever order it came.
func (l *cursorLine) finishTool() {
	c := l.tool()
	if (!l.hasCallID || len(l.ID) == 0) && len(l.toolCallID) > 0 {
		l.ID = l.toolCallID
	}
	if l.Kind == ToolEnd {
		l.Length = ownLength(l.startedAt, l.completedAt, &c.OutcomeFacts)
	}
	if c.finish(); c.MCP {
		r := jsonscan.Reader{B: c.Arguments}
		readMember(&r, "args", func() { c.Arguments = r.Raw() })
	}
}

// readResult reads {"<variant>":{..},"isBackground":false,..}. The variant is
// recognized by its name, because its siblings may be objects too and may come
// first.
func (l *cursorLine) readResult(r *jsonscan.Reader) {
	t := l.tool()
	outcome := &t.OutcomeFacts
	var variant, other string
	var exit Exit
	var text []byte // of the error
	for key := range r.Members() {
		name := nameOf(key, enumChars)
		known := cursorVariants[string(name)]
		switch {
		case string(name) == "isBackground":
			l.background = r.Bool() || l.background
		case known && variant == "" && r.Peek() != 'n': // not null
			variant = string(name)
			exit, text = l.variant(r)
		default:
			if !known && !cursorSiblings[string(name)] && r.Peek() == '{' {
				other = cmp.Or(string(name), semconv.ErrorOther)
			}
		}
	}
	variant = cmp.Or(variant, other) // of a future version
	succeeded := variant == "" || variant == "async" || strings.HasSuffix(strings.ToLower(variant), "success")
	if t.Background = succeeded && l.background; t.Background {
		outcome.bool(semconv.ToolIsBackground)
	} else if exit.Known { // Cursor reports 0 while a command is still running
		outcome.int(semconv.ProcessExitCode, exit.Code)
	}
	if !succeeded {
		t.ErrorType = cmp.Or(t.ErrorType, variant)
		t.Reason = cursorReason(variant, exit, text, outcome)
	}
	if t.ErrorType == semconv.ErrorTool {
		t.Reason = "the MCP tool reported an error"
	}
	if t.ErrorType != "" {
		t.ErrorText = text
	}
}

var cursorVariants = set("success", "failure", "error", "rejected", "timeout", "permissionDenied", "spawnError",
	"fileNotFound", "notFile", "fileBusy", "notFound", "readPermissionDenied", "writePermissionDenied",
	"startSuccess", "saveSuccess", "discardSuccess", "async")

var cursorSiblings = set("sandboxPolicy", "terminalsFolder", "pid", "planUri")

// isSignal reports whether a word is the name of a signal: SIGTERM, SIGRTMIN+3.
func isSignal(s string) bool {
	const longest = len("SIGRTMAX-14")
	return strings.HasPrefix(s, "SIG") && len(s) <= longest
}

// cursorReason returns why a call failed, in words that are never content.
func cursorReason(variant string, exit Exit, text []byte, outcome *Facts) string {
	signal, timeout := outcome.Find(semconv.ToolSignal), outcome.number(semconv.ToolTimeout)
	switch {
	case outcome.Find(semconv.ToolAborted) != nil:
		return "aborted"
	case signal != nil && isSignal(string(signal.Text)):
		return "signal " + string(signal.Text)
	case exit.Known:
		return "exit code " + strconv.FormatInt(exit.Code, 10)
	case variant == "timeout" && timeout > 0:
		return "timeout after " + strconv.FormatFloat(float64(timeout)/1000, 'f', -1, 64) + " s"
	case variant == "rejected" && bytes.HasPrefix(text, []byte("Hook blocked")):
		return "rejected by hook"
	case variant == "error" && bytes.HasPrefix(text, []byte("Hook blocked")):
		return "blocked by hook"
	}
	return splitWords(variant)
}

// splitWords turns permissionDenied into "permission denied".
func splitWords(name string) string {
	var b strings.Builder
	for i, c := range name {
		if 'A' <= c && c <= 'Z' && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.ToLower(string(c)))
	}
	return b.String()
}

// variant reads the body of a result. It returns the text of an error.
func (l *cursorLine) variant(r *jsonscan.Reader) (exit Exit, text []byte) {
	t := l.tool()
	outcome := &t.OutcomeFacts
	for key := range r.Members() {
		switch string(key) {
		case "exitCode":
			exit.Code, exit.Known = r.Int()
		case "signal":
			outcome.word(semconv.ToolSignal, enumOf(r))
		case "isError":
			if r.Bool() {
				t.ErrorType = semconv.ErrorTool
			}
		case "isBackground":
			l.background = r.Bool() || l.background
		case "shellId":
			t.Task = wordOf(r)
		case "agentId":
			t.Task = wordOf(r)
			outcome.word(semconv.SubagentID, t.Task)
		case "complete":
			l.readAwaited(r)
		case "workspaceResults", "activeEditorResult":
			readMatches(r, outcome, 0)
		case "todos":
			readTodos(r, outcome)
		case "error", "errorMessage", "message", "clientVisibleError", "reason", "stderr":
			if string(key) == "stderr" {
				r.Peek()
				again := *r
				outcome.read(&again, resultFacts, key)
			}
			if s, _ := readFailure(r); len(text) == 0 {
				text = s
			}
		default:
			outcome.read(r, resultFacts, key)
		}
	}
	return exit, text
}

// readMatches adds up the counts of a search, which has one object per
// workspace: {"<path>":{"content":{"totalMatchedLines":2,..}}}.
func readMatches(r *jsonscan.Reader, outcome *Facts, depth int) {
	for key := range r.Members() {
		switch string(key) {
		case "totalMatches", "totalMatchedLines":
			if n, ok := r.Int(); ok {
				outcome.addInt(semconv.ToolTotalMatches, n)
			}
		case "totalFiles":
			if n, ok := r.Int(); ok {
				outcome.addInt(semconv.ToolTotalFiles, n)
			}
		case "clientTruncated", "ripgrepTruncated":
			outcome.read(r, resultFacts, key)
		default:
			if depth < maxNesting && r.Peek() == '{' {
				readMatches(r, outcome, depth+1)
			}
		}
	}
}

// readAwaited reads the end of background work that a tool waited for:
// {"taskId":..,"runtimeMs":..,"exitCode":..}.
func (l *cursorLine) readAwaited(r *jsonscan.Reader) {
	a := &l.awaited
	for key := range r.Members() {
		switch string(key) {
		case "taskId":
			a.ID = wordOf(r)
		case "runtimeMs":
			a.Length = millis(r)
		case "exitCode":
			if a.ExitCode.Code, a.ExitCode.Known = r.Int(); !a.ExitCode.Known {
				continue
			}
			l.Tool.OutcomeFacts.int(semconv.ProcessExitCode, a.ExitCode.Code)
		}
	}
	a.endTask()
}

// appendAwaited appends the end of background work that a tool waited for: its
// notification may come seconds later.
func (l *cursorLine) appendAwaited(dst []Event) []Event {
	a := &l.awaited
	if len(a.ID) == 0 {
		return dst
	}
	a.Session, a.Time, a.Arrival = l.Session, l.Time, l.Arrival
	return append(dst, *a)
}
