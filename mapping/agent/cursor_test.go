package agent

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// FuzzCursor checks what is read of a line against
// encoding/json.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413274}`,
		`{"type":"tool_call","subtype":"completed","call_id":"a\nb","tool_call":{"shellToolCall":{"args":{"command":"FOO=1 /bin/ls -l","simpleCommands":["cd","ls"]},"result":{"isBackground":false,"failure":{"exitCode":3,"stdout":"x"}}},"startedAtMs":"1"},"timestamp_ms":"1785894413274"}`,
		`{"type":"interaction_query","subtype":"response","query_type":"shellRequestQuery","response":{"id":0,"shellRequestResponse":{"approved":{}}}}`,
		`{"type":"result","subtype":"success","duration_ms":5,"usage":{"inputTokens":1,"cacheReadTokens":2}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"text":3}]},"timestamp_ms":{}}`,
		`{"type":["x"],"tool_call":{"ToolCall":1,"aToolCall":[]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var l cursorLine
		r := &jsonscan.Reader{B: in}
		for key := range r.Members() {
			l.field(r, key)
		}
		ok := !r.Bad
		if ok && r.I > len(in) {
			t.Fatal("read past the end")
		}
		var want map[string]any // a struct would take keys of another case, too
		if !bytes.HasPrefix(bytes.TrimSpace(in), []byte("{")) || !json.Valid(in) || !utf8.Valid(in) || bytes.Contains(in, []byte(`\`)) {
			return
		}
		if json.Unmarshal(in, &want) != nil {
			return
		}
		if !ok {
			t.Error("valid JSON, but not decoded")
		}
		if s, _ := want["type"].(string); s != string(l.typ) {
			t.Errorf("type %q, want %q", l.typ, s)
		}
		if s, _ := want["session_id"].(string); s != string(l.Session) {
			t.Errorf("session %q, want %q", l.Session, s)
		}
	})
}

func TestExecutable(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"go test ./..."}`:                                  "go",
		`{"command":"FOO=secret /usr/bin/make all"}`:                   "make",
		`{"command":"PASSWORD=\"hunter2 correct horse\" ./deploy.sh"}`: "",
		`{"command":"\"/home/dev/Acme Merger/run.sh\" x"}`:             "",
		`{"command":"","simpleCommands":["C:\\tools\\git.exe"]}`:       "git.exe",
		`{"command":"cd /x && go build","simpleCommands":["cd","go"]}`: "go",
		`{"command":"cd /x","simpleCommands":["cd"]}`:                  "cd",
		`{"command":"$(echo secret) x"}`:                               "",
		`{"command":"\"my secret\" x"}`:                                "",
		`{"command":""}`:                                               "",
	} {
		var c Tool
		c.readArguments(&jsonscan.Reader{B: []byte(args)})
		if got := c.Executable; got != want {
			t.Errorf("executable of %s = %q, want %q", args, got, want)
		}
	}
}

func TestHookNames(t *testing.T) {
	var l cursorLine
	r := &jsonscan.Reader{B: []byte(`{"tool_call":{"readToolCall":{},"hookAdditionalContexts":[
		{"hookEventName":"postToolUseFailure","content":"four"},{"hookEventName":"postToolUse"},{"hookEventName":"postToolUse","content":"\n"}]}}`)}
	for key := range r.Members() {
		l.field(r, key)
	}
	outcome := &l.Tool.OutcomeFacts
	if names := outcome.Find(semconv.ToolHooks); names == nil || string(names.Text) != "postToolUseFailure postToolUse" {
		t.Errorf("hooks %+v, want postToolUseFailure and postToolUse", names)
	}
	if n := outcome.number(semconv.ToolHookBytes); n != 5 {
		t.Errorf("hooks added %d bytes, want 5", n)
	}
}
