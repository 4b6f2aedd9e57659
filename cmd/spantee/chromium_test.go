package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A chromium is a tab of a real browser, without a window.
type chromium struct {
	t   *testing.T
	ctx context.Context

	loads  chan struct{} // a page was loaded, or the same one anew
	mu     sync.Mutex
	thrown []string // by scripts of the page
}

// startChromium runs a browser beside those of other tests.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	t.Parallel()
	return startChromiumAlone(t)
}

// startChromiumAlone runs the browser that SPANTEE_CHROMIUM names until the test ends.
func startChromiumAlone(t *testing.T) *chromium {
	t.Helper()
	binary := os.Getenv("SPANTEE_CHROMIUM")
	if binary == "" {
		t.Skip("needs SPANTEE_CHROMIUM=/usr/bin/chromium")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(binary),
		chromedp.NoSandbox, // root has none, as in a container; the page is ours
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log(err)
		}
		cancel()
	})
	c := &chromium{t: t, ctx: ctx, loads: make(chan struct{}, 1)}
	if err := chromedp.Listen(ctx, c.listen); err != nil {
		t.Fatal(err)
	}
	c.do(chromedp.EmulateViewport(1440, 900))
	c.theme("light")
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.thrown {
			t.Errorf("a script of the page failed: %s", e)
		}
	})
	return c
}

func (c *chromium) listen(ev any) {
	if _, ok := ev.(*cdppage.EventLoadEventFired); ok {
		select {
		case c.loads <- struct{}{}:
		default:
		}
	}
	if e, ok := ev.(*runtime.EventExceptionThrown); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		c.thrown = append(c.thrown, text)
	}
}

func (c *chromium) do(actions ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		c.screenshot("failed")
		c.t.Fatal(err)
	}
}

func (c *chromium) theme(name string) {
	c.t.Helper()
	_, err := chromedp.Call(c.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chromium) open(url string) {
	c.t.Helper()
	// A change of the fragment alone loads nothing anew.
	c.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
}

// reloaded waits until the page has loaded itself anew while do is done.
func (c *chromium) reloaded(do func()) {
	c.t.Helper()
	select {
	case <-c.loads: // an earlier one
	default:
	}
	do()
	select {
	case <-c.loads:
	case <-time.After(time.Minute):
		c.screenshot("failed")
		c.t.Fatal("the page was not loaded again")
	}
}

// eval returns what a script does, or what it promises. A script that does not find an element
// runs again: the page may be about to draw it.
func eval[T any](c *chromium, format string, args ...any) T {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
	defer cancel()
	script := chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise)
	v, err := chromedp.Run(ctx, script)
	for ctx.Err() == nil && err != nil && strings.Contains(err.Error(), "Cannot read properties of") {
		v, err = chromedp.Run(ctx, script)
	}
	if err != nil {
		c.screenshot("failed")
		c.t.Fatal(err)
	}
	return v
}

// await looks at the page, once a frame, until a condition holds.
func (c *chromium) await(format string, args ...any) {
	c.t.Helper()
	condition := fmt.Sprintf(format, args...)
	ok := eval[bool](c, `new Promise((resolve) => {
		const until = performance.now() + 30000;
		const look = () => {
			let ok = false;
			try { ok = %s; } catch {}
			if (ok || performance.now() > until) resolve(!!ok);
			else requestAnimationFrame(look);
		};
		look();
	})`, condition)
	if !ok {
		c.screenshot("failed")
		c.t.Fatalf("never true: %s\n%s", condition, eval[string](c, "document.body.innerText"))
	}
}

// drawn waits until what was asked for has been painted.
func (c *chromium) drawn() {
	c.t.Helper()
	eval[bool](c, `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))`)
}

// click presses the mouse where a script says: it returns {x, y}.
func (c *chromium) click(script string) {
	c.t.Helper()
	at := eval[map[string]float64](c, "%s", script)
	c.do(chromedp.MouseClickXY(at["x"], at["y"]))
}

// press clicks what a selector or an XPath finds, once it stands still in sight: the page may
// draw it anew at any time, so no node is kept.
func (c *chromium) press(selectors ...string) {
	c.t.Helper()
	for _, selector := range selectors {
		c.click(fmt.Sprintf(`new Promise((resolve, reject) => {
			const selector = %q, until = performance.now() + 30000;
			const find = () => selector.startsWith("/")
				? document.evaluate(selector, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue
				: document.querySelector(selector);
			let last = "";
			const look = () => {
				const found = find();
				found?.scrollIntoView({ block: "nearest", behavior: "instant" });
				const box = found?.getBoundingClientRect();
				const x = box?.left + box?.width / 2, y = box?.top + box?.height / 2;
				const at = found && !found.disabled && document.elementFromPoint(x, y);
				const now = at && (found.contains(at) || at.contains(found)) ? x + " " + y : "";
				if (now && now === last) resolve({ x, y });
				else if (performance.now() > until) reject(new Error("never in sight: " + selector));
				else requestAnimationFrame(look);
				last = now;
			};
			look();
		})`, selector))
	}
}

func (c *chromium) focus(selector string) {
	c.t.Helper()
	eval[bool](c, `(() => { const found = document.querySelector(%q); found.focus(); found.select?.(); return true; })()`, selector)
}

// write types text into a field, in place of what is there.
func (c *chromium) write(selector, text string) {
	c.t.Helper()
	c.focus(selector)
	c.do(chromedp.KeyEvent(text))
}

// screenshot returns what is on the screen, and keeps it where
// SPANTEE_SCREENSHOTS says.
func (c *chromium) screenshot(name string) image.Image {
	c.t.Helper()
	b, err := chromedp.Run(c.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		c.t.Fatal(err)
	}
	if dir := os.Getenv("SPANTEE_SCREENSHOTS"); dir != "" {
		file := strings.ReplaceAll(strings.TrimPrefix(c.t.Name(), "TestChromium"), "/", "-") + "-" + name + ".png"
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			c.t.Error(err)
		}
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		c.t.Fatal(err)
	}
	return img
}
