package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// An agentEntry says how an agent is installed, started and read.
type agentEntry struct {
	Name    string   // the folder of its kept runs and the flag --agent
	Flag    string   // of the product's table of agents
	Title   string   // in tables for people
	Package string   // of npm, from builds.txt
	Version string   // that is pinned there; of the package, which may have a suffix
	Bin     string   // within the unpacked package
	Node    bool     // it is a script
	Args    []string // before the prompt
	Prompt  []string // between Args and the prompt
	Resume  []string // more arguments of a process that resumes a session
	Env     []string
	Files   map[string]string // in HOME
	Logs    []string          // session logs, folders in HOME
	Model   string            // that it is told to use

	LogIsStream bool // its log has the lines of its stream

	StreamTools map[string]string // names in the stream of tools that the model calls by another one, by name and step
	Price       *price            // that the agent, or its settings, have for it
	Stops       map[string]string // stopLength and stopRefusal in its protocol's words
	Auxiliary   func(body, path string) bool
	Wait        func(body string) (step, bool) // for sub-agents, if the call that starts them does not
	Finish      string                         // the tool that its sub-agents end with, "" if there is none
	Extra       map[string]object              // more arguments of a tool, by what it does
	MCP         func(name string) string
	Settings    map[string]setting // what scenarios need
	NoWay       map[string]string  // of scenarios or needs: the reason
}

// A setting is what a scenario needs of an agent.
type setting struct {
	Args  []string
	Drop  []string // of Args
	Files map[string]string
}

// In arguments, variables and files, {home}, {port}, {bin}, {cache} and {work} stand for
// what differs from run to run.

var entries = []*agentEntry{&piEntry, &codexEntry, &claudeEntry, &copilotEntry, &geminiEntry, &opencodeEntry, &qwenEntry, &gooseEntry}

// unavailable are the agents that the kit never starts.
var unavailable = map[string]string{
	"Cursor CLI":  "needs an account",
	"Amp":         "needs an account",
	"Droid":       "needs an account",
	"Antigravity": "needs an account",
	"Goose":       "not on npm: name it by --bin goose=PATH",
}

//go:embed builds.txt
var builds string

// readBuilds sets the entries' packages and versions.
func readBuilds() error {
	for line := range strings.Lines(builds) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		e := findEntry(words[0])
		if e == nil || len(words) != 3 {
			return fmt.Errorf("builds.txt: invalid line %q", line)
		}
		e.Package, e.Version = words[1], words[2]
	}
	return nil
}

// packaged reports whether npm has the agent.
func (e *agentEntry) packaged() bool { return e.Package != "" }

func findEntry(name string) *agentEntry {
	for _, e := range entries {
		if e.Name == name {
			return e
		}
	}
	return nil
}

