package agent

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// named sets the name of the tool. In mcp__server__tool, as most agents call it, it is the
// tool of an MCP server.
func (c *Tool) named(name []byte) {
	name = jsonscan.Unquote(name)
	if rest, ok := bytes.CutPrefix(name, []byte("mcp__")); ok {
		if server, tool, ok := bytes.Cut(rest, []byte("__")); ok && len(tool) > 0 {
			c.MCP = true
			c.ArgumentFacts.text(semconv.MCPServer, Detail, nameOf(server, wordChars))
			name = tool
		}
	}
	c.Name = word(name)
}

// finish completes the facts, once everything that a line states is read. It returns c.
func (c *Tool) finish() *Tool {
	if strings.Contains(strings.ToLower(c.Name), "edit") { // its command is an editing operation, not a program
		c.Executable = ""
		c.ArgumentFacts.remove(semconv.ProcessCommandLine)
	}
	if len(c.Arguments) > 0 {
		c.ArgumentFacts.int(semconv.ToolArgumentBytes, int64(len(c.Arguments)))
	}
	for _, f := range c.OutcomeFacts { // the result repeats the list of tasks
		c.ArgumentFacts.remove(f.Key)
	}
	return c
}

// exited records an exit code. Any code but 0 is a failure.
func (c *Tool) exited(code int64) {
	c.OutcomeFacts.int(semconv.ProcessExitCode, code)
	if code != 0 {
		c.ErrorType, c.Reason = "failure", "exit code "+strconv.FormatInt(code, 10)
	}
}

// exitedAsText records an exit code that a tool states only in its output.
func (c *Tool) exitedAsText(text []byte) {
	after, ok := bytes.CutPrefix(text, []byte("Exit code")) // the output that follows may name others
	if !ok {
		after, ok = bytes.CutPrefix(text, []byte("Exit Code"))
	}
	if !ok {
		_, after, ok = bytes.Cut(text, []byte("exited with code"))
	}
	if code, _, isCode := cutCode(bytes.TrimLeft(after, ": ")); ok && isCode {
		c.exited(code)
	}
}

// exitedAsReported records the exit code in what Gemini CLI and Qwen Code write of a command: a
// report such as "Output: ..\nError: (none)\nExit Code: 3\nSignal: (none)", or, in a stream, that it
// exited without any output. Neither may say that the call failed.
func (c *Tool) exitedAsReported(text []byte) {
	after, ok := bytes.CutPrefix(text, []byte("Command exited with code: "))
	line := []byte(`\nExit Code: `)
	if i := bytes.LastIndex(text, line); i >= 0 && hasPrefix(text, "Command: ", "Directory: ", "Output: ") { // the output may have such a line, too
		after, ok = text[i+len(line):], true
	}
	if code, rest, isCode := cutCode(after); ok && isCode && (len(rest) == 0 || hasPrefix(rest, `\nSignal: `, `\nBackground PIDs: `, `\nProcess Group PGID: `)) {
		c.exited(code)
	}
}

// cutCode cuts the exit code off the beginning of a text.
func cutCode(text []byte) (code int64, rest []byte, ok bool) {
	rest = bytes.TrimLeft(text, "0123456789")
	code, err := strconv.ParseInt(string(text[:len(text)-len(rest)]), 10, 32)
	return code, rest, err == nil
}

func hasPrefix(text []byte, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(text, []byte(p)) })
}

