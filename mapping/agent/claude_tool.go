package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// read reads a block. What the API itself runs has types of its own, such as
// server_tool_use and web_search_tool_result.
func (b *claudeBlock) read(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			b.kind = blockKind(r.Str())
		case "text", "thinking":
			b.text = r.Str()
		case "id", "tool_use_id":
			b.id = jsonscan.Unquote(r.Str())
		case "name":
			b.named(jsonscan.Unquote(r.Str()))
		case "input":
			b.input(r)
		case "content":
			b.tool.Result = r.Raw()
			b.outcome.int(semconv.ToolResultBytes, int64(len(b.tool.Result)))
		case "is_error":
			b.failed = r.Bool()
		default:
			r.Skip()
		}
	}
	if b.kind == toolResultBlock && b.failed {
		b.fail()
	}
	b.tool.ArgumentFacts = b.arguments
}

func blockKind(typ []byte) claudeBlockKind {
	switch {
	case string(typ) == "text":
		return textBlock
	case bytes.HasSuffix(typ, []byte("thinking")):
		return thinkingBlock
	case bytes.HasSuffix(typ, []byte("tool_use")):
		return toolUseBlock
	case bytes.HasSuffix(typ, []byte("tool_result")):
		return toolResultBlock
	}
	return otherBlock
}

// named takes a tool's name: mcp__server__tool is a tool of an MCP server.
func (b *claudeBlock) named(name []byte) {
	if rest, ok := bytes.CutPrefix(name, []byte("mcp__")); ok {
		if server, tool, ok := bytes.Cut(rest, []byte("__")); ok && len(tool) > 0 {
			b.tool.MCP = true
			b.arguments.text(semconv.MCPServer, Detail, server)
			name = tool
		}
	}
	b.tool.Name = word(name)
}

// claudeDetails are the arguments of any tool that tell what a call is about.
var claudeDetails = map[string]string{
	"file_path":     semconv.FilePath,
	"notebook_path": semconv.FilePath,
	"absolute_path": semconv.FilePath,
	"path":          semconv.FilePath,
	"command":       semconv.ProcessCommandLine,
	"cmd":           semconv.ProcessCommandLine,
	"pattern":       semconv.ToolPattern,
	"glob":          semconv.ToolGlob,
	"query":         semconv.ToolSearch,
	"url":           semconv.URLFull,
	"description":   semconv.ToolDescription,
}

// input reads the arguments of a call.
func (b *claudeBlock) input(r *jsonscan.Reader) {
	t := &b.tool
	r.Peek()
	start := r.I
	for key := range r.Members() {
		switch name := claudeDetails[string(key)]; {
		case name != "" && r.Peek() == '"':
			value := r.Str()
			b.arguments.text(name, Detail, value)
			if name == semconv.ProcessCommandLine {
				t.Executable = executable(programOf(jsonscan.Unquote(value)))
			}
		case string(key) == "subagent_type":
			t.Subagent = word(jsonscan.Unquote(r.Str()))
			b.arguments.word(semconv.SubagentType, []byte(t.Subagent))
		default:
			r.Skip()
		}
	}
	t.Arguments = r.B[start:r.I]
	b.arguments.int(semconv.ToolArgumentBytes, int64(len(t.Arguments)))
}

// programOf is the first word of a command after those that change the folder:
// many commands begin with cd.
func programOf(command []byte) []byte {
	for {
		first := commandWord(command)
		before, after, more := bytes.Cut(command, []byte("&&"))
		if string(first) != "cd" || !more || bytes.ContainsAny(before, "\"'`$\\(){}|;") {
			return first
		}
		command = after
	}
}

// fail says why a call failed, as far as words tell that are never content.
func (b *claudeBlock) fail() {
	t := &b.tool
	text := t.Result
	if len(text) > 0 && text[0] == '[' {
		text = firstTextOf(text)
	}
	text = bytes.Trim(text, `"`)
	t.ErrorType, t.ErrorText = semconv.ErrorTool, text
	t.Reason = "the tool reported an error"
	var exit Exit
	if rest, ok := bytes.CutPrefix(text, []byte("Exit code ")); ok {
		if i := bytes.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
			rest = rest[:i]
		}
		exit.Code, exit.Known = (&jsonscan.Reader{B: rest}).Int()
	}
	switch {
	case exit.Known:
		t.Reason = exitReason(exit.Code)
		b.outcome.int(semconv.ProcessExitCode, exit.Code)
	case bytes.Contains(text, []byte("InputValidationError")):
		t.Reason = "invalid arguments"
	case bytes.HasPrefix(text, []byte("[Request interrupted by user")):
		t.ErrorType, t.Reason = "interrupted", "interrupted by the user"
	case bytes.HasPrefix(text, []byte("The user doesn't want to")), bytes.HasPrefix(text, []byte("Permission to use")),
		bytes.HasPrefix(text, []byte("Claude requested permissions")):
		t.deny()
	case bytes.Contains(text[:min(len(text), 200)], []byte("hook error")):
		t.Reason = "blocked by hook"
	}
}

