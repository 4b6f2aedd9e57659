package mapping_test

import "encoding/json"

// claudeScript is a session with every line that Claude Code, Qwen Code and Amp
// print, every member of it filled.
func claudeScript(fill func(string) string) []byte {
	var lines []string
	line := func(typ, subtype string, of fields) {
		of["type"] = typ
		if subtype != "" {
			of["subtype"] = subtype
		}
		of["unknown"] = fill(typ + "." + subtype + ".unknown")
		of["unknowns"] = []any{fill(typ + ".list"), fields{fill(typ + ".key"): fill(typ + ".value")}}
		b, err := json.Marshal(of)
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(b))
	}
	system := func(subtype string, of fields) { line("system", subtype, of) }
	stamp := "2026-11-03T10:00:00.000Z"

	hook := fields{
		"hook_name": fill("hook.name"), "hook_event": fill("hook_event"), "output": fill("hook.output"), "stdout": fill("hook.stdout"),
		"stderr": fill("hook.stderr"), "outcome": fill("hook_outcome"), "exit_code": 1,
	}
	system("hook_started", hook)
	system("hook_response", hook)
	system("init", fields{
		"cwd": fill("init.cwd"), "model": fill("model"), "permissionMode": fill("permission_mode"), "apiKeySource": fill("api_key_source"),
		"claude_code_version": fill("version"), "tools": []string{fill("init.tools")}, "mcp_servers": []any{fields{"name": fill("init.server")}},
		"agents": []string{fill("init.agents")}, "output_style": fill("init.output_style"), "memory_paths": fields{"auto": fill("init.memory")},
	})
	system("status", fields{"status": fill("status"), "compact_result": fill("status.result")})
	said := func(blocks ...any) fields {
		return fields{
			"id": fill("message_id"), "role": fill("role"), "model": fill("response_model"), "content": blocks, "stop_reason": fill("stop.reason"),
			"usage": fields{"input_tokens": 1, "output_tokens": 2, "service_tier": fill("tier")},
		}
	}
	line("user", "", fields{"message": fields{"role": "user", "content": []any{fields{"type": "text", "text": fill("user")}, fields{"type": "image", "source": fields{"data": fill("user.image")}}}}, "timestamp": stamp})
	line("user", "", fields{"message": fields{"content": fill("user.string")}, "isSynthetic": true})

	event := func(of fields) {
		line("stream_event", "", fields{"event": of, "uuid": "u", "ttft_ms": 5})
	}
	event(fields{"type": "message_start", "message": said()})
	event(fields{"type": "content_block_start", "content_block": fields{"type": "text", "text": fill("block.text"), "signature": fill("block.signature")}})
	for range 3 {
		event(fields{"type": "content_block_delta", "delta": fields{"type": "thinking_delta", "thinking": fill("thinking.delta")}})
	}
	event(fields{"type": "content_block_delta", "delta": fields{"type": "signature_delta", "signature": fill("signature")}})
	for range 3 {
		event(fields{"type": "content_block_delta", "delta": fields{"type": "text_delta", "text": fill("text.delta")}})
	}
	event(fields{"type": "content_block_delta", "delta": fields{"type": "input_json_delta", "partial_json": fill("input.delta")}})
	event(fields{"type": "content_block_delta", "delta": fields{"type": fill("delta.type"), "text": fill("delta.unknown")}})
	event(fields{"type": "message_delta", "delta": fields{"stop_reason": fill("stop.delta")}, "usage": fields{"output_tokens": 3}})
	event(fields{"type": "goal_state", "goal_state": fields{"goal": fill("goal")}})

	input := fields{"run_in_background": true, "subagent_type": fill("subagent_type"), fill("input.key"): 1, "nested": fields{"path": fill("input.nested")}}
	for _, k := range []string{"file_path", "notebook_path", "pattern", "glob", "query", "url", "description", "prompt", "content", "old_string", "new_string", "model", "skill"} {
		input[k] = fill("input." + k)
	}
	result := fields{
		"stdout": fill("result.stdout"), "stderr": fill("result.stderr"), "interrupted": true, "backgroundTaskId": fill("task_id"),
		"agentId": fill("agent_id"), "resolvedModel": fill("resolved_model"), "status": fill("result.status"), "durationMs": 3,
		"content": []any{fields{"type": "text", "text": fill("result.content")}}, "filePath": fill("result.path"), "oldString": fill("result.old"),
		"structuredPatch": []any{fields{"lines": []string{"+" + fill("patch"), "-" + fill("patch")}}}, "file": fields{"content": fill("result.file"), "totalLines": 3},
		"usage": fields{"speed": fill("result.usage")}, fill("result.key"): fill("result.value"),
	}
	call := 0
	tool := func(name string, failed bool, content, beside any) {
		call++
		id := fill("tool_call_id") + string(rune('a'+call))
		line("assistant", "", fields{"message": said(
			fields{"type": "thinking", "thinking": fill("thinking"), "signature": fill("signature")}, fields{"type": "text", "text": fill("text")},
			fields{"type": "tool_use", "id": id, "name": name, "input": input, "caller": fields{"type": fill("caller")}},
			fields{"type": fill("block.type"), "text": fill("block.unknown")},
		), "timestamp": stamp, "subagent_type": fill("line.subagent"), "task_description": fill("line.task"), "uuid": "u"})
		line("tool_progress", "", fields{"tool_use_id": id, "tool_name": name, "subagent_retry": fields{"attempt": call, "agent_id": fill("retry.agent"), "error_category": fill("retry_category"), "error": fill("retry.error")}})
		line("assistant", "", fields{"message": said(fields{"type": "text", "text": fill("nested.text")}), "parent_tool_use_id": id})
		line("user", "", fields{"message": fields{"content": []any{fields{"type": "text", "text": fill("nested.prompt")}}}, "parent_tool_use_id": id})
		line("user", "", fields{"message": fields{"role": "user", "content": []any{
			fields{"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": content}, fields{"type": "text", "text": fill("beside")},
		}}, "tool_use_result": beside, "timestamp": stamp})
	}
	files := input
	input = fields{"command": fill("input.command")} // beside a path it would be an editor's
	tool("Bash", false, fill("result.text"), result)
	input = files
	tool(fill("tool_name"), false, fill("result.text"), result)
	tool("mcp__"+fill("mcp_server")+"__"+fill("mcp_tool"), true, []any{fields{"type": "text", "text": fill("result.error")}}, fill("result.string"))
	tool("Bash", true, "Exit code 1\n"+fill("result.exit"), result)
	system("permission_denied", fields{"tool_name": fill("denied.tool"), "tool_use_id": fill("tool_call_id") + "e", "message": fill("denied.message")})
	tool("Bash", true, "Permission to use "+fill("result.denied"), nil)
	tool("Bash", true, fill("result.hook")+" hook error: ", nil)

	system("api_retry", fields{"attempt": 1, "error_status": 529, "error": fill("retry_error")})
	system("compact_boundary", fields{"compact_metadata": fields{"trigger": fill("compact_trigger"), "pre_tokens": 3, "summary": fill("compact.summary")}})
	line("rate_limit_event", "", fields{"rate_limit_info": fields{"status": fill("rate_status"), "rateLimitType": fill("rate_type"), "overageStatus": fill("rate.overage"), "cwd": fill("rate.cwd")}})
	task := fields{"task_id": fill("task_id"), "tool_use_id": fill("tool_call_id") + "b", "description": fill("task.description"), "prompt": fill("task.prompt"), "task_type": fill("task.type"), "is_backgrounded": true}
	system("task_started", task)
	system("task_progress", fields{"task_id": fill("task_id"), "last_tool_name": fill("task.tool"), "summary": fill("task.progress")})
	system("task_updated", fields{"task_id": fill("task_id"), "patch": fields{"status": fill("task_status"), "error": fill("task.error")}})
	system("task_notification", fields{"task_id": fill("task_other"), "status": fill("task_status"), "summary": fill("task.summary"), "output_file": fill("task.file")})
	system("background_tasks_changed", fields{"tasks": []any{task}})
	system(fill("subtype"), fields{"text": fill("system.text"), "data": fields{"cwd": fill("data.cwd"), "model": fill("data.model")}})
	line("control_request", "", fields{"request": fields{"tool_name": fill("control.tool"), "input": input}})
	line("control_response", "", fields{"response": fields{"response": fill("control.response")}})
	line(fill("type"), "", fields{"text": fill("type.text"), "error": fill("type.error")})
	line("assistant", "", fields{"message": said(fields{"type": "text", "text": fill("api.text")}), "error": fill("api_error"), "is_api_error_message": true})
	line("error", "", fields{"error": fields{"message": fill("error.message"), "type": fill("error.type")}})
	lines = append(lines, fill("no.json"), `{"type":"broken","text":"`+fill("broken")[:4])
	line("result", fill("result_subtype"), fields{
		"is_error": true, "result": fill("result"), "errors": []string{fill("result.errors")}, "error": fields{"message": fill("result.failed")},
		"terminal_reason": fill("terminal_reason"), "stop_reason": fill("result.stop"), "total_cost_usd": 0.5, "duration_ms": 1000,
		"modelUsage":         fields{fill("result.model"): fields{"inputTokens": 5, "outputTokens": 6, "provider": fill("result.provider")}},
		"permission_denials": []any{fields{"tool_name": fill("denial.tool"), "tool_input": input}}, "usage": fields{"input_tokens": 1, "speed": fill("result.speed")},
		"structured_output": fields{"x": fill("structured")}, "origin": fields{"kind": fill("origin")},
	})
	system("hook_response", hook)
	return stream(lines...)
}
