package agent

// qwen is Qwen Code, run with --output-format stream-json. It prints Claude
// Code's lines, but makes a message of each kind of block, with an id of its
// own: only the last message of a model call has its usage.
var qwen = Agent{
	Flag:     "qwen",
	Name:     "qwen-code",
	Provider: "qwen",
	New: func() Decoder {
		return newClaudeDecoder(claudeDialect{inputHasCached: true, apiError: "[API Error: "})
	},
	Proof:    func(m *Marks) bool { return m.has("qwen_code_version") },
	TurnEnds: true,
}
