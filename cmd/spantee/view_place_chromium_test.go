package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spantee/spantee/exporter/viewer"
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
	if (n.row < 0 || y < 24 || y + 24 > w.height) out.push("row at " + y);
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
			c.focus(".scroller")
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
				c.do(chromedp.KeyEvent(kb.Enter))
				c.focus(".chart input[type=search]")
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
					c.press(`//button[@aria-label="Next hit"]`)
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
	last  int64 // stamp, in milliseconds
}

// stamp returns the time, later than the last one: calls of one instant have no order.
func (a *liveAgent) stamp() int64 {
	a.last = max(time.Now().UnixMilli(), a.last+1)
	return a.last
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

// liveRun starts a filter with a viewer, and an agent that has printed its first line.
func liveRun(t *testing.T) (viewerRun, *liveAgent) {
	t.Helper()
	stdin, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = lines.Close()
		_ = stdin.Close()
	})
	a := &liveAgent{t: t, lines: lines}
	v := startView(t, stdin, "--view", "--content", "full")
	a.print(map[string]any{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/home/dev/shop", "model": "GPT-5", "permissionMode": "default"})
	return v, a
}

// call prints a call whose output has so many lines.
func (a *liveAgent) call(lines int) {
	a.t.Helper()
	a.n++
	now := a.stamp()
	call := map[string]any{"args": map[string]any{"command": fmt.Sprint("go test ./p", a.n)}}
	line := func(subtype string) map[string]any {
		return map[string]any{"type": "tool_call", "subtype": subtype, "call_id": fmt.Sprint("call_", a.n), "tool_call": map[string]any{"shellToolCall": call}, "timestamp_ms": now}
	}
	a.print(line("started"))
	call["result"] = map[string]any{"success": map[string]any{"command": "go test", "exitCode": 0, "stdout": strings.Repeat("a line\n", lines) + fmt.Sprint("the end of ", a.n)}}
	a.print(line("completed"))
}

// followed watches the transcript and the waterfall at each frame: how many frames in a row their
// ends were out of sight at most, and which heights the last steps had.
const followed = `(() => {
	const seen = window.followed = { lost: 0, now: 0, frames: 0, heights: [], missed: "" };
	const look = () => {
		const panel = document.querySelector("#panel-transcript").getBoundingClientRect(), last = [...document.querySelectorAll(".entry")].at(-1)?.getBoundingClientRect();
		const w = document.querySelector(".scroller canvas").waterfall, end = w.y(w.lines.length) - w.height;
		const ok = !last || last.top < panel.bottom && last.bottom <= panel.bottom + 1 && end <= 0;
		if (last && !seen.heights.includes(Math.round(last.height))) seen.heights.push(Math.round(last.height));
		seen.now = ok ? 0 : seen.now + 1;
		if (seen.now > seen.lost) seen.missed = [last.top, last.bottom, panel.top, panel.bottom, end].map(Math.round).join();
		seen.lost = Math.max(seen.lost, seen.now);
		seen.frames++;
		requestAnimationFrame(look);
	};
	look();
	return true;
})()`

// liveCalls are as many calls as a browser shows one after another in two minutes.
const liveCalls = 2000

// A session that goes on stays at its end, whatever the heights of its steps are, and where one
// has scrolled to, however many come.
func TestChromiumFollow(t *testing.T) {
	c := startChromium(t)
	c.do(chromedp.EmulateViewport(1280, 800))
	v, a := liveRun(t)
	c.open(v.page + "/#/latest")
	c.await(`%s.trace.live`, waterfall)

	const atEnd = `(() => {
		const panel = document.querySelector("#panel-transcript").getBoundingClientRect(), last = [...document.querySelectorAll(".entry")].at(-1).getBoundingClientRect(), w = document.querySelector(".scroller canvas").waterfall;
		return last.top < panel.bottom && last.bottom <= panel.bottom + 1 && w.y(w.rows.length) <= w.height;
	})()`
	shows := func(n int) string {
		return fmt.Sprintf(`%s.trace.nodes.some((n) => n.detail === "go test ./p%d")`, waterfall, n)
	}
	eval[bool](c, followed)
	for a.n < liveCalls {
		for range 1 + a.n%9 { // that many come at once
			a.call(a.n * 7 % 20)
		}
		c.await(`%s && %s`, shows(a.n), atEnd)
	}
	seen := eval[struct {
		Lost, Frames int
		Heights      []int
		Missed       string
	}](c, `window.followed`)
	t.Logf("%d frames, steps of %d to %d pixels", seen.Frames, slices.Min(seen.Heights), slices.Max(seen.Heights))
	if seen.Lost > 1 { // a frame may come between a step and the place for it
		t.Errorf("the end was out of sight for %d frames in a row: %s", seen.Lost, seen.Missed)
	}
	if slices.Min(seen.Heights) > 60 || slices.Max(seen.Heights) < 380 {
		t.Errorf("the last steps were of %v pixels", seen.Heights)
	}
	c.screenshot("end")

	// Scrolled up, nothing moves once all calls have ended: they are sorted by that.
	c.await(`%s.trace.nodes.filter((n) => n.open).length < 3`, waterfall)
	c.click(`(() => { const box = document.querySelector("#panel-transcript").getBoundingClientRect(); return { x: box.left + 5, y: box.top + 300 }; })()`)
	eval[bool](c, `(() => { document.querySelector("#panel-transcript").scrollTop -= 1500; %s.scroller.scrollTop -= 300; return true; })()`, waterfall)
	c.drawn()
	type places struct {
		Step, Row     string
		StepAt, RowAt float64
	}
	const lookAt = `(() => {
		const panel = document.querySelector("#panel-transcript").getBoundingClientRect(), w = document.querySelector(".scroller canvas").waterfall;
		const first = [...document.querySelectorAll(".entry")].find((e) => e.getBoundingClientRect().bottom > panel.top), row = w.lines[Math.floor(w.scroller.scrollTop / 24)];
		return { Step: first.dataset.id, StepAt: first.getBoundingClientRect().top - panel.top, Row: row.id, RowAt: w.y(row.row) };
	})()`
	before := eval[places](c, lookAt)
	for i := range 50 {
		a.call(i * 5 % 20)
	}
	c.await("%s", shows(a.n))
	c.await(`document.querySelector("#panel-transcript").scrollHeight > 50000`)
	c.drawn()
	now := eval[places](c, lookAt)
	if moved := max(math.Abs(now.StepAt-before.StepAt), math.Abs(now.RowAt-before.RowAt)); now.Step != before.Step || now.Row != before.Row || moved > 1 { // a pixel, which rounding takes
		t.Errorf("was at %+v, and is at %+v", before, now)
	}
	c.screenshot("place")

	// Back at the end, it follows again.
	eval[bool](c, `(() => { for (const el of [document.querySelector("#panel-transcript"), %s.scroller]) el.scrollTop = el.scrollHeight; return true; })()`, waterfall)
	c.await(atEnd)
	a.call(15)
	c.await(`%s && %s`, shows(a.n), atEnd)
}

// What ended is not drawn growing while its process holds it back: a stalled run's shares are
// true, to a hundredth of it. Three minutes of it pass by the page's clock alone.
func TestChromiumStalled(t *testing.T) {
	c := startChromium(t)
	v, a := liveRun(t)
	text := func(words string, at int64) {
		a.print(map[string]any{"type": "assistant", "message": map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": words}}}, "timestamp_ms": at})
	}
	began := a.stamp()
	text("I'll run", began)
	c.open(v.page + "/#/latest")
	c.await(`%s.trace.live && %s.trace.duration > 2e6`, waterfall, waterfall)
	text(" the tests.", a.stamp())
	said := a.last - began
	a.call(3)
	c.await(`%s.trace.nodes.some((n) => n.op === "chat" && !n.open)`, waterfall)
	eval[bool](c, `(() => { const { now } = Date; Date.now = () => now() + 180e3; return true; })()`)
	c.await(`%s.trace.duration > 180e6 && document.querySelector(".legend").innerText.includes("3m")`, waterfall)
	shares := eval[map[string]float64](c, `({ total: %s.trace.duration / 1e3, ...Object.fromEntries([...document.querySelectorAll(".legend li")].map((li) => [li.innerText.split("\n")[0].trim(), parseInt(li.querySelector(".dim").innerText)])) })`, waterfall)
	for name, want := range map[string]float64{"model output": 100 * float64(said) / shares["total"], "waiting for the model": 100 - 100*float64(said)/shares["total"]} {
		if math.Abs(shares[name]-want) > 1 {
			t.Errorf("%s is %v %%, want %.2f, of %v", name, shares[name], want, shares)
		}
	}
	c.screenshot("stalled")
}

// unit finds a time with its unit, such as 31 µs.
var unit = regexp.MustCompile(`\d ?(?:µs|ms|s|h\d\dm|m\d\ds)\b`)

// Of recordings without times, whatever the agent, equal steps are drawn, and no page shows a unit of time.
func TestChromiumTimeless(t *testing.T) {
	c := startChromium(t)
	files, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	v := startView(t, nil, append(append([]string{"view", "--content", "full"}, freePorts...), files...)...)
	longest := make(map[string]viewer.Session) // by agent
	var sessions []viewer.Session
	for _, s := range v.list(t).Sessions {
		if !s.Timeless {
			v.change(t, s.ID, "delete")
			continue
		}
		sessions = append(sessions, s)
		if s.Spans > max(1, longest[s.Agent].Spans) {
			longest[s.Agent] = s
		}
	}
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
		}).join("\n") + "\n" + [...document.querySelectorAll("main, main .unseen")].map((el) => el.innerText).join("\n")`)
		for line := range strings.Lines(drawn) {
			if unit.MatchString(line) {
				t.Errorf("%s shows %q", page, line)
			}
		}
		c.screenshot(page)
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === %d`, len(sessions))
	text("list")
	c.open(v.page + "/#/runs?by=agent")
	c.await(`document.querySelector(".page .foot").innerText.includes("runs without times") && document.querySelector("table.runs tbody tr")`)
	text("runs")
	var two []string
	for agent, s := range longest {
		two = append(two, s.ID)
		for _, tab := range []string{"Transcript", "Span", "Summary"} {
			c.open(v.page + "/#/trace/" + s.ID + "?tab=" + tab)
			c.await(`%s > 1 && document.querySelector(".spent p:last-child").innerText === "Without times: only the order of the steps is known."`, rowCount)
			if tab == "Span" {
				c.do(chromedp.KeyEvent("jj"))
				c.await(`document.querySelector(".details h2")`)
			}
			text(agent + ", " + tab)
		}
		if equal := eval[bool](c, `(() => { const d = %s.trace.nodes.filter((n) => !n.children.length).map((n) => n.duration); return d.every((x) => x === d[0]); })()`, waterfall); !equal {
			t.Errorf("the steps of %s are not equally long", agent)
		}
	}
	c.open(fmt.Sprint(v.page, "/#/compare/", two[0], "/", two[1]))
	c.await(compared)
	text("compare")
}

