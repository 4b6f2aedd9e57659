package main

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The jobs that people open the viewer for take three steps at most from the list, each a
// click, a word or a key. A run that is stuck now is seen without any.
func TestChromiumTenJobs(t *testing.T) {
	c := startChromium(t)
	more := runsOf(120)
	broken := newMade("broken")
	broken.span(broken.span(nil, "invoke_agent codex", 0, 90_000, number("gen_ai.usage.cost", 7.5)), "execute_tool shell", 0, 80_000).Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	more.spans = append(more.spans, broken.spans...)
	v := viewFiles(t, more.file(t), fixtures+"fix-failing-test.jsonl", fixtures+"tool-failures.jsonl")
	stuck := newMade("stuck")
	const minutes = 20 * 60_000
	stuck.start = time.Now().Add(-minutes * time.Millisecond)
	stuck.span(stuck.span(nil, "invoke_agent stuck", 0, minutes), "chat GPT-5", 0, minutes)
	stuck.runs(t, v)

	type step = func()
	click := func(selector string) step { return func() { c.press(selector) } }
	key := func(key string) step { return func() { c.do(chromedp.KeyEvent(key)) } }
	session := `//a[starts-with(., "go test")]`
	const sessions = `document.querySelectorAll(".sessions tbody tr").length`
	for _, job := range []struct {
		name  string
		steps []step
		done  string
	}{
		{"stuck now", nil, `document.title === "(1 stuck) spantee" && document.querySelector(".outcome.stuck")`},
		{"why slow", []step{click(session), click("#tab-summary")}, `document.querySelector(".slowest li").innerText.startsWith("shell")`},
		{"what did it do", []step{click(session)}, `document.querySelector(".transcript").innerText.includes("One cent off")`},
		{"what failed", []step{click(session), key("e")}, `document.querySelector(".transcript .selected .wrong").innerText.includes("exit code 1")`},
		{"cost", []step{click(`//a[text()="Runs over time"]`)}, `document.querySelector(".foot").innerText.includes("$7.50 of 1 run that states it") && document.querySelector(".peaks").innerText.includes("Most expensive codex $7.50")`},
		{"over 100 runs", []step{click(`//a[text()="Runs over time"]`), click(`//table[contains(@class, "tools-table")]//tbody//tr[th/button="shell"]/td[3]/button`)}, `document.querySelector(".narrowed").innerText.startsWith("failing tool shell") && document.querySelector(".foot").innerText.startsWith("3 runs")`},
		{"compare", []step{click("tbody tr:nth-child(2) .pick input"), click("tbody tr:nth-child(3) .pick input"), click("a.button")}, `[...document.querySelectorAll(".scroller canvas")].filter((c) => c.waterfall.rows.length).length === 2`},
		{"share", []step{click(session), click(".export summary"), click(`.export input[value="content"]`)}, `document.querySelector(".export a").href.endsWith("export.html?without=content")`},
		{"keyboard only", []step{key("j"), key(kb.Enter), key("j")}, waterfall + `.selected && document.querySelector(".transcript .selected")`},
		{"find text", []step{func() { c.write("input[type=search]", "totalwithcoupon") }, click("a.found mark")}, `document.querySelector(".hits-line mark").innerText === "TotalWithCoupon"`},
	} {
		c.open(v.page + "/")
		c.await(`%s === 124`, sessions)
		if len(job.steps) > 3 {
			t.Errorf("%s takes %d steps", job.name, len(job.steps))
		}
		for _, s := range job.steps {
			s()
			c.await(`!location.hash.startsWith("#/trace/") || %s > 1`, rowCount) // nobody hurries ahead of the page
		}
		c.await(`%s`, job.done)
		c.screenshot(job.name)
	}
}

// A word in one of 10,000 sessions is found by search.
func TestChromiumPlantedWord(t *testing.T) {
	c := startChromium(t)
	all := runsOf(10_000)
	planted := all.spans[7_001] // the second span of session 3,500
	planted.Attributes = append(planted.Attributes, str("gen_ai.tool.call.result", "the quick brown zyzzyva jumps"))
	v := viewFiles(t, all.file(t))
	c.open(v.page + "/")
	c.await(`document.querySelector(".foot").innerText.startsWith("1–500 of 10,000 sessions")`)
	c.write("input[type=search]", "zyzzyva")
	c.await(`document.querySelector("a.found mark")?.innerText === "zyzzyva" && document.querySelectorAll(".sessions tbody tr").length === 1`)
	c.press("a.found")
	c.await(`location.hash.startsWith("#/trace/%x/%x") && document.querySelector(".hits-line mark").innerText === "zyzzyva"`, planted.TraceId, planted.SpanId)
}
