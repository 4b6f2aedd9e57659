package agent

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// readResult reads {"<variant>":{..},"isBackground":false,..}. The variant is
// recognized by its name, because its siblings may be objects too and may come
// first.
func (l *cursorLine) readResult(r *jsonscan.Reader) {
	t := &l.tool
	var variant, other string
	var body cursorVariant
	for key := range r.Members() {
		name := enumChars.in(key)
		known := cursorVariants[string(name)]
		switch {
		case string(name) == "isBackground":
			l.background.state(r)
		case known && variant == "" && r.Peek() != 'n': // not null
			variant = l.words.of(name)
			body = l.variant(r)
		default:
			if !known && !cursorSiblings[string(name)] && r.Peek() == '{' {
				other = cmp.Or(string(name), semconv.ErrorOther)
			}
			r.Skip()
		}
	}
	variant = cmp.Or(variant, other) // of a future version
	succeeded := variant == "" || variant == "async" || strings.HasSuffix(strings.ToLower(variant), "success")
	if t.Background = succeeded && l.background.is(); t.Background {
		l.outcome.bool(semconv.ToolIsBackground)
	} else if body.exit.Known { // Cursor reports 0 while a command is still running
		l.outcome.int(semconv.ProcessExitCode, body.exit.Code)
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

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

type measureKind uint8

const (
	noMeasure measureKind = iota
	number
	flag // recorded only if true
	size // of a text
)

// cursorMeasure returns the attribute for a member that does not reveal what the
// call was about, of the result of any tool.
func cursorMeasure(member []byte) (key string, kind measureKind) {
	switch string(member) {
	case "executionTime":
		return semconv.ToolExecutionTime, number
	case "localExecutionTimeMs":
		return semconv.ToolLocalTime, number
	case "durationMs":
		return semconv.ToolDuration, number
	case "timeoutMs":
		return semconv.ToolTimeout, number
	case "linesAdded":
		return semconv.ToolLinesAdded, number
	case "linesRemoved":
		return semconv.ToolLinesRemoved, number
	case "linesCreated":
		return semconv.ToolLinesCreated, number
	case "totalLines":
		return semconv.ToolTotalLines, number
	case "fileSize":
		return semconv.ToolFileSize, number
	case "totalFiles":
		return semconv.ToolTotalFiles, number
	case "totalCount":
		return semconv.ToolTotalCount, number
	case "totalDiagnostics":
		return semconv.ToolDiagnostics, number
	case "statusCode":
		return semconv.HTTPResponseStatus, number
	case "aborted":
		return semconv.ToolAborted, flag
	case "exceededLimit":
		return semconv.ToolLimitExceeded, flag
	case "clientTruncated", "ripgrepTruncated":
		return semconv.ToolTruncated, flag
	case "stdout":
		return semconv.ToolStdoutBytes, size
	case "stderr":
		return semconv.ToolStderrBytes, size
	case "content":
		return semconv.ToolContentBytes, size
	}
	return "", noMeasure
}

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
	t := &l.tool
	for key := range r.Members() {
		switch string(key) {
		case "exitCode":
			v.exit.Code, v.exit.Known = r.Int()
		case "signal":
			if v.signal = enum(jsonscan.Unquote(r.Str())); v.signal != "" {
				l.outcome.word(semconv.ToolSignal, []byte(v.signal))
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
			l.outcome.word(semconv.SubagentID, t.Task)
		case "complete":
			l.readAwaited(r)
		case "workspaceResults", "activeEditorResult":
			l.readMatches(r, 0)
		case "todos":
			readTodos(r, &l.outcome)
		case "timeoutMs":
			if n, ok := r.Int(); ok {
				v.timeout = n
				l.outcome.int(semconv.ToolTimeout, n)
			}
		case "error", "errorMessage", "clientVisibleError", "reason", "stderr":
			if string(key) == "stderr" {
				r.Peek()
				again := *r
				l.measure(&again, key)
			}
			if s := r.Str(); len(v.text) == 0 {
				v.text = s
			}
		default:
			if string(key) == "aborted" {
				again := *r
				v.aborted = again.Bool()
			}
			l.measure(r, key)
		}
	}
	return v
}

func taskID(r *jsonscan.Reader) []byte {
	return []byte(word(jsonscan.Unquote(bytes.Trim(r.Raw(), `"`))))
}

// isUnspecified reports whether a protobuf enum is unset: newer builds write the
// zero value.
func isUnspecified(s []byte) bool { return bytes.HasSuffix(s, []byte("_UNSPECIFIED")) }

func (l *cursorLine) measure(r *jsonscan.Reader, member []byte) {
	switch key, kind := cursorMeasure(member); {
	case kind == number:
		r.Peek()
		start := r.I
		if n, ok := r.Int(); ok {
			l.outcome.int(key, n)
			l.note(r, numberHole, r.B[start:r.I], l.outcome, key)
		}
	case kind == flag:
		if r.Bool() {
			l.outcome.bool(key)
		}
	case kind == size && r.Peek() == '"':
		text := r.Str()
		l.outcome.int(key, int64(jsonscan.UnquotedLen(text)))
		l.note(r, sizeHole, text, l.outcome, key)
	default:
		l.skip(r)
	}
}

// maxNesting is how deep the results of a search may be nested.
const maxNesting = 4

// readMatches adds up the counts of a search, which has one object per
// workspace: {"<path>":{"content":{"totalMatchedLines":2,..}}}.
func (l *cursorLine) readMatches(r *jsonscan.Reader, depth int) {
	for key := range r.Members() {
		switch string(key) {
		case "totalMatches", "totalMatchedLines":
			if n, ok := r.Int(); ok {
				l.outcome.addInt(semconv.ToolTotalMatches, n)
			}
		case "totalFiles":
			if n, ok := r.Int(); ok {
				l.outcome.addInt(semconv.ToolTotalFiles, n)
			}
		case "clientTruncated", "ripgrepTruncated":
			l.measure(r, key)
		default:
			if depth < maxNesting && r.Peek() == '{' {
				l.readMatches(r, depth+1)
			} else {
				r.Skip()
			}
		}
	}
}

// awaited is the end of background work that a tool waited for.
type awaited struct {
	known  bool
	task   []byte
	length Instant
	exit   Exit
}

// readAwaited reads {"taskId":..,"runtimeMs":..,"exitCode":..}.
func (l *cursorLine) readAwaited(r *jsonscan.Reader) {
	a := &l.awaited
	a.known = true
	for key := range r.Members() {
		switch string(key) {
		case "taskId":
			a.task = taskID(r)
		case "runtimeMs":
			a.length = millis(r)
		case "exitCode":
			a.exit.Code, a.exit.Known = r.Int()
			if a.exit.Known {
				l.outcome.int(semconv.ProcessExitCode, a.exit.Code)
			}
		default:
			r.Skip()
		}
	}
}

// appendAwaited appends the end of background work that a tool waited for: its
// notification may come seconds later.
func (l *cursorLine) appendAwaited(dst []Event) []Event {
	a := &l.awaited
	if !a.known || len(a.task) == 0 {
		return dst
	}
	ev := Event{
		Kind: TaskEnd, Session: l.Session, Time: l.Time, Arrival: l.Arrival,
		ID: a.task, Length: a.length, ExitCode: a.exit, Status: "success",
	}
	if a.exit.Known && a.exit.Code != 0 {
		ev.Status, ev.Failed = "error", true
	}
	return append(dst, ev)
}
