package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spantee/spantee/mapping/jsonscan"
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
		ok := l.read(r)
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

// FuzzTemplate checks that a line read by the template of another says what it
// says when it is read.
func FuzzTemplate(f *testing.F) {
	lines := []string{
		`{"type":"thinking","subtype":"delta","text":"a \"b\" \u00e9","session_id":"s","timestamp_ms":1785894413275}`,
		`{"type":"thinking","subtype":"delta","text":7,"session_id":"s","timestamp_ms":1785894413275}`,
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413275}{}`,
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413275e2}`,
		`{"type":"thinking","subtype":"delta","text":"hm","text":"hm","timestamp_ms":1,"timestamp_ms":2}`,
		`{"type":"thinking","subtype":"delta","text":"\","session_id":"s","timestamp_ms":1}`,
		`{"type":"thinking","subtype":"delta","text":"hm","session_id":"s","timestamp_ms":1785894413274}`,
		`{"type":"assistant","model_call_id":"","message":{"content":[{"type":"text","text":"a"}]},"session_id":"s","timestamp_ms":1}`,
		`{"type":"assistant","model_call_id":"m","message":{"content":[{"type":"text","text":"a"}]},"session_id":"s","timestamp_ms":1}`,
		`{"type":"tool_call","subtype":"completed","call_id":"a\nb","tool_call":{"readToolCall":{"args":{"path":"/d"},"result":{"success":{"content":"x\ny","isEmpty":false,"fileSize":"13","path":"/d","line":3}}},"startedAtMs":"1785894413100","completedAtMs":"1785894413200"},"model_call_id":"r-0-abcd","session_id":"s","timestamp_ms":1785894413274}`,
		`{"type":"tool_call","subtype":"completed","call_id":"x","tool_call":{"readToolCall":{"args":{"path":""},"result":{"success":{"content":"\u00e9","fileSize":1.5,"path":"/e","line":-1}}},"startedAtMs":"1785894413300","completedAtMs":"1785894413200"},"model_call_id":7,"session_id":"s","timestamp_ms":0}`,
		`{"type":"tool_call","subtype":"completed","call_id":"x","tool_call":{"readToolCall":{"args":{"path":"/f"},"result":{"success":{"content":"x","stdout":"y","fileSize":99999999999999999999}}}},"call_id":"y","text":"a","text":"b","session_id":"s"}`,
		`{"type":"tool_call","subtype":"started","call_id":"x","tool_call":{"shellToolCall":{"args":{"command":"ls","path":"a","path":"b","workingDirectory":"/"}}},"query":{"id":1},"session_id":"s"}`,
	}
	for _, line := range []string{ // # differs
		`{"type":"thinking","subtype":"delta","text":"#","tool_call":{"readToolCall":{"args":{"path":"#"},"result":5}},"session_id":"s","timestamp_ms":1}`,
		`{"type":"thinking","subtype":"delta","text":"#","query":{"xQuery":{"args":{"path":"#"}}},"session_id":"s","timestamp_ms":1}`,
		`{"type":"thinking","subtype":"delta","text":"a","usage":{"inputTokens":#},"session_id":"s","timestamp_ms":1}`,
		`{"type":"thinking","subtype":"delta","text":"#","session_id":"s","timestamp_ms":1785894413274,"timestamp_ms":null}`,
		`{"type":"tool_call","subtype":"started","call_id":"#","tool_call":{"readToolCall":{"args":{"path":"#"}}},"task_id":null,"session_id":"s"}`,
		`{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"function":{"args":{"path":"#"},"arguments":"{}"}},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"aToolCall":{},"startedAtMs":#,"startedAtMs":-1},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"aToolCall":{"result":{"success":{"totalFiles":#,"workspaceResults":{"/w":{"totalFiles":2}}}}}},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"aToolCall":{"result":{"success":{"fileSize":#}}},"bToolCall":{"result":{"success":{"fileSize":1.5}}}},"session_id":"s"}`,
		`{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"mcpToolCall":{"args":{"args":{"q":1},"toolCallId":"#"}},"readToolCall":{}},"session_id":"s"}`,
	} {
		lines = append(lines, strings.ReplaceAll(line, "#", "1"), strings.ReplaceAll(line, "#", "2"))
	}
	for _, first := range lines {
		for _, second := range lines {
			f.Add([]byte(first), []byte(second))
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if bytes.Contains(first, []byte("\n")) || bytes.Contains(second, []byte("\n")) {
			return
		}
		fast, slow := cursor.New().(*cursorDecoder), cursor.New().(*cursorDecoder)
		fast.templates.passed = shortStream
		for _, line := range [][]byte{first, second, first} {
			slow.templates = templates{}
			got, want := fast.Decode(Line{Text: line}, nil), slow.Decode(Line{Text: line}, nil)
			if fast.continued != nil && len(got) == 1 {
				got[0].Session = want[0].Session
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s by template (-read +template)\n%s", line, diff)
			}
		}
	})
}

