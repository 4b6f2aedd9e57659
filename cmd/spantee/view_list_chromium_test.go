package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// runsOf returns so many sessions, an hour apart.
func runsOf(n int) *made {
	all := newMade("all")
	for i := range n {
		m := newMade(fmt.Sprint("run ", i))
		m.start = time.Unix(0, madeStart).Add(time.Duration(i) * time.Hour)
		m.span(m.span(nil, "invoke_agent cursor-agent", 0, 1000), "execute_tool shell", 0, 10)
		all.spans = append(all.spans, m.spans...)
	}
	return all
}

const focused = `[...document.querySelectorAll(".sessions tbody tr")].findIndex((el) => el.matches(":focus-within"))`

// The list works by keyboard alone, and Esc leads back to the row that was opened.
func TestChromiumListKeys(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t, runsOf(40).file(t))
	c.open(v.page + "/#/?sort=-started")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 40`)
	c.do(chromedp.KeyEvent("j"))
	c.await(`%s === 0`, focused)
	c.do(chromedp.KeyEvent("jj"), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent("k"))
	c.await(`%s === 1`, focused)
	c.screenshot("row")
	for range 30 {
		c.do(chromedp.KeyEvent("j"))
	}
	c.await(`%s === 31 && document.querySelector(".page").scrollTop > 0`, focused)
	top := eval[float64](c, `document.querySelector(".page").scrollTop`)
	c.do(chromedp.KeyEvent(kb.Enter))
	c.await(`%s === 2`, rowCount)
	c.do(chromedp.KeyEvent("j"))
	c.await(`%s.selected`, waterfall)
	c.do(chromedp.KeyEvent(kb.Escape)) // first it deselects
	c.await(`location.hash.startsWith("#/trace/") && !%s.selected`, waterfall)
	c.do(chromedp.KeyEvent(kb.Escape))
	c.await(`location.hash === "#/?sort=-started" && %s === 31`, focused)
	if now := eval[float64](c, `document.querySelector(".page").scrollTop`); now != top {
		t.Errorf("the list is %v pixels down, and was %v", now, top)
	}

	// In the search, letters are text, and the arrow leads to the list.
	c.do(chromedp.KeyEvent("/"))
	c.await(`document.activeElement.type === "search"`)
	c.write("input[type=search]", "k")
	c.await(`document.querySelector("input[type=search]").value === "k" && document.querySelector(".empty h2").innerText === "Nothing matches"`)
	c.do(chromedp.KeyEvent(kb.Backspace))
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 40`)
	c.do(chromedp.KeyEvent(kb.ArrowDown))
	c.await(`%s === 0`, focused)

	// A session that arrives moves the row, which keeps the focus.
	id := eval[string](c, `document.activeElement.closest("tr").dataset.id`)
	early := newMade("early")
	early.start = time.Unix(0, madeStart).Add(-time.Hour)
	early.span(nil, "invoke_agent cursor-agent", 0, 1000)
	if err := upload(v.grpc, early.request()); err != nil {
		t.Fatal(err)
	}
	c.await(`%s === 1 && document.activeElement.closest("tr").dataset.id === %q`, focused, id)
}

