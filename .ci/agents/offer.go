package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An offer is what a request says: which tools the agent offers, and what it asks.
type offer struct {
	model       string
	stream      bool
	tools       map[string]tool
	namespaces  map[string]string // of tools
	firstPrompt string            // all that the user has said
	body        []byte
}

// A tool is one that an agent offers.
type tool struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type any   `json:"type"`
	Enum []any `json:"enum"`
}

// readOffer reads a request of any of the four protocols.
func readOffer(path string, body []byte) *offer {
	o := &offer{tools: map[string]tool{}, namespaces: map[string]string{}, body: body}
	var b struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Tools    []json.RawMessage `json:"tools"`
		Messages []json.RawMessage `json:"messages"`
		Input    json.RawMessage   `json:"input"`
		Contents []json.RawMessage `json:"contents"`
	}
	if json.Unmarshal(body, &b) != nil {
		return o
	}
	o.model, o.stream = b.Model, b.Stream
	if _, after, ok := strings.Cut(path, "/models/"); ok {
		o.model, _, _ = strings.Cut(after, ":")
		o.stream = strings.Contains(path, "stream")
	}
	for _, raw := range b.Tools {
		o.addTool(raw, "")
	}
	said := slices.Concat(b.Messages, b.Contents)
	var input []json.RawMessage
	if json.Unmarshal(b.Input, &input) == nil {
		said = append(said, input...)
	}
	for _, raw := range said {
		var m object
		if json.Unmarshal(raw, &m) == nil && (m["role"] == nil || m["role"] == "user") {
			o.firstPrompt += texts(m) + "\n"
		}
	}
	return o
}

