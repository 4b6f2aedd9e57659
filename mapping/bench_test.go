package mapping

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// deltaLines is a session of n deltas, of 180 bytes a line as Cursor writes
// them, a delta every 20 ms.
func deltaLines(n int) []byte {
	const session = "5f0c9a52-6c1d-4d6e-9a80-0c2f6d9f7a11"
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":"%s","model":"GPT-5","permissionMode":"default"}`+"\n", session)
	for i := range n {
		fmt.Fprintf(&b, `{"type":"thinking","subtype":"delta","text":" the next few words","session_id":"%s","timestamp_ms":%d}`+"\n", session, 1790000000000+20*i)
	}
	return b.Bytes()
}

// mixedLines is a session of n turns, each of 40 deltas, an edit of a file of
// 24 kB and a shell call that prints 16 kB.
func mixedLines(n int) []byte {
	const session = "5f0c9a52-6c1d-4d6e-9a80-0c2f6d9f7a11"
	at := 1790000000000
	file := strings.Repeat(`func add(a, b int) int {\n\treturn a + b // \"sum\"\n}\n`, 430)
	var b bytes.Buffer
	line := func(format string, args ...any) {
		at += 20
		fmt.Fprintf(&b, format+`,"session_id":"%s","timestamp_ms":%d}`+"\n", append(args, session, at)...)
	}
	fmt.Fprintf(&b, `{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":"%s","model":"GPT-5","permissionMode":"default"}`+"\n", session)
	for i := range n {
		for range 40 {
			line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":" the next few words"}]}`)
		}
		for k, call := range []string{
			`"editToolCall":{"args":{"path":"/home/dev/shop/add.go"}%s}`,
			`"shellToolCall":{"args":{"command":"go test ./...","workingDirectory":"/home/dev/shop","simpleCommands":["go"]}%s}`,
		} {
			result := []string{
				`,"result":{"success":{"path":"/home/dev/shop/add.go","linesAdded":3,"linesRemoved":1,"afterFullFileContent":"` + file + `"}}`,
				`,"result":{"success":{"exitCode":0,"stdout":"` + file[:16<<10-1] + ` ","stderr":"","executionTime":320}}`,
			}[k]
			line(`{"type":"tool_call","subtype":"started","call_id":"call_%d_%d","tool_call":{`+call+`},"model_call_id":"r-%d-abcd"`, i, k, "", i)
			line(`{"type":"tool_call","subtype":"completed","call_id":"call_%d_%d","tool_call":{`+call+`},"model_call_id":"r-%d-abcd"`, i, k, result, i)
		}
	}
	return b.Bytes()
}

// toolLines is a session of n small tool calls, one after the other.
func toolLines(n int) []byte {
	const session = "5f0c9a52-6c1d-4d6e-9a80-0c2f6d9f7a11"
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev/shop","session_id":"%s","model":"GPT-5","permissionMode":"default"}`+"\n", session)
	for i := range n {
		for k, subtype := range []string{"started", "completed"} {
			result := []string{"", `,"result":{"success":{"content":"one\ntwo\n","isEmpty":false,"exceededLimit":false,"totalLines":3,"fileSize":8}}`}[k]
			fmt.Fprintf(&b, `{"type":"tool_call","subtype":"%s","call_id":"call_%d","tool_call":{"readToolCall":{"args":{"path":"/home/dev/shop/add.go"}%s}},"model_call_id":"r-%d-abcd","session_id":"%s","timestamp_ms":%d}`+"\n",
				subtype, i, result, i, session, 1790000000000+40*i+20*k)
		}
	}
	return b.Bytes()
}

// BenchmarkMapper maps deltas alone, tool calls with big results, and small tool
// calls.
func BenchmarkMapper(b *testing.B) {
	for name, in := range map[string][]byte{"deltas": deltaLines(60_000), "mixed": mixedLines(250), "tools": toolLines(20_000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				m, err := New(Options{Now: time.Now})
				if err != nil {
					b.Fatal(err)
				}
				for rest := in; len(rest) > 0; {
					n := min(len(rest), 64<<10)
					for range m.Map(rest[:n]) {
					}
					rest = rest[n:]
				}
				for range m.Close(false) {
				}
			}
		})
	}
}
