package agent

import (
	"strings"
	"testing"
)

func TestOfCommand(t *testing.T) {
	for command, want := range map[string]string{
		"cursor-agent -p":               "cursor-agent",
		"agent -p":                      "cursor-agent",
		"/usr/local/bin/claude -p":      "claude-code",
		`C:\npm\claude.cmd -p`:          "claude-code",
		"codex exec --json":             "codex",
		"opencode run":                  "opencode",
		"copilot -p":                    "copilot-cli",
		"gemini -p":                     "gemini-cli",
		"agy -p":                        "agy",
		"pi --mode json":                "pi",
		"qwen -p":                       "qwen-code",
		"amp -x":                        "amp",
		"droid exec":                    "droid",
		"goose run":                     "goose",
		"env claude -p":                 "claude-code",
		"env A=1 B=x=y codex exec":      "codex",
		"env -i -u HOME A=1 codex exec": "codex",
		"env -C /src -- codex exec":     "codex",
		"env A=1 env B=2 droid":         "droid",
		"env A=claude mytool":           "mytool",
		"env A=claude":                  "env",

		"npx @anthropic-ai/claude-code -p":            "claude-code",
		"npx -y @openai/codex@0.161.0 exec --json":    "codex",
		"npx --yes opencode-ai@latest run":            "opencode",
		"npx -p @openai/codex -- codex exec":          "codex",
		"npx --package=@google/gemini-cli gemini -p":  "gemini-cli",
		"bunx --bun @github/copilot -p":               "copilot-cli",
		"bunx @google/gemini-cli -p":                  "gemini-cli",
		"env A=1 npx -y @anthropic-ai/claude-code -p": "claude-code",
		"npx some-tool @openai/codex":                 "npx",
		"npx @openai/codex-tools":                     "npx",
		"npx":                                         "npx",

		"sh /opt/bin/codex exec":       "codex",
		"bash -eu ./claude -p":         "claude-code",
		"bash -o pipefail ./claude -p": "claude-code",
		"zsh -- gemini":                "gemini-cli",
		"bash run-agents.sh claude":    "bash",
		"sh -c claude":                 "sh",
		"bash -lc codex":               "bash",
		"sh":                           "sh",

		"my-agent claude":  "my-agent",
		"./run.sh claude":  "run.sh",
		"claude-wrapper":   "claude-wrapper",
		"/opt/a\xffb/\xff": "�",
	} {
		if got := OfCommand(strings.Fields(command)).Name; got != want {
			t.Errorf("%s is %s, want %s", command, got, want)
		}
	}
}

// Every agent that has a stream has a command, and no two agents have the same.
func TestCommandsNameOneAgent(t *testing.T) {
	owner := map[string]*Agent{}
	for _, a := range Agents {
		if !a.Log && len(a.Commands) == 0 {
			t.Errorf("%s has no command", a.Name)
		}
		for _, name := range append(a.Commands, a.Packages...) {
			if other := owner[name]; other != nil {
				t.Errorf("%s is %s and %s", name, other.Name, a.Name)
			}
			owner[name] = a
		}
	}
}