// exitedAsMarked records an exit code that stands in a mark at the end of a command's output,
// as in <exited with exit code 3> and <shellId: 0 completed with exit code 3>.
func (c *Tool) exitedAsMarked(output []byte) {
	output = bytes.TrimRight(output, ` rn\`) // as JSON writes a last newline
	mark := output[max(0, bytes.LastIndexByte(output, '<')):]
	if _, code, ok := bytes.Cut(bytes.TrimSuffix(mark, []byte(">")), []byte(" with exit code ")); ok && len(mark) > 0 && mark[0] == '<' && mark[len(mark)-1] == '>' {
		if n, rest, isCode := cutCode(code); isCode && len(rest) == 0 {
			c.exited(n)
		}
	}
}

// failed records that a call failed, unless a more specific reason is known.
func (c *Tool) failed() {
	if c.ErrorType == "" {
		c.ErrorType, c.Reason, c.Reported = "error", "the tool reported an error", true
	}
}

// failedAs records that a call failed, by the name and the text of the error. Without a
// text, the result says what went wrong.
func (c *Tool) failedAs(name string, text []byte) {
	c.failed()
	c.ErrorType = cmp.Or(name, c.ErrorType)
	if c.ErrorText = text; text == nil {
		c.ErrorText = resultText(c.Result)
	}
	c.exitedAsText(c.ErrorText)
	c.exitedAsReported(c.ErrorText)
}

// brokenOff records that a command did not run to its end, which pi says in its output only.
func (c *Tool) brokenOff() {
	switch text := bytes.TrimSpace(c.ErrorText); {
	case bytes.HasSuffix(text, []byte("Command aborted")):
		c.ErrorType, c.Reason = "aborted", "aborted"
	case bytes.Contains(text, []byte("Command timed out after ")):
		c.ErrorType, c.Reason = "timeout", "timeout"
	}
}

// noSuchTool records that the call's tool does not exist.
func (c *Tool) noSuchTool() {
	c.ErrorType, c.Reason = semconv.ErrorToolNotFound, "there is no such tool"
}

// rejected records that the call was rejected.
func (c *Tool) rejected() { c.ErrorType, c.Reason = "rejected", "rejected" }

// argumentFacts are the attributes for arguments that show what a call or a question is
// about, by the names that any agent or tool has for them.
var argumentFacts = map[string]string{
	"path": semconv.FilePath, "filePath": semconv.FilePath, "file_path": semconv.FilePath,
	"TargetFile": semconv.FilePath, "AbsolutePath": semconv.FilePath, "DirectoryPath": semconv.FileDirectory,
	"SearchPath": semconv.FileDirectory, "SearchDirectory": semconv.FileDirectory, "Cwd": semconv.ProcessWorkingDirectory,
	"CommandLine": semconv.ProcessCommandLine, "Query": semconv.ToolSearch, "Pattern": semconv.ToolPattern, "Url": semconv.URLFull,
	"absolute_path": semconv.FilePath, "notebook_path": semconv.FilePath, "fileName": semconv.FilePath,
	"directory": semconv.FileDirectory, "directory_path": semconv.FileDirectory, "dir_path": semconv.FileDirectory,
	"targetDirectory": semconv.FileDirectory,
	"workdir":         semconv.ProcessWorkingDirectory, "cwd": semconv.ProcessWorkingDirectory,
	"working_directory": semconv.ProcessWorkingDirectory, "workingDirectory": semconv.ProcessWorkingDirectory,
	"command": semconv.ProcessCommandLine, "cmd": semconv.ProcessCommandLine, "fullCommandText": semconv.ProcessCommandLine,
	"pattern": semconv.ToolPattern,
	"glob":    semconv.ToolGlob, "glob_pattern": semconv.ToolGlob, "globPattern": semconv.ToolGlob, "include": semconv.ToolGlob,
	"query": semconv.ToolSearch, "searchTerm": semconv.ToolSearch,
	"url": semconv.URLFull, "uri": semconv.MCPResourceURI,
	"server": semconv.MCPServer, "serverName": semconv.MCPServer, "serverIdentifier": semconv.MCPServer,
	"providerIdentifier": semconv.MCPServer,
	"subagent_type":      semconv.SubagentType, "agent_type": semconv.SubagentType,
}

// argument records an argument that the table has.
func (f *Facts) argument(r *jsonscan.Reader, name []byte) {
	if key := argumentFacts[string(name)]; key != "" && r.Peek() == '"' {
		f.text(key, Detail, r.Str())
	}
}

// resultFacts are the attributes for members of a result that do not reveal what the call
// was about, by the names that any agent or tool has for them.
var resultFacts = factTable{
	"executionTime":        {semconv.ToolExecutionTime, number},
	"localExecutionTimeMs": {semconv.ToolLocalTime, number},
	"durationMs":           {semconv.ToolDuration, number},
	"totalDurationMs":      {semconv.ToolDuration, number},
	"timeoutMs":            {semconv.ToolTimeout, number},
	"linesAdded":           {semconv.ToolLinesAdded, number},
	"linesRemoved":         {semconv.ToolLinesRemoved, number},
	"linesCreated":         {semconv.ToolLinesCreated, number},
	"totalLines":           {semconv.ToolTotalLines, number},
	"fileSize":             {semconv.ToolFileSize, number},
	"totalFiles":           {semconv.ToolTotalFiles, number},
	"numFiles":             {semconv.ToolTotalFiles, number},
	"numMatches":           {semconv.ToolTotalMatches, number},
	"totalCount":           {semconv.ToolTotalCount, number},
	"totalDiagnostics":     {semconv.ToolDiagnostics, number},
	"totalTokens":          {semconv.SubagentTokens, number},
	"statusCode":           {semconv.HTTPResponseStatus, number},
	"code":                 {semconv.HTTPResponseStatus, number},
	"exitCode":             {semconv.ProcessExitCode, number},
	"aborted":              {semconv.ToolAborted, flag},
	"interrupted":          {semconv.ToolAborted, flag},
	"exceededLimit":        {semconv.ToolLimitExceeded, flag},
	"clientTruncated":      {semconv.ToolTruncated, flag},
	"ripgrepTruncated":     {semconv.ToolTruncated, flag},
	"truncated":            {semconv.ToolTruncated, flag},
	"stdout":               {semconv.ToolStdoutBytes, size},
	"stderr":               {semconv.ToolStderrBytes, size},
	"content":              {semconv.ToolContentBytes, size},
}

// readArguments reads a call's arguments, an object.
func (c *Tool) readArguments(r *jsonscan.Reader) {
	start := r.I
	var program []byte
	for key := range r.Members() {
		switch string(key) {
		case "description":
			if description := r.Str(); c.ArgumentFacts.Find(semconv.ToolDescription) == nil {
				c.ArgumentFacts.text(semconv.ToolDescription, Detail, description)
			}
		case "todos":
			readTodos(r, &c.ArgumentFacts)
		case "simpleCommands":
			program = executable(jsonscan.Unquote(firstProgram(r)))
		case "subagentType":
			c.readSubagentType(r)
		case "toolName":
			if name := word(jsonscan.Unquote(r.Str())); c.MCP && name != "" {
				c.Name = name
			}
		case "taskId":
			c.Task = wordOf(r)
			c.ArgumentFacts.word(semconv.TaskID, c.Task)
		case "model":
			if model := wordOf(r); c.Name == "task" {
				c.ArgumentFacts.word(semconv.SubagentModel, model)
			}
		default:
			switch fact := argumentFacts[string(key)]; {
			case r.Peek() == '"' && fact != "":
				c.argument(key, r.Str())
			case r.Peek() == '[' && fact == semconv.ProcessCommandLine:
				c.argument(key, commandOf(r))
			}
		}
	}
	if len(program) > 0 {
		c.Executable = string(program)
	}
	c.Arguments = r.B[start:r.I]
}

// commandOf reads a list such as ["bash","-lc","go test"], and returns the command.
func commandOf(r *jsonscan.Reader) []byte {
	var words [][]byte
	for range r.Elements() {
		words = append(words, r.Str())
	}
	if len(words) == 3 && shells[path.Base(string(words[0]))] && bytes.HasPrefix(words[1], []byte("-")) && bytes.HasSuffix(words[1], []byte("c")) {
		return words[2]
	}
	return bytes.Join(words, []byte(" "))
}

// argument records an argument, and what can be derived from it.
func (c *Tool) argument(name, value []byte) {
	switch key := argumentFacts[string(name)]; key {
	case "":
	case semconv.ProcessCommandLine:
		c.Executable = program(jsonscan.Unquote(value))
		c.ArgumentFacts.text(key, Detail, value)
	case semconv.SubagentType:
		if c.Subagent = word(jsonscan.Unquote(value)); c.Subagent != "" {
			c.ArgumentFacts.word(key, value)
		}
	default:
		c.ArgumentFacts.text(key, Detail, value)
	}
}

// readSubagentType reads {"<type>":{}}.
func (c *Tool) readSubagentType(r *jsonscan.Reader) {
	for key := range r.Members() {
		if name := enum(key); name != "" && !isUnspecified(key) {
			c.Subagent = name
			c.ArgumentFacts.word(semconv.SubagentType, key)
		}
	}
}

// readResult keeps the next value as the result of the call.
func (c *Tool) readResult(r *jsonscan.Reader) {
	c.Result = r.Raw()
	if string(c.Result) == "null" {
		c.Result = nil
		return
	}
	c.OutcomeFacts.int(semconv.ToolResultBytes, int64(len(c.Result)))
}

// resultText returns the first text of a result, {"content":[{"text":..}]} or a part of
// it.
func resultText(result []byte) (text []byte) {
	r := jsonscan.Reader{B: result}
	var read func(depth int)
	read = func(depth int) {
		switch c := r.Peek(); {
		case c == '[' && depth < maxNesting:
			for range r.Elements() {
				read(depth + 1)
			}
		case c == '{' && depth < maxNesting:
			for key := range r.Members() {
				if k := string(key); k == "content" || k == "text" {
					read(depth + 1)
				}
			}
		case c == '"':
			if s := r.Str(); text == nil {
				text = s
			}
		}
	}
	read(0)
	return text
}

// readOutput keeps the next value as the call's result, and records its size if it is
// a text.
func (c *Tool) readOutput(r *jsonscan.Reader) {
	c.readResult(r)
	if n := len(c.Result); n > 1 && c.Result[0] == '"' {
		c.textSize(c.Result[1 : n-1])
	}
}

// textSize records the size of a tool's text, given as it stands between the quotes
// of a JSON string.
func (c *Tool) textSize(escaped []byte) {
	c.OutcomeFacts.int(semconv.ToolContentBytes, int64(jsonscan.UnquotedLen(escaped)))
}

// program returns the name of the program that a command runs. It looks inside a
// shell, and past a leading cd, which many commands have. It returns "" if the name
// is not certain.
func program(command []byte) string {
	first := executable(commandWord(command))
	for depth := 0; shells[string(first)] && depth < maxShells; depth++ {
		inner := shellScript(command)
		if inner == nil {
			break
		}
		command, first = inner, executable(commandWord(inner))
	}
	if string(first) == "cd" {
		before, after, ok := bytes.Cut(command, []byte("&&"))
		if ok && !bytes.ContainsAny(before, "\"'`$\\(){}") {
			first = executable(commandWord(after))
		}
	}
	return string(first)
}

