package agent

import (
	"bytes"
	"time"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// toolCall reads {"<kind>ToolCall":{"args":{..},"result":{..}},..}. The kind is the
// key that ends in ToolCall, whatever its siblings are: every version adds kinds,
// and keys of metadata.
func (l *cursorLine) toolCall(r *jsonscan.Reader) {
	t := &l.tool
	for key := range r.Members() {
		kind, isTool := bytes.CutSuffix(key, []byte("ToolCall"))
		switch {
		case isTool && len(kind) > 0:
			t.Name = l.words.of(wordChars.in(kind))
			t.MCP = t.Name == "mcp"
			l.readTool(r)
		case string(key) == "function": // {"name":..,"arguments":..}, from 2025
			l.readTool(r)
		case string(key) == "startedAtMs":
			l.startedAt = l.millis(r, startedHole)
		case string(key) == "completedAtMs":
			l.completedAt = l.millis(r, completedHole)
		case string(key) == "hookAdditionalContexts":
			l.readHooks(r)
		default:
			l.skip(r)
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
			l.arguments.int(semconv.ToolArgumentBytes, int64(jsonscan.Len(t.Arguments)))
			l.noteRange(start, r.I, argumentsStart, l.arguments, semconv.ToolArgumentBytes)
			if t.MCP {
				t.Arguments = member(t.Arguments, "args")
			}
		case "arguments":
			t.Arguments = r.Raw()
			if len(t.Arguments) > 0 && t.Arguments[0] == '"' { // JSON in a string
				t.Arguments = jsonscan.Unquote(bytes.Trim(t.Arguments, `"`))
			}
			l.arguments.int(semconv.ToolArgumentBytes, int64(jsonscan.Len(t.Arguments)))
		case "name":
			if name := word(jsonscan.Unquote(r.Str())); t.Name == "" {
				t.Name = name
			}
		case "result":
			l.readResult(r)
			t.Result = r.B[start:r.I]
			l.outcome.int(semconv.ToolResultBytes, int64(jsonscan.Len(t.Result)))
			l.noteRange(start, r.I, resultStart, l.outcome, semconv.ToolResultBytes)
		case "description":
			t.Description = r.Str()
		default:
			l.skip(r)
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

// finishTool combines what the line states about a call, in whatever order it came.
func (l *cursorLine) finishTool() {
	if took, ok := callTook(l.startedAt, l.completedAt); ok && l.Kind == ToolEnd {
		l.Length = took
		l.outcome.int(semconv.ToolDuration, int64(l.Length/Milliseconds))
	}
	if l.Kind == ToolEnd && l.hooks > 0 {
		l.outcome.word(semconv.ToolHooks, l.hookNames)
		l.outcome.int(semconv.ToolHookBytes, int64(l.hookBytes))
	}
	l.GoesOn = goesOn(l.ModelCallID)
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
		if name := executable(program); len(name) > 0 {
			t.Executable = l.words.of(name)
			return
		}
	}
}

// cursorDetail returns the attribute for an argument of any tool or question that
// shows what the call is about, "" if the argument does not.
func cursorDetail(argument []byte) (key string) {
	switch string(argument) {
	case "path", "filePath":
		return semconv.FilePath
	case "targetDirectory":
		return semconv.FileDirectory
	case "workingDirectory":
		return semconv.ProcessWorkingDirectory
	case "command":
		return semconv.ProcessCommandLine
	case "pattern":
		return semconv.ToolPattern
	case "globPattern", "glob":
		return semconv.ToolGlob
	case "query", "searchTerm":
		return semconv.ToolSearch
	case "url":
		return semconv.URLFull
	case "uri":
		return semconv.MCPResourceURI
	case "server", "serverIdentifier", "providerIdentifier":
		return semconv.MCPServer
	case "description":
		return semconv.ToolDescription
	}
	return ""
}

// detail reads an argument.
func (l *cursorLine) detail(r *jsonscan.Reader, key []byte, to *facts) {
	if name := cursorDetail(key); name != "" && r.Peek() == '"' {
		text := r.Str()
		to.text(name, Detail, text)
		if len(text) > 0 {
			l.note(r, argumentHole, text, *to, name)
		}
	} else {
		l.skip(r)
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