// Templates change nothing, whichever session's line comes next.
func TestCursorTemplates(t *testing.T) {
	files, err := filepath.Glob("../../testdata/cursor/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	repeated, tools := 0, 0
	for _, file := range files {
		stream, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range []int{1, 2, 7} {
			fast, slow := cursor.New().(*cursorDecoder), cursor.New().(*cursorDecoder)
			fast.templates.passed = shortStream
			var session []byte // of the event before
			for chunk := range slices.Chunk(bytes.Split(bytes.TrimSpace(stream), []byte("\n")), block) {
				other := bytes.ReplaceAll(bytes.Join(chunk, []byte("\n")), []byte(`"session_id":"`), []byte(`"session_id":"other-`))
				for _, text := range append(chunk, bytes.Split(other, []byte("\n"))...) {
					slow.templates = templates{}
					got, want := fast.Decode(Line{Text: text}, nil), slow.Decode(Line{Text: text}, nil)
					for i := range got {
						switch {
						case got[i].Session == nil && fast.continued != nil:
							got[i].Session = session
							repeated++
						case got[i].Tool != nil && got[i].Tool != &fast.line.tool:
							tools++
						}
						session = bytes.Clone(got[i].Session)
					}
					if reflect.DeepEqual(want, got) { // fast
						continue
					}
					if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("%s, blocks of %d, %s: by template (-read +template)\n%s", file, block, text, diff)
					}
				}
			}
		}
	}
	if repeated < 1000 {
		t.Errorf("%d lines went on with a text", repeated)
	}
	if tools < 100 {
		t.Errorf("%d lines of tools by template", tools)
	}
}

func TestExecutable(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"go test ./..."}`:                                                                     "go",
		`{"command":"FOO=secret /usr/bin/make all"}`:                                                      "make",
		`{"command":"PASSWORD=\"hunter2 correct horse\" ./deploy.sh"}`:                                    "",
		`{"command":"\"/home/dev/Acme Merger/run.sh\" x"}`:                                                "",
		`{"command":"","simpleCommands":["C:\\tools\\git.exe"]}`:                                          "git.exe",
		`{"command":"cd /x && go build","simpleCommands":["cd","go"]}`:                                    "go",
		`{"command":"cd /x","simpleCommands":["cd"]}`:                                                     "cd",
		`{"command":"$(echo secret) x"}`:                                                                  "",
		`{"command":"\"my secret\" x"}`:                                                                   "",
		`{"command":""}`:                                                                                  "",
		`{"command":"x","parsingResult":{"executableCommands":[{"name":"cd"},{"args":[],"name":"npm"}]}}`: "npm",
	} {
		var l cursorLine
		l.readArguments(&jsonscan.Reader{B: []byte(args)})
		if got := l.tool.Executable; got != want {
			t.Errorf("executable of %s = %q, want %q", args, got, want)
		}
	}
}