// maxShells is how many nested shells are searched for a program.
const maxShells = 3

var shells = set("sh", "bash", "zsh", "dash", "fish")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// shellScript returns the script that follows a shell's -c, nil if the rest of the
// command is not a single text.
func shellScript(command []byte) []byte {
	_, script, ok := bytes.Cut(command, []byte("c "))
	script = bytes.TrimSpace(script)
	if !ok || len(script) < 2 {
		return nil
	}
	flags := bytes.Fields(command[:len(command)-len(script)])
	if len(flags) != 2 || flags[1][0] != '-' {
		return nil
	}
	if quote := script[0]; quote == '\'' || quote == '"' {
		if end := len(script) - 1; script[end] == quote && bytes.IndexByte(script[1:end], quote) < 0 {
			return script[1:end]
		}
		return nil
	}
	if bytes.ContainsAny(script, "\"'`$\\(){} ") {
		return nil
	}
	return script
}

// readTodos counts a list of tasks by their state:
// [{"content":..,"status":"pending"}]. A state may have a prefix.
func readTodos(r *jsonscan.Reader, to *Facts) {
	for range r.Elements() {
		readMember(r, "status", func() {
			switch status := strings.ToLower(string(r.Str())); {
			case strings.HasSuffix(status, "pending"):
				to.addInt(semconv.ToolTodosPending, 1)
			case strings.HasSuffix(status, "in_progress"):
				to.addInt(semconv.ToolTodosRunning, 1)
			case strings.HasSuffix(status, "completed"):
				to.addInt(semconv.ToolTodosCompleted, 1)
			}
		})
	}
}

// firstProgram returns the first program of a list of names that is not cd: Cursor begins
// most commands with one.
func firstProgram(r *jsonscan.Reader) (first []byte) {
	for range r.Elements() {
		if name := r.Str(); len(first) == 0 || string(first) == "cd" {
			first = name
		}
	}
	return first
}

// isUnspecified reports whether a protobuf enum is unset: newer builds write the
// zero value.
func isUnspecified(s []byte) bool {
	return string(s) == "unspecified" || bytes.HasSuffix(s, []byte("_UNSPECIFIED"))
}

// maxNesting is how deep the results of a search may be nested.
const maxNesting = 4
