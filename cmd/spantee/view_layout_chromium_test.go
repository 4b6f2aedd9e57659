package main

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// firstRow is where the first row of the waterfall begins, in pixels from the top of the window.
const firstRow = `(document.querySelector(".scroller").getBoundingClientRect().top + 24)`

const split = `document.querySelector(".split").getBoundingClientRect()`

// On a small screen, most of the height is the session's, whatever is above it.
func TestChromiumLayout(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "fix-failing-test.jsonl", "tool-failures.jsonl")
	c.do(chromedp.EmulateViewport(1280, 800))
	for _, s := range v.list(t).Sessions {
		c.open(v.page + "/#/trace/" + s.ID + "?find=the")
		c.await(`%s > 5 && document.querySelector(".hits-line mark")`, rowCount)
		if share := eval[float64](c, split+`.height / innerHeight`); share < 0.6 {
			t.Errorf("%.0f %% of the height for a session of %d spans", 100*share, s.Spans)
		}
		c.screenshot("small")
		for _, size := range []struct{ width, height, most int64 }{{1280, 800, 150}, {375, 812, 220}} {
			c.do(chromedp.EmulateViewport(size.width, size.height))
			c.open(v.page + "/#/trace/" + s.ID)
			c.await(`%s > 5 && document.querySelector(".failures")`, rowCount)
			if top := eval[float64](c, firstRow); top > float64(size.most) {
				c.screenshot("far down")
				t.Errorf("at %d pixels the first row begins %v pixels down", size.width, top)
			}
		}
		c.do(chromedp.EmulateViewport(1280, 800))
	}

	// At 200 % zoom, a window has half as many pixels.
	c.do(chromedp.EmulateViewport(720, 450, chromedp.EmulateScale(2)))
	c.await(`document.documentElement.scrollWidth <= innerWidth`)
	if end := eval[float64](c, firstRow); end > 450 {
		t.Errorf("the first row ends %v pixels down at 200 %% zoom: out of sight", end)
	}
	eval[bool](c, `(() => { %s.scroller.scrollIntoView(); return true; })()`, waterfall)
	if height := eval[float64](c, waterfall+`.height`); height < 225 {
		t.Errorf("the waterfall is %v pixels high at 200 %% zoom", height)
	}
	c.screenshot("zoomed")
	c.axe("200 % zoom")
	c.do(chromedp.EmulateViewport(1440, 900))

	// The panes can be resized, by keys and by mouse, and stay so.
	const side = `Math.round(document.querySelector(".side-panel").getBoundingClientRect().width)`
	before := eval[int](c, side)
	eval[bool](c, `(() => { document.querySelector(".divider").focus(); return true; })()`)
	c.do(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft))
	c.await(`%s > %d && document.querySelector(".divider").getAttribute("aria-valuenow") === "44"`, side, before)
	c.await(`%s.width === %s.canvas.clientWidth && %s.width < %d - %d`, waterfall, waterfall, waterfall, 1440, before)
	eval[bool](c, `(() => {
		const divider = document.querySelector(".divider"), at = (type, clientX) => divider.dispatchEvent(new PointerEvent(type, { clientX, pointerId: 1, bubbles: true }));
		divider.setPointerCapture = () => {};
		divider.hasPointerCapture = () => true;
		at("pointerdown", 800);
		at("pointermove", 720);
		return true;
	})()`)
	c.await(`document.querySelector(".divider").getAttribute("aria-valuenow") === "50"`)
	c.screenshot("half")
	c.axe("panes")
	c.open(v.page + "/#/trace/" + v.list(t).Sessions[0].ID)
	c.await(`%s > 5 && %s === 720`, rowCount, side)
}
