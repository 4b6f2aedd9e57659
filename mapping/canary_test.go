package mapping_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

// A script is a session with every event and every tool there is. fill makes
// up the text of a field by its place, as in tool_call.shell.args.command.
type script struct {
	fill  func(field string) string
	lines []string
	at    int
}

type fields = map[string]any

func (s *script) line(of fields) {
	s.at += 20
	of["timestamp_ms"] = 1790000000000 + s.at
	b, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	s.lines = append(s.lines, string(b))
}

// field makes up a field of the schema: path, files[], parsingResult{}.
func (s *script) field(place, name string) (key string, v any) {
	key = strings.TrimRight(name, "[]{}")
	place += "." + key
	switch {
	case strings.HasSuffix(name, "[]{}"):
		v = []any{s.anything(place), s.anything(place)}
	case strings.HasSuffix(name, "{}"):
		v = s.anything(place)
	case strings.HasSuffix(name, "[]"):
		v = []string{s.fill(place), s.fill(place)}
	default:
		v = s.fill(place)
	}
	return key, v
}

func (s *script) anything(place string) fields {
	return fields{
		"text": s.fill(place), "list": []any{s.fill(place), fields{"deep": s.fill(place)}},
		s.fill(place): 1,
	}
}

func (s *script) object(place string, names []string) fields {
	f := fields{}
	for _, n := range names {
		k, v := s.field(place, n)
		f[k] = v
	}
	return f
}

// newScript plays the schema of testdata.
func newScript(t testing.TB, fill func(string) string) []byte {
	t.Helper()
	schema, err := os.ReadFile("../testdata/cursor/tools.schema")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{fill: fill}
	s.line(fields{
		"type": "system", "subtype": "init", "apiKeySource": fill("init.apiKeySource"), "cwd": fill("init.cwd"),
		"model": fill("init.model"), "permissionMode": fill("init.permissionMode"), "tools_hint": fill("init.unknown"),
	})
	said := func(place string) fields {
		return fields{"role": fill(place + ".role"), "content": []any{
			fields{"type": "text", "text": fill(place)}, fields{"type": "image", "data": fill(place + ".image"), "text": fill(place)},
		}}
	}
	s.line(fields{"type": "user", "message": said("user")})
	for range 3 {
		s.line(fields{"type": "thinking", "subtype": "delta", "text": fill("thinking")})
	}
	s.line(fields{"type": "thinking", "subtype": "completed", "text": fill("thinking.completed")})
	s.line(fields{"type": "assistant", "message": said("assistant.delta")})
	s.line(fields{"type": "assistant", "message": said("assistant.flush"), "model_call_id": fill("model_call_id")})
	s.line(fields{"type": "assistant", "message": said("assistant.flush"), "model_call_id": fill("model_call_id")})
	s.tools(string(schema))
	s.line(fields{"type": "tool_call", "subtype": "completed", "call_id": fill("call_id"), "tool_call": fields{
		"function": fields{"name": fill("function.name"), "arguments": fill("function.arguments")},
	}})
	for _, q := range []string{"shell", "webFetch", "createPlan", "askQuestion"} {
		args := fields{}
		for _, n := range []string{"command", "url", "plan", "title", "workingDirectory"} {
			args[n] = fill("query." + n)
		}
		s.line(fields{"type": "interaction_query", "subtype": "request", "query_type": fill("query_type"), "query": fields{
			"id": 7, q + "RequestQuery": fields{"args": args, "why": fill("query.unknown")},
		}})
		s.line(fields{"type": "interaction_query", "subtype": "response", "query_type": fill("query_type"), "response": fields{
			"id": 7, q + "RequestResponse": fields{"rejected": fields{"reason": fill("response.reason")}},
		}})
	}
	s.line(fields{"type": "retry", "subtype": "scheduled", "message": fill("retry.message")})
	s.line(fields{"type": "connection", "subtype": "reconnecting", "message": said("connection.message"), "detail": fill("connection.detail")})
	s.line(fields{"type": "assistant", "message": said("assistant.delta")})
	s.line(fields{"type": "system", "subtype": "error", "error": fill("error"), "detail": fill("error.detail"), "message": fill("error.message")})
	s.line(fields{"type": "error", "error": fields{"text": fill("error.object")}})
	s.line(fields{"type": fill("unknown.type"), "subtype": fill("unknown.subtype"), "text": fill("unknown.text")})
	s.lines = append(s.lines, fill("no.json"), `{"type":"broken","text":"`+fill("broken")[:4])
	s.line(fields{
		"type": "result", "subtype": fill("result_subtype"), "is_error": true, "result": fill("result"), "error": fill("result.error"),
		"request_id": fill("request_id"), "duration_ms": 1000, "unknown": fill("result.unknown"),
	})
	s.line(fields{
		"type": "system", "subtype": "task_notification", "task_id": "agent-1", "status": fill("task_status"),
		"title": fill("task.title"), "detail": fill("task.detail"),
	})
	return stream(s.lines...)
}

