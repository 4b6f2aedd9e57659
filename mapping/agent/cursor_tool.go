package agent

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// toolCall reads {"<kind>ToolCall":{"args":{..},"result":{..}},..}. The kind
// is the key that ends in ToolCall, whatever stands beside it: the set of kinds
// grows with every version, and so do the keys of metadata.
func (l *cursorLine) toolCall(r *jsonscan.Reader) {
	t := &l.tool
	for key := range r.Members() {
		kind, isTool := bytes.CutSuffix(key, []byte("ToolCall"))
		switch {
		case isTool && len(kind) > 0:
			t.Name = word(kind)
			t.MCP = t.Name == "mcp"
			l.readTool(r)
		case string(key) == "function": // {"name":..,"arguments":..}, from 2025
			l.readTool(r)
		case string(key) == "startedAtMs":
			l.startedAt = millis(r)
		case string(key) == "completedAtMs":
			l.completedAt = millis(r)
		case string(key) == "hookAdditionalContexts":
			l.readHooks(r)
		default:
			r.Skip()
		}
	}
}

func (l *cursorLine) readTool(r *jsonscan.Reader) {
	t := &l.tool
	for key := range r.Members() {
		r.Peek()
		start := r.I
		switch string(key) {
		case "args":
			l.readArguments(r)
			t.Arguments = r.B[start:r.I]
			l.arguments.int(semconv.ToolArgumentBytes, int64(len(t.Arguments)))
			if t.MCP {
				t.Arguments = member(t.Arguments, "args")
			}
		case "arguments":
			t.Arguments = r.Raw()
			if len(t.Arguments) > 0 && t.Arguments[0] == '"' { // JSON in a string
				t.Arguments = jsonscan.Unquote(bytes.Trim(t.Arguments, `"`))
			}
			l.arguments.int(semconv.ToolArgumentBytes, int64(len(t.Arguments)))
		case "name":
			if name := word(jsonscan.Unquote(r.Str())); t.Name == "" {
				t.Name = name
			}
		case "result":
			l.readResult(r)
			t.Result = r.B[start:r.I]
			l.outcome.int(semconv.ToolResultBytes, int64(len(t.Result)))
		case "description":
			t.Description = r.Str()
		default:
			r.Skip()
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
			default:
				r.Skip()
			}
		}
	}
}

// finishTool puts together what the line says of a call, in whatever order.
func (l *cursorLine) finishTool() {
	if l.Kind == ToolEnd && l.startedAt != 0 && l.completedAt >= l.startedAt {
		l.Length = l.completedAt - l.startedAt
		l.outcome.int(semconv.ToolDuration, int64(l.Length/Milliseconds))
	}
	if l.Kind == ToolEnd && l.hooks > 0 {
		l.outcome.word(semconv.ToolHooks, l.hookNames)
		l.outcome.int(semconv.ToolHookBytes, int64(l.hookBytes))
	}
	l.tool.ArgumentFacts, l.tool.OutcomeFacts = l.arguments, l.outcome
	l.Tool = &l.tool
}

// readArguments reads which program a command runs, which tool of an MCP server
// is called, and what the call is about.
func (l *cursorLine) readArguments(r *jsonscan.Reader) {
	t := &l.tool
	var command, simple, parsed []byte
	for key := range r.Members() {
		switch string(key) {
		case "toolName":
			if name := word(jsonscan.Unquote(r.Str())); t.MCP && name != "" {
				t.Name = name
			}
		case "command":
			command = r.Str()
			l.arguments.text(semconv.ProcessCommandLine, Detail, command)
		case "simpleCommands":
			simple = firstProgram(r, (*jsonscan.Reader).Str)
		case "parsingResult":
			parsed = parsedProgram(r)
		case "subagentType":
			l.subagentType(r)
		case "model":
			l.arguments.word(semconv.SubagentModel, []byte(word(jsonscan.Unquote(r.Str()))))
		default:
			l.detail(r, key, &l.arguments)
		}
	}
	for _, program := range [][]byte{jsonscan.Unquote(parsed), jsonscan.Unquote(simple), commandWord(jsonscan.Unquote(command))} {
		if t.Executable = executable(program); t.Executable != "" {
			return
		}
	}
}

// cursorDetails are the arguments of any tool or question that tell what it is
// about.
var cursorDetails = map[string]string{
	"path":               semconv.FilePath,
	"filePath":           semconv.FilePath,
	"targetDirectory":    semconv.FileDirectory,
	"workingDirectory":   semconv.ProcessWorkingDirectory,
	"command":            semconv.ProcessCommandLine,
	"pattern":            semconv.ToolPattern,
	"globPattern":        semconv.ToolGlob,
	"glob":               semconv.ToolGlob,
	"query":              semconv.ToolSearch,
	"searchTerm":         semconv.ToolSearch,
	"url":                semconv.URLFull,
	"uri":                semconv.MCPResourceURI,
	"server":             semconv.MCPServer,
	"serverIdentifier":   semconv.MCPServer,
	"providerIdentifier": semconv.MCPServer,
	"description":        semconv.ToolDescription,
}

// detail reads an argument.
func (l *cursorLine) detail(r *jsonscan.Reader, key []byte, to *facts) {
	if name, ok := cursorDetails[string(key)]; ok && r.Peek() == '"' {
		to.text(name, Detail, r.Str())
	} else {
		r.Skip()
	}
}

// subagentType reads {"<type>":{}}.
func (l *cursorLine) subagentType(r *jsonscan.Reader) {
	for key := range r.Members() {
		if name := enum(key); name != "" && !isUnspecified(key) {
			l.tool.Subagent = name
			l.arguments.word(semconv.SubagentType, key)
		}
		r.Skip()
	}
}

