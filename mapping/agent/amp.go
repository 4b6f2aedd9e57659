package agent

// amp is Amp, run with --execute --stream-json. It prints Claude Code's lines
// without timestamps, message ids and models: one line per model call.
var amp = Agent{
	Flag:     "amp",
	Name:     "amp",
	Commands: []string{"amp"},
	Packages: []string{"@sourcegraph/amp"},
	Provider: "amp", // Amp chooses the models itself, and does not name them
	objects:  func() objectDecoder { return newClaudeDecoder(claudeDialect{}) },
	Proof: shapes(
		"session_id=T-* type=system tools mcp_servers",
		"session_id=T-* type=assistant|user message parent_tool_use_id",
		"session_id=T-* type=result num_turns is_error",
	),
	TurnEnds: true,
	ends:     claudeEnds,
}
