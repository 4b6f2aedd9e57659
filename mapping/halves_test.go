package mapping_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

// The pieces of a token.
const (
	tokenFirst, tokenRest = "ghp_" + "a8Kd02MxQz71LpVb5T", "w3RfY6nHc9JsUe4GtX"
)

// A halved secret is in two places of a stream. first and rest are its halves, as
// JSON without quotes.
type halved struct {
	what  string
	agent string
	lines func(first, rest string) []string
}

func cursorText(text string) string {
	return stamped(now, `{"type":"assistant","message":{"content":[{"type":"text","text":"`+text+`"}]}}`)
}

func cursorThought(text string) string {
	return stamped(now, `{"type":"thinking","subtype":"delta","text":"`+text+`"}`)
}

func cursorCall(args, result string) []string {
	call := func(subtype, with string) string {
		return stamped(now, `{"type":"tool_call","subtype":"`+subtype+`","call_id":"a","tool_call":{"xToolCall":{"args":`+args+with+`}}}`)
	}
	return []string{call("started", ""), call("completed", `,"result":{"success":`+result+`}`)}
}

// cursorFlush says once more what the deltas before it said.
func cursorFlush(text string) string {
	return `{"type":"assistant","message":{"content":[{"type":"text","text":"` + text + `"}]}}`
}

func claudeSays(blocks string, more string) string {
	return `{"type":"assistant","message":{"id":"m","content":[` + blocks + `]}` + more + `,"uuid":"u"}`
}

func claudeDelta(kind, text string) string {
	return fmt.Sprintf(`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"%s_delta","%[1]s":"%s"}},"uuid":"u"}`, kind, text)
}

func textBlock(text string) string { return `{"type":"text","text":"` + text + `"}` }

// between puts lines between two texts.
func between(text func(string) string, lines ...string) func(first, rest string) []string {
	return func(first, rest string) []string {
		all := append([]string{text("it is " + first)}, lines...)
		return append(all, text(rest+" and more"))
	}
}

