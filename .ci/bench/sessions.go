package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A writer makes up sessions, line by line: the same ones in every run of the benchmark.
type writer struct {
	bytes.Buffer
	*rand.Rand
	at      time.Time
	session string // the id of the current one, quoted
}

func newWriter() *writer {
	return &writer{Rand: rand.New(rand.NewPCG(1, 2)), at: time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC)}
}

// sessions are whole sessions of several agents, in the order in which a day has them,
// with short lines, tools of many kinds, and now and then a long result.
func sessions(size int) []byte {
	w := newWriter()
	for w.Len() < size {
		switch w.IntN(10) {
		case 0, 1, 2, 3:
			w.cursor(4+w.IntN(20), true)
		case 4:
			w.cursor(4+w.IntN(20), false)
		case 5, 6, 7:
			w.claude(4 + w.IntN(20))
		case 8:
			w.codex(3 + w.IntN(10))
		default:
			w.opencode(3 + w.IntN(10))
		}
	}
	return w.Bytes()
}

// deltas is one answer after another, in pieces.
func deltas(size int) []byte {
	w := newWriter()
	w.begin()
	w.line(`{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":%s,"model":"GPT-5","permissionMode":"default"}`, w.session)
	for w.Len() < size {
		w.cursorDelta(1 + w.IntN(4))
	}
	w.cursorResult()
	return w.Bytes()
}

// calls is small tool calls, one after another.
func calls(size int) []byte {
	w := newWriter()
	w.begin()
	for n := 0; w.Len() < size; n++ {
		w.cursorTool(n, 1+w.IntN(20))
	}
	w.cursorResult()
	return w.Bytes()
}

// begin makes up a session id.
func (w *writer) begin() {
	w.session = fmt.Sprintf(`"%08x-6c1d-4d6e-9a80-%012x"`, w.Uint32(), w.Uint64()&(1<<48-1))
}

func (w *writer) line(format string, args ...any) {
	w.at = w.at.Add(time.Duration(1+w.IntN(60)) * time.Millisecond)
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *writer) millis() int64 { return w.at.UnixMilli() }

func (w *writer) iso() string { return w.at.Format(`"2006-01-02T15:04:05.000Z"`) }

var words = strings.Fields(`the flag is read before config so test fails when --since missing fmt.Errorf("no %w", err) return nil
	func add(a, b int) int { if x := a + b; x > 0 } // sum	/home/dev/shop/cmd/report.go:42: ok FAIL 3.21s é → "quoted" C:\dev`)

// text returns about n words as a JSON string, with line breaks.
func (w *writer) text(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(words[w.IntN(len(words))])
		b.WriteByte(" \n\t "[min(3, w.IntN(12)+i%2)])
	}
	quoted, err := json.Marshal(b.String())
	check(err)
	return string(quoted)
}

// result returns the result of a tool: mostly short, now and then a whole file.
func (w *writer) result() string {
	switch w.IntN(20) {
	case 0:
		return w.text(4000)
	case 1, 2, 3:
		return w.text(500)
	}
	return w.text(5 + w.IntN(60))
}

func (w *writer) cursor(turns int, partial bool) {
	w.begin()
	w.line(`{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":%s,"model":"GPT-5","permissionMode":"default"}`, w.session)
	w.line(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":%s}]},"session_id":%s}`, w.text(30), w.session)
	for turn := range turns {
		for range w.IntN(15) {
			w.line(`{"type":"thinking","subtype":"delta","text":%s,"session_id":%s,"timestamp_ms":%d}`, w.text(2), w.session, w.millis())
		}
		for n := w.IntN(60); partial && n > 0; n-- {
			w.cursorDelta(1 + w.IntN(4))
		}
		w.line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":%s}]},"session_id":%s,"model_call_id":"r-%d-abcd","timestamp_ms":%d}`,
			w.text(60), w.session, turn, w.millis())
		for n := range 1 + w.IntN(3) {
			w.cursorTool(10*turn+n, 0)
		}
	}
	w.cursorResult()
}

func (w *writer) cursorDelta(n int) {
	w.line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":%s}]},"session_id":%s,"timestamp_ms":%d}`, w.text(n), w.session, w.millis())
}

// cursorTool is a call whose result has n words, 0 for one as it comes.
func (w *writer) cursorTool(n, size int) {
	text := w.result()
	if size > 0 {
		text = w.text(size)
	}
	tool := []struct{ kind, args, result string }{
		{"read", `{"path":"/home/dev/shop/report.go"}`, `{"success":{"content":%s,"isEmpty":false,"totalLines":40,"fileSize":900}}`},
		{"shell", `{"command":"go test ./...","workingDirectory":"","timeout":30000,"simpleCommands":["go"],"description":"Run the tests"}`, `{"success":{"command":"go test ./...","exitCode":0,"stdout":%s,"stderr":"","executionTime":320},"isBackground":false}`},
		{"grep", `{"pattern":"since","path":"cmd"}`, `{"success":{"pattern":"since","workspaceResults":{"cmd":%s}}}`},
		{"edit", `{"path":"/home/dev/shop/report.go"}`, `{"success":{"path":"/home/dev/shop/report.go","linesAdded":3,"linesRemoved":1,"diffString":%s}}`},
		{"read", `{"path":"/home/dev/shop/none.go"}`, `{"error":{"errorMessage":%s}}`},
	}[w.IntN(5)]
	const line = `{"type":"tool_call","subtype":%q,"call_id":"call_%d","tool_call":{"%sToolCall":{"args":%s%s},"hookAdditionalContexts":[],"toolCallId":"call_%d"},"model_call_id":"r-%d-abcd","session_id":%s,"timestamp_ms":%d}`
	w.line(line, "started", n, tool.kind, tool.args, "", n, n/10, w.session, w.millis())
	w.at = w.at.Add(time.Duration(w.IntN(900)) * time.Millisecond)
	w.line(line, "completed", n, tool.kind, tool.args, fmt.Sprintf(`,"result":`+tool.result, text), n, n/10, w.session, w.millis())
}