// Beyond its first page, the list goes on.
func TestChromiumListPages(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t, runsOf(502).file(t))
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 500 && document.querySelector(".foot").innerText.startsWith("1–500 of 502 sessions")`)
	c.press(`//button[text()="Next page →"]`)
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 2 && location.hash === "#/?offset=500" && document.querySelector(".foot").innerText.startsWith("501–502 of 502 sessions")`)
	c.screenshot("last")
	c.axe("pages")
	c.press(`//button[text()="← Previous page"]`)
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 500 && location.hash === "#/"`)
}

// A run that is stuck has a color and a shape of its own, counts in the tab's title, and is found by the filters.
func TestChromiumListFilters(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t, "../../testdata/cursor/tool-failures.jsonl", "../../testdata/cursor/tool-kinds.jsonl")
	for name, child := range map[string]string{"stuck": "chat GPT-5", "hung": "execute_tool shell", "busy": "background shell"} {
		m := newMade(name)
		const minutes = 20 * 60_000
		m.start = time.Now().Add(-minutes * time.Millisecond)
		m.span(m.span(nil, "invoke_agent "+name, 0, minutes), child, 0, minutes) // an open span ends when it was written
		m.runs(t, v)
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 5 && document.title === "(2 stuck) spantee"`)
	c.await(`(() => { const said = [...document.querySelectorAll(".outcome.stuck")].map((el) => el.textContent).sort(); return said[0].startsWith("stuck in a tool: running shell for 20m") && said[1].startsWith("stuck: waiting for the model for 20m"); })()`)
	shapes := eval[[]string](c, `["running", "stuck", "mixed"].map((kind) => { const s = getComputedStyle(document.querySelector(".sessions .state." + kind)); return s.borderRadius + " " + s.clipPath + " " + s.backgroundColor; })`)
	if shapes[0] == shapes[1] || shapes[1] == shapes[2] || strings.Contains(shapes[1], "50%") {
		t.Errorf("%q", shapes)
	}
	for _, theme := range []string{"light", "dark"} {
		c.theme(theme)
		c.screenshot(theme)
		c.axe("states, " + theme)
	}
	for _, tt := range []struct {
		label, value string
		rows         int
	}{{"State", "stuck", 2}, {"State", "running", 3}, {"State", "failed", 1}, {"State", "", 5}, {"Time", "1", 3}, {"Time", "", 5}} {
		eval[bool](c, `(() => { const s = document.querySelector("select[aria-label=%s]"); s.value = %q; s.dispatchEvent(new Event("change")); return true; })()`, tt.label, tt.value)
		c.await(`document.querySelectorAll(".sessions tbody tr").length === %d && (new URLSearchParams(location.hash.slice(3)).get(%q) ?? "") === %q`, tt.rows, strings.ToLower(tt.label), tt.value)
	}
}

// What failed has a shape of its own wherever it is drawn, for those who cannot tell its color.
func TestChromiumFailureShapes(t *testing.T) {
	c := startChromium(t)
	m := newMade("shapes")
	m.span(nil, "invoke_agent cursor-agent", 0, 1000).Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	for i := range 2 {
		m.spans[0].Events = append(m.spans[0].Events, &tracepb.Span_Event{Name: "warning", TimeUnixNano: m.spans[0].StartTimeUnixNano + uint64(i)*250e6})
	}
	m.span(m.spans[0], "execute_tool shell", 100, 200)
	m.span(m.spans[0], "execute_tool read", 700, 900).Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	v := viewFiles(t, m.file(t), runsOf(1).file(t))
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 2`)
	if shapes := eval[[]string](c, `[".ok", ".failed"].map((kind) => getComputedStyle(document.querySelector(".sessions .state" + kind)).clipPath)`); shapes[0] == shapes[1] {
		t.Errorf("%q", shapes)
	}
	c.screenshot("list")
	c.open(v.page + "/#/trace/" + hex.EncodeToString(m.trace))
	c.await(`%s === 3 && document.querySelectorAll(".entry").length === 3`, rowCount)
	marks := eval[[]string](c, `Array.from(document.querySelectorAll(".entry .go b")).map((b) => getComputedStyle(b, "::before").content)`)
	if marks[1] != "none" || !strings.Contains(marks[2], "✕") {
		t.Errorf("%q", marks)
	}
	eval[bool](c, `%s.select(%q) === undefined`, waterfall, hex.EncodeToString(m.spans[0].SpanId))
	c.await(`document.querySelectorAll(".details .events li").length === 2`)
	if times := eval[[]string](c, `Array.from(document.querySelectorAll(".details .events .num")).map((n) => n.innerText)`); strings.Join(times, "|") != "||250ms|+250ms" {
		t.Errorf("events at %q", times) // none at the very start
	}
	c.drawn()
	// At the rows' names and after their bars, and above the middle of the failed call in the minimap.
	crosses := eval[int](c, `(() => {
		const w = %s, { cross } = w.pen;
		let n = 0;
		w.pen.cross = (...args) => { n++; cross.apply(w.pen, args); };
		w.draw();
		w.pen.cross = cross;
		return n;
	})()`, waterfall)
	if crosses != 4 {
		t.Errorf("%d crosses in the waterfall", crosses)
	}
	ink := eval[[]int](c, `(() => {
		const map = document.querySelector(".minimap"), ratio = map.width / map.clientWidth;
		return [0.15, 0.8].map((at) => map.getContext("2d").getImageData((at * map.clientWidth - 4) * ratio, 0, 8 * ratio, 6 * ratio).data.filter((_, i) => i %% 4 === 3).filter(Boolean).length);
	})()`)
	if ink[0] != 0 || ink[1] == 0 {
		t.Errorf("%v pixels above the calls in the minimap", ink)
	}
	for _, theme := range []string{"light", "dark"} {
		c.theme(theme)
		c.drawn()
		c.screenshot(theme)
		c.axe("failures, " + theme)
	}
}
