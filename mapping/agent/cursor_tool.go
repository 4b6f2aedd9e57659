package agent

import (
	"bytes"
	"cmp"
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
		case string(key) == "hookAdditionalContexts":
			l.readHooks(r)
		}
	}
}

func (l *cursorLine) readTool(r *jsonscan.Reader) {
	t := l.tool()
	for key := range r.Members() {
		start := r.I
		switch string(key) {
		case "args":
			said := t.Description
			t.Description = nil
			t.readArguments(r)
			t.ArgumentFacts.text(semconv.ToolDescription, Detail, t.Description)
			t.Description = said
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
			t.OutcomeFacts.int(semconv.ToolResultBytes, int64(jsonscan.Len(t.Result)))
		case "description":
			t.Description = r.Str()
		}
	}
}

// member returns the value of an object's member, or the object itself if it
// has none of this name.
func member(object []byte, name string) []byte {
	r := jsonscan.Reader{B: object}
	for key := range r.Members() {
		if value := r.Raw(); string(key) == name {
			return value
		}
	}
	return object
}

// readHooks reads [{"hookEventName":..,"content":..}], what hooks added to the
// model's context.
func (l *cursorLine) readHooks(r *jsonscan.Reader) {
	for range r.Elements() {
		l.hooks++
		for key := range r.Members() {
			switch string(key) {
			case "hookEventName":
				if name := enum(jsonscan.Unquote(r.Str())); name != "" && !bytes.Contains(l.hookNames, []byte(name)) {
					if len(l.hookNames) > 0 {
						l.hookNames = append(l.hookNames, ' ')
					}
					l.hookNames = append(l.hookNames, name...)
				}
			case "content":
				l.hookBytes += jsonscan.UnquotedLen(r.Str())
			}
		}
	}
}

// maxCall is the longest plausible call.
const maxCall = Instant(24 * time.Hour)

// goesOn reports whether a model call may say more after its tool call. In builds of
// 2026, whose ids end in "-<number>-<4 characters>", none does.
func goesOn(id []byte) bool {
	n := len(id) - 5
	if n < 0 || id[n] != '-' {
		return len(id) > 0
	}
	for n--; n >= 0 && '0' <= id[n] && id[n] <= '9'; n-- {
	}
	return n < 0 || id[n] != '-'
}

// ownLength returns how long a call took by the clock of the tool runner, or as its
// result says, 0 if neither does. It records the former.
func ownLength(startedAt, completedAt Instant, outcome *facts) Instant {
	if took := completedAt - startedAt; startedAt != 0 && 0 <= took && took <= maxCall {
		outcome.int(semconv.ToolDuration, int64(took/Milliseconds))
		return took
	}
	for _, key := range [...]string{semconv.ToolDuration, semconv.ToolExecutionTime} {
		if i := outcome.index(key); i >= 0 && 0 < (*outcome)[i].Int && (*outcome)[i].Int < int64(maxCall/Milliseconds) {
			return Instant((*outcome)[i].Int) * Milliseconds
		}
	}
	return 0
}

// finishTool combines what the line states about a call, in whatever order it came.
func (l *cursorLine) finishTool() {
	c := l.tool()
	l.StartPending = l.Kind == ToolStart
	if l.Kind == ToolEnd {
		l.Length = ownLength(l.startedAt, l.completedAt, &c.OutcomeFacts)
	}
	if l.Kind == ToolEnd && l.hooks > 0 {
		c.OutcomeFacts.word(semconv.ToolHooks, l.hookNames)
		c.OutcomeFacts.int(semconv.ToolHookBytes, int64(l.hookBytes))
	}
	l.GoesOn = goesOn(l.ModelCallID)
	if c.finish(); c.MCP {
		c.Arguments = member(c.Arguments, "args")
	}
}

// readResult reads {"<variant>":{..},"isBackground":false,..}. The variant is
// recognized by its name, because its siblings may be objects too and may come
// first.
func (l *cursorLine) readResult(r *jsonscan.Reader) {
	t := l.tool()
	outcome := &t.OutcomeFacts
	var variant, other string
	var body cursorVariant
	for key := range r.Members() {
		name := enumChars.in(key)
		known := cursorVariants[string(name)]
		switch {
		case string(name) == "isBackground":
			l.background.state(r)
		case known && variant == "" && r.Peek() != 'n': // not null
			variant = string(name)
			body = l.variant(r)
		default:
			if !known && !cursorSiblings[string(name)] && r.Peek() == '{' {
				other = cmp.Or(string(name), semconv.ErrorOther)
			}
		}
	}
	variant = cmp.Or(variant, other) // of a future version
	succeeded := variant == "" || variant == "async" || strings.HasSuffix(strings.ToLower(variant), "success")
	if t.Background = succeeded && l.background.is(); t.Background {
		outcome.bool(semconv.ToolIsBackground)
	} else if body.exit.Known { // Cursor reports 0 while a command is still running
		outcome.int(semconv.ProcessExitCode, body.exit.Code)
	}
	if !succeeded {
		t.ErrorType = cmp.Or(t.ErrorType, variant)
		t.Reason = body.reason(variant)
	}
	if t.ErrorType == semconv.ErrorTool {
		t.Reason = "the MCP tool reported an error"
	}
	if t.ErrorType != "" {
		t.ErrorText = body.text
	}
}

