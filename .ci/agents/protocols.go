package main

import (
	"fmt"
	"time"
)

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) usage(u *usage, output int) object {
	return object{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0, "output_tokens": output}
}

func (anthropic) event(r *reply, content bool, kind string, members object) {
	members["type"] = kind
	r.send(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, jsonText(members)), content)
}

func (p anthropic) message(r *reply, output int) object {
	return object{
		"id": fmt.Sprintf("msg_01kit%03d%06d", r.Number, int(r.Received*1e3)%1e6), "type": "message", "role": "assistant", "model": r.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": p.usage(&r.answer.Usage, output),
	}
}

func (p anthropic) begin(r *reply) {
	p.event(r, false, "message_start", object{"message": p.message(r, 1)})
}

// block writes one content block.
func (p anthropic) block(r *reply, start object, deltas func(delta func(object)), cut bool) {
	p.event(r, false, "content_block_start", object{"index": r.items, "content_block": start})
	deltas(func(d object) { p.event(r, true, "content_block_delta", object{"index": r.items, "delta": d}) })
	if !cut {
		p.event(r, false, "content_block_stop", object{"index": r.items})
	}
	r.items++
}

func (p anthropic) text(r *reply, pieces []string, gap time.Duration, cut bool) {
	p.block(r, object{"type": "text", "text": ""}, func(delta func(object)) {
		eachPiece(pieces, gap, func(text string) { delta(object{"type": "text_delta", "text": text}) })
	}, cut)
}

func (p anthropic) think(r *reply, pieces []string, gap time.Duration) {
	p.block(r, object{"type": "thinking", "thinking": "", "signature": ""}, func(delta func(object)) {
		eachPiece(pieces, gap, func(text string) { delta(object{"type": "thinking_delta", "thinking": text}) })
		delta(object{"type": "signature_delta", "signature": "a2l0"})
	}, false)
}

func (p anthropic) call(r *reply, inv invocation) {
	id := fmt.Sprintf("toolu_kit%03d%02d%06d", r.Number, r.items, int(r.Received*1e3)%1e6)
	p.block(r, object{"type": "tool_use", "id": id, "name": inv.Tool, "input": object{}}, func(delta func(object)) {
		eachPiece(pieces(inv.arguments()), 0, func(text string) { delta(object{"type": "input_json_delta", "partial_json": text}) })
	}, false)
	r.calls++
}

func (p anthropic) end(r *reply) {
	stop := r.stop
	switch {
	case stop != "":
	case r.calls > 0:
		stop = "tool_use"
	default:
		stop = "end_turn"
	}
	p.event(r, false, "message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": p.usage(&r.answer.Usage, r.answer.Usage.Output)})
	p.event(r, false, "message_stop", object{})
}

func (p anthropic) whole(r *reply) any {
	message := p.message(r, r.answer.Usage.Output)
	message["content"] = []any{object{"type": "text", "text": r.output[0]}}
	message["stop_reason"] = "end_turn"
	return message
}

func (anthropic) failure(a *answer) any {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}[a.Status]
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": a.Message}}
}

// openAIFailure is the same in both of OpenAI's APIs.
func openAIFailure(a *answer) any {
	failure := object{"type": "api_error", "message": a.Message, "code": nil}
	if a.Code != "" {
		failure["code"] = a.Code
	}
	return object{"error": failure}
}

// responses is OpenAI's Responses API.
type responses struct{ sequence int }

func (p *responses) event(r *reply, content bool, kind string, members object) {
	members["type"], members["sequence_number"] = kind, p.sequence
	p.sequence++
	r.send(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, jsonText(members)), content)
}

func (p *responses) response(r *reply, status string) object {
	return object{"id": fmt.Sprintf("resp_%03d", r.Number), "object": "response", "created_at": int(r.Received), "model": r.Model, "status": status, "output": r.output}
}

func (p *responses) begin(r *reply) {
	r.output = []any{}
	p.event(r, false, "response.created", object{"response": p.response(r, "in_progress")})
}

