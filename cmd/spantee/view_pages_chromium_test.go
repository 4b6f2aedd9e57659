package main

import (
	"os"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/spantee/spantee/exporter/viewer"
)

// sizes are the windows that every page is looked at in.
var sizes = map[string][2]int64{"2560": {2560, 1440}, "1440": {1440, 900}, "1024": {1024, 768}, "375": {375, 812}}

// look keeps a picture of the page in every theme and size, and lets axe look
// for what keeps people from using it.
func (c *chromium) look(name string) {
	c.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		c.theme(theme)
		for width, size := range sizes {
			c.do(chromedp.EmulateViewport(size[0], size[1]))
			c.drawn()
			c.screenshot(name + "-" + theme + "-" + width)
			c.fits(name + " " + theme + " " + width)
			c.axe(name + " " + theme + " " + width)
		}
	}
	c.theme("light")
	c.do(chromedp.EmulateViewport(1440, 900))
}

// fits checks that nothing is wider than the window, and that hints in fields
// can be read to their end.
func (c *chromium) fits(page string) {
	c.t.Helper()
	cut := eval[[]string](c, `(() => {
		const pen = document.createElement("canvas").getContext("2d");
		const cut = [...document.querySelectorAll("input[placeholder]")].filter((field) => {
			const style = getComputedStyle(field);
			pen.font = style.font;
			return field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) < pen.measureText(field.placeholder).width;
		}).map((field) => field.placeholder);
		if (document.documentElement.scrollWidth > innerWidth) cut.push("the page");
		return cut;
	})()`)
	for _, what := range cut {
		c.t.Errorf("%s: %q does not fit", page, what)
	}
}

// axe runs axe-core, which SPANTEE_AXE names, on the page.
func (c *chromium) axe(page string) {
	c.t.Helper()
	script := os.Getenv("SPANTEE_AXE")
	if script == "" {
		return
	}
	source, err := os.ReadFile(script)
	if err != nil {
		c.t.Fatal(err)
	}
	if !eval[bool](c, `typeof axe === "object"`) {
		eval[bool](c, "%s; true", source)
	}
	for _, violation := range eval[[]string](c, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) =>
		v.id + ": " + v.help + "\n" + v.nodes.map((n) => "  " + n.html + " " + n.failureSummary).join("\n")))`) {
		c.t.Errorf("%s: %s", page, violation)
	}
}

// Every page, in both themes and all sizes.
func TestChromiumPages(t *testing.T) {
	c := startChromium(t)
	v := startView(t, nil, append(append([]string{"view", "--content", "full"}, freePorts...),
		"../../testdata/cursor/fix-failing-test.jsonl", "../../testdata/cursor/tool-kinds.jsonl", "../../testdata/cursor/tool-failures.jsonl",
		"../../testdata/cursor/approvals.jsonl", "../../testdata/cursor/killed.jsonl", "../../testdata/cursor/background-shell.jsonl")...)
	l := v.list(t)
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === %d`, l.Total)
	c.look("list")
	first := l.Sessions[0].ID
	for _, s := range l.Sessions {
		if s.Prompt != "" && s.Tools == 6 {
			first = s.ID
		}
	}
	c.open(v.page + "/#/trace/" + first)
	c.await(`%s > 5 && document.querySelectorAll(".transcript .said").length > 0`, rowCount)
	c.look("session")
	c.open(v.page + "/#/trace/" + first + "?tab=Span")
	c.await(`%s > 5`, rowCount)
	c.do(chromedp.KeyEvent("e"))
	c.await(`document.querySelector(".details h2")`)
	c.look("tab-Span")
	c.open(v.page + "/#/trace/" + first + "?tab=Summary")
	c.await(`%s > 5 && document.querySelector(".slowest") && document.querySelector(".slowest").checkVisibility()`, rowCount)
	c.look("tab-Summary")
	c.open(v.page + "/#/runs?by=model")
	c.await(`document.querySelectorAll("table.runs tbody tr").length > 1`)
	c.look("runs")
	other := l.Sessions[slices.IndexFunc(l.Sessions, func(s viewer.Session) bool { return s.ID != first && s.Tools > 2 })].ID
	c.open(v.page + "/#/compare/" + first + "/" + other)
	c.await(compared)
	c.look("compare")
	c.open(v.page + "/#/?q=coupon")
	c.await(`document.querySelector("a.found mark")`)
	c.look("found")
	c.open(v.page + "/#/trace/" + first + "?find=coupon")
	c.await(`document.querySelector(".hits-line mark") && CSS.highlights.get("found")?.size > 0`)
	c.look("hits")
	c.open(v.page + "/#/nothing?q=no-such-word")
	c.await(`document.querySelector(".empty h2")`)
	c.look("nothing")
}