// addTool reads a tool in the form of any protocol.
func (o *offer) addTool(raw json.RawMessage, namespace string) {
	var t struct {
		Name                 string            `json:"name"`
		Function             json.RawMessage   `json:"function"`
		FunctionDeclarations []json.RawMessage `json:"functionDeclarations"`
		Tools                []json.RawMessage `json:"tools"` // of a namespace
		Parameters           json.RawMessage   `json:"parameters"`
		ParametersJSONSchema json.RawMessage   `json:"parametersJsonSchema"`
		InputSchema          json.RawMessage   `json:"input_schema"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return
	}
	for _, f := range t.FunctionDeclarations {
		o.addTool(f, namespace)
	}
	for _, f := range t.Tools {
		o.addTool(f, t.Name)
	}
	if t.Function != nil {
		o.addTool(t.Function, namespace)
	}
	if t.Name == "" || t.Tools != nil {
		return
	}
	var schema tool
	for _, s := range []json.RawMessage{t.Parameters, t.ParametersJSONSchema, t.InputSchema} {
		if s != nil {
			_ = json.Unmarshal(s, &schema)
		}
	}
	o.tools[t.Name] = schema
	if namespace != "" {
		o.namespaces[t.Name] = namespace
	}
}

// texts returns all texts of a message.
func texts(v any) string {
	switch v := v.(type) {
	case string:
		return v + " "
	case []any:
		all := ""
		for _, e := range v {
			all += texts(e)
		}
		return all
	case object:
		all := ""
		for _, key := range []string{"text", "content", "parts"} {
			if v[key] != nil {
				all += texts(v[key])
			}
		}
		return all
	}
	return ""
}

// An invocation is a step in the words of the agent's own tool.
type invocation struct {
	Tool, Namespace string
	Arguments       object
}

func (i *invocation) arguments() string { return jsonText(i.Arguments) }

// toolNames are the names of the tools that do a step. The first one that the agent offers does.
var toolNames = map[string][]string{
	"run":      {"bash", "run_shell_command", "shell", "Bash", "exec_command", "shell_command", "developer__shell", "Execute", "execute_command", "terminal", "run_command", "Shell"},
	"write":    {"write", "write_file", "create", "Write", "create_file", "exec_command"},
	"edit":     {"edit", "replace", "str_replace", "Edit", "edit_file", "exec_command"},
	"read":     {"read", "read_file", "view", "Read", "exec_command"},
	"delegate": {"task", "agent", "Task", "Agent", "invoke_agent", "spawn_agent", "generalist"},
}

// resolver turns the steps of a scenario into calls of the tools that an agent offers.
type resolver struct {
	clock string // the path of the command
	work  string // the agent's working directory
	extra map[string]object
	mcp   func(name string) string // the agent's name of an MCP tool
}

func (v *resolver) resolve(s step, o *offer) (invocation, error) {
	switch s.Do {
	case "call":
		return invocation{Tool: s.Name, Arguments: object{"x": 1}}, nil
	case "await":
		return invocation{Tool: s.Name, Namespace: o.namespaces[s.Name], Arguments: object{"targets": s.Flags, "timeout_ms": 60000}}, nil
	case "finish":
		return invocation{Tool: s.Name, Arguments: object{"result": object{"response": s.Text}}}, nil
	case "mcp":
		name := v.mcp(s.Name)
		inv := invocation{Tool: name, Namespace: o.namespaces[name], Arguments: object{"seconds": s.For.Seconds()}}
		if _, ok := o.tools[name]; !ok {
			return inv, fmt.Errorf("the agent offers no tool %s: it has %s", name, o.names())
		}
		return inv, nil
	}
	for _, name := range toolNames[s.Do] {
		if t, ok := o.tools[name]; ok {
			inv := invocation{Tool: name, Namespace: o.namespaces[name], Arguments: object{}}
			v.fill(&inv, s, t)
			return inv, nil
		}
	}
	return invocation{}, fmt.Errorf("the agent offers no tool to %s: it has %s", s.Do, o.names())
}

func (o *offer) names() string { return strings.Join(slices.Sorted(maps.Keys(o.tools)), ", ") }

// fill sets the arguments that the tool takes.
func (v *resolver) fill(inv *invocation, s step, t tool) {
	put := func(value any, names ...string) bool {
		for _, name := range names {
			if _, ok := t.Properties[name]; ok {
				inv.Arguments[name] = value
				return true
			}
		}
		return false
	}
	path := v.work + "/" + s.Name
	switch {
	case inv.Tool == "exec_command" && (s.Do == "edit" || s.Do == "write"): // Codex takes a patch from the shell, too
		change := "*** Add File: " + path + "\n+" + s.Text
		if s.Do == "edit" {
			change = "*** Update File: " + path + "\n@@\n-" + s.Old + "\n+" + s.Text
		}
		put("apply_patch <<'END'\n*** Begin Patch\n"+change+"\n*** End Patch\nEND", "cmd")
	case s.Do == "run":
		put(v.command(s), "command", "cmd")
		put(20000, "yield_time_ms")
		if s.Background {
			put(true, "run_in_background", "is_background")
			put("async", "mode")
		}
	case s.Do == "read" && !put(path, "filePath", "file_path", "path", "absolute_path"):
		put("cat "+path, "cmd", "command")
	case s.Do == "write":
		put(path, "filePath", "file_path", "path", "absolute_path")
		put(s.Text+"\n", "content", "file_text", "contents")
	case s.Do == "edit":
		put(path, "filePath", "file_path", "path", "absolute_path")
		if !put([]any{object{"oldText": s.Old, "newText": s.Text}}, "edits") {
			put(s.Old, "oldString", "old_string", "oldText", "old_str")
			put(s.Text, "newString", "new_string", "newText", "new_str")
		}
	case s.Do == "delegate":
		put(s.Text, "prompt", "objective", "request", "message")
		put(false, "run_in_background")
		put(s.Name, "description")
	}
	for name, value := range v.extra[s.Do] {
		put(value, name)
	}
	for _, name := range t.Required {
		if _, ok := inv.Arguments[name]; !ok {
			inv.Arguments[name] = t.Properties[name].any(s)
		}
	}
}

// command is the command line of a step.
func (v *resolver) command(s step) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %g %d %s", v.clock, s.Name, s.For.Seconds(), s.Exit, strings.Join(s.Flags, " ")))
}

// any returns a value for an argument that the tool requires and the scenario does not say.
func (p property) any(s step) any {
	if len(p.Enum) > 0 {
		return p.Enum[0]
	}
	switch p.Type {
	case "boolean":
		return false
	case "integer", "number":
		return 60
	case "array":
		return []any{}
	case "object":
		return object{}
	}
	return "scripted " + s.Do + " " + s.Name
}
