package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/cilog"
)

// What people read of a run contains no command for a CI system, wherever an agent says one.
func TestNoCommandsForCI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, marker := range []string{
		"##vso[task.setvariable variable=X]pwn", "##[add-mask]x", "##teamcity[setParameter name='x']", "::error::x", "section_start:1:x", "travis_fold:start:x",
		"--- x", "+++ x", "^^^ +++", "\x1b[8mha:x", "#\ufe0f#vso[task.x]y",
	} {
		file := filepath.Join(dir, fmt.Sprint(i, " ", strings.ReplaceAll(marker, "/", "")))
		if err := os.WriteFile(file, sayingEverywhere(t, marker), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"replay", "--content=full", "--log", file},
			{"replay", "--content=full", "--tree", file},
			{"replay", "--summary", "--content=details", file},
			{"exec", "--content=full", "--log", "--tree", "--summary", "--", "cat", file},
			{"exec", "--", marker},
			{"--agent=" + marker},
			{marker},
			{"replay", marker},
			{"--" + marker},
			{"--prices=" + marker},
			{"doctor", "--endpoint=http://localhost:1/" + marker},
			{"show", marker},
			{"--fail-if=" + marker},
			{"--to=" + dir + "/" + marker + "/x"},
		} {
			for _, env := range [][]string{nil, {"GITHUB_ACTIONS=true"}, {"GITLAB_CI=true"}, {"LC_ALL=C"}} {
				cmd := spantee(t, env, args...)
				cmd.Stdin = strings.NewReader("")
				_ = cmd.Run()
				said := cmd.stderr.String()
				if args[0] == "doctor" || args[0] == "show" {
					said += cmd.stdout.String()
				}
				if said == "" {
					t.Errorf("%q says nothing", args)
				}
				for line := range strings.Lines(said) {
					ours := strings.HasPrefix(line, "::group::") || strings.HasPrefix(line, "::endgroup::") || strings.HasPrefix(line, "\x1b[0Ksection_")
					if _, title, _ := strings.Cut(line, "::group::"); ours && cilog.Break(title) == title && !strings.Contains(title, "##") {
						continue
					}
					if cilog.Break(line) != line {
						t.Errorf("%q prints %q", args, line)
					}
				}
			}
		}
	}
}

// sayingEverywhere is a run that has a text wherever an agent puts one.
func sayingEverywhere(t *testing.T, text string) []byte {
	t.Helper()
	var b strings.Builder
	line := func(fields map[string]any) {
		fields["session_id"] = text
		out, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(out, '\n'))
	}
	call := func(subtype, id string, tool map[string]any) {
		line(map[string]any{"type": "tool_call", "subtype": subtype, "call_id": id, "tool_call": tool, "timestamp_ms": 1790000000000 + b.Len(), "model_call_id": text})
	}
	line(map[string]any{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": text, "model": text, "permissionMode": "default"})
	shell := map[string]any{"args": map[string]any{"command": text, "workingDirectory": text}}
	call("started", "c1", map[string]any{"shellToolCall": shell})
	shell["result"] = map[string]any{"failure": map[string]any{"command": text, "exitCode": 1, "stdout": text, "stderr": text, "aborted": false}}
	call("completed", "c1", map[string]any{"shellToolCall": shell})
	mcp := map[string]any{"args": map[string]any{"name": text, "providerIdentifier": text, "toolName": text, "args": map[string]any{text: text}}}
	call("started", "c2", map[string]any{"mcpToolCall": mcp})
	mcp["result"] = map[string]any{"error": map[string]any{"error": text, "errorMessage": text}}
	call("completed", "c2", map[string]any{"mcpToolCall": mcp})
	line(map[string]any{"type": text})
	line(map[string]any{"type": "assistant", "message": map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": text}}}, "timestamp_ms": 1790000009000})
	line(map[string]any{"type": "result", "subtype": text, "is_error": true, "result": text, "duration_ms": 9000})
	return []byte(b.String())
}