// parsedProgram reads {"executableCommands":[{"name":..},..],..}.
func parsedProgram(r *jsonscan.Reader) (name []byte) {
	for key := range r.Members() {
		if string(key) == "executableCommands" {
			name = firstProgram(r, nameMember)
		} else {
			r.Skip()
		}
	}
	return name
}

func nameMember(r *jsonscan.Reader) (name []byte) {
	for key := range r.Members() {
		if string(key) == "name" {
			name = r.Str()
		} else {
			r.Skip()
		}
	}
	return name
}

// firstProgram returns the first program of a list that is not cd: Cursor
// begins most commands with one.
func firstProgram(r *jsonscan.Reader, read func(*jsonscan.Reader) []byte) (first []byte) {
	for range r.Elements() {
		if name := read(r); len(first) == 0 || string(first) == "cd" {
			first = name
		}
	}
	return first
}

// readResult reads {"<variant>":{..},"isBackground":false,..}. The variant is told
// by its name: its siblings may come first, and may be objects too.
func (l *cursorLine) readResult(r *jsonscan.Reader) {
	t := &l.tool
	var variant, other string
	var body cursorVariant
	for key := range r.Members() {
		name := enum(key)
		switch {
		case name == "isBackground":
			t.Background = r.Bool() || t.Background
		case cursorVariants[name]:
			variant = name
			body = l.variant(r)
		default:
			if !cursorSiblings[name] && r.Peek() == '{' {
				other = cmp.Or(name, semconv.ErrorOther)
			}
			r.Skip()
		}
	}
	variant = cmp.Or(variant, other) // of a version to come
	if t.Background {
		l.outcome.bool(semconv.ToolIsBackground)
	} else if body.exit.Known { // of what still runs, Cursor says 0
		l.outcome.int(semconv.ProcessExitCode, body.exit.Code)
	}
	switch {
	case variant == "", variant == "async", strings.HasSuffix(strings.ToLower(variant), "success"):
	default:
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

// cursorNumbers are the numbers of any variant that tell something of a call
// without telling what it was about.
var cursorNumbers = map[string]string{
	"executionTime":        semconv.ToolExecutionTime,
	"localExecutionTimeMs": semconv.ToolLocalTime,
	"durationMs":           semconv.ToolDuration,
	"timeoutMs":            semconv.ToolTimeout,
	"linesAdded":           semconv.ToolLinesAdded,
	"linesRemoved":         semconv.ToolLinesRemoved,
	"linesCreated":         semconv.ToolLinesCreated,
	"totalLines":           semconv.ToolTotalLines,
	"fileSize":             semconv.ToolFileSize,
	"totalFiles":           semconv.ToolTotalFiles,
	"totalCount":           semconv.ToolTotalCount,
	"totalDiagnostics":     semconv.ToolDiagnostics,
	"statusCode":           semconv.HTTPResponseStatus,
}

// cursorFlags are its flags, of which only true is told.
var cursorFlags = map[string]string{
	"aborted":          semconv.ToolAborted,
	"exceededLimit":    semconv.ToolLimitExceeded,
	"clientTruncated":  semconv.ToolTruncated,
	"ripgrepTruncated": semconv.ToolTruncated,
}

// cursorSizes are its texts of which only the size is told.
var cursorSizes = map[string]string{
	"stdout":  semconv.ToolStdoutBytes,
	"stderr":  semconv.ToolStderrBytes,
	"content": semconv.ToolContentBytes,
}

// A cursorVariant is what the body of a result says of a failure.
type cursorVariant struct {
	exit    Exit
	timeout int64 // ms
	signal  string
	aborted bool
	text    []byte
}

// reason says why a call failed, in words that are never content.
func (v *cursorVariant) reason(variant string) string {
	switch {
	case v.aborted:
		return "aborted"
	case v.signal != "":
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
			t.Background = r.Bool() || t.Background
		case "backgroundReason":
			reason := r.Str()
			t.Background = len(reason) > 0 && !isUnspecified(reason) || t.Background
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
			l.readTodos(r)
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

// isUnspecified tells whether a protobuf enum is absent: newer builds write its
// zero value.
func isUnspecified(s []byte) bool { return bytes.HasSuffix(s, []byte("_UNSPECIFIED")) }

func (l *cursorLine) measure(r *jsonscan.Reader, key []byte) {
	if k, ok := cursorNumbers[string(key)]; ok {
		if n, ok := r.Int(); ok {
			l.outcome.int(k, n)
		}
		return
	}
	if k, ok := cursorFlags[string(key)]; ok {
		if r.Bool() {
			l.outcome.bool(k)
		}
		return
	}
	if k, ok := cursorSizes[string(key)]; ok && r.Peek() == '"' {
		l.outcome.int(k, int64(jsonscan.UnquotedLen(r.Str())))
		return
	}
	r.Skip()
}

// maxNesting is how deep the results of a search are looked into.
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

// readTodos counts a list of tasks by their state:
// [{"content":..,"status":"TODO_STATUS_PENDING"}].
func (l *cursorLine) readTodos(r *jsonscan.Reader) {
	for range r.Elements() {
		for key := range r.Members() {
			if string(key) != "status" {
				r.Skip()
				continue
			}
			switch status := strings.ToLower(string(r.Str())); {
			case strings.HasSuffix(status, "pending"):
				l.outcome.addInt(semconv.ToolTodosPending, 1)
			case strings.HasSuffix(status, "in_progress"):
				l.outcome.addInt(semconv.ToolTodosRunning, 1)
			case strings.HasSuffix(status, "completed"):
				l.outcome.addInt(semconv.ToolTodosCompleted, 1)
			}
		}
	}
}

// awaited is the end of background work, which a tool waited for.
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