func (w *writer) cursorResult() {
	w.line(`{"type":"result","subtype":"success","duration_ms":60000,"duration_api_ms":60000,"is_error":false,"result":%s,"session_id":%s,"request_id":"r","usage":{"inputTokens":%d,"outputTokens":731}}`,
		w.text(60), w.session, w.IntN(90000))
}

func (w *writer) claude(turns int) {
	w.begin()
	w.line(`{"type":"system","subtype":"init","cwd":"/home/dev/shop","session_id":%s,"tools":["Bash","Read","Edit"],"mcp_servers":[],"model":"claude-opus-5","permissionMode":"default","apiKeySource":"none","claude_code_version":"2.1.290","uuid":"u"}`, w.session)
	for turn := range turns {
		const message = `{"type":"assistant","message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-5","content":[%s],"stop_reason":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":200,"cache_read_input_tokens":%d,"output_tokens":2}},"parent_tool_use_id":null,"session_id":%s,"uuid":"u","timestamp":%s,"request_id":"req_%d"}`
		w.line(message, turn, `{"type":"text","text":`+w.text(w.IntN(80))+`}`, w.IntN(90000), w.session, w.iso(), turn)
		tool := []string{`"Bash","input":{"command":"go test ./...","description":"Run the tests"}`, `"Read","input":{"file_path":"/home/dev/shop/report.go"}`, `"Edit","input":{"file_path":"/home/dev/shop/report.go","old_string":"a","new_string":"b"}`}[w.IntN(3)]
		w.line(message, turn, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%s}`, turn, tool), w.IntN(90000), w.session, w.iso(), turn)
		w.at = w.at.Add(time.Duration(w.IntN(3000)) * time.Millisecond)
		w.line(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":%s,"is_error":%t}]},"parent_tool_use_id":null,"session_id":%s,"uuid":"u","timestamp":%s}`,
			turn, w.result(), w.IntN(8) == 0, w.session, w.iso())
	}
	w.line(`{"type":"result","subtype":"success","is_error":false,"duration_ms":60000,"duration_api_ms":40000,"num_turns":%d,"result":%s,"session_id":%s,"total_cost_usd":0.4,"usage":{"input_tokens":40,"output_tokens":900},"uuid":"u"}`,
		turns, w.text(60), w.session)
}

func (w *writer) codex(turns int) {
	w.begin()
	w.line(`{"type":"thread.started","thread_id":%s}`, w.session)
	w.line(`{"type":"turn.started"}`)
	for n := range turns {
		w.line(`{"type":"item.completed","item":{"id":"item_%d","type":"reasoning","text":%s}}`, 3*n, w.text(30))
		w.line(`{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":"bash -lc 'go test ./...'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`, 3*n+1)
		w.line(`{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":"bash -lc 'go test ./...'","aggregated_output":%s,"exit_code":0,"status":"completed"}}`, 3*n+1, w.result())
		w.line(`{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":%s}}`, 3*n+2, w.text(50))
	}
	w.line(`{"type":"turn.completed","usage":{"input_tokens":9000,"cached_input_tokens":8000,"output_tokens":300}}`)
}

func (w *writer) opencode(turns int) {
	w.begin()
	id := `"ses_` + w.session[1:]
	for turn := range turns {
		part := func(typ, format string, args ...any) {
			w.line(`{"type":%q,"timestamp":%d,"sessionID":%s,"part":{"id":"prt_%d","messageID":"msg_%d","sessionID":%s,%s}}`,
				typ, w.millis(), id, w.IntN(1e6), turn, id, fmt.Sprintf(format, args...))
		}
		part("step_start", `"type":"step-start"`)
		part("text", `"type":"text","text":%s,"time":{"start":%d,"end":%d}`, w.text(40), w.millis()-20, w.millis())
		part("tool_use", `"type":"tool","callID":"call_%d","tool":"bash","state":{"status":"completed","input":{"command":"go test ./..."},"output":%s,"title":"Run","metadata":{"exit":0},"time":{"start":%d,"end":%d}}`,
			turn, w.result(), w.millis()-15, w.millis())
		part("step_finish", `"type":"step-finish","reason":"tool-calls","cost":0.01,"tokens":{"input":900,"output":40,"reasoning":0,"cache":{"read":8000,"write":0}}`)
	}
}
