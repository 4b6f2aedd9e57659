package mappingtest

import (
	"encoding/json"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A View is what a backend shows of a trace.
type View struct {
	Spans []Shown
	Trace Shown // its Span is nil: what is shown of the trace as a whole
}

// Of returns what the backend shows of one span.
func (v View) Of(span *tracepb.Span) Shown {
	for _, shown := range v.Spans {
		if shown.Span == span {
			return shown
		}
	}
	return Shown{}
}

// Shown is what a backend shows of a span. Whatever it does not show is zero.
type Shown struct {
	Span          *tracepb.Span
	Type          string // in the backend's own words
	Session       string
	Model         string
	Tokens        Tokens
	FirstToken    time.Time
	Input, Output string
	Cost          float64 // USD
}

// Tokens are token counts as a backend shows them. Some backends count cached
// tokens as a part of the input, others subtract them. Other holds counts under
// names that the backend does not know and still adds up.
type Tokens struct {
	Input, Output, CacheRead, CacheWrite, Reasoning, Other int64
}

func (t Tokens) plus(u Tokens) Tokens {
	return Tokens{
		t.Input + u.Input, t.Output + u.Output, t.CacheRead + u.CacheRead,
		t.CacheWrite + u.CacheWrite, t.Reasoning + u.Reasoning, t.Other + u.Other,
	}
}

const usage = "gen_ai.usage."

// first returns the first of some string attributes that is not empty.
func first(span *tracepb.Span, keys ...string) string {
	for _, key := range keys {
		if s := stringOf(span, key); s != "" {
			return s
		}
	}
	return ""
}

// A message as the GenAI conventions have it.
type message struct {
	Role         string            `json:"role"`
	Parts        []json.RawMessage `json:"parts"`
	FinishReason *string           `json:"finish_reason"`
}

type part struct {
	Type     string          `json:"type"`
	Content  string          `json:"content"`
	Name     string          `json:"name"`
	Args     json.RawMessage `json:"arguments"`
	Response json.RawMessage `json:"response"`
}

// parse returns the messages of an attribute, nil if it is empty or not JSON.
func parse(attribute string) []message {
	var messages []message
	if json.Unmarshal([]byte(attribute), &messages) != nil {
		return nil
	}
	return messages
}

// render writes messages as "role: text", with tool calls as arrows.
// Reasoning is left out by backends that do not know it.
func render(messages []message, reasoning bool) string {
	var lines []string
	for _, m := range messages {
		var texts []string
		for _, raw := range m.Parts {
			var p part
			if json.Unmarshal(raw, &p) != nil {
				continue
			}
			switch {
			case p.Type == "text", p.Type == "reasoning" && reasoning:
				texts = append(texts, p.Content)
			case p.Type == "tool_call":
				texts = append(texts, "→ "+p.Name+"("+plain(p.Args)+")")
			case p.Type == "tool_call_response":
				texts = append(texts, "← "+plain(p.Response))
			}
		}
		lines = append(lines, m.Role+": "+strings.Join(texts, "\n\n"))
	}
	return strings.Join(lines, "\n")
}

// plain returns a JSON value as text: a string without its quotes.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
