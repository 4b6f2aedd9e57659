package agent

import "testing"

func TestModelNames(t *testing.T) {
	for _, name := range []string{
		"", "gpt-5.4", "claude-opus-5[1m]", "Auto", "Composer 2.5", "Claude 4.5 Sonnet (Thinking)", "GPT-5.1 Codex Max High", "openai/gpt-5", "qwen3-coder:30b",
		"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcdefghijkl", "claude-sonnet-4@20250514", "my_proxy",
	} {
		if string(modelName([]byte(name))) != name {
			t.Errorf("%q is no name of a model", name)
		}
	}
	for _, text := range []string{"the plan is secret", "Tell nobody", "a\nb", "{}", "What now?", `\u0041`, "Über"} {
		if name := modelName([]byte(text)); name != nil {
			t.Errorf("%q is a name of a model", name)
		}
	}
}

// The server in the name of an MCP tool is a detail, whichever agent calls it.
func TestMCPNames(t *testing.T) {
	for flag, lines := range map[string][]string{
		"claude":   {`{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"mcp__acme__find","input":{}}]},"parent_tool_use_id":null,"session_id":"s","uuid":"u"}`},
		"opencode": {`{"type":"tool_use","timestamp":1790931600000,"sessionID":"ses_1","part":{"id":"prt_1","sessionID":"ses_1","messageID":"msg_1","type":"tool","callID":"t","tool":"mcp__acme__find","state":{"status":"completed","input":{},"output":"x","time":{"start":1790931600000,"end":1790931601000}}}}`},
		"gemini":   {`{"type":"tool_use","timestamp":"2026-10-02T09:00:00.000Z","tool_name":"mcp__acme__find","tool_id":"t","parameters":{}}`},
		"pi":       {`{"type":"tool_execution_start","toolCallId":"t","toolName":"mcp__acme__find","args":{}}`},
		"copilot":  {`{"type":"tool.execution_start","data":{"toolCallId":"t","toolName":"mcp__acme__find","arguments":{}},"id":"i","timestamp":"2026-10-02T09:00:00.000Z"}`},
		"droid":    {`{"type":"tool_call","id":"t","messageId":"m","toolId":"t","toolName":"mcp__acme__find","parameters":{},"session_id":"s"}`},
	} {
		d, found := Find(flag).New(), false
		for _, line := range lines {
			for _, ev := range d.Decode(Line{Text: []byte(line)}, nil) {
				if tool := ev.Tool; tool != nil && tool.Name != "" {
					found = true
					if tool.Name != "find" || !tool.MCP {
						t.Errorf("%s: %+v", flag, tool)
					}
				}
			}
		}
		if !found {
			t.Errorf("%s: no call", flag)
		}
	}
}
