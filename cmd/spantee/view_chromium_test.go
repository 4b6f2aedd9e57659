package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/viewer"
)

const (
	waterfall = `document.querySelector(".scroller canvas").waterfall`
	rowCount  = waterfall + `.rows.length`
)

// A plot is where the waterfall is on the screen, and the time it shows.
type plot struct {
	X, Y, Left, Plot      float64
	From, Span, Start     float64 // microseconds; Start of the trace
	Scroll, Width, Height float64
	Rows                  []string // span ids
	Colors                map[string][3]uint8
}

func (c *chromium) plot() (p plot) {
	c.t.Helper()
	c.drawn()
	b := eval[[]byte](c, `(() => {
		const w = %s, box = w.canvas.getBoundingClientRect();
		const probe = document.body.appendChild(document.createElement("span")), Colors = {};
		for (const name of ["agent", "chat", "chat-wait", "tool", "background", "approval", "other", "error", "chat-wait"]) {
			probe.style.color = "var(--" + name + ")";
			Colors[name] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
		}
		probe.remove();
		return { X: box.left, Y: box.top, Left: w.left, Plot: w.plot, Width: w.width, Height: w.height,
			From: w.timeline.from, Span: w.timeline.span, Start: w.trace.start,
			Scroll: w.scroller.scrollTop, Rows: w.rows.map((n) => n.id), Colors };
	})()`, waterfall)
	if err := json.Unmarshal(b, &p); err != nil {
		c.t.Fatal(err)
	}
	return p
}

// checkBars finds the bars in sight in the pixels of the screen, and compares
// where they begin and end with the times the viewer has of the spans.
func (c *chromium) checkBars(name string, session viewer.Overview) {
	c.t.Helper()
	p := c.plot()
	screen := c.screenshot(name)
	spans := make(map[string]viewer.Bar)
	for _, s := range session.Spans {
		spans[s.ID] = s
	}
	const axis, row = 24, 24 // pixels
	checked := 0
	for i, id := range p.Rows {
		s := spans[id]
		middle := axis + row*float64(i) + row/2 - p.Scroll
		x := func(at int64) float64 { return p.Left + (float64(at)-p.Start-p.From)/p.Span*p.Plot }
		from, to := x(s.Start), max(x(s.End), x(s.Start)+2)
		if middle < axis+row || middle > p.Height-row || from < p.Left+3 || to > p.Left+p.Plot-3 || to-from < 6 {
			continue
		}
		checked++
		gotFrom, gotTo := barAt(screen, p, p.X+(from+to)/2, p.Y+middle, ink(p, s))
		if math.Abs(gotFrom-(p.X+from)) > 1.5 || math.Abs(gotTo-(p.X+to)) > 1.5 {
			c.t.Errorf("%s: the bar of %s is at %.1f to %.1f, want %.1f to %.1f", name, s.Name, gotFrom, gotTo, p.X+from, p.X+to)
		}
	}
	if checked < 3 {
		c.t.Errorf("%s: only %d bars in sight of %d rows", name, checked, len(p.Rows))
	}
}

// ink is the color a bar has at its ends; a turn of the model has several.
func ink(p plot, s viewer.Bar) [][3]uint8 {
	switch {
	case s.Op == "chat":
		return nil
	case s.Failure != "":
		return [][3]uint8{p.Colors["error"]}
	case s.Op == "":
		return [][3]uint8{p.Colors["other"]}
	}
	return [][3]uint8{p.Colors[s.Op]}
}

