package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const session = "5f0c9a52-6c1d-4d6e-9a80-0c2f6d9f7a11"

// A writer makes up a session line by line.
type writer struct {
	bytes.Buffer
	at int
}

func newWriter() *writer {
	w := &writer{at: 1790000000000}
	w.WriteString(`{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":"` + session + `","model":"GPT-5","permissionMode":"default"}` + "\n")
	return w
}

// line ends an object with the keys that Cursor writes last.
func (w *writer) line(object string) {
	w.at += 20
	w.WriteString(object + `,"session_id":"` + session + `","timestamp_ms":` + strconv.Itoa(w.at) + "}\n")
}

func (w *writer) end() []byte {
	w.WriteString(`{"type":"result","subtype":"success","duration_ms":60000,"is_error":false,"session_id":"` + session + `"}` + "\n")
	return w.Bytes()
}

func deltaSession(size int) []byte {
	w := newWriter()
	for w.Len() < size {
		w.line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":" the next few words"}]}`)
	}
	return w.end()
}

// toolSession is small tool calls, one after the other.
func toolSession(size int) []byte {
	w := newWriter()
	for n := 0; w.Len() < size; n++ {
		call := fmt.Sprintf(`"call_id":"call_%d","model_call_id":"r-%d-abcd"`, n, n)
		args := `{"path":"/home/dev/shop/add.go"}`
		w.line(`{"type":"tool_call","subtype":"started",` + call + `,"tool_call":{"readToolCall":{"args":` + args + `}}`)
		w.line(`{"type":"tool_call","subtype":"completed",` + call + `,"tool_call":{"readToolCall":{"args":` + args +
			`,"result":{"success":{"content":"one\ntwo\n","isEmpty":false,"exceededLimit":false,"totalLines":3,"fileSize":8}}}}`)
	}
	return w.end()
}

// hourLongTurn is a single turn with a delta every 20 ms.
func hourLongTurn() []byte {
	w := newWriter()
	for range 3600 * 50 {
		w.line(`{"type":"thinking","subtype":"delta","text":" the next few words"`)
	}
	return w.end()
}

// mixedSession is turns of forty deltas, an edit of a file of 24 kB and a shell
// call that prints 16 kB.
func mixedSession(size int) []byte {
	file := strings.Repeat(`func add(a, b int) int {\n\treturn a + b // \"sum\"\n}\n`, 430)
	w := newWriter()
	for turn := 0; w.Len() < size; turn++ {
		for range 40 {
			w.line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":" the next few words"}]}`)
		}
		for kind, result := range map[string]string{
			"edit":  `{"success":{"path":"/home/dev/shop/add.go","linesAdded":3,"linesRemoved":1,"afterFullFileContent":"` + file + `"}}`,
			"shell": `{"success":{"exitCode":0,"stdout":"` + file[:16<<10] + `","stderr":"","executionTime":320}}`,
		} {
			call := fmt.Sprintf(`"call_id":"call_%s_%d","model_call_id":"r-%d-abcd"`, kind, turn, turn)
			args := `{"path":"/home/dev/shop/add.go"}`
			w.line(`{"type":"tool_call","subtype":"started",` + call + `,"tool_call":{"` + kind + `ToolCall":{"args":` + args + `}}`)
			w.line(`{"type":"tool_call","subtype":"completed",` + call + `,"tool_call":{"` + kind + `ToolCall":{"args":` + args + `,"result":` + result + `}}`)
		}
	}
	return w.end()
}
