package agent

import "strings"

// amp is Amp, run with --execute --stream-json. It prints Claude Code's lines
// without timestamps, message ids and models: one line per model call.
var amp = Agent{
	Flag:     "amp",
	Name:     "amp",
	Provider: "amp", // Amp chooses the models itself, and does not name them
	New:      func() Decoder { return newClaudeDecoder(claudeDialect{}) },
	IsProof: func(m *Marks) bool {
		return strings.HasPrefix(m.Session, "T-") &&
			(m.has("tools") && m.has("mcp_servers") || m.has("parent_tool_use_id") || m.Type == "result")
	},
	TurnEnds: true,
}