func (s *script) tools(schema string) {
	var kind string
	var args, beside []string
	for l := range strings.Lines(schema) {
		words := strings.Fields(l)
		switch {
		case len(words) == 0 || words[0] == "#":
		case l[0] != ' ':
			kind, args, beside = words[0], nil, nil
		case words[0] == "args":
			args = words[1:]
		case words[0] == "beside":
			beside = append(beside, words[1])
		default:
			s.tool(kind, words[0], args, beside, words[1:])
		}
	}
}

func (s *script) tool(kind, variant string, args, beside, outcome []string) {
	place := "tool_call." + kind
	call := func() fields {
		return fields{"args": s.object(place+".args", args), "description": s.fill(place + ".description"), "unknown": s.fill(place + ".unknown")}
	}
	line := func(subtype string, call fields) {
		s.line(fields{
			"type": "tool_call", "subtype": subtype, "call_id": fmt.Sprintf("call_%d", s.at/40), "model_call_id": s.fill("model_call_id"),
			"tool_call": fields{
				kind + "ToolCall": call, "toolCallId": s.fill("toolCallId"), "startedAtMs": s.fill("startedAtMs"),
				"hookAdditionalContexts": []any{fields{"hookEventName": s.fill("hook"), "content": s.fill("hook")}},
			},
		})
	}
	line("started", call())
	done := call()
	result := s.object(place+".beside", beside)
	result[variant] = s.object(place+"."+variant, outcome)
	if kind == "task" {
		result[variant].(fields)["agentId"], result["isBackground"] = "agent-1", true
	}
	if kind == "mcp" && variant == "success" {
		result[variant].(fields)["isError"] = true
	}
	done["result"] = result
	if variant == "failure" || variant == "rejected" {
		delete(done, "args")
	}
	s.at += 20 - s.at%40 // the id of the line before
	line("completed", done)
}

// A canaryCase is a session of an agent, with every event and every text there is,
// and which of its texts may get out.
type canaryCase struct {
	agent  string
	script func(t testing.TB, fill func(string) string) []byte
	marks  int      // at least
	always []string // recorded without being asked for content
	more   []string // there with details
	never  []string // with details
	full   []string // there with full content
}

var canaries = []canaryCase{
	{
		agent: "cursor", script: newScript, marks: 1000,
		always: []string{ // as the README says
			"init.apiKeySource", "init.model", "init.permissionMode", "model_call_id", "call_id", "request_id", "query_type", "task_status",
			"result_subtype", "function.name", "tool_call.mcp.args.toolName", "tool_call.task.args.model", "hook",
			"tool_call.shell.args.simpleCommands", // a program's name
		},
		more:  []string{"init.cwd", "tool_call.shell.args.command", "tool_call.read.args.path", "tool_call.webFetch.args.url", "tool_call.grep.args.pattern", "result", "task.title"},
		never: []string{"user", "thinking", "assistant.delta", "assistant.flush", "tool_call.read.success.content", "tool_call.task.args.prompt", "task.detail"},
		full:  []string{"user", "thinking", "assistant.delta", "tool_call.read.success.content", "tool_call.task.args.prompt", "query.plan", "task.detail", "response.reason"},
	},
	claudeCanary("claude", "message_id"),
	claudeCanary("qwen"),
	claudeCanary("amp"),
}

// claudeCanary is the canary of an agent that prints Claude Code's lines.
func claudeCanary(agent string, always ...string) canaryCase {
	return canaryCase{
		agent: agent, script: func(_ testing.TB, fill func(string) string) []byte { return claudeScript(fill) }, marks: 200,
		always: append(always,
			"model", "response_model", "result.model", "permission_mode", "api_key_source", "version", "hook_event", "hook_outcome", "terminal_reason",
			"tool_name", "mcp_tool", "tool_call_id", "subagent_type", "agent_id", "resolved_model", "task_id", "task_other", "task_status",
			"retry_error", "retry_category", "api_error", "compact_trigger", "rate_status", "rate_type", "result_subtype",
		),
		more:  []string{"init.cwd", "input.notebook_path", "input.command", "input.pattern", "input.url", "mcp_server"},
		never: []string{"user", "thinking.delta", "text.delta", "thinking", "text", "input.prompt", "input.content", "result.text", "task.summary"},
		full:  []string{"user", "thinking.delta", "text.delta", "input.prompt", "input.content", "result.text", "result.exit", "nested.text"},
	}
}