// inCall puts the halves into a call, in place of 1 and 2.
func inCall(args, result string) func(first, rest string) []string {
	return func(first, rest string) []string {
		fill := func(s string) string {
			s = string(bytes.ReplaceAll([]byte(s), []byte("<1>"), []byte(first)))
			return string(bytes.ReplaceAll([]byte(s), []byte("<2>"), []byte(rest)))
		}
		return cursorCall(fill(args), fill(result))
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const claudeInit = `{"type":"system","subtype":"init","model":"m","uuid":"u"}`

var halves = []halved{
	{"a call between deltas", "cursor", between(cursorText, cursorCall(`{}`, `{}`)...)},
	{"a call between thoughts", "cursor", between(cursorThought, cursorCall(`{}`, `{}`)...)},
	{"a thought between deltas", "cursor", between(cursorText, cursorThought("hm"), stamped(now, `{"type":"thinking","subtype":"completed"}`))},
	{"a retry between deltas", "cursor", between(cursorText, `{"type":"retry","subtype":"scheduled","message":"again"}`)},
	{"a lost connection between deltas", "cursor", between(cursorText, `{"type":"connection","subtype":"reconnecting"}`)},
	{"an unknown line between deltas", "cursor", between(cursorText, `{"type":"new","text":"x"}`)},
	{"a line that is not JSON between deltas", "cursor", between(cursorText, `"x"}`)},
	{"two calls between three deltas", "cursor", func(first, rest string) []string {
		lines := append([]string{cursorText("it is " + first)}, cursorCall(`{}`, `{}`)...)
		lines = append(append(lines, cursorText(rest[:6])), cursorCall(`{}`, `{}`)...)
		return append(lines, cursorText(rest[6:]+" and more"))
	}},
	{"a flush between deltas", "cursor", func(first, rest string) []string {
		return []string{cursorText("it is " + first), cursorFlush("it is " + first), cursorText(rest + " and more"), cursorFlush(rest + " and more")}
	}},
	{"a flush and a call between deltas", "cursor", func(first, rest string) []string {
		lines := append([]string{cursorText("it is " + first), cursorFlush("it is " + first)}, cursorCall(`{}`, `{}`)...)
		return append(lines, cursorText(rest+" and more"), cursorFlush(rest+" and more"))
	}},
	{"a call between flushes without deltas", "cursor", between(cursorFlush, cursorCall(`{}`, `{}`)...)},
	{"a thought, then the answer", "cursor", func(first, rest string) []string {
		return []string{cursorThought("it is " + first), stamped(now, `{"type":"thinking","subtype":"completed"}`), cursorText(rest + " and more")}
	}},
	{"the answer, then a thought", "cursor", func(first, rest string) []string {
		return append(append([]string{cursorText("it is " + first)}, cursorCall(`{}`, `{}`)...), cursorThought(rest+" and more"))
	}},
	{"two whole messages", "claude", func(first, rest string) []string {
		return []string{claudeSays(textBlock("it is "+first), ""), claudeSays(textBlock(rest+" and more"), "")}
	}},
	{"two blocks of a message", "claude", func(first, rest string) []string {
		return []string{claudeSays(textBlock("it is "+first)+","+textBlock(rest+" and more"), "")}
	}},
	{"a call between blocks", "claude", func(first, rest string) []string {
		return []string{claudeSays(textBlock("it is "+first)+`,{"type":"tool_use","id":"t","name":"X","input":{}},`+textBlock(rest+" and more"), "")}
	}},
	{"a call between messages", "claude", func(first, rest string) []string {
		return []string{
			claudeSays(textBlock("it is "+first), ""), claudeSays(`{"type":"tool_use","id":"t","name":"X","input":{}}`, ""),
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]},"uuid":"u"}`, claudeSays(textBlock(rest+" and more"), ""),
		}
	}},
	{"a sub-agent between messages", "claude", func(first, rest string) []string {
		return []string{
			claudeSays(`{"type":"tool_use","id":"t","name":"Task","input":{}}`, ""), claudeSays(textBlock("it is "+first), ""),
			claudeSays(textBlock("I look around."), `,"parent_tool_use_id":"t"`), claudeSays(textBlock("Found it."), `,"parent_tool_use_id":"t"`), claudeSays(textBlock(rest+" and more"), ""),
		}
	}},
	{"an answer between messages of a sub-agent", "claude", func(first, rest string) []string {
		return []string{
			claudeSays(`{"type":"tool_use","id":"t","name":"Task","input":{}}`, ""), claudeSays(textBlock("it is "+first), `,"parent_tool_use_id":"t"`),
			claudeSays(textBlock("Meanwhile."), ""), claudeSays(textBlock(rest+" and more"), `,"parent_tool_use_id":"t"`),
		}
	}},
	{"a thought and a text of one message", "claude", func(first, rest string) []string {
		return []string{claudeSays(`{"type":"thinking","thinking":"it is `+first+`"},`+textBlock(rest+" and more"), "")}
	}},
	{"a signature between deltas", "claude", between(func(s string) string { return claudeDelta("text", s) },
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"x"}},"uuid":"u"}`)},
	{"a piece of arguments between deltas", "claude", between(func(s string) string { return claudeDelta("text", s) },
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a\":"}},"uuid":"u"}`)},
	{"a hook between deltas", "claude", between(func(s string) string { return claudeDelta("text", s) }, `{"type":"system","subtype":"hook_started","hook_name":"x","uuid":"u"}`)},
	{"two blocks of a prompt", "claude", func(first, rest string) []string {
		return []string{`{"type":"user","message":{"content":[` + textBlock("use "+first) + "," + textBlock(rest+" please") + `]},"uuid":"u"}`}
	}},
	{"two arguments of a list", "cursor", inCall(`{"argv":["echo","<1>","<2>"]}`, `{}`)},
	{"a string joined in a file", "cursor", inCall(`{"content":`+quoted("var t = \"<1>\" +\n\t\"<2>\"\n")+`}`, `{}`)},
	{"a word joined by a shell", "cursor", inCall(`{"command":"export T='<1>''<2>'"}`, `{}`)},
	{"a word of two kinds of quotes", "cursor", inCall(`{"command":`+quoted(`export T='<1>'"<2>"`)+`}`, `{}`)},
	{"a line that goes on", "cursor", inCall(`{"command":`+quoted("curl -H 'Authorization: Bearer <1>\\\n<2>' https://h")+`}`, `{}`)},
	{"a wrapped line", "cursor", inCall(`{}`, `{"stdout":`+quoted("the token is <1>\n<2>\n")+`}`)},
	{"colors", "cursor", inCall(`{}`, `{"stdout":`+quoted("token: \x1b[32m<1>\x1b[0m\x1b[1m<2>\x1b[0m\n")+`}`)},
	{"two parts of a result", "cursor", inCall(`{}`, `{"content":[{"type":"text","text":"it is <1>"},{"type":"text","text":"<2> and more"}]}`)},
	{"two nested parts of a result", "cursor", inCall(`{}`, `{"content":[{"text":{"text":"it is <1>"}},{"text":{"text":"<2> and more"}}]}`)},
	{"two numbered members", "cursor", inCall(`{"token_part1":"<1>","token_part2":"<2>"}`, `{}`)},
	{"chunks of an event stream", "cursor", inCall(`{}`, `{"stdout":`+quoted("data: {\"delta\":{\"content\":\"<1>\"}}\n\ndata: {\"delta\":{\"content\":\"<2>\"}}\n")+`}`)},
	{"lines of JSON", "cursor", inCall(`{}`, `{"stdout":`+quoted("{\"type\":\"delta\",\"text\":\"<1>\"}\n{\"type\":\"delta\",\"text\":\"<2>\"}\n")+`}`)},
	{"JSON in a string", "cursor", inCall(`{"body":`+quoted(`{"parts":["<1>","<2>"]}`)+`}`, `{}`)},
	{"a diff", "cursor", inCall(`{}`, `{"diff":`+quoted("+  t = \"<1>\" +\n+    \"<2>\"\n")+`}`)},
	{"a listing with line numbers", "cursor", inCall(`{}`, `{"content":`+quoted("    12→  t = \"<1>\" +\n    13→    \"<2>\"\n")+`}`)},
	{"HTML", "cursor", inCall(`{}`, `{"content":"see <b><1><wbr><2></b>"}`)},
	{"an invisible space", "cursor", inCall(`{}`, `{"content":"see <1>\u200b<2> now"}`)},
}

// TestHalves has something between the halves of a token. Neither may be shown.
func TestHalves(t *testing.T) {
	found := 0
	for _, h := range halves {
		lines := append([]string{map[string]string{"cursor": initLine, "claude": claudeInit}[h.agent]}, h.lines(tokenFirst, tokenRest)...)
		spans, _ := feed{opts: mapping.Options{Content: content.Full, Agent: h.agent}}.spans(t, stream(lines...))
		shown := ""
		for _, s := range spans {
			b, err := proto.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range []string{tokenFirst[4:], tokenRest[:6], tokenRest[6:]} {
				if bytes.Contains(b, []byte(piece)) {
					shown = piece
				}
			}
		}
		if shown != "" {
			t.Errorf("%s: %s is shown", h.what, shown)
			continue
		}
		found++
	}
	t.Logf("%d of %d", found, len(halves))
}
