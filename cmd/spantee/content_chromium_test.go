package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/otlp"
)

// Prompts and results are read as the text that they are.
func TestChromiumContent(t *testing.T) {
	c := startChromium(t)
	m := newMade("content")
	root := m.span(nil, "invoke_agent cursor-agent", 0, 3000,
		str("gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"Fix the test.\nIt is \"red\"."}]}]`))
	tool := m.span(root, "execute_tool shell", 100, 900,
		str("gen_ai.tool.call.arguments", `{"command":"go test ./...\necho done"}`),
		str("gen_ai.tool.call.result", `{"stdout":"ok  \tall\n","cut sh`)) // no JSON any more
	v := viewFiles(t, m.file(t))
	for id, wants := range map[string][]string{
		fmt.Sprintf("%x", root.SpanId): {"Prompt", "user", "Fix the test.\nIt is \"red\"."},
		fmt.Sprintf("%x", tool.SpanId): {"Arguments", "command", "go test ./...\necho done", `{"stdout":"ok  \tall\n","cut sh`},
	} {
		c.open(v.page + "/#/trace/" + v.id + "/" + id + "?tab=Span")
		c.await(`document.querySelectorAll(".details pre, .details .markdown").length > 0`)
		details := eval[string](c, `document.querySelector(".details").innerText`)
		for _, want := range wants {
			if !strings.Contains(strings.ToLower(details), strings.ToLower(want)) {
				t.Errorf("no %q in %q", want, details)
			}
		}
		c.screenshot(id[:4])
	}
}

// Whatever spans carry is text: no element is made of it, and no script runs.
func TestChromiumHostile(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t)
	m := hostileSession()
	client, err := otlp.New(otlp.Config{Endpoint: v.grpc})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop(context.Background())
	if err := client.UploadTraces(t.Context(), encodeRequest(m.hostileRequest())); err != nil {
		t.Fatal(err)
	}

	id := fmt.Sprintf("%x", m.trace)
	harmless := func(place string) {
		t.Helper()
		c.drawn()
		if !eval[bool](c, `document.body.innerText.includes("<script>")`) {
			t.Errorf("%s: the text is not shown", place)
		}
		if eval[bool](c, `!!window.hacked || document.querySelector("img[src=x], script:not([src='main.js'], [src='vendor/uplot.js'])") !== null`) {
			t.Errorf("%s: what was text became HTML", place)
		}
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1`)
	harmless("list")
	for _, s := range m.spans {
		c.open(fmt.Sprintf("%s/#/trace/%s/%x?tab=Span", v.page, id, s.SpanId))
		c.await(`document.querySelector(".details h2").innerText.includes("<script>")`)
		harmless(s.Name)
		c.click(where(fmt.Sprintf("%x", s.SpanId))) // and its tooltip
	}
	c.screenshot("details")
	c.open(v.page + "/#/compare/" + id + "/" + id)
	c.await(`document.querySelector(".difference")`)
	harmless("compare")

	// Nor could a slip of ours make it HTML: the policy forbids it.
	refused := eval[bool](c, `(() => { try { document.body.innerHTML = "<b>"; return false; } catch { return true; } })()`)
	inline := eval[bool](c, `(() => { const s = document.createElement("div"); try { s.setAttribute("onclick", "window.hacked = 1"); } catch {} s.click(); return !window.hacked; })()`)
	if !refused || !inline {
		t.Error("the policy lets HTML or inline scripts through")
	}
}