func (p *responses) done(r *reply, item object) {
	p.event(r, true, "response.output_item.done", object{"output_index": r.items, "item": item})
	r.output = append(r.output, item)
	r.items++
}

func (p *responses) text(r *reply, pieces []string, gap time.Duration, cut bool) {
	id := fmt.Sprintf("msg_%03d%d", r.Number, r.items)
	item := object{"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}
	p.event(r, false, "response.output_item.added", object{"output_index": r.items, "item": item})
	p.event(r, false, "response.content_part.added", object{"item_id": id, "output_index": r.items, "content_index": 0, "part": object{"type": "output_text", "text": "", "annotations": []any{}}})
	whole := ""
	eachPiece(pieces, gap, func(text string) {
		whole += text
		p.event(r, true, "response.output_text.delta", object{"item_id": id, "output_index": r.items, "content_index": 0, "delta": text})
	})
	if cut {
		return
	}
	p.done(r, object{"id": id, "type": "message", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": whole, "annotations": []any{}}}})
}

func (p *responses) think(r *reply, pieces []string, gap time.Duration) {
	id := fmt.Sprintf("rs_%03d%d", r.Number, r.items)
	p.event(r, false, "response.output_item.added", object{"output_index": r.items, "item": object{"id": id, "type": "reasoning", "summary": []any{}, "encrypted_content": "a2l0"}})
	p.event(r, false, "response.reasoning_summary_part.added", object{"item_id": id, "output_index": r.items, "summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
	whole := ""
	eachPiece(pieces, gap, func(text string) {
		whole += text
		p.event(r, true, "response.reasoning_summary_text.delta", object{"item_id": id, "output_index": r.items, "summary_index": 0, "delta": text})
	})
	p.event(r, false, "response.reasoning_summary_text.done", object{"item_id": id, "output_index": r.items, "summary_index": 0, "text": whole})
	p.done(r, object{"id": id, "type": "reasoning", "summary": []any{object{"type": "summary_text", "text": whole}}, "encrypted_content": "a2l0"})
}

func (p *responses) call(r *reply, inv invocation) {
	item := object{"id": fmt.Sprintf("fc_%03d%d", r.Number, r.items), "call_id": fmt.Sprintf("call_%03d%02d%06d", r.Number, r.items, int(r.Received*1e3)%1e6), "name": inv.Tool, "status": "completed", "type": "function_call", "arguments": inv.arguments()}
	if inv.Namespace != "" {
		item["namespace"] = inv.Namespace
	}
	p.event(r, true, "response.output_item.added", object{"output_index": r.items, "item": item})
	p.done(r, item)
	r.calls++
}

func (p *responses) end(r *reply) {
	u := &r.answer.Usage
	kind, response := "response.completed", p.response(r, "completed")
	if r.answer.Stop != "" {
		kind, response["status"], response["incomplete_details"] = "response.incomplete", "incomplete", object{"reason": r.stop}
	}
	response["usage"] = object{
		"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.Cached},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
	}
	p.event(r, false, kind, object{"response": response})
}

func (p *responses) whole(r *reply) any { return p.response(r, "completed") }

func (*responses) failure(a *answer) any { return openAIFailure(a) }

// chat is OpenAI's Chat Completions API.
type chat struct{}

func (chat) chunk(r *reply, kind string, choices []any) object {
	return object{"id": fmt.Sprintf("chatcmpl-%03d", r.Number), "object": kind, "created": int(r.Received), "model": r.Model, "choices": choices}
}

func (p chat) delta(r *reply, content bool, delta object, finish any) {
	r.send("data: "+jsonText(p.chunk(r, "chat.completion.chunk", []any{object{"index": 0, "delta": delta, "finish_reason": finish}}))+"\n\n", content)
}

func (chat) usage(u *usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached}, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (p chat) begin(r *reply) { p.delta(r, false, object{"role": "assistant", "content": ""}, nil) }

func (p chat) text(r *reply, pieces []string, gap time.Duration, _ bool) {
	eachPiece(pieces, gap, func(text string) { p.delta(r, true, object{"content": text}, nil) })
}

func (p chat) think(r *reply, pieces []string, gap time.Duration) {
	eachPiece(pieces, gap, func(text string) { p.delta(r, true, object{"reasoning_content": text}, nil) })
}

func (p chat) call(r *reply, inv invocation) {
	id := fmt.Sprintf("call_%03d%02d%06d", r.Number, r.calls, int(r.Received*1e3)%1e6)
	p.delta(r, true, object{"tool_calls": []any{object{"index": r.calls, "id": id, "type": "function", "function": object{"name": inv.Tool, "arguments": ""}}}}, nil)
	for _, text := range pieces(inv.arguments()) {
		p.delta(r, true, object{"tool_calls": []any{object{"index": r.calls, "function": object{"arguments": text}}}}, nil)
	}
	r.calls++
}

func (p chat) end(r *reply) {
	stop := r.stop
	switch {
	case stop != "":
	case r.calls > 0:
		stop = "tool_calls"
	default:
		stop = "stop"
	}
	p.delta(r, false, object{}, stop)
	last := p.chunk(r, "chat.completion.chunk", []any{})
	last["usage"] = p.usage(&r.answer.Usage)
	r.send("data: "+jsonText(last)+"\n\ndata: [DONE]\n\n", false)
}

func (p chat) whole(r *reply) any {
	answer := p.chunk(r, "chat.completion", []any{object{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": r.output[0]}}})
	answer["usage"] = p.usage(&r.answer.Usage)
	return answer
}

func (chat) failure(a *answer) any { return openAIFailure(a) }

// gemini is generateContent and streamGenerateContent.
type gemini struct{}

func (gemini) chunk(r *reply, parts []any, finish string) object {
	candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	chunk := object{"candidates": []any{candidate}, "modelVersion": r.Model, "responseId": fmt.Sprintf("resp%03d", r.Number)}
	if finish != "" {
		u := &r.answer.Usage
		candidate["finishReason"] = finish
		chunk["usageMetadata"] = object{
			"promptTokenCount": u.Input, "cachedContentTokenCount": u.Cached, "candidatesTokenCount": u.Output - u.Reasoning,
			"thoughtsTokenCount": u.Reasoning, "totalTokenCount": u.Input + u.Output,
		}
	}
	return chunk
}

func (p gemini) part(r *reply, part object) {
	r.send("data: "+jsonText(p.chunk(r, []any{part}, ""))+"\r\n\r\n", true)
}

func (p gemini) begin(r *reply) { r.send("\r\n", false) }

func (p gemini) text(r *reply, pieces []string, gap time.Duration, _ bool) {
	eachPiece(pieces, gap, func(text string) { p.part(r, object{"text": text}) })
}

func (p gemini) think(r *reply, pieces []string, gap time.Duration) {
	eachPiece(pieces, gap, func(text string) { p.part(r, object{"text": text, "thought": true}) })
}

func (p gemini) call(r *reply, inv invocation) {
	p.part(r, object{"functionCall": object{"name": inv.Tool, "args": inv.Arguments}})
	r.calls++
}

func (p gemini) end(r *reply) {
	stop := r.stop
	if stop == "" {
		stop = "STOP"
	}
	r.send("data: "+jsonText(p.chunk(r, []any{object{"text": ""}}, stop))+"\r\n\r\n", false)
}

func (p gemini) whole(r *reply) any { return p.chunk(r, []any{object{"text": r.output[0]}}, "STOP") }

func (gemini) failure(a *answer) any {
	status := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}[a.Status]
	if status == "" {
		status = "UNKNOWN"
	}
	return object{"error": object{"code": a.Status, "message": a.Message, "status": status}}
}

// eachPiece sends the pieces of a text, with a gap between them.
func eachPiece(pieces []string, gap time.Duration, send func(string)) {
	for i, piece := range pieces {
		if i > 0 {
			time.Sleep(gap)
		}
		send(piece)
	}
}
