package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

var widths = []struct{ width, height int64 }{{1440, 900}, {1280, 800}, {820, 700}, {375, 720}}

// What failed and where the time went are in sight above the waterfall, and nothing is cut without a
// sign: the shares add up to 100, and a failure that has no room is counted.
func TestChromiumSpent(t *testing.T) {
	c := startChromium(t)
	long := strings.Repeat("/very/long/path/of/a/command", 4)
	var ids []string
	var all made
	for _, failing := range []int{1, 3, 9} {
		m := newMade(fmt.Sprint("failing ", failing))
		root := m.span(nil, "invoke_agent cursor-agent", 0, 100_000)
		m.span(root, "chat GPT-5", 0, 40_000, str("spantee.time.start", "inferred"))
		for i, tool := range []string{"shell", "read", "edit", "grep", "mcp_a_long_name_of_a_tool", "write", "task", "list", "fetch"} {
			from := 40_000 + 6000*float64(i)
			s := m.span(root, "execute_tool "+tool, from, from+6000-float64(i), str("process.command_line", fmt.Sprint(i, long)), str("spantee.time.end", "inferred"))
			if i < failing {
				s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "it broke"}
			}
		}
		all.spans = append(all.spans, m.spans...)
		ids = append(ids, fmt.Sprintf("%x", m.trace))
	}
	v := viewFiles(t, all.file(t))
	for i, failing := range []int{1, 3, 9} {
		for _, size := range widths {
			c.do(chromedp.EmulateViewport(size.width, size.height))
			c.open(v.page + "/#/trace/" + ids[i])
			c.await(`%s > 5 && document.querySelector(".failures")`, rowCount)
			c.drawn()
			seen := eval[struct {
				Shares, Parts, Failures, More int
				First                         float64
			}](c, `(() => {
				const inSight = (row) => [...row.children].filter((el) => { const r = row.getBoundingClientRect(), b = el.getBoundingClientRect(); return b.bottom <= r.bottom + 1 && b.right <= r.right + 1 && b.right <= innerWidth; });
				const [failures, legend] = [".failures", ".legend"].map((s) => document.querySelector(".spent " + s));
				const failed = inSight(failures).slice(1).filter((el) => el.className !== "quiet more");
				return {
					Parts: legend.children.length, Shares: inSight(legend).reduce((sum, el) => sum + (parseInt(el.innerText.match(/(\d+)%%/)[1]) || 0), 0),
					Failures: failed.length, First: failed[0]?.getBoundingClientRect().width ?? 0,
					More: parseInt(inSight(failures).at(-1).innerText.match(/^\+(\d+) more$/)?.[1] ?? "0"),
				};
			})()`)
			if seen.Shares != 100 || seen.Parts < 2 || seen.Failures == 0 || seen.First < 90 || seen.Failures+seen.More != failing {
				c.screenshot(fmt.Sprintf("%d of %d", failing, size.width))
				t.Errorf("at %d pixels, of %d failures: %+v", size.width, failing, seen)
			}
			if size.width == 1280 {
				c.screenshot(fmt.Sprint("spent ", failing))
			}
		}
	}
	c.do(chromedp.EmulateViewport(1280, 800))
	c.await(`document.querySelector(".failures .more")`) // drawn anew for the new width
	c.press(".failures .more")
	c.await(`document.querySelector(".found[role=status]").innerText.startsWith("9 of")`)
	c.press(`//ul[@class="legend"]/li[last()]/button`)
	c.await(`document.querySelector("#tab-summary").getAttribute("aria-selected") === "true" && document.querySelectorAll(".overall .legend li").length === 11`)
	if table := eval[string](c, `document.querySelector(".overall .stats").innerText`); strings.Count(table, "estimated") != 18 {
		t.Errorf("the times of tools are estimated: %q", table)
	}
	c.open(v.page + "/#/compare/" + ids[0] + "/" + ids[1])
	c.await(`document.querySelector(".difference td").innerText.endsWith(" estimated")`)
}

