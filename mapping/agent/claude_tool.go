package agent

import (
	"bytes"
	"cmp"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// read reads a block. Tools that the API itself runs have types of their own, such
// as server_tool_use and web_search_tool_result.
func (b *claudeBlock) read(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			b.kind = blockKind(r.Str())
		case "text", "thinking":
			b.text = r.Str()
		case "id", "tool_use_id":
			b.id = readID(r)
		case "name":
			b.named(jsonscan.Unquote(r.Str()))
		case "input":
			b.readArguments(r)
		case "content":
			b.readResult(r)
		case "is_error":
			b.isError = r.Bool()
		default:
			r.Skip()
		}
	}
	if b.kind != toolResultBlock {
		return
	}
	if b.isError {
		b.fail()
	}
	b.failAsCoded()
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

// named sets a tool's name. In mcp__server__tool, it is the tool of an MCP server.
func (b *claudeBlock) named(name []byte) {
	if rest, ok := bytes.CutPrefix(name, []byte("mcp__")); ok {
		if server, tool, ok := bytes.Cut(rest, []byte("__")); ok && len(tool) > 0 {
			b.MCP = true
			b.arguments.text(semconv.MCPServer, Detail, wordChars.in(server))
			name = tool
		}
	}
	b.Name = word(name)
}

// fail sets why a call failed, in words that are never content.
func (b *claudeBlock) fail() {
	t := &b.Tool
	text := t.Result
	if len(text) > 0 && text[0] == '[' {
		text = firstTextOf(text)
	}
	text = bytes.Trim(text, `"`)
	b.failed()
	t.ErrorText = text
	var exit Exit
	if rest, ok := bytes.CutPrefix(text, []byte("Exit code ")); ok {
		if i := bytes.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
			rest = rest[:i]
		}
		exit.Code, exit.Known = (&jsonscan.Reader{B: rest}).Int()
	}
	switch {
	case exit.Known:
		b.exited(exit.Code)
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

// failAsCoded sets why a tool of the API failed, which has no is_error:
// {"type":"web_search_tool_result_error","error_code":"unavailable"}.
func (b *claudeBlock) failAsCoded() {
	if len(b.Result) == 0 || b.Result[0] != '{' {
		return
	}
	failed, code := false, ""
	r := jsonscan.Reader{B: b.Result}
	for key := range r.Members() {
		switch string(key) {
		case "type":
			failed = bytes.HasSuffix(r.Str(), []byte("_tool_result_error"))
		case "error_code":
			code = enum(jsonscan.Unquote(r.Str()))
		default:
			r.Skip()
		}
	}
	if failed {
		b.failed()
		b.ErrorType = cmp.Or(code, b.ErrorType)
	}
}

// deny marks a failed call as not permitted.
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

// claudeResult is what a line states about a tool's outcome, besides the result
// that the model gets.
type claudeResult struct {
	facts      facts
	task       []byte
	background bool
}

// claudeNumbers are the numbers in a claudeResult that do not reveal what the call
// was about.
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

// read reads a claudeResult. Every tool has members of its own.
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
			c.task = wordOf(r)
			c.background = len(c.task) > 0
		case "agentId":
			id := wordOf(r)
			c.facts.word(semconv.SubagentID, id)
			if len(c.task) == 0 {
				c.task = id
			}
		case "isAsync":
			c.background = r.Bool() || c.background
		case "status":
			c.background = string(r.Str()) == "async_launched" || c.background
		case "resolvedModel":
			c.facts.word(semconv.SubagentModel, wordOf(r))
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

// finishResult adds the line's claudeResult to its only result block.
func (l *claudeLine) finishResult(b *claudeBlock) {
	c := &l.result
	for _, fact := range c.facts {
		b.outcome.set(fact)
	}
	b.Background, b.Task = c.background, nil
	if c.background {
		b.Task = c.task
	}
}

// toolEnd returns the end of a tool call, completed from the session's state.
func (s *claudeSession) toolEnd(b *claudeBlock) *Tool {
	t := &b.Tool
	if a := s.agents[string(b.id)]; a != nil { // its sub-agent's
		s.called.add(&a.spent)
		delete(s.agents, string(b.id))
	}
	for id, task := range s.tasks {
		if task.call == string(b.id) && task.background && !t.Background {
			t.Background, t.Task = true, []byte(id)
		}
	}
	if t.Background {
		s.task(t.Task).background = true
		b.outcome.bool(semconv.ToolIsBackground)
	}
	switch s.calls[string(b.id)] {
	case callDenied:
		t.deny()
	case callOfMCP:
		if t.ErrorType == "error" {
			t.ErrorType = semconv.ErrorTool
		}
	}
	delete(s.calls, string(b.id))
	return b.finish()
}