// barAt returns from where to where the pixels are of the colors given, or
// without any of none that the empty plot has: panel, selection, grid.
func barAt(screen image.Image, p plot, x, y float64, colors [][3]uint8) (from, to float64) {
	of := func(px int) bool {
		r, g, b, _ := screen.At(px, int(y)).RGBA()
		at := [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
		if colors == nil { // greys are nearly even
			return int(max(at[0], at[1], at[2]))-int(min(at[0], at[1], at[2])) > 14
		}
		return slices.ContainsFunc(colors, func(c [3]uint8) bool {
			return math.Abs(float64(c[0])-float64(at[0]))+math.Abs(float64(c[1])-float64(at[1]))+math.Abs(float64(c[2])-float64(at[2])) < 60
		})
	}
	left, right := int(x), int(x)
	if !of(left) {
		return -1, -1
	}
	for of(left-1) && float64(left) > p.X+p.Left {
		left--
	}
	for of(right + 1) {
		right++
	}
	return float64(left), float64(right + 1)
}

// where returns a script that says where the row of a span is.
func where(id string) string {
	return fmt.Sprintf(`(() => {
		const w = %s, box = w.canvas.getBoundingClientRect(), n = w.trace.byId.get(%q);
		return { x: box.left + w.left / 2, y: box.top + w.y(n.row) + 12 };
	})()`, waterfall, id)
}

func named(session viewer.Overview, name string) viewer.Bar {
	for _, s := range session.Spans {
		if s.Name == name {
			return s
		}
	}
	return viewer.Bar{}
}

// A bundled session, from the list to the details of a span, in both themes.
func TestChromiumSession(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t, "../../testdata/cursor/fix-failing-test.jsonl", "../../testdata/cursor/parallel-tools.jsonl", "../../testdata/cursor/tool-failures.jsonl")
	list := v.list(t).Sessions
	id := list[slices.IndexFunc(list, func(s viewer.Session) bool { return s.Tools == 6 })].ID
	session := v.session(t, id)

	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 3`)
	row := eval[string](c, `document.querySelector("tr[data-id='%s']").innerText`, id)
	for _, want := range []string{"cursor-agent", "GPT-5", "24.3s", "6", "1", "79.7k", "731", "ended, 1 error"} {
		if !strings.Contains(row, want) {
			t.Errorf("the list has no %q in %q", want, row)
		}
	}
	c.screenshot("list")

	// Search filters, by tool as well, and so does the choice of a model.
	c.write("input[type=search]", "GREP gpt")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1 && document.querySelector("tr[data-id='%s']")`, id)
	c.write("input[type=search]", "nothing of this")
	c.await(`document.querySelector(".empty h2").innerText === "Nothing matches"`)
	c.write("input[type=search]", id[:6])
	c.await(`document.querySelector(".sessions tbody a").hash === %q`, "#/trace/"+id+"?find="+id[:6]) // a part of the word leaves the same row

	c.press("tr[data-id='" + id + "'] a")
	c.await(`%s === %d`, rowCount, len(session.Spans))
	c.checkBars("light", session)
	for _, want := range []string{"shell", "50%", "waiting for the model", "12.2s"} {
		if spent := eval[string](c, `document.querySelector(".spent").innerText`); !strings.Contains(spent, want) {
			t.Errorf("no %q in where the time went: %q", want, spent)
		}
	}
	if table := eval[string](c, `document.querySelector(".overall .stats").textContent`); !strings.Contains(table, "shell2112.2s7.99s") {
		t.Errorf("the table of tools is %q", table)
	}

	// A click selects the step in the transcript, and Enter opens the details;
	// the address is that of the span.
	shell := named(session, "execute_tool shell go")
	c.click(where(shell.ID))
	c.await(`document.querySelector(".transcript .selected").dataset.id === %q`, shell.ID)
	c.do(chromedp.KeyEvent(kb.Enter))
	c.await(`document.querySelector(".details h2").innerText === "execute_tool shell go"`)
	details := eval[string](c, `document.querySelector(".details").innerText`)
	for _, want := range []string{"exit 1", "gen_ai.tool.call.id", "process.exit.code", "service.name", shell.ID} {
		if !strings.Contains(details, want) {
			t.Errorf("no %q in the details: %q", want, details)
		}
	}
	c.await(`location.hash === %q`, "#/trace/"+id+"/"+shell.ID+"?find="+id[:6]+"&tab=Span") // what was searched in the list goes along
	c.screenshot("details")

	// A step in the transcript selects its span.
	eval[bool](c, `(() => { document.querySelector("#tab-transcript").click(); document.querySelector(".entry[data-id='%s'] .go").click(); return true; })()`, named(session, "execute_tool grep").ID)
	c.await(`%s.selected === %q`, waterfall, named(session, "execute_tool grep").ID)
	eval[bool](c, `(() => { document.querySelector("#tab-span").click(); %s.scroller.focus(); return true; })()`, waterfall)
	c.click(where(shell.ID))

	// Zoomed in and panned by keys, bars stand where the times say as well.
	c.do(chromedp.KeyEvent("+"))
	c.checkBars("zoomed", session)
	c.do(chromedp.KeyEvent("d"), chromedp.KeyEvent("0"), chromedp.KeyEvent(kb.ArrowDown))
	c.await(`document.querySelector(".details h2").innerText === "chat GPT-5"`)
	if details := eval[string](c, `document.querySelector(".details").innerText`); !strings.Contains(details, "text.delta") {
		t.Errorf("no events in %q", details)
	}
	eval[bool](c, `%s.select(%q) === undefined`, waterfall, named(session, "chat GPT-5").ID)
	c.await(`document.querySelector(".details dd").innerText === "3.06s estimated"`)

	c.theme("dark")
	c.do(chromedp.KeyEvent(kb.Escape))
	c.await(`%s.selected === null`, waterfall)
	c.checkBars("dark", session)

	// A link leads to a span.
	c.theme("light")
	c.do(chromedp.EmulateViewport(1280, 600))
	c.open(v.page + "/#/trace/" + id + "/" + shell.ID)
	c.await(`document.querySelector(".transcript .selected").dataset.id === %q`, shell.ID)
	c.drawn()
	c.screenshot("readme") // testdata/view.png

	// The filter leaves what matches, and what it belongs to.
	c.write(".chart input[type=search]", "tool:grep")
	c.await(`%s === 3`, rowCount) // with its turn and its agent
}

