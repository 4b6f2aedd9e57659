package main

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// said is a message as the conventions write it.
func said(role, text string) string {
	b, _ := json.Marshal([]any{map[string]any{"role": role, "parts": []any{map[string]any{"type": "text", "content": text}}}})
	return string(b)
}

const answered = `# Fixed

The **rounding** was off in ` + "`coupon.go`" + `:

` + "```go\nreturn (subtotal*c.Percent + 50) / 100 // <b>cents</b>\n```" + `

1. run the tests
2. see [the rules](https://example.com/rules)

- [x] done

| test | result |
|---|---|
| Total | ok |

> quoted
`

// Each is a way in which Markdown becomes a script, a request or a form.
var hostileMarkdown = []string{
	`[link](javascript:window.hacked=1)`, `[link](JaVaScRiPt:window.hacked=1)`, `[link](&#106;avascript:window.hacked=1)`, `[link](data:text/html,<script>window.hacked=1</script>)`,
	`[link](file:///etc/passwd)`, `<javascript:window.hacked=1>`, `![image](http://127.0.0.1:9/tracked.png)`, `![image](javascript:window.hacked=1 "title")`,
	`<img src=x onerror="window.hacked=1">`, `<script>window.hacked=1</script>`, `<svg onload="window.hacked=1">`, `<iframe src="https://example.com"></iframe>`,
	`[link]: javascript:window.hacked=1` + "\n\n[link]", `<a href="javascript:window.hacked=1" onclick="window.hacked=1">x</a>`, `<form action="https://example.com"><input name=x></form>`,
	`[x](https://example.com/" onmouseover="window.hacked=1)`, "```\" onload=\"window.hacked=1\n<img src=x onerror=window.hacked=1>\n```",
	`| a |` + "\n|---|\n" + `| <img src=x onerror=window.hacked=1> |`, strings.Repeat("> ", 5000) + "deep", strings.Repeat("[", 5000), strings.Repeat("* ", 3000),
}

// Prompts and answers are Markdown, which can neither run a script nor load anything.
func TestChromiumMarkdown(t *testing.T) {
	c := startChromium(t)
	m := newMade("markdown")
	root := m.span(nil, "invoke_agent cursor-agent", 0, 1000, str("gen_ai.input.messages", said("user", "Fix *it*\nplease")))
	chat := func(text string) *commonpb.KeyValue { return str("gen_ai.output.messages", said("assistant", text)) }
	m.span(root, "chat GPT-5", 0, 10, chat(answered))
	for i, text := range hostileMarkdown {
		m.span(root, "chat GPT-5", float64(20*i+20), float64(20*i+30), chat(text))
	}
	v := viewFiles(t, m.file(t))
	c.open(v.page + "/#/trace/" + hex.EncodeToString(m.trace))
	c.await(`document.querySelectorAll(".entry .said").length === %d`, len(hostileMarkdown)+2)
	tags := eval[[]string](c, `[...new Set([...document.querySelectorAll(".entry .markdown *")].map((el) => el.localName))].sort()`)
	for _, tag := range tags {
		if !slices.Contains([]string{"a", "blockquote", "br", "code", "div", "em", "hr", "li", "ol", "p", "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}, tag) {
			t.Errorf("Markdown became <%s>", tag)
		}
	}
	for _, want := range []string{"strong", "code", "pre", "ol", "a", "table", "blockquote", "br"} {
		if !slices.Contains(tags, want) {
			t.Errorf("no <%s> among %q", want, tags)
		}
	}
	if code := eval[string](c, `document.querySelector(".entry .code").innerText`); code != "return (subtotal*c.Percent + 50) / 100 // <b>cents</b>" {
		t.Errorf("the code is %q", code)
	}
	for _, href := range eval[[]string](c, `[...document.querySelectorAll(".entry .markdown a")].map((a) => a.href)`) {
		if !strings.HasPrefix(href, "https://example.com/") && href != "http://127.0.0.1:9/tracked.png" {
			t.Errorf("a link to %q", href)
		}
	}
	c.await(`[...document.querySelectorAll(".entry *")].every((el) => el.getAttributeNames().every((name) => !name.startsWith("on")))`)
	if eval[bool](c, `"hacked" in window || performance.getEntriesByType("resource").some((e) => !e.name.startsWith(location.origin))`) {
		t.Error("Markdown ran a script or loaded something")
	}
	c.screenshot("said")
	c.axe("Markdown")
	c.theme("dark")
	c.axe("Markdown, dark")
	c.screenshot("dark")
}
