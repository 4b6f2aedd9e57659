package agent

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A call collects what a line states about a tool call.
type call struct {
	Tool
	arguments, outcome facts
	built              []byte // Arguments, if the line has them beside other things
}

// calls are those of the line at hand, and used again for the next.
type calls struct {
	list []*call
	used int
}

func (cs *calls) next() *call {
	if cs.used == len(cs.list) {
		cs.list = append(cs.list, new(call))
	}
	c := cs.list[cs.used]
	cs.used++
	*c = call{arguments: c.arguments[:0], outcome: c.outcome[:0], built: c.built[:0]}
	return c
}

// A calling is the part of a line that is about a call.
type calling struct {
	call *call // nil as long as the line says nothing of one
	from *calls
}

func (l *calling) tool() *call {
	if l.call == nil {
		l.call = l.from.next()
	}
	return l.call
}

// named sets the name of the tool.
func (c *call) named(name []byte) {
	c.Name = word(jsonscan.Unquote(name))
}

// finish returns what was collected.
func (c *call) finish() *Tool {
	if strings.Contains(strings.ToLower(c.Name), "edit") { // its command is an editing operation, not a program
		c.Executable = ""
		c.arguments.remove(semconv.ProcessCommandLine)
	}
	if len(c.built) > 0 {
		c.Arguments = c.built
	}
	if len(c.Arguments) > 0 {
		c.arguments.int(semconv.ToolArgumentBytes, int64(jsonscan.Len(c.Arguments)))
	}
	c.ArgumentFacts, c.OutcomeFacts = c.arguments, c.outcome
	return &c.Tool
}

// exited records an exit code. Any code but 0 is a failure.
func (c *call) exited(code int64) {
	c.outcome.int(semconv.ProcessExitCode, code)
	if code != 0 {
		c.ErrorType, c.Reason = "failure", "exit code "+strconv.FormatInt(code, 10)
	}
}

// exitedAsTold records an exit code that a tool states in its text.
func (c *call) exitedAsTold(text []byte) {
	_, after, ok := bytes.Cut(text, []byte("exited with code "))
	digits := bytes.TrimLeft(after, "0123456789")
	code, err := strconv.ParseInt(string(after[:len(after)-len(digits)]), 10, 32)
	if ok && err == nil {
		c.exited(code)
	}
}

// failed records that a call failed, unless a more specific reason is known.
func (c *call) failed() {
	if c.ErrorType == "" {
		c.ErrorType, c.Reason = "error", "the tool reported an error"
	}
}

// rejected records that the call was rejected.
func (c *call) rejected() { c.ErrorType, c.Reason = "rejected", "rejected" }

// argumentDetails maps agents' names for arguments that show what a call is about.
var argumentDetails = map[string]string{
	"path":              semconv.FilePath,
	"filePath":          semconv.FilePath,
	"file_path":         semconv.FilePath,
	"absolute_path":     semconv.FilePath,
	"notebook_path":     semconv.FilePath,
	"directory":         semconv.FileDirectory,
	"directory_path":    semconv.FileDirectory,
	"dir_path":          semconv.FileDirectory,
	"workdir":           semconv.ProcessWorkingDirectory,
	"cwd":               semconv.ProcessWorkingDirectory,
	"working_directory": semconv.ProcessWorkingDirectory,
	"command":           semconv.ProcessCommandLine,
	"cmd":               semconv.ProcessCommandLine,
	"pattern":           semconv.ToolPattern,
	"glob":              semconv.ToolGlob,
	"glob_pattern":      semconv.ToolGlob,
	"include":           semconv.ToolGlob,
	"query":             semconv.ToolSearch,
	"url":               semconv.URLFull,
	"uri":               semconv.MCPResourceURI,
	"server":            semconv.MCPServer,
	"subagent_type":     semconv.SubagentType,
	"agent_type":        semconv.SubagentType,
}

// readArguments reads a call's arguments, an object.
func (c *call) readArguments(r *jsonscan.Reader) {
	r.Peek()
	start := r.I
	for key := range r.Members() {
		name, known := argumentDetails[string(key)]
		switch {
		case string(key) == "description":
			c.Description = r.Str()
		case string(key) == "todos":
			readTodos(r, &c.arguments)
		case !known || r.Peek() != '"':
			r.Skip()
		default:
			c.argument(name, r.Str())
		}
	}
	c.Arguments = r.B[start:r.I]
}

func (c *call) argument(name string, value []byte) {
	switch name {
	case semconv.ProcessCommandLine:
		c.Executable = program(jsonscan.Unquote(value))
		c.arguments.text(name, Detail, value)
	case semconv.SubagentType:
		if c.Subagent = word(jsonscan.Unquote(value)); c.Subagent != "" {
			c.arguments.word(name, value)
		}
	default:
		c.arguments.text(name, Detail, value)
	}
}

// argue adds an argument that stands beside other members of the line.
func (c *call) argue(key, value []byte) {
	if n := len(c.built); n > 0 {
		c.built[n-1] = ','
	} else {
		c.built = append(c.built, '{')
	}
	c.built = append(append(append(c.built, '"'), key...), `":`...)
	c.built = append(append(c.built, value...), '}')
	if name, known := argumentDetails[string(key)]; known && len(value) > 1 && value[0] == '"' {
		c.argument(name, value[1:len(value)-1])
	}
}

// readResult keeps the next value as the result of the call.
func (c *call) readResult(r *jsonscan.Reader) {
	c.Result = r.Raw()
	if string(c.Result) == "null" {
		c.Result = nil
		return
	}
	c.outcome.int(semconv.ToolResultBytes, int64(jsonscan.Len(c.Result)))
}

// resultText returns the text of a result, {"content":[{"text":..}]} or a part of
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
				switch string(key) {
				case "content":
					read(depth + 1)
				case "text":
					text = r.Str()
				default:
					r.Skip()
				}
			}
		case c == '"':
			text = r.Str()
		default:
			r.Skip()
		}
	}
	read(0)
	return text
}

// readOutput keeps the value at hand as what the call returned, and notes how
// much it said if that is a text.
func (c *call) readOutput(r *jsonscan.Reader) {
	c.readResult(r)
	if n := len(c.Result); n > 1 && c.Result[0] == '"' {
		c.textSize(c.Result[1 : n-1])
	}
}

// textSize records the size of a tool's text, given as it stands between the quotes
// of a JSON string.
func (c *call) textSize(escaped []byte) {
	c.outcome.int(semconv.ToolContentBytes, int64(jsonscan.UnquotedLen(escaped)))
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
// [{"content":..,"status":"pending"}]. It may have a prefix.
func readTodos(r *jsonscan.Reader, to *facts) {
	for range r.Elements() {
		for key := range r.Members() {
			if string(key) != "status" {
				r.Skip()
				continue
			}
			switch status := strings.ToLower(string(r.Str())); {
			case strings.HasSuffix(status, "pending"):
				to.addInt(semconv.ToolTodosPending, 1)
			case strings.HasSuffix(status, "in_progress"):
				to.addInt(semconv.ToolTodosRunning, 1)
			case strings.HasSuffix(status, "completed"):
				to.addInt(semconv.ToolTodosCompleted, 1)
			}
		}
	}
}
