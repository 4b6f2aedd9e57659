package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/viewer"
)

const fixtures = "../../testdata/cursor/"

func viewWhole(t *testing.T, files ...string) viewerRun {
	t.Helper()
	args := append([]string{"view", "--content", "full"}, freePorts...)
	for _, f := range files {
		args = append(args, fixtures+f)
	}
	return startView(t, nil, args...)
}

// Search reads everything, leads to where it was found, and Back keeps it.
func TestChromiumSearch(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "fix-failing-test.jsonl", "tool-kinds.jsonl", "approvals.jsonl")
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 3`)
	c.write("input[type=search]", "totalwithcoupon")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1 && document.querySelector("a.found").innerText.includes("TestTotalWithCoupon")`)
	c.screenshot("found")
	c.press("a.found")
	c.await(`%s > 5 && document.querySelector(".transcript .selected")`, rowCount)
	// The words go along, from hit to hit.
	c.await(`/^hit \d+ of \d+$/.test(document.querySelector(".hits-line [role=status]").innerText) && document.querySelector(".hits-line mark").innerText === "TotalWithCoupon"`)
	c.await(`CSS.highlights.get("found")?.size > 0 && location.hash.includes("find=totalwithcoupon")`)
	c.do(chromedp.NavigateBack())
	c.await(`document.querySelector("input[type=search]").value === "totalwithcoupon"`)
	c.write("input[type=search]", "coupon")
	c.do(chromedp.KeyEvent(kb.Enter)) // before the list has answered
	c.await(`location.hash.includes("find=coupon") && document.querySelector(".hits-line mark") && document.querySelector(".transcript .selected")`)
	c.do(chromedp.NavigateBack())
	c.await(`document.querySelector("input[type=search]").value === "coupon"`)
	c.write("input[type=search]", "totalwithcoupon")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1 && document.querySelector("a.found").innerText.includes("TestTotalWithCoupon")`)
	c.press("a.found")
	c.await(`%s > 5 && /^hit \d+ of \d+$/.test(document.querySelector(".hits-line [role=status]").innerText)`, rowCount)
	first := eval[string](c, `document.querySelector(".hits-line [role=status]").innerText`)
	c.press(`//button[@aria-label="Next hit"]`)
	c.await(`document.querySelector(".hits-line [role=status]").innerText !== %q`, first)
	c.screenshot("hits")

	// Filter, zoom and tab live in the address.
	c.write(".chart input[type=search]", "is:error")
	c.await(`document.querySelector(".chart .tools [role=status]").innerText.startsWith("1 of 11 spans")`) // its parents do not count
	eval[bool](c, `(() => { %s.timeline.set(3e6, 9e6); return true; })()`, waterfall)
	c.await(`location.hash.includes("q=is%%3Aerror") && location.hash.includes("from=3000000&to=9000000")`)
	c.do(chromedp.NavigateBack())
	c.await(`document.querySelector("input[type=search]").value === "totalwithcoupon" && document.querySelectorAll(".sessions tbody tr").length === 1`)
	c.do(chromedp.NavigateForward())
	c.await(`%s.timeline.from === 3e6 && document.querySelector(".chart input[type=search]").value === "is:error"`, waterfall)

	// The latest session is found from within the page as well.
	eval[bool](c, `(() => { location.hash = "#/latest"; return true; })()`)
	c.await(`location.hash.startsWith("#/trace/%s") && %s > 5`, v.list(t).Sessions[0].ID, rowCount)

	// Columns sort, either way.
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 3`)
	for _, want := range []string{"descending", "ascending"} {
		eval[bool](c, `(() => { document.querySelector(".sessions th:nth-child(5) button").click(); return true; })()`)
		c.await(`document.querySelector(".sessions th:nth-child(5)").getAttribute("aria-sort") === %q`, want)
		c.await(`(() => {
			const tools = [...document.querySelectorAll(".sessions tbody td:nth-child(5)")].map((c) => Number(c.innerText) || 0);
			return tools.join() === tools.toSorted((a, b) => %q === "ascending" ? a - b : b - a).join();
		})()`, want)
	}
	if labels := eval[int](c, `new Set([...document.querySelectorAll(".sessions tbody input")].map((i) => i.ariaLabel)).size`); labels != 3 {
		t.Errorf("%d names of 3 boxes", labels)
	}
}

// A session is pinned and deleted from a menu, and is gone from the list.
func TestChromiumPinAndDelete(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "fix-failing-test.jsonl", "tool-kinds.jsonl")
	l := v.list(t)
	id := l.Sessions[0].ID
	c.open(v.page + "/#/trace/" + id)
	c.await(`%s > 5`, rowCount)
	c.press(`//summary[text()="More"]`, `//button[text()="Pin"]`)
	c.await(`document.querySelector(".actions button[aria-pressed=true]")?.innerText === "Unpin"`)
	if !v.list(t).Sessions[0].Pinned {
		t.Error("not pinned")
	}
	c.press(`//button[text()="Delete"]`)
	c.await(`document.evaluate("//button[text()='Delete for good']", document, null, XPathResult.BOOLEAN_TYPE).booleanValue`)
	if n := v.list(t).Total; n != 2 {
		t.Errorf("%d sessions after one click", n)
	}
	c.screenshot("delete")
	c.press(`//button[text()="Delete for good"]`)
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1`)
	c.open(v.page + "/#/trace/" + id)
	c.await(`document.querySelector(".empty p").innerText.includes("removed to make room, or deleted")`)
}

// The legend and the tools filter, the arrows step through errors, turns fold,
// and the slowest steps lead there.
func TestChromiumLong(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "tool-failures.jsonl")
	c.open(v.page + "/#/trace/" + v.id)
	c.await(`%s > 30`, rowCount)
	all := eval[int](c, rowCount)
	eval[bool](c, `(() => { [...document.querySelectorAll(".legend button")].find((b) => b.innerText.startsWith("shell")).click(); return true; })()`)
	c.await(`document.querySelector(".chart input[type=search]").value === "tool:shell" && %s < %d`, rowCount, all)
	eval[bool](c, `(() => { [...document.querySelectorAll(".legend button")].find((b) => b.innerText.startsWith("shell")).click(); return true; })()`)
	c.await(`%s === %d`, rowCount, all)

	eval[bool](c, `(() => { document.querySelector("[aria-label^=Next]").click(); return true; })()`)
	c.await(`%s.trace.byId.get(%s.selected).failure`, waterfall, waterfall)
	first := eval[string](c, waterfall+".selected")
	eval[bool](c, `(() => { document.querySelector("[aria-label^=Next]").click(); return true; })()`)
	c.await(`%s.selected !== %q && %s.trace.byId.get(%s.selected).failure`, waterfall, first, waterfall, waterfall)
	eval[bool](c, `(() => { document.querySelector("[aria-label^=Previous]").click(); %s.scroller.focus(); return true; })()`, waterfall)
	c.await(`%s.selected === %q`, waterfall, first)
	c.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(kb.End))
	c.await(`%s.selected === %s.rows.at(-1).id`, waterfall, waterfall)

	eval[bool](c, `(() => { [...document.querySelectorAll("[aria-pressed]")].find((b) => b.innerText === "Fold turns").click(); return true; })()`)
	c.await(`%s === 1 + %s.trace.nodes.filter((n) => n.op === "chat").length`, rowCount, waterfall)
	eval[bool](c, `(() => { document.querySelector("#tab-summary").click(); document.querySelector(".slowest button").click(); return true; })()`)
	c.await(`%s.selected === %s.trace.nodes.filter((n) => n.op !== "agent").sort((a, b) => b.duration - a.duration)[0].id && %s.trace.byId.get(%s.selected).row >= 0`, waterfall, waterfall, waterfall, waterfall)
}

// On a phone, a tap shows the step.
func TestChromiumPhone(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "fix-failing-test.jsonl")
	c.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateTouch, chromedp.EmulateMobile))
	c.open(v.page + "/#/trace/" + v.id)
	c.await(`%s > 5 && document.querySelectorAll(".transcript .entry").length > 5`, rowCount)
	shell := named(v.session(t, v.id), "execute_tool shell go")
	eval[bool](c, `(() => { %s.scroller.scrollIntoView(); return true; })()`, waterfall)
	c.click(where(shell.ID))
	c.await(`(() => { const el = document.querySelector(".entry.selected"), box = el.getBoundingClientRect(); return el.dataset.id === %q && box.top < innerHeight && box.bottom > 0; })()`, shell.ID)
	c.screenshot("tapped")
	if wide := eval[int](c, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d pixels wide", wide)
	}
}

// An exported page opens from disk, without a network or a viewer.
func TestChromiumExport(t *testing.T) {
	c := startChromium(t)
	file := filepath.Join(t.TempDir(), "run.html")
	cmd := spantee(t, nil, "view", "--content", "full", "--export", file, fixtures+"fix-failing-test.jsonl", fixtures+"approvals.jsonl")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &cmd.stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	c.open("file://" + file)
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 2`)
	c.write("input[type=search]", "go test")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 1`)
	c.press(".sessions tbody a")
	c.await(`%s === 11 && [...document.querySelectorAll(".entry")].some((e) => e.innerText.includes("TestTotalWithCoupon"))`, rowCount)
	eval[bool](c, `(() => { document.querySelector("#tab-span").click(); %s.select(%s.rows[2].id); return true; })()`, waterfall, waterfall)
	c.await(`document.querySelector(".details").innerText.includes("gen_ai.tool.call.id")`)
	c.screenshot("offline")
	if asked := eval[int](c, `performance.getEntriesByType("resource").filter((e) => !e.name.startsWith("data:")).length`); asked != 0 {
		t.Errorf("the page asked for %d things", asked)
	}
	c.axe("exported")

	// What the level leaves out is not in the file.
	bare := filepath.Join(t.TempDir(), "bare.html")
	if err := spantee(t, nil, "view", "--export", bare, fixtures+"fix-failing-test.jsonl").Run(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(bare)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"TestTotalWithCoupon", "/home/dev/shop", "since this morning"} {
		if strings.Contains(string(b), content) {
			t.Errorf("the page has %q", content)
		}
	}
}

// A session is exported without what its user leaves out, and the page opens on it.
func TestChromiumExportWithout(t *testing.T) {
	c := startChromium(t)
	v := viewWhole(t, "fix-failing-test.jsonl")
	c.open(v.page + "/#/trace/" + v.id)
	c.await(`%s > 5`, rowCount)
	c.press(".export summary")
	c.screenshot("menu")
	c.axe("menu")
	c.press(`.export input[value="paths"]`, `.export input[value="host"]`)
	c.await(`document.querySelector(".export input[value=content]").disabled && !document.querySelector(".export input[value=content]").checked`)
	link := eval[string](c, `document.querySelector(".export a").href`)
	resp, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	for _, left := range []string{"TestTotalWithCoupon", "/home/dev/shop", "since this morning"} {
		if strings.Contains(string(page), left) {
			t.Errorf("the page has %q", left)
		}
	}
	file := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	c.open("file://" + file)
	c.await(`%s === 11 && document.querySelector("#live").innerText === "exported with names, sizes and times only"`, rowCount)
	c.screenshot("left out")
}

// A file that is dropped on the page is read, and one that cannot be is named.
func TestChromiumDrop(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t)
	c.open(v.page + "/")
	c.await(`document.querySelector(".empty h2")`)
	drop := func(name string, content []byte) {
		t.Helper()
		eval[bool](c, `(() => {
			const bytes = Uint8Array.from(atob(%q), (c) => c.charCodeAt(0));
			const data = new DataTransfer();
			data.items.add(new File([bytes], %q));
			document.getElementById("view").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
			return true;
		})()`, base64.StdEncoding.EncodeToString(content), name)
	}
	drop("letter.txt", []byte("Dear reader"))
	c.await(`document.querySelector(".foot").innerText.includes("letter.txt: no session found")`)
	drop("session.jsonl", fixture(t, "fix-failing-test.jsonl"))
	c.await(`location.hash.startsWith("#/trace/") && %s === 11`, rowCount)
}

// A second view hands its files to the first.
func TestViewJoins(t *testing.T) {
	v := viewFiles(t)
	page := strings.TrimPrefix(v.page, "http://")
	second := spantee(t, nil, "view", "--no-open", "--listen", page, fixtures+"killed.jsonl", fixtures+"no-such-file")
	if err := second.Run(); err != nil {
		t.Fatalf("%v: %s", err, &second.stderr)
	}
	l := v.list(t)
	want := "opened in the running viewer: " + v.page + "/#/trace/" + l.Sessions[0].ID
	if l.Total != 1 || !strings.Contains(second.stderr.String(), want) || !strings.Contains(second.stderr.String(), "no-such-file: no such file or directory (skipped)") {
		t.Errorf("%d sessions, %s", l.Total, &second.stderr)
	}
	third := spantee(t, nil, "view", "--no-open", "--listen", page)
	if err := third.Run(); err == nil || !strings.Contains(third.stderr.String(), "a viewer is running at "+v.page) {
		t.Errorf("%v: %s", err, &third.stderr)
	}
}

// Either protocol, or both, may be off.
func TestViewWithoutOTLP(t *testing.T) {
	for _, args := range [][]string{{"--otlp-grpc", "", "--otlp-http", ""}, {"--otlp-grpc", "", "--otlp-http", "127.0.0.1:0"}, {"--otlp-grpc", "127.0.0.1:0", "--otlp-http", ""}} {
		v := startView(t, nil, append(append([]string{"view"}, args...), fixtures+"killed.jsonl")...)
		if l := v.list(t); l.Total != 1 {
			t.Errorf("%v: %+v", args, l)
		}
	}
}

func whole(key string, v int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}}
}

// List and search over 10,000 sessions. Nothing is asserted about the pace.
func TestViewManySessions(t *testing.T) {
	long(t)
	sessions := cases(1000, 10_000)
	m := newMade("many")
	var spans []*tracepb.Span
	for i := range sessions {
		one := newMade(fmt.Sprint("many ", i))
		root := one.span(nil, "invoke_agent cursor-agent", float64(i), float64(i+1000))
		for j := range 8 {
			one.span(root, "execute_tool shell", float64(i), float64(i+10*j), str("gen_ai.tool.call.result", strings.Repeat("output of a tool ", 30)+fmt.Sprint(i)))
		}
		spans = append(spans, one.spans...)
	}
	m.spans = spans
	v := viewFiles(t, m.file(t))
	until(t, "indexing", func() bool { // a search does not wait for it
		return getJSON[viewer.List](t, fmt.Sprint(v.page, "/api/sessions?q=tool+", sessions-1)).Matching == 1
	})
	for name, query := range map[string]string{"list": "", "search": fmt.Sprint("?q=tool+", sessions-1), "search for nothing": "?q=no-such-word"} {
		began := time.Now()
		l := getJSON[viewer.List](t, v.page+"/api/sessions"+query)
		t.Logf("pace: %s over %d sessions and %d MB: %d found in %v", name, l.Total, l.Kept.Bytes>>20, l.Matching, time.Since(began).Round(time.Millisecond))
		if query == "" && l.Matching != sessions || strings.HasPrefix(query, "?q=tool") && l.Matching != 1 || query == "?q=no-such-word" && l.Matching != 0 {
			t.Errorf("%s: %d found", name, l.Matching)
		}
	}
	if b, err := json.Marshal(v.list(t)); err != nil || len(b) > 1<<20 {
		t.Errorf("%v: the list is %d bytes", err, len(b))
	}
}
