package mapping

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// toolCall reads {"<kind>ToolCall":{"args":{..},"result":{..}},..}. The kind
// is the key that ends in ToolCall, whatever stands beside it: the set of kinds
// grows with every version, and so do the keys of metadata.
func (l *cursorLine) toolCall(r *reader) {
	for key := range r.members() {
		kind, isTool := bytes.CutSuffix(key, []byte("ToolCall"))
		switch {
		case isTool && len(kind) > 0:
			l.tool.name = word(kind)
			l.tool.mcp = l.tool.name == "mcp"
			l.tool.read(r, &l.content)
		case string(key) == "function": // {"name":..,"arguments":..}, from 2025
			l.tool.read(r, &l.content)
		default:
			r.skip()
		}
	}
}

func (t *toolCall) read(r *reader, w *words) {
	for key := range r.members() {
		r.peek()
		start := r.i
		switch string(key) {
		case "args":
			t.readArgs(r)
			w.args = r.b[start:r.i]
			t.arguments = merge(t.arguments, num(keyArgumentBytes, len(w.args)))
		case "arguments":
			w.args = r.raw()
			t.arguments = merge(t.arguments, num(keyArgumentBytes, unquotedLen(bytes.Trim(w.args, `"`))))
		case "name":
			if name := word(unquote(r.str())); t.name == "" {
				t.name = name
			}
		case "result":
			t.readResult(r)
			w.result = r.b[start:r.i]
			t.outcome = merge(t.outcome, num(keyResultBytes, len(w.result)))
		case "description":
			w.description = r.str()
		default:
			r.skip()
		}
	}
}

// readArgs reads what is no content: which program a command runs, which tool of
// an MCP server is called.
func (t *toolCall) readArgs(r *reader) {
	var command, simple, parsed []byte
	for key := range r.members() {
		switch string(key) {
		case "toolName":
			if name := word(unquote(r.str())); t.mcp && name != "" {
				t.name = name
			}
		case "command":
			command = r.str()
		case "simpleCommands":
			simple = firstProgram(r, (*reader).str)
		case "parsingResult":
			parsed = parsedProgram(r)
		default:
			r.skip()
		}
	}
	for _, program := range [][]byte{unquote(parsed), unquote(simple), commandWord(unquote(command))} {
		if name := executable(program); name != "" {
			t.arguments = merge(t.arguments, str(keyExecutable, name))
			return
		}
	}
}

// parsedProgram reads {"executableCommands":[{"name":..},..],..}.
func parsedProgram(r *reader) (name []byte) {
	for key := range r.members() {
		if string(key) == "executableCommands" {
			name = firstProgram(r, nameMember)
		} else {
			r.skip()
		}
	}
	return name
}

func nameMember(r *reader) (name []byte) {
	for key := range r.members() {
		if string(key) == "name" {
			name = r.str()
		} else {
			r.skip()
		}
	}
	return name
}

// firstProgram returns the first program of a list that is not cd: Cursor
// begins most commands with one.
func firstProgram(r *reader, read func(*reader) []byte) (first []byte) {
	for range r.elements() {
		if name := read(r); len(first) == 0 || string(first) == "cd" {
			first = name
		}
	}
	return first
}

// commandWord returns the first word of a command that is no assignment, or
// none if that takes a shell to tell: a piece of something quoted is content.
func commandWord(command []byte) []byte {
	for word := range bytes.FieldsSeq(command) {
		if bytes.ContainsAny(word, "\"'`$\\(){}") {
			return nil
		}
		name, _, ok := bytes.Cut(word, []byte{'='})
		switch {
		case !ok:
			return word
		case len(bytes.Trim(name, letters+"0123456789_")) > 0:
			return nil
		}
	}
	return nil
}