// A run that was sent at three content levels, in any order, is one row with its cost once.
func TestChromiumCopies(t *testing.T) {
	c := startChromium(t)
	levels := []string{"none", "details", "full"}
	const recording = "../../testdata/claude/plain.jsonl"
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		v := viewFiles(t)
		c.open(v.page + "/")
		c.await(`document.querySelector(".empty h2")`)
		for _, i := range order {
			in, err := os.Open(recording)
			if err != nil {
				t.Fatal(err)
			}
			filter := spantee(t, nil, "--endpoint", v.grpc, "--content", levels[i])
			filter.Stdin = in
			err = filter.Run()
			in.Close()
			if err != nil {
				t.Fatalf("%v: %s", err, &filter.stderr)
			}
		}
		cost := v.list(t).Sessions[0].Cost
		if cost == 0 {
			t.Fatal("the recording has no cost")
		}
		c.await(`document.querySelectorAll(".sessions tbody tr").length === 1 && document.querySelector(".foot").innerText.startsWith("1 session ·")`)
		c.await(`document.querySelector(".sessions tbody a").innerText === "$ cd /home/dev/shop && go test ./internal/cart"`) // as the richest says
		c.open(v.page + "/#/runs")
		c.await(`document.querySelector(".page .foot").innerText.startsWith("1 run on 1 day") && document.querySelector(".page .foot").innerText.includes(%q)`, fmt.Sprintf("$%.3f of 1 run", cost))
		c.open(v.page + "/#/?q=" + "agent:claude")
		c.await(`document.querySelectorAll(".sessions tbody tr").length === 1`)
	}
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
		{"span", "/#/trace/" + sessions[0].ID + "?tab=Span", `document.querySelector(".panel:not([hidden]) .details")`},
		{"summary", "/#/trace/" + sessions[0].ID + "?tab=Summary", `document.querySelector(".panel:not([hidden]) .stats")`},
		{"nothing found", "/#/?q=no-such-word", `document.querySelector(".empty h2")`},
		{"no session", "/#/trace/" + strings.Repeat("f", 32), `document.querySelector(".empty h2")`},
		{"latest", "/#/latest", `document.querySelectorAll(".entry").length > 0`},
		{"hits", "/#/trace/" + sessions[0].ID + "?find=needle", `document.querySelector(".hits-line mark")`},
		{"runs", "/#/runs", `document.querySelector("table.runs tbody tr")`},
		{"compare", "/#/compare/" + sessions[0].ID + "/" + sessions[1].ID, compared},
	} {
		c.open(v.page + page.address)
		c.await("%s", page.done)
		if shift := c.shift(); shift > 0 {
			c.screenshot(page.name)
			t.Errorf("%s shifts by %.4f", page.name, shift)
		}
	}
	live, a := liveRun(t)
	for page, most := range map[string]float64{"/": 0, "/#/latest": 0.1} { // a transcript that stays at its end moves up
		c.open(live.page + page)
		c.await(`document.querySelector(".outcome.running")`)
		for range 10 {
			a.call(a.n * 7 % 20)
			c.await(`document.querySelector("td.of-tools")?.innerText === "%d" || %s.trace.nodes.some((n) => n.detail === "go test ./p%d")`, a.n, waterfall, a.n)
		}
		if shift := c.shift(); shift > most {
			c.screenshot("live")
			t.Errorf("%s shifts by %.4f while a session goes on", page, shift)
		}
	}
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 62`)
	small := eval[[]string](c, `[...document.querySelectorAll("button, input[type=checkbox], summary, .quiet")].filter((el) => el.checkVisibility()).filter((el) => { const box = el.getBoundingClientRect(); return box.height < 24 || box.width < 24; }).map((el) => el.outerHTML.slice(0, 80))`)
	if len(small) > 0 {
		t.Errorf("smaller than 24 pixels: %q", small)
	}
}

// Pages without anything have nothing that keeps people from using them, and do not move either.
func TestChromiumEmptyPages(t *testing.T) {
	c := startChromium(t)
	c.do(chromedp.EmulateViewport(1280, 800))
	v := viewFiles(t)
	for name, address := range map[string]string{"list": "/", "latest": "/#/latest", "runs": "/#/runs", "session": "/#/trace/" + strings.Repeat("f", 32), "compare": "/#/compare/1/2"} {
		c.open(v.page + address)
		c.await(`/No sessions yet|Waiting for|0 runs|No such session|no such session/.test(document.querySelector("main").innerText)`)
		if shift := c.shift(); shift > 0.1 {
			t.Errorf("%s shifts by %.2f", name, shift)
		}
		for _, theme := range []string{"light", "dark"} {
			c.theme(theme)
			c.drawn()
			c.axe(name + ", " + theme)
		}
		c.screenshot(name)
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
		return /^ended, but .*\bdenied/.test(el.innerText) && el.firstChild.scrollWidth <= el.firstChild.clientWidth && el.contains(document.elementFromPoint(box.left + 5, box.top + 5));
	})()`
	c.await(seen, ".sessions .outcome.mixed")
	c.screenshot("list")
	c.press(".sessions tbody a")
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
	largest := make(map[string]string) // recording, by agent
	size := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for _, file := range files {
		if agent := strings.TrimSuffix(filepath.Base(filepath.Dir(file)), "-log"); agent != "foreign" && size(file) > size(largest[agent]) {
			largest[agent] = file
		}
	}
	v := startView(t, nil, append(append([]string{"view", "--content", "full"}, freePorts...), slices.Collect(maps.Values(largest))...)...)
	sessions := v.list(t).Sessions
	shown := make(map[string]bool)
	for _, s := range sessions {
		shown[s.Agent] = true
	}
	if len(shown) != len(largest) || len(largest) < 12 {
		t.Fatalf("%v of %v", shown, largest)
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
		c.do(chromedp.KeyEvent("j"))
		c.press("#tab-span")
		c.await(`document.querySelector(".details h2")`)
		both(s.Agent + ", span")
		c.press("#tab-summary")
		both(s.Agent + ", summary")
	}
	c.open(fmt.Sprint(v.page, "/#/compare/", sessions[0].ID, "/", sessions[1].ID))
	c.await(compared)
	both("compare")
}
