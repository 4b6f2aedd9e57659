package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// withTexts gives a session texts of many heights, each with a word of its own: some of it is
// folded, far down in an output, or in the arguments only.
func withTexts(m *made) *made {
	for i, s := range m.spans {
		lines := strings.Repeat("a line of text that is not long\n", i*i%23)
		switch op, _, _ := strings.Cut(s.Name, " "); op {
		case "chat":
			parts := []map[string]string{{"type": "reasoning", "content": fmt.Sprintf("**Thinking**\n\n%s thoughtword%d", lines, i)}, {"type": "text", "content": fmt.Sprintf("%s\n\n- said\n- saidword%d", lines, i)}}
			b, _ := json.Marshal([]any{map[string]any{"role": "assistant", "parts": parts[i%2:]}})
			s.Attributes = append(s.Attributes, str("gen_ai.output.messages", string(b)))
		case "execute_tool":
			arguments, _ := json.Marshal(map[string]any{"command": fmt.Sprint("go test ./p", i), "env": map[string]string{"ID": fmt.Sprint("argumentword", i)}})
			result, _ := json.Marshal(map[string]any{"success": map[string]any{"stdout": strings.Repeat(lines, 1+i%9) + fmt.Sprint("resultword", i)}})
			s.Attributes = append(s.Attributes, str("gen_ai.tool.call.arguments", string(arguments)), str("gen_ai.tool.call.result", string(result)))
		}
	}
	return m
}

// inSight says what of a span is out of sight: its row, its bar, its step; "" if nothing is.
const inSight = `((id) => {
	const w = document.querySelector(".scroller canvas").waterfall, n = w.trace.byId.get(id), out = [];
	const y = w.y(n.row), panel = document.querySelector("#panel-transcript").getBoundingClientRect();
	const step = document.querySelector(".entry.selected")?.getBoundingClientRect() ?? { top: -1e6, bottom: -1e6 };
	if (n.row < 0 || y < 28 || y + 24 > w.height) out.push("row at " + y);
	if (w.x(n.end) < w.left || w.x(n.start) > w.width) out.push("bar");
	if (step.top < panel.top - 1 || step.top + 24 > panel.bottom) out.push("step at " + (step.top - panel.top));
	return out.join();
})`

// wordInSight reports whether words of the hit can be seen, and are not below something else.
const wordInSight = `(() => {
	const panel = document.querySelector(".panel:not([hidden])"), { top, bottom } = panel.getBoundingClientRect();
	const place = panel.querySelector(".entry.selected, .details");
	return [...CSS.highlights.get("found") ?? []].some((range) => {
		const box = range.getBoundingClientRect();
		if (!place.contains(range.startContainer) || !box.width || box.top < top || box.bottom > bottom) return false;
		return document.elementFromPoint(box.left + 1, (box.top + box.bottom) / 2)?.contains(range.startContainer);
	});
})()`