func TestChromiumCompare(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t, "../../testdata/cursor/fix-failing-test.jsonl", "../../testdata/cursor/tool-kinds.jsonl")
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 2`)
	c.press("tbody tr:nth-child(1) .pick input", "tbody tr:nth-child(2) .pick input", "a.button")
	c.await(`[...document.querySelectorAll(".scroller canvas")].filter((c) => c.waterfall.rows.length > 0).length === 2`)
	if table := eval[string](c, `document.querySelector(".difference").innerText`); !strings.Contains(table, "waiting for the model") || !strings.Contains(table, "shell") {
		t.Errorf("the difference is %q", table)
	}
	c.screenshot("light")
	c.theme("dark")
	c.drawn()
	c.screenshot("dark")
}

// compared is awaited where two sessions are side by side.
const compared = `/difference/.test(document.querySelector(".tools .found")?.innerText)`

// Two runs stand side by side step by step, scroll, zoom and filter as one, and one can go
// from difference to difference.
func TestChromiumCompareAligned(t *testing.T) {
	c := startChromium(t)
	m := [2]*made{}
	all := newMade("all")
	for side := range m {
		m[side] = newMade(fmt.Sprint("side ", side))
		root := m[side].span(nil, "invoke_agent cursor-agent", 0, 60_000)
		for i := range 60 {
			if side == 1 && (i == 20 || i == 21) {
				continue
			}
			call := m[side].span(root, fmt.Sprint("execute_tool tool", i), float64(1000*i), float64(1000*i+500+300*side))
			if side == 1 && i == 40 {
				call.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
			}
		}
		all.spans = append(all.spans, m[side].spans...)
	}
	v := viewFiles(t, all.file(t))
	c.open(fmt.Sprintf("%s/#/compare/%x/%x", v.page, m[0].trace, m[1].trace))
	const (
		both  = `[...document.querySelectorAll(".scroller canvas")].map((c) => c.waterfall)`
		lines = `JSON.stringify(` + both + `.map((w) => [w.trace.nodes.find((n) => n.title === "tool50").row, w.lines.length]))`
	)
	c.await(`%s === "[[51,61],[51,61]]" && document.querySelector(".tools .found").innerText === "2 differences"`, lines)
	c.press(`//button[@aria-label="Next difference"]`)
	c.await(`document.querySelector(".tools .found").innerText === "difference 1 of 2: tool20 | nothing" && %s.every((w) => w.scroller.scrollTop === 19 * 24)`, both)
	c.drawn()
	c.screenshot("difference")
	c.axe("compare")
	c.press(`//button[@aria-label="Next difference"]`)
	c.await(`document.querySelector(".tools .found").innerText === "difference 2 of 2: tool40 | tool40 error" && %s.every((w) => w.trace.byId.get(w.selected).title === "tool40")`, both)
	eval[bool](c, `(() => { %s[1].scroller.scrollTop = 100; return true; })()`, both)
	c.await(`%s.every((w) => w.scroller.scrollTop === 100)`, both)
	c.write(`.tools input[type=search]`, "tool5")
	c.await(`%s.map((w) => w.rows.length).join() === "12,12"`, both) // tool5 and tool50 to tool59, with their agent
	eval[bool](c, `(() => { %s[0].timeline.set(50e6, 55e6); return true; })()`, both)
	c.do(chromedp.EmulateViewport(1440, 600))
	// There is little room: rows without anything in sight are left out.
	c.await(`%s.every((w) => w.timeline.from === 50e6 && w.rows.length === 7)`, both)
}