// deny makes a failed call one that was not allowed.
func (t *Tool) deny() { t.ErrorType, t.Reason = "permission_denied", "permission denied" }

// firstTextOf returns the first text of a list of blocks, between its quotes.
func firstTextOf(blocks []byte) (text []byte) {
	r := jsonscan.Reader{B: blocks}
	for range r.Elements() {
		for key := range r.Members() {
			if string(key) == "text" && text == nil {
				text = r.Str()
			} else {
				r.Skip()
			}
		}
	}
	return text
}

// claudeResult is what a line says of a tool's outcome beside the result that
// the model gets.
type claudeResult struct {
	facts      facts
	task       []byte
	background bool
}

// claudeNumbers are its numbers that tell something of a call without telling
// what it was about.
var claudeNumbers = map[string]string{
	"durationMs":      semconv.ToolDuration,
	"totalDurationMs": semconv.ToolDuration,
	"totalTokens":     semconv.SubagentTokens,
	"numFiles":        semconv.ToolTotalFiles,
	"numMatches":      semconv.ToolTotalMatches,
	"totalLines":      semconv.ToolTotalLines,
	"exitCode":        semconv.ProcessExitCode,
	"code":            semconv.HTTPResponseStatus,
}

// read reads it. Every tool has members of its own.
func (c *claudeResult) read(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "stdout":
			c.facts.int(semconv.ToolStdoutBytes, int64(jsonscan.UnquotedLen(r.Str())))
		case "stderr":
			c.facts.int(semconv.ToolStderrBytes, int64(jsonscan.UnquotedLen(r.Str())))
		case "interrupted":
			if r.Bool() {
				c.facts.bool(semconv.ToolAborted)
			}
		case "backgroundTaskId":
			c.task = []byte(word(jsonscan.Unquote(r.Str())))
			c.background = len(c.task) > 0
		case "agentId":
			id := []byte(word(jsonscan.Unquote(r.Str())))
			c.facts.word(semconv.SubagentID, id)
			if len(c.task) == 0 {
				c.task = id
			}
		case "isAsync":
			c.background = r.Bool() || c.background
		case "status":
			c.background = string(r.Str()) == "async_launched" || c.background
		case "resolvedModel":
			c.facts.word(semconv.SubagentModel, []byte(word(jsonscan.Unquote(r.Str()))))
		case "structuredPatch":
			c.readPatch(r)
		case "file":
			for key := range r.Members() {
				c.number(r, key)
			}
		default:
			c.number(r, key)
		}
	}
}

func (c *claudeResult) number(r *jsonscan.Reader, key []byte) {
	name := claudeNumbers[string(key)]
	if n, ok := r.Int(); ok && name != "" {
		c.facts.int(name, n)
	}
}

// readPatch counts the lines of an edit: [{"lines":["-old","+new"," same"]}].
func (c *claudeResult) readPatch(r *jsonscan.Reader) {
	added, removed := int64(0), int64(0)
	for range r.Elements() {
		for key := range r.Members() {
			if string(key) != "lines" {
				r.Skip()
				continue
			}
			for range r.Elements() {
				switch line := r.Str(); {
				case bytes.HasPrefix(line, []byte("+")):
					added++
				case bytes.HasPrefix(line, []byte("-")):
					removed++
				}
			}
		}
	}
	c.facts.int(semconv.ToolLinesAdded, added)
	c.facts.int(semconv.ToolLinesRemoved, removed)
}

// finishResult adds to the only result of a line what else it says of it.
func (l *claudeLine) finishResult(b *claudeBlock) {
	c := &l.result
	for _, fact := range c.facts {
		b.outcome.set(fact)
	}
	b.tool.Background, b.tool.Task = c.background, nil
	if c.background {
		b.tool.Task = c.task
	}
}

// toolEnd completes what a line says of a call's end.
func (s *claudeSession) toolEnd(b *claudeBlock) *Tool {
	t := &b.tool
	delete(s.agents, string(b.id))
	for id, task := range s.tasks {
		if task.call == string(b.id) && task.background && !t.Background {
			t.Background, t.Task = true, []byte(id)
		}
	}
	if t.Background {
		s.task(t.Task).background = true
		b.outcome.bool(semconv.ToolIsBackground)
	}
	if s.denied[string(b.id)] {
		delete(s.denied, string(b.id))
		t.deny()
	}
	t.OutcomeFacts = b.outcome
	return t
}
