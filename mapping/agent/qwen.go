package agent

// qwen is Qwen Code, run with --output-format stream-json. It prints Claude Code's
// lines, but puts each kind of block into a message of its own, with its own id:
// only the last message of a model call has usage.
var qwen = Agent{
	Flag:     "qwen",
	Name:     "qwen-code",
	Commands: []string{"qwen"},
	Packages: []string{"@qwen-code/qwen-code"},
	Provider: "qwen",
	objects: func() objectDecoder {
		return newClaudeDecoder(claudeDialect{inputHasCached: true, sessionUsage: true, apiError: "[API Error: "})
	},
	resume:   []string{"--resume", "-r", "--continue", "-c"},
	Proof:    shapes("type=system qwen_code_version"),
	TurnEnds: true,
	ends:     claudeEnds,
}
