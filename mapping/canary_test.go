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
		s.fill(place): 1, "executableCommands": []any{fields{"name": s.fill(place + ".executableCommands")}},
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

// alwaysRecorded are the fields of which the README says that they always are.
var alwaysRecorded = []string{
	"init.apiKeySource", "init.model", "init.permissionMode", "model_call_id", "call_id", "request_id", "query_type", "task_status",
	"result_subtype", "function.name", "tool_call.mcp.args.toolName", "tool_call.task.args.model", "hook",
	"tool_call.shell.args.parsingResult.executableCommands", // a program's name
}

var canary = regexp.MustCompile(`canary-([\w.]+)-`)

// TestCanary marks every text of every event and looks for the marks in the
// spans: without being asked for no content is there.
func TestCanary(t *testing.T) {
	marks := 0
	in := newScript(t, func(field string) string {
		marks++
		mark := "canary-" + field + "-"
		if strings.HasSuffix(field, ".command") {
			return "git commit -m " + mark // the first word is recorded
		}
		return mark
	})
	if marks < 1000 {
		t.Errorf("%d marks", marks)
	}
	for _, c := range []struct {
		content content.Level
		more    []string // of what has to be there
		never   []string
	}{
		{content.None, nil, nil},
		{
			content.Details,
			[]string{"init.cwd", "tool_call.shell.args.command", "tool_call.read.args.path", "tool_call.webFetch.args.url", "tool_call.grep.args.pattern", "result", "task.title"},
			[]string{"user", "thinking", "assistant.delta", "assistant.flush", "tool_call.read.success.content", "tool_call.task.args.prompt", "task.detail"},
		},
		{
			content.Full,
			[]string{"user", "thinking", "assistant.delta", "tool_call.read.success.content", "tool_call.task.args.prompt", "query.plan", "task.detail", "response.reason"},
			nil,
		},
	} {
		t.Run(string(c.content), func(t *testing.T) {
			spans, _ := feed{opts: mapping.Options{Content: c.content, Agent: "cursor"}}.spans(t, in)
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
					if m := canary.FindStringSubmatch(word); m != nil && !slices.Contains(alwaysRecorded, m[1]) {
						t.Errorf("a span is named %s", s.Name)
					}
				}
			}
			for field := range found {
				if c.content == content.None && !slices.Contains(alwaysRecorded, field) || slices.Contains(c.never, field) {
					t.Errorf("%s got out", field)
				}
			}
			for _, field := range slices.Concat(alwaysRecorded, c.more) {
				if !found[field] {
					t.Errorf("%s is not there", field)
				}
			}
		})
	}
}

// TestNoSecrets puts secrets into every field that may have content, each time
// others.
func TestNoSecrets(t *testing.T) {
	secrets := redacttest.All()
	next := 0
	for range 10 {
		next += len(secrets) / 10
		in := newScript(t, func(field string) string {
			if slices.Contains(alwaysRecorded, field) {
				return "plain"
			}
			next++
			return secrets[next%len(secrets)].Text
		})
		spans, _ := feed{opts: mapping.Options{Content: content.Full, Agent: "cursor", MaxAttributeBytes: 16 << 10}}.spans(t, in)
		wire := encode(t, spans)
		for _, secret := range secrets {
			for _, part := range secret.Parts {
				if bytes.Contains(wire, []byte(part)) {
					t.Errorf("%s: %q is there", secret.Name, part)
				}
			}
		}
	}
}

var mark = regexp.MustCompile(`\[redacted:[\w-]*\]?`) // which may be cut

// TestSplitSecrets splits secrets over two deltas in every way, in a text and
// in a thought, also where a span is full in between. No eight letters of one
// may be left.
func TestSplitSecrets(t *testing.T) {
	for i, secret := range redacttest.All() {
		text, part := secret.Text, secret.Parts[0]
		from := strings.Index(text, part)
		lines := []string{initLine}
		for at := from + 1; at < min(from+len(part), from+80); at++ {
			for _, piece := range []string{text[:at], text[at:]} {
				quoted, _ := json.Marshal(piece)
				line := fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%s}]}}`, quoted)
				if i%2 == 0 {
					line = fmt.Sprintf(`{"type":"thinking","subtype":"delta","text":%s}`, quoted)
				}
				lines = append(lines, stamped(now, line))
			}
			lines = append(lines, stamped(now, `{"type":"thinking","subtype":"completed"}`), `{"type":"assistant","message":{},"model_call_id":"r"}`)
		}
		spans, _ := feed{
			live: i%4 < 2, start: now,
			opts: mapping.Options{Content: content.Full, MaxSpanEvents: 1 + i%3},
		}.spans(t, stream(lines...))
		for _, s := range spans {
			b, err := proto.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			b = mark.ReplaceAll(b, nil)
			for _, part := range secret.Parts {
				for k := 0; k+8 <= len(part); k++ {
					if bytes.Contains(b, []byte(part[k:k+8])) {
						t.Fatalf("%s: %q is in %s", secret.Name, part[k:k+8], s.Name)
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