// Whatever leads to a span leads there: its row, its bar and its step are in sight, and so is a
// word that was found.
func TestChromiumInSight(t *testing.T) {
	for _, spans := range []int{100, 10_000} {
		t.Run(fmt.Sprint(spans), func(t *testing.T) {
			c := startChromium(t)
			c.do(chromedp.EmulateViewport(1280, 800))
			big := withTexts(bigSession(spans))
			v := startView(t, nil, append([]string{"view", big.file(t)}, freePorts...)...)
			page := v.page + "/#/trace/" + v.id
			arrived := func() {
				t.Helper()
				c.await(`%s.trace.nodes.length === %d && document.querySelector(".entry .said, .entry .output") && performance.now() > 0`, waterfall, spans)
			}
			check := func(how, id string) {
				t.Helper()
				c.drawn()
				if out := eval[string](c, inSight+`(%q)`, id); out != "" {
					c.screenshot(how)
					t.Errorf("%s %s: out of sight: %s", how, id, out)
				}
			}
			for i := range 20 {
				id := fmt.Sprintf("%x", big.spans[(2*i+1)*spans/40].SpanId)
				c.open(page + "/" + id)
				arrived()
				c.await(`document.querySelector(".entry.selected :is(.said, .output)")`) // what it says came later
				check("link", id)
			}
			c.open(page)
			arrived()
			c.do(chromedp.Focus(".scroller"))
			for range 20 {
				before := eval[*string](c, waterfall+".selected")
				c.do(chromedp.KeyEvent("e"))
				if before == nil || spans > 100 {
					c.await(`%s.selected && %s.selected !== %q`, waterfall, waterfall, deref(before))
				}
				check("e", eval[string](c, waterfall+".selected"))
			}
			c.write(".chart input[type=search]", "tool:grep")
			c.await(`%s.rows.length < %s.trace.nodes.length`, waterfall, waterfall)
			for range 20 {
				c.do(chromedp.KeyEvent(kb.Enter), chromedp.Focus(".chart input[type=search]"))
				check("filter", eval[string](c, waterfall+".selected"))
			}
			selected := eval[string](c, waterfall+".selected")
			c.write(".chart input[type=search]", "t") // every tool, and others
			c.await(`%s.rows.length > %d / 2`, waterfall, spans)
			check("another filter", selected)
			for _, words := range []string{"thoughtword", "saidword", "resultword", "argumentword"} {
				c.open(page + "?find=" + words)
				arrived()
				for i := range 5 {
					c.await(`document.querySelector(".hits-line [role=status]").innerText.startsWith("hit %d of")`, i+1)
					c.await(wordInSight)
					c.do(chromedp.Click(`//button[@aria-label="Next hit"]`))
				}
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// A liveAgent prints tool calls to a filter.
type liveAgent struct {
	t     *testing.T
	lines *os.File
	n     int
}

func (a *liveAgent) print(line map[string]any) {
	a.t.Helper()
	line["session_id"] = "4f6d2a1c-5579-4abd-86b7-dda4569961fc"
	b, err := json.Marshal(line)
	if err == nil {
		_, err = a.lines.Write(append(b, '\n'))
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// call prints a call whose output has so many lines.
func (a *liveAgent) call(lines int) {
	a.t.Helper()
	a.n++
	now := time.Now().UnixMilli()
	call := map[string]any{"args": map[string]any{"command": fmt.Sprint("go test ./p", a.n)}}
	line := func(subtype string) map[string]any {
		return map[string]any{"type": "tool_call", "subtype": subtype, "call_id": fmt.Sprint("call_", a.n), "tool_call": map[string]any{"shellToolCall": call}, "timestamp_ms": now}
	}
	a.print(line("started"))
	call["result"] = map[string]any{"success": map[string]any{"command": "go test", "exitCode": 0, "stdout": strings.Repeat("a line\n", lines) + fmt.Sprint("the end of ", a.n)}}
	a.print(line("completed"))
}

// A session that goes on stays at its end, whatever the heights of its steps are, and where one
// has scrolled to, however many come.
func TestChromiumFollow(t *testing.T) {
	c := startChromium(t)
	c.do(chromedp.EmulateViewport(1280, 800))
	stdin, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer lines.Close()
	v := startView(t, stdin, "--view", "--content", "full")
	a := &liveAgent{t: t, lines: lines}
	a.print(map[string]any{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/home/dev/shop", "model": "GPT-5", "permissionMode": "default"})
	c.open(v.page + "/#/latest")
	c.await(`%s.trace.live`, waterfall)

	const atEnd = `(() => {
		const panel = document.querySelector("#panel-transcript").getBoundingClientRect(), last = [...document.querySelectorAll(".entry")].at(-1).getBoundingClientRect(), w = document.querySelector(".scroller canvas").waterfall;
		return last.top < panel.bottom && last.bottom <= panel.bottom + 1 && w.y(w.rows.length) <= w.height;
	})()`
	shows := func(n int) string {
		return fmt.Sprintf(`%s.trace.nodes.some((n) => n.detail === "go test ./p%d")`, waterfall, n)
	}
	for i := range 40 {
		a.call(i * 7 % 20)
		c.await(`%s && %s`, shows(a.n), atEnd)
	}
	c.screenshot("end")

	// Scrolled up, nothing moves.
	c.click(`(() => { const box = document.querySelector("#panel-transcript").getBoundingClientRect(); return { x: box.left + 5, y: box.top + 300 }; })()`)
	eval[bool](c, `(() => { document.querySelector("#panel-transcript").scrollTop -= 1500; %s.scroller.scrollTop -= 300; return true; })()`, waterfall)
	c.drawn()
	const places = `JSON.stringify((() => {
		const panel = document.querySelector("#panel-transcript").getBoundingClientRect(), w = document.querySelector(".scroller canvas").waterfall;
		const first = [...document.querySelectorAll(".entry")].find((e) => e.getBoundingClientRect().bottom > panel.top), row = w.lines[Math.floor(w.scroller.scrollTop / 24)];
		return [first.dataset.id, Math.round(first.getBoundingClientRect().top - panel.top), row.id, Math.round(w.y(row.row))];
	})())`
	before := eval[string](c, places)
	for i := range 50 {
		a.call(i * 5 % 20)
	}
	c.await("%s", shows(a.n))
	c.await(`document.querySelector("#panel-transcript").scrollHeight > 10000`)
	c.drawn()
	if now := eval[string](c, places); now != before {
		t.Errorf("was at %s, and is at %s", before, now)
	}
	c.screenshot("place")

	// Back at the end, it follows again.
	eval[bool](c, `(() => { for (const el of [document.querySelector("#panel-transcript"), %s.scroller]) el.scrollTop = el.scrollHeight; return true; })()`, waterfall)
	c.await(atEnd)
	a.call(15)
	c.await(`%s && %s`, shows(a.n), atEnd)
}

// What ended is not drawn growing while its process holds it back: a stalled run's shares are true.
func TestChromiumStalled(t *testing.T) {
	c := startChromium(t)
	stdin, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer lines.Close()
	v := startView(t, stdin, "--view", "--content", "full")
	a := &liveAgent{t: t, lines: lines}
	began := time.Now()
	a.print(map[string]any{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/home/dev/shop", "model": "GPT-5", "permissionMode": "default"})
	text := func(words string) {
		a.print(map[string]any{"type": "assistant", "message": map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": words}}}, "timestamp_ms": time.Now().UnixMilli()})
	}
	text("I'll run")
	text(" the tests.")
	a.call(3)
	c.open(v.page + "/#/latest")
	c.await(`%s.trace.live && %s.trace.duration > 8e6`, waterfall, waterfall)
	c.await(`(() => {
		const shares = Object.fromEntries([...document.querySelectorAll(".legend li")].map((li) => [li.innerText.split("\n")[0].replace(/ ?[0-9].*/, ""), parseInt(li.querySelector(".dim").innerText)]));
		return shares["waiting for the model"] >= 95 && !(shares.model > 3);
	})()`)
	t.Log("after", time.Since(began))
	c.screenshot("stalled")
}

// unit finds a time with its unit, such as 31 µs.
var unit = regexp.MustCompile(`\d ?(?:µs|ms|s|h\d\dm|m\d\ds)\b`)

// Without times, equal steps are drawn, and no page shows a unit of time.
func TestChromiumTimeless(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "../codex/tool-failures.jsonl", "../codex/parallel-tools.jsonl", "../codex/plain.jsonl")
	sessions := v.list(t).Sessions
	text := func(page string) {
		t.Helper()
		c.drawn()
		// What a bar says is drawn, not written.
		drawn := eval[string](c, `[...document.querySelectorAll(".scroller canvas")].map(({ waterfall: w }) => {
			const { text } = w.pen, said = [];
			w.pen.text = (...args) => { said.push(args[0]); return text.apply(w.pen, args); };
			w.draw();
			delete w.pen.text;
			w.select(w.rows[1].id);
			return said.join("\n") + "\n" + w.spoken.textContent;
		}).join("\n") + "\n" + document.querySelector("main").innerText`)
		for _, line := range strings.Split(drawn, "\n") {
			if unit.MatchString(line) {
				t.Errorf("%s shows %q", page, line)
			}
		}
		c.screenshot(page)
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 3`)
	text("list")
	for _, tab := range []string{"Transcript", "Span", "Summary"} {
		c.open(v.page + "/#/trace/" + sessions[0].ID + "?tab=" + tab)
		c.await(`%s > 3 && document.querySelector(".spent").innerText === "Without times: only the order of the steps is known."`, rowCount)
		if tab == "Span" {
			c.do(chromedp.KeyEvent("jj"))
			c.await(`document.querySelector(".details h2")`)
		}
		text(tab)
	}
	equal := eval[bool](c, `(() => { const d = %s.trace.nodes.filter((n) => !n.children.length).map((n) => n.duration); return d.every((x) => x === d[0]); })()`, waterfall)
	if !equal {
		t.Error("the steps are not equally long")
	}
	c.open(fmt.Sprint(v.page, "/#/compare/", sessions[0].ID, "/", sessions[1].ID))
	c.await(`document.querySelector(".steps tbody tr")`)
	text("compare")
}

// shift is how much of the page has moved by itself since it was opened.
func (c *chromium) shift() float64 {
	return eval[float64](c, `new Promise((resolve) => {
		let sum = 0;
		new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) sum += e.value; }).observe({ type: "layout-shift", buffered: true });
		setTimeout(() => resolve(sum), 300);
	})`)
}

// Pages do not move while they load, while hits come, and while a session goes on.
func TestChromiumShift(t *testing.T) {
	c := startChromium(t)
	c.do(chromedp.EmulateViewport(1280, 800))
	many := newMade("many")
	for i := range 60 {
		m := newMade(fmt.Sprint("many ", i))
		m.start = time.Unix(0, madeStart).Add(time.Duration(i) * time.Hour)
		root := m.span(nil, "invoke_agent cursor-agent", 0, 1000, str("gen_ai.request.model", fmt.Sprintf("a model with a name that is long %d", i)), str("gen_ai.input.messages", said("user", fmt.Sprint("find the needle ", i))))
		m.span(root, "execute_tool shell", 0, 10, str("gen_ai.tool.call.result", "there is a needle in it"))
		many.spans = append(many.spans, m.spans...)
	}
	v := startView(t, nil, append([]string{"view", many.file(t), fixtures + "fix-failing-test.jsonl", fixtures + "tool-failures.jsonl"}, freePorts...)...)
	sessions := v.list(t).Sessions
	for _, page := range []struct{ name, address, done string }{
		{"list", "/", `document.querySelectorAll(".sessions tbody tr").length === 62`},
		{"search", "/#/?q=needle", `document.querySelectorAll("a.found mark").length >= 60`},
		{"session", "/#/trace/" + sessions[0].ID, `document.querySelectorAll(".entry").length > 0`},
		{"hits", "/#/trace/" + sessions[0].ID + "?find=needle", `document.querySelector(".hits-line mark")`},
		{"runs", "/#/runs", `document.querySelector("table.runs tbody tr")`},
		{"compare", "/#/compare/" + sessions[0].ID + "/" + sessions[1].ID, `document.querySelector(".steps tbody tr")`},
	} {
		c.open(v.page + page.address)
		c.await("%s", page.done)
		if shift := c.shift(); shift > 0.1 {
			c.screenshot(page.name)
			t.Errorf("%s shifts by %.2f", page.name, shift)
		}
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 62`)
	small := eval[[]string](c, `[...document.querySelectorAll("button, input[type=checkbox], summary, .quiet")].filter((el) => el.checkVisibility()).filter((el) => { const box = el.getBoundingClientRect(); return box.height < 24 || box.width < 24; }).map((el) => el.outerHTML.slice(0, 80))`)
	if len(small) > 0 {
		t.Errorf("smaller than 24 pixels: %q", small)
	}
}

// A success that its root makes doubtful does not look like one, in the list and above the session.
func TestChromiumDoubts(t *testing.T) {
	c := startChromium(t)
	c.do(chromedp.EmulateViewport(1280, 800))
	v := viewWhole(t, "approvals.jsonl")
	c.open(v.page + "/")
	const seen = `(() => {
		const el = document.querySelector(%q), box = el.getBoundingClientRect();
		return /^ended, but .*\bdenied/.test(el.innerText) && el.scrollWidth <= el.clientWidth && document.elementFromPoint(box.left + 5, box.top + 5) === el;
	})()`
	c.await(seen, ".sessions .outcome.mixed")
	c.screenshot("list")
	c.do(chromedp.Click(chromedp.CSS(".sessions tbody a")))
	c.await(seen, ".head .outcome.mixed")
	c.screenshot("session")
}

// With a recording of every agent, axe finds nothing on any page.
func TestChromiumAgents(t *testing.T) {
	c := startChromium(t)
	c.do(chromedp.EmulateViewport(1280, 800))
	files, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var ofAgents []string
	last := ""
	for _, file := range files { // sorted: the first of each agent
		if dir := filepath.Dir(file); dir != last && filepath.Base(dir) != "foreign" {
			ofAgents, last = append(ofAgents, file), dir
		}
	}
	v := startView(t, nil, append(append([]string{"view", "--content", "full"}, freePorts...), ofAgents...)...)
	sessions := v.list(t).Sessions
	if len(sessions) < len(ofAgents)-1 {
		t.Fatalf("%d sessions in %d files", len(sessions), len(ofAgents))
	}
	both := func(page string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			c.theme(theme)
			c.drawn()
			c.axe(page + ", " + theme)
		}
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === %d`, len(sessions))
	both("list")
	c.open(v.page + "/#/runs?by=agent")
	c.await(`document.querySelector("table.runs tbody tr")`)
	both("runs")
	for _, s := range sessions {
		c.open(v.page + "/#/trace/" + s.ID)
		c.await(`document.querySelector(".entry")`)
		both(s.Agent)
		c.screenshot(s.Agent)
		c.do(chromedp.KeyEvent("j"), chromedp.Click("#tab-span"))
		c.await(`document.querySelector(".details h2")`)
		both(s.Agent + ", span")
		c.do(chromedp.Click("#tab-summary"))
		both(s.Agent + ", summary")
	}
	c.open(fmt.Sprint(v.page, "/#/compare/", sessions[0].ID, "/", sessions[1].ID))
	c.await(`document.querySelector(".steps tbody tr")`)
	both("compare")
}