// 10,000 spans with 100,000 events.
func TestChromiumLarge(t *testing.T) {
	c := startChromium(t)
	big := bigSession(10_000)
	events := 0
	for _, s := range big.spans {
		events += len(s.Events)
	}
	if events < 100_000 {
		t.Fatalf("only %d events", events)
	}
	v := viewFiles(t, big.file(t))
	session := v.session(t, v.id)
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1`)
	c.press(".sessions tbody a")
	c.await(`%s === 10000`, rowCount)
	c.screenshot("all")
	for i, at := range []int{30, 5_000, 9_990} {
		eval[bool](c, `(() => { const w = %s, n = w.all[%d]; w.select(n.id); w.timeline.set(n.start - w.trace.start - 5e6, n.start - w.trace.start + 5e6); return true; })()`, waterfall, at)
		c.checkBars(fmt.Sprint("part ", i+1), session)
	}
	c.write(".chart input[type=search]", "tool:grep")
	c.await(`%s.all.length > 100 && %s.all.length < 5000`, waterfall, waterfall)
}

// How fast it is. Nothing is asserted: machines differ, and others work on them.
func TestChromiumPace(t *testing.T) {
	c := startChromiumAlone(t)
	small := viewFiles(t, bigSession(1000).file(t))
	for range 3 {
		c.open(small.page + "/#/trace/" + small.id)
		c.await(`performance.getEntriesByName("waterfall").length > 0`)
		t.Logf("pace: a session of 1,000 spans is drawn %.0f ms after its page was asked for",
			eval[float64](c, `performance.getEntriesByName("waterfall")[0].startTime`))
	}

	big := viewFiles(t, bigSession(10_000).file(t))
	c.open(big.page + "/#/trace/" + big.id)
	c.await(`%s === 10000`, rowCount)
	t.Logf("pace: one of 10,000 spans and 100,000 events after %.0f ms", eval[float64](c, `performance.getEntriesByName("waterfall")[0].startTime`))
	for _, motion := range []struct{ name, step string }{
		{"scrolling", "w.scroller.scrollTop = 200000 * (1 - Math.cos(turn)) / 2"},
		{"zooming", "w.timeline.set(0, w.timeline.total * Math.exp(-6 * (1 - Math.cos(turn))))"},
		{"panning, zoomed in", "{ const at = w.timeline.total * 0.9 * (1 - Math.cos(turn)) / 2; w.timeline.set(at, at + 3e7); }"},
	} {
		frames := c.frames(motion.step)
		t.Logf("pace: %s: %.0f frames a second, the longest of %.0f ms", motion.name, frames["second"], frames["worst"])
	}
}

// frames draws for three seconds, moving by a script that knows the waterfall w
// and an angle, turn.
func (c *chromium) frames(step string) map[string]float64 {
	c.t.Helper()
	return eval[map[string]float64](c, `new Promise((resolve) => {
		const w = %s, began = performance.now();
		let n = 0, last = began, worst = 0;
		const frame = (now) => {
			const turn = (now - began) / 3000 * 4 * Math.PI;
			%s;
			worst = Math.max(worst, now - last);
			last = now;
			n++;
			if (now - began < 3000) requestAnimationFrame(frame);
			else resolve({ second: n / (now - began) * 1000, worst });
		};
		requestAnimationFrame(frame);
	})`, waterfall, step)
}

// A session grows on the page while its lines arrive.
func TestChromiumLive(t *testing.T) {
	c := startChromium(t)
	stdin, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer lines.Close()
	v := startView(t, stdin, "--view")
	c.open(v.page + "/#/latest")
	c.await(`document.querySelector(".empty h2").innerText === "Waiting for the first span"`)

	recorded := bytes.SplitAfter(fixture(t, "fix-failing-test.jsonl"), []byte("\n"))
	write := func(from, to int) {
		t.Helper()
		if _, err := lines.Write(bytes.Join(recorded[from:to], nil)); err != nil {
			t.Fatal(err)
		}
	}
	third := len(recorded) / 3
	write(0, third)
	c.await(`%s >= 1`, rowCount)
	before := eval[int](c, rowCount)
	write(third, 2*third)
	c.await(`%s > %d`, rowCount, before)
	if eval[bool](c, `%s.trace.session.ended`, waterfall) {
		t.Error("ended before its end")
	}
	c.screenshot("growing")
	write(2*third, len(recorded))
	lines.Close()
	c.await(`%s === 11 && %s.trace.session.ended`, rowCount, waterfall)
	c.screenshot("ended")
}