// How long an agent has been silent is in sight, however long its command is, and no page says of a
// live session that its content was not recorded.
func TestChromiumLiveHead(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t)
	const minutes = 3 * 60_000
	m := newMade("quiet")
	m.start = time.Now().Add(-minutes * time.Millisecond)
	m.span(m.span(nil, "invoke_agent cursor-agent", 0, minutes), "execute_tool shell", 0, minutes, str("process.command_line", strings.Repeat("go test ./internal/checkout/... && ", 9)))
	m.runs(t, v)
	for _, size := range widths {
		c.do(chromedp.EmulateViewport(size.width, size.height))
		for _, page := range []string{"/", fmt.Sprintf("/#/trace/%x", m.trace)} {
			c.open(v.page + page)
			c.await(`document.querySelector("main .outcome.running")`)
			c.drawn()
			if cut := eval[string](c, `(() => {
				const row = document.querySelector("main .outcome.running"), times = row.lastChild.getBoundingClientRect();
				return !/^ for 3m\d\ds, silent for 3m\d\ds$/.test(row.lastChild.textContent) ? row.textContent
					: times.right > Math.min(row.getBoundingClientRect().right, row.parentElement.getBoundingClientRect().right) + 1 || row.firstChild.getBoundingClientRect().width < 40 ? "out of sight" : "";
			})()`); cut != "" {
				c.screenshot("cut")
				t.Errorf("%s at %d pixels: %s", page, size.width, cut)
			}
		}
		c.await(`document.querySelectorAll(".entry").length === 2`)
		if eval[bool](c, `!document.querySelector(".reader .foot").hidden`) {
			t.Error("the page says that content was not recorded")
		}
	}
}

// Names that run from right to left keep their beginning where there is no room, in names and in rows,
// and prompts that begin alike have names that differ.
func TestChromiumNames(t *testing.T) {
	c := startChromium(t)
	const hebrew = "תקן את שלוש הבדיקות בקובץ cart.go "
	common := strings.Repeat("Follow every rule of AGENTS.md. ", 12)
	var all made
	for i, prompt := range []string{strings.Repeat(hebrew, 8), strings.Repeat("אחר "+hebrew, 8), common + "Update the till.", common + "Fix the cart."} {
		m := newMade(fmt.Sprint("names ", i))
		m.start = m.start.Add(time.Duration(i) * time.Minute)
		root := m.span(nil, "invoke_agent cursor-agent", 0, 1000, str("gen_ai.input.messages", said("user", prompt)))
		m.span(root, "execute_tool shell", 0, 1000, str("process.command_line", "שלום npm 12 "+strings.Repeat(hebrew, 4)))
		all.spans = append(all.spans, m.spans...)
	}
	v := viewFiles(t, all.file(t))
	beginning := func(selector string) {
		t.Helper()
		if !eval[bool](c, `[...document.querySelectorAll(%q)].filter((el) => /^\P{L}*[\u0590-\u05ff]/u.test(el.textContent)).every((el) => {
			const range = document.createRange(), box = el.getBoundingClientRect();
			range.setStart(el.firstChild, 0);
			range.setEnd(el.firstChild, 4);
			const first = range.getBoundingClientRect();
			return el.scrollWidth > el.clientWidth && first.left >= box.left && first.right <= box.right + 1;
		})`, selector) {
			c.screenshot("cut")
			t.Errorf("%s is cut at its beginning", selector)
		}
	}
	for _, width := range []int64{1280, 375} {
		c.do(chromedp.EmulateViewport(width, 800))
		c.open(v.page + "/")
		c.await(`document.querySelectorAll(".sessions tbody tr").length === 4`)
		beginning(".sessions .name a")
		if names := eval[[]string](c, `[...document.querySelectorAll(".sessions .name a")].map((el) => el.textContent.slice(0, 60))`); names[0] == names[1] || !strings.Contains(names[0], "Fix the cart") {
			t.Errorf("%q", names)
		}
		eval[bool](c, `(() => {
			const { fillText } = CanvasRenderingContext2D.prototype;
			window.drawn = [];
			CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { window.drawn.push([text, this.direction]); fillText.call(this, text, ...at); };
			return true;
		})()`)
		c.press(".sessions tbody tr:last-child a")
		c.await(`%s === 2`, rowCount)
		beginning("#crumbs h1 span")
		c.await(`document.querySelectorAll(".entry").length === 2`)
		beginning(".entry.tool .about")
		c.await(`window.drawn.some(([text, way]) => text.startsWith("של") && text.endsWith("…") && way === "rtl") && window.drawn.some(([text, way]) => text === "shell" && way === "ltr")`)
		c.screenshot(fmt.Sprint("names ", width))
	}
}