func indent(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

var openAIStops = map[string]string{stopLength: "length", stopRefusal: "content_filter"}

var piEntry = agentEntry{
	Name: "pi", Flag: "pi", Title: "pi",
	Bin: "dist/bundle/cli.js", Node: true,
	Args: []string{"--mode", "json", "--provider", "local", "--model", "scripted"}, Prompt: []string{"-p"}, Resume: []string{"--continue"},
	Env:   []string{"PI_SKIP_VERSION_CHECK=1", "PI_OFFLINE=1", "PI_TELEMETRY=0"},
	Model: "scripted", Logs: []string{".pi/agent/sessions"}, Stops: openAIStops,
	Price: &price{Input: 1, Cached: 0.5, Output: 2},
	Files: map[string]string{".pi/agent/models.json": indent(object{"providers": object{"local": object{
		"baseUrl": "http://127.0.0.1:{port}/v1", "api": "openai-completions", "apiKey": "dummy",
		"models": []any{object{
			"id": "scripted", "name": "Scripted", "reasoning": true, "input": []any{"text"},
			"cost": object{"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 0}, "contextWindow": 128000, "maxTokens": 8000,
		}},
	}}})},
	NoWay: map[string]string{
		"sub-agents":  "has none",
		"mcp":         "has none",
		"deny":        "asks for no permission",
		"hook-denies": "hooks are extensions in JavaScript",
		"hook-slow":   "hooks are extensions in JavaScript",
		"background":  "has none",
		"max-turns":   "has no such limit",
		"fork":        "forks only in its terminal",
		"two-prompts": "takes several prompts only over its RPC mode, which is another stream",
	},
}

var codexEntry = agentEntry{
	Name: "codex", Flag: "codex", Title: "Codex",
	Bin:  "vendor/x86_64-unknown-linux-musl/bin/codex",
	Args: []string{"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}, Resume: []string{"resume", "--last"},
	Env:   []string{"CODEX_HOME={home}/.codex", "DUMMY_KEY=sk-dummy"},
	Model: "gpt-5.4", Logs: []string{".codex/sessions"}, Stops: map[string]string{stopLength: "max_output_tokens", stopRefusal: "content_filter"},
	MCP:  func(name string) string { return name },
	Wait: codexWait,
	StreamTools: map[string]string{
		"exec_command run": "shell", "exec_command read": "shell", "exec_command edit": "file_change", "exec_command write": "file_change", "wait_agent await": "wait",
	},
	Files: map[string]string{".codex/config.toml": `model = "gpt-5.4"
model_provider = "local"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "DUMMY_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
stream_idle_timeout_ms = 60000
supports_websockets = false
`},
	Settings: map[string]setting{
		"mcp":        {Files: map[string]string{"+.codex/config.toml": "[mcp_servers.kit]\ncommand = \"{bin}/mcp\"\n"}},
		"sub-agents": {},
	},
	NoWay: map[string]string{
		"deny":        "exec asks for no permission: its sandbox only keeps commands from writing",
		"hook-denies": "asks a person to trust hooks",
		"hook-slow":   "asks a person to trust hooks",
		"background":  "has none: a long command is polled",
		"max-turns":   "has no such limit",
		"fork":        "forks only in its terminal",
		"two-prompts": "exec takes one prompt",
	},
}

var codexAgentID = regexp.MustCompile(`agent_id\W{1,8}([0-9a-f-]{36})`)

// codexWait waits for all sub-agents that the request names.
func codexWait(body string) (step, bool) {
	s := step{Do: "await", Name: "wait_agent"}
	for _, found := range codexAgentID.FindAllStringSubmatch(body, -1) {
		if !slices.Contains(s.Flags, found[1]) {
			s.Flags = append(s.Flags, found[1])
		}
	}
	return s, len(s.Flags) > 0
}

const claudeTools = "Bash,Read,Edit,Write,Task,Agent,mcp__kit__slow,mcp__kit__bad,TaskOutput,BashOutput,KillShell"

var claudeEntry = agentEntry{
	Name: "claude", Flag: "claude", Title: "Claude Code",
	Bin:    "claude",
	Args:   []string{"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--model", "claude-sonnet-4-5", "--allowedTools", claudeTools},
	Prompt: []string{"--"}, Resume: []string{"--continue"},
	Env: []string{
		"ANTHROPIC_BASE_URL=http://127.0.0.1:{port}", "ANTHROPIC_API_KEY=sk-ant-dummy", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1", "CLAUDE_CODE_ENABLE_TELEMETRY=0", "CLAUDE_CODE_MAX_RETRIES=2", "ENABLE_TOOL_SEARCH=false",
	},
	Model: "claude-sonnet-4-5", Price: &price{Input: 3, Cached: 0.3, Output: 15}, Logs: []string{".claude/projects"}, Stops: map[string]string{stopLength: "max_tokens", stopRefusal: "refusal"},
	MCP:   func(name string) string { return "mcp__kit__" + name },
	Extra: map[string]object{"delegate": {"subagent_type": "general-purpose"}},
	Settings: map[string]setting{
		"sub-agents":  {},
		"background":  {},
		"deny":        {Drop: []string{"--allowedTools", claudeTools}, Args: []string{"--permission-mode", "default"}},
		"max-turns":   {Args: []string{"--max-turns", "2"}},
		"fork":        {},
		"mcp":         {Args: []string{"--mcp-config", "{home}/mcp.json", "--strict-mcp-config"}, Files: map[string]string{"mcp.json": `{"mcpServers":{"kit":{"command":"{bin}/mcp"}}}`}},
		"hook-denies": {Files: map[string]string{".claude/settings.json": claudeHook("PreToolUse", "deny 0.3 2 not allowed here")}},
		"hook-slow": {Files: map[string]string{".claude/settings.json": indent(object{"hooks": object{
			"SessionStart": []any{object{"hooks": []any{object{"type": "command", "command": "{bin}/hook start 2 0 context"}}}},
			"PostToolUse":  []any{object{"matcher": "Bash", "hooks": []any{object{"type": "command", "command": "{bin}/hook after 2 0"}}}},
		}})}},
	},
	NoWay: map[string]string{"two-prompts": "takes several prompts only as a stream of JSON, which is another mode"},
}

func claudeHook(event, command string) string {
	return indent(object{"hooks": object{event: []any{object{"matcher": "Bash", "hooks": []any{object{"type": "command", "command": "{bin}/hook " + command}}}}}})
}

var copilotEntry = agentEntry{
	Name: "copilot", Flag: "copilot", Title: "Copilot CLI",
	Bin:    "copilot",
	Args:   []string{"--output-format", "json", "--allow-all-tools", "--allow-all-paths", "--no-auto-update", "--disable-builtin-mcps", "--no-color"},
	Prompt: []string{"-p"}, Resume: []string{"--continue"},
	Env: []string{
		"COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:{port}/v1", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_API_KEY=dummy", "COPILOT_MODEL=scripted",
		"COPILOT_AUTO_UPDATE=false", "COPILOT_OFFLINE=true", "COPILOT_CACHE_HOME={cache}/copilot-cache",
	},
	LogIsStream: true, Model: "scripted", Logs: []string{".copilot/session-state"}, Stops: openAIStops,
	Settings: map[string]setting{"sub-agents": {}, "background": {}},
	NoWay: map[string]string{
		"mcp": "not tried yet", "deny": "not tried yet", "hook-denies": "not tried yet", "hook-slow": "not tried yet",
		"max-turns": "has no such limit", "fork": "has none", "two-prompts": "-p takes one prompt",
	},
}

var geminiEntry = agentEntry{
	Name: "gemini", Flag: "gemini", Title: "Gemini CLI",
	Bin: "bundle/gemini.js", Node: true,
	Args:   []string{"--output-format", "stream-json", "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"},
	Prompt: []string{"-p"}, Resume: []string{"--resume", "latest"},
	Env: []string{
		"GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:{port}", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true",
	},
	Files: map[string]string{".gemini/settings.json": indent(object{
		"privacy": object{"usageStatisticsEnabled": false}, "telemetry": object{"enabled": false},
		"general":  object{"disableAutoUpdate": true, "enableAutoUpdate": false, "disableUpdateNag": true, "maxAttempts": 3},
		"security": object{"auth": object{"selectedType": "gemini-api-key"}},
	})},
	Model: "gemini-2.5-pro", Logs: []string{".gemini/tmp"}, Stops: map[string]string{stopLength: "MAX_TOKENS", stopRefusal: "SAFETY"},
	Settings: map[string]setting{"sub-agents": {}},
	Finish:   "complete_task", Extra: map[string]object{"delegate": {"agent_name": "generalist"}},
	NoWay: map[string]string{
		"mcp": "not tried yet", "deny": "not tried yet", "hook-denies": "not tried yet", "hook-slow": "not tried yet", "background": "has none",
		"max-turns": "not tried yet", "fork": "has none", "two-prompts": "-p takes one prompt",
	},
}

var opencodeEntry = agentEntry{
	Name: "opencode", Flag: "opencode", Title: "opencode",
	Bin:  "bin/opencode",
	Args: []string{"run", "--format", "json", "-m", "local/scripted"}, Resume: []string{"-c"},
	Env: []string{
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_EXTERNAL_SKILLS=1", "OPENCODE_DISABLE_CLAUDE_CODE=1", "OPENCODE_DISABLE_FFF=1", "OPENCODE_PURE=1", "OPENCODE_FAST_BOOT=1",
		"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER=1",
	},
	Files: map[string]string{
		"work/.git/HEAD":       "ref: refs/heads/main\n",
		"work/.git/config":     "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		"work/.git/objects/.k": "", "work/.git/refs/.k": "",
		".config/opencode/package.json":       `{"dependencies":{"@opencode-ai/plugin":"{version}"}}`,
		".config/opencode/node_modules/.keep": "",
		".config/opencode/package-lock.json":  `{"name":"opencode","lockfileVersion":3,"packages":{"":{"dependencies":{"@opencode-ai/plugin":"{version}"}}}}`,
		".config/opencode/opencode.json": indent(object{
			"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled",
			"permission": object{"edit": "allow", "bash": "allow", "webfetch": "allow"},
			"provider": object{"local": object{
				"npm": "@ai-sdk/openai-compatible", "name": "Local", "options": object{"baseURL": "http://127.0.0.1:{port}/v1", "apiKey": "dummy"},
				"models": object{"scripted": object{"name": "Scripted", "tool_call": true, "reasoning": true, "cost": object{"input": 1, "output": 2}, "limit": object{"context": 128000, "output": 8000}}},
			}},
			"model": "local/scripted", "small_model": "local/scripted",
		}),
	},
	Model: "scripted", Logs: []string{".local/share/opencode/storage"}, Stops: openAIStops,
	Extra:    map[string]object{"delegate": {"subagent_type": "general"}},
	Settings: map[string]setting{"sub-agents": {}},
	NoWay: map[string]string{
		"context": "makes its context smaller and asks again, without end",
		"mcp":     "not tried yet", "deny": "not tried yet", "hook-denies": "hooks are plugins in JavaScript", "hook-slow": "hooks are plugins in JavaScript",
		"background": "has none", "max-turns": "not tried yet", "fork": "not tried yet", "two-prompts": "run takes one prompt",
	},
}

var qwenEntry = agentEntry{
	Name: "qwen", Flag: "qwen", Title: "Qwen Code",
	Bin: "cli-entry.js", Node: true,
	Args:   []string{"--output-format", "stream-json", "--yolo", "-m", "qwen3-coder-plus", "--auth-type", "openai"},
	Prompt: []string{"-p"}, Resume: []string{"--continue"},
	Env: []string{"OPENAI_API_KEY=dummy", "OPENAI_BASE_URL=http://127.0.0.1:{port}/v1", "OPENAI_MODEL=qwen3-coder-plus"},
	Files: map[string]string{".qwen/settings.json": indent(object{
		"privacy": object{"usageStatisticsEnabled": false}, "telemetry": object{"enabled": false},
		"general":  object{"disableAutoUpdate": true, "enableAutoUpdate": false, "disableUpdateNag": true, "maxAttempts": 3},
		"security": object{"auth": object{"selectedType": "openai"}},
	})},
	Auxiliary: func(body, _ string) bool { return strings.Contains(body, "Existing memory files") }, // it may remember what was said
	Model:     "qwen3-coder-plus", Logs: []string{".qwen/projects", ".qwen/tmp"}, Stops: openAIStops,
	Settings: map[string]setting{"sub-agents": {}},
	NoWay: map[string]string{
		"limited": "asks again for longer than a scenario may take",
		"mcp":     "not tried yet", "deny": "not tried yet", "hook-denies": "not tried yet", "hook-slow": "not tried yet", "background": "not tried yet",
		"max-turns": "not tried yet", "fork": "has none", "two-prompts": "-p takes one prompt",
	},
}

// gooseEntry has no package of npm: its binary is named by --bin.
var gooseEntry = agentEntry{
	Name: "goose", Flag: "goose", Title: "Goose",
	Args: []string{"run", "--output-format", "stream-json", "--no-session", "--with-builtin", "developer"}, Prompt: []string{"-t"},
	Env: []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=scripted", "OPENAI_HOST=http://127.0.0.1:{port}", "OPENAI_API_KEY=dummy", "GOOSE_MODE=auto", "GOOSE_DISABLE_KEYRING=1",
	},
	Model: "scripted", Stops: openAIStops,
	NoWay: map[string]string{
		"sub-agents": "not tried yet", "mcp": "not tried yet", "deny": "not tried yet", "hook-denies": "has none", "hook-slow": "has none", "background": "has none",
		"max-turns": "not tried yet", "fork": "has none", "two-prompts": "-t takes one prompt", "resume": "not tried yet",
	},
}

// noWay returns why an agent cannot play a scenario, "" if it can.
func (e *agentEntry) noWay(sc *scenario) string {
	if why := e.NoWay[sc.Name]; why != "" {
		return why
	}
	if sc.Needs == "" {
		return ""
	}
	if why := e.NoWay[sc.Needs]; why != "" {
		return why
	}
	if _, ok := e.Settings[sc.Needs]; !ok {
		return "no setting for " + sc.Needs
	}
	return ""
}

// build is the version without what npm adds.
func (e *agentEntry) build() string { return strings.TrimSuffix(e.Version, "-linux-x64") }

// command returns the command line without the prompt's part.
func (e *agentEntry) command(installed, node string) []string {
	bin := filepath.Join(installed, e.Bin)
	if e.Node {
		return []string{filepath.Join(node, "bin/node"), bin}
	}
	return []string{bin}
}