// A backgrounding says whether a call left something running. A reason counts only
// if isBackground is absent or null: some builds give one to every call.
type backgrounding struct{ stated, stays, reason bool }

func (b *backgrounding) state(r *jsonscan.Reader) {
	stated := string(r.Raw())
	b.stated = b.stated || stated != "null"
	b.stays = b.stays || stated == "true"
}

func (b *backgrounding) is() bool { return b.stays || !b.stated && b.reason }

var cursorVariants = set("success", "failure", "error", "rejected", "timeout", "permissionDenied", "spawnError",
	"fileNotFound", "notFile", "fileBusy", "notFound", "readPermissionDenied", "writePermissionDenied",
	"startSuccess", "saveSuccess", "discardSuccess", "async")

var cursorSiblings = set("sandboxPolicy", "terminalsFolder", "pid", "planUri")

// A cursorVariant is what the body of a result states about a failure.
type cursorVariant struct {
	exit    Exit
	timeout int64 // ms
	signal  string
	aborted bool
	text    []byte
}

// isSignal tells whether a word is the name of a signal: SIGTERM, SIGRTMIN+3.
func isSignal(s string) bool {
	const longest = len("SIGRTMAX-14")
	return strings.HasPrefix(s, "SIG") && len(s) <= longest
}

// reason returns why a call failed, in words that are never content.
func (v *cursorVariant) reason(variant string) string {
	switch {
	case v.aborted:
		return "aborted"
	case isSignal(v.signal):
		return "signal " + v.signal
	case v.exit.Known:
		return "exit code " + strconv.FormatInt(v.exit.Code, 10)
	case variant == "timeout" && v.timeout > 0:
		return "timeout after " + strconv.FormatFloat(float64(v.timeout)/1000, 'f', -1, 64) + " s"
	case variant == "rejected" && bytes.HasPrefix(v.text, []byte("Hook blocked")):
		return "rejected by hook"
	case variant == "error" && bytes.HasPrefix(v.text, []byte("Hook blocked")):
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

// variant reads the body of a result.
func (l *cursorLine) variant(r *jsonscan.Reader) (v cursorVariant) {
	t := l.tool()
	outcome := &t.OutcomeFacts
	for key := range r.Members() {
		switch string(key) {
		case "exitCode":
			v.exit.Code, v.exit.Known = r.Int()
		case "signal":
			if v.signal = enum(jsonscan.Unquote(r.Str())); v.signal != "" {
				outcome.word(semconv.ToolSignal, []byte(v.signal))
			}
		case "isError":
			if r.Bool() {
				t.ErrorType = semconv.ErrorTool
			}
		case "isBackground":
			l.background.state(r)
		case "backgroundReason":
			reason := r.Str()
			l.background.reason = len(reason) > 0 && !isUnspecified(reason)
		case "shellId":
			t.Task = taskID(r)
		case "agentId":
			t.Task = taskID(r)
			outcome.word(semconv.SubagentID, t.Task)
		case "complete":
			l.readAwaited(r)
		case "workspaceResults", "activeEditorResult":
			readMatches(r, outcome, 0)
		case "todos":
			readTodos(r, outcome)
		case "timeoutMs":
			if n, ok := r.Int(); ok {
				v.timeout = n
				outcome.int(semconv.ToolTimeout, n)
			}
		case "error", "errorMessage", "clientVisibleError", "reason", "stderr":
			if string(key) == "stderr" {
				r.Peek()
				again := *r
				outcome.read(&again, resultFacts, key)
			}
			if s := r.Str(); len(v.text) == 0 {
				v.text = s
			}
		default:
			if string(key) == "aborted" {
				again := *r
				v.aborted = again.Bool()
			}
			outcome.read(r, resultFacts, key)
		}
	}
	return v
}

func taskID(r *jsonscan.Reader) []byte {
	return []byte(word(jsonscan.Unquote(bytes.Trim(r.Raw(), `"`))))
}

// isUnspecified reports whether a protobuf enum is unset: newer builds write the
// zero value.
func isUnspecified(s []byte) bool {
	return string(s) == "unspecified" || bytes.HasSuffix(s, []byte("_UNSPECIFIED"))
}

// maxNesting is how deep the results of a search may be nested.
const maxNesting = 4

// readMatches adds up the counts of a search, which has one object per
// workspace: {"<path>":{"content":{"totalMatchedLines":2,..}}}.
func readMatches(r *jsonscan.Reader, outcome *facts, depth int) {
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
	a.Kind, a.Status = TaskEnd, "success"
	for key := range r.Members() {
		switch string(key) {
		case "taskId":
			a.ID = taskID(r)
		case "runtimeMs":
			a.Length = millis(r)
		case "exitCode":
			if a.ExitCode.Code, a.ExitCode.Known = r.Int(); !a.ExitCode.Known {
				continue
			}
			l.Tool.OutcomeFacts.int(semconv.ProcessExitCode, a.ExitCode.Code)
			if a.ExitCode.Code != 0 {
				a.Status, a.Failed = "error", true
			}
		}
	}
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