var canary = regexp.MustCompile(`canary-([\w.]+)-`)

// TestCanary marks every text of every event and looks for the marks in the
// spans: without being asked for no content is there.
func TestCanary(t *testing.T) {
	for _, c := range canaries {
		marks := 0
		in := c.script(t, func(field string) string {
			marks++
			mark := "canary-" + field + "-"
			if strings.HasSuffix(field, ".command") {
				return "git commit -m " + mark // the first word is recorded
			}
			return mark
		})
		if marks < c.marks {
			t.Errorf("%s: %d marks", c.agent, marks)
		}
		for level, want := range map[content.Level][]string{content.None: nil, content.Details: c.more, content.Full: c.full} {
			t.Run(c.agent+"/"+string(level), func(t *testing.T) { c.check(t, in, level, want) })
		}
	}
}

// check looks for the marks with a level of content.
func (c *canaryCase) check(t *testing.T, in []byte, level content.Level, want []string) {
	spans, _ := feed{opts: mapping.Options{Content: level, Agent: c.agent}}.spans(t, in)
	found := map[string]bool{}
	for _, s := range spans {
		b, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range canary.FindAllSubmatch(b, -1) {
			found[string(m[1])] = true
		}
		for _, word := range strings.Fields(s.Name) {
			if m := canary.FindStringSubmatch(word); m != nil && !slices.Contains(c.always, m[1]) {
				t.Errorf("a span is named %s", s.Name)
			}
		}
	}
	for _, m := range canary.FindAllSubmatch(receiptOf(t, spans), -1) {
		if field := string(m[1]); !slices.Contains(c.always, field) && (level == content.None || !found[field]) { // what failed tools were about
			t.Errorf("%s is in the receipt", field)
		}
	}
	for field := range found {
		if level == content.None && !slices.Contains(c.always, field) || level == content.Details && slices.Contains(c.never, field) {
			t.Errorf("%s got out", field)
		}
	}
	for _, field := range slices.Concat(c.always, want) {
		if !found[field] {
			t.Errorf("%s is not there", field)
		}
	}
}

// TestNoSecrets puts secrets into every field that may have content, each time
// others.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := redacttest.All()
	for _, c := range canaries {
		next := 0
		tried := oneIn(3)
		for range 10 {
			next += len(secrets) / 10
			if !tried() {
				continue
			}
			in := c.script(t, func(field string) string {
				if slices.Contains(c.always, field) {
					return "plain"
				}
				next++
				return secrets[next%len(secrets)].Text
			})
			spans, _ := feed{opts: mapping.Options{Content: content.Full, Agent: c.agent, MaxAttributeBytes: 16 << 10}}.spans(t, in)
			wire := encode(t, spans)
			for _, secret := range secrets {
				for _, part := range secret.LongParts() {
					if bytes.Contains(wire, []byte(part)) {
						t.Errorf("%s, %s: %q is there", c.agent, secret.Name, part)
					}
				}
			}
		}
	}
}

// Of a command only the program is told, and what could be a file, a page or an
// argument is none; nor is a result's key that no version has an error type.
func TestNoArgumentIsAProgram(t *testing.T) {
	const mark = "canary"
	var lines []string
	for i, command := range []string{
		">/tmp/canary psql", "2>/home/canary go test", "</etc/canary sort", "cat</home/canary", "cat<<EOF>/tmp/canary", "a|/canary", "#/canary x",
		"//canary", "https://host/canary", "git@host:/canary", "FOO=(a canary c) make", "C:canary x", "~canary", "./x=canary y",
	} {
		args, err := json.Marshal(map[string]any{"command": command, "simpleCommands": []string{"cat /home/canary"}})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf(`{"type":"tool_call","subtype":"started","call_id":"%d","tool_call":{"shellToolCall":{"args":%s}}}`, i, args))
		lines = append(lines, fmt.Sprintf(`{"type":"tool_call","subtype":"completed","call_id":"%d","tool_call":{"shellToolCall":{"args":%s,"result":{"src/canary.go":{"shellId":["canary"]}}}}}`, i, args))
	}
	spans, _ := feed{}.spans(t, stream(lines...))
	if golden := treetest.Golden(spans); strings.Contains(golden, mark) {
		t.Errorf("an argument is in\n%s", golden)
	} else if !strings.Contains(golden, `error.type = "_OTHER"`) {
		t.Error("an unknown result is no error")
	}
}