// executable returns the base name of a program, "" if s does not look like
// one: anything else may be content.
func executable(s []byte) string {
	const name = letters + "0123456789._+-"
	// All of it has to look so: of >/tmp/x the end is a file, of https://host/x
	// a page, of "cat /x" an argument.
	path := bytes.TrimPrefix(s, []byte("~/"))
	if len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') {
		path = s[2:]
	}
	if len(bytes.Trim(path, name+`/\`)) > 0 || bytes.Contains(path, []byte("//")) {
		return ""
	}
	return madeOf(path[bytes.LastIndexAny(path, `/\`)+1:], name)
}

// readResult reads {"<variant>":{..},"isBackground":false,..}. The variant is told
// by its name: its siblings may come first, and may be objects too.
func (t *toolCall) readResult(r *reader) {
	var variant, other string
	var exit exitCode
	for key := range r.members() {
		name := enum(key)
		switch {
		case name == "isBackground":
			t.background = r.truth() || t.background
		case variants[name]:
			variant = name
			exit = t.variant(r)
		default:
			if !siblings[name] && r.peek() == '{' {
				other = cmp.Or(name, errOther)
			}
			r.skip()
		}
	}
	if variant == "" {
		variant = other // of a version to come
	}
	if t.background {
		t.outcome = merge(t.outcome, boolean(keyIsBackground, true))
	} else if exit.known { // of what still runs, Cursor says 0
		t.outcome = merge(t.outcome, num(keyExitCode, exit.code))
	}
	switch {
	case t.errorType != "": // MCP's isError
	case variant == "", variant == "async", strings.HasSuffix(strings.ToLower(variant), "success"):
	default:
		t.errorType = variant
		if exit.known {
			t.message = "exit code " + strconv.FormatInt(exit.code, 10)
		}
	}
}

var variants = set("success", "failure", "error", "rejected", "timeout", "permissionDenied", "spawnError",
	"fileNotFound", "notFile", "fileBusy", "notFound", "readPermissionDenied", "writePermissionDenied",
	"startSuccess", "saveSuccess", "discardSuccess", "async")

var siblings = set("sandboxPolicy", "terminalsFolder", "pid", "planUri")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// outcomeNumbers are the numbers of any variant that tell something of a call
// without telling what it was about.
var outcomeNumbers = map[string]string{
	"executionTime":    keyExecutionTime,
	"durationMs":       keyToolDuration,
	"timeoutMs":        keyToolTimeout,
	"linesAdded":       keyLinesAdded,
	"linesRemoved":     keyLinesRemoved,
	"linesCreated":     keyLinesCreated,
	"totalLines":       keyTotalLines,
	"fileSize":         keyFileSize,
	"totalFiles":       keyTotalFiles,
	"totalCount":       keyTotalCount,
	"totalDiagnostics": keyDiagnostics,
	"statusCode":       keyHTTPStatusCode,
}

// outcomeSizes are its texts of which only the size is told.
var outcomeSizes = map[string]string{
	"stdout":  keyStdoutBytes,
	"stderr":  keyStderrBytes,
	"content": keyContentBytes,
}

type exitCode struct {
	code  int64
	known bool
}

// variant reads the body of a result.
func (t *toolCall) variant(r *reader) (exit exitCode) {
	for key := range r.members() {
		switch string(key) {
		case "exitCode":
			exit.code, exit.known = r.integer()
		case "isError":
			if r.truth() {
				t.errorType = errToolError
			}
		case "isBackground":
			t.background = r.truth() || t.background
		case "backgroundReason":
			t.background = len(r.str()) > 0 || t.background
		case "shellId", "agentId":
			t.task = []byte(word(unquote(bytes.Trim(r.raw(), `"`))))
		default:
			t.measure(r, key)
		}
	}
	return exit
}

func (t *toolCall) measure(r *reader, key []byte) {
	if k, ok := outcomeNumbers[string(key)]; ok {
		if n, ok := r.integer(); ok {
			t.outcome = merge(t.outcome, num(k, n))
		}
		return
	}
	if k, ok := outcomeSizes[string(key)]; ok && r.peek() == '"' {
		t.outcome = merge(t.outcome, num(k, unquotedLen(r.str())))
		return
	}
	r.skip()
}
