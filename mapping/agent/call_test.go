package agent

import (
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./...":                           "go",
		"A=1 /usr/bin/make all":                   "make",
		"cd /x && go build":                       "go",
		"cd":                                      "cd",
		`cd "a && secret b" && ls`:                "cd",
		"/bin/zsh -lc ls":                         "ls",
		"/bin/zsh -lc 'wc -c made.txt && od'":     "wc",
		`/bin/zsh -lc "sh -c 'sleep 25; echo x'"`: "sleep",
		"bash -lc 'cd /x && npm ci'":              "npm",
		"bash -c 'a' 'b'":                         "bash",
		"bash script.sh":                          "bash",
		`bash -lc "$SECRET x"`:                    "",
		"":                                        "",
	} {
		if got := program([]byte(command)); got != want {
			t.Errorf("program of %q = %q, want %q", command, got, want)
		}
	}
}

// TestExitedAsText has what a failed call printed.
func TestExitedAsText(t *testing.T) {
	for text, want := range map[string]string{
		"Exit code 1\nthe server exited with code 137": "exit code 1",
		"process exited with code 2":                   "exit code 2",
		"Exit Code: 3":                                 "exit code 3",
		"exited with code unknown":                     "",
		"no such file":                                 "",
	} {
		var c Tool
		if c.exitedAsText([]byte(text)); c.Reason != want {
			t.Errorf("%q: %q, want %q", text, c.Reason, want)
		}
	}
}

// TestExitedAsReported has what Gemini CLI and Qwen Code write of a command that ended.
func TestExitedAsReported(t *testing.T) {
	for text, want := range map[string]string{
		`Command: make\nDirectory: (root)\nOutput: \nExit Code: 7\nno\nError: (none)\nExit Code: 2\nSignal: (none)\nProcess Group PGID: 41`: "exit code 2",
		`Output: no\nExit Code: 2\nBackground PIDs: 42`:               "exit code 2",
		`Output: no\nExit Code: 2`:                                    "exit code 2",
		`Directory: /x\nOutput: no\nError: (none)\nExit Code: (none)`: "",
		`Directory: /x\nOutput: no\nExit Code: 0\nSignal: (none)`:     "",
		`Output: no\nExit Code: 2\nis what it said`:                   "", // a command's output
		`Output: `:                                     "",
		`The report:\nExit Code: 2`:                    "",
		`Command exited with code: 2`:                  "exit code 2",
		`Command exited with code: 2\nis what it said`: "",
	} {
		var c Tool
		if c.exitedAsReported([]byte(text)); c.Reason != want {
			t.Errorf("%q: %q, want %q", text, c.Reason, want)
		}
	}
}

// TestStructuredOutcomes has calls whose result alone says that they failed.
func TestStructuredOutcomes(t *testing.T) {
	for flag, of := range map[string][2]string{
		"pi": {
			`{"type":"tool_execution_end","toolCallId":"t","toolName":"bash","result":{"content":[{"type":"text","text":"no"}],"structuredContent":{"exit_code":3}},"isError":false}` + "\n" +
				`{"type":"message_start","message":{"role":"toolResult","toolCallId":"t","content":[],"timestamp":1790000000000}}`, "failure",
		},
		"codex": {
			`{"type":"item.completed","item":{"id":"item_1","type":"mcp_tool_call","server":"s","tool":"find","result":{"content":[],"isError":true},"status":"completed"}}`, "error",
		},
	} {
		d, got := Find(flag).New(), ""
		for line := range strings.Lines(of[0]) {
			for _, ev := range d.Decode(Line{Text: []byte(line)}, nil) {
				if ev.Kind == ToolEnd {
					got = ev.Tool.ErrorType
				}
			}
		}
		if got != of[1] {
			t.Errorf("%s: %q, want %q", flag, got, of[1])
		}
	}
}
