package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The page's sums are those of the spans themselves. Columns that nobody has a value for are left out.
func TestChromiumRuns(t *testing.T) {
	c := startChromium(t)
	random := newMade("runs")
	var spans []*tracepb.Span
	input, cost, calls := int64(0), 0.0, 0
	for i := range 40 {
		m := newMade(fmt.Sprint("run ", i))
		m.start = time.Unix(0, madeStart).Add(time.Duration(i) * 7 * time.Hour)
		root := m.span(nil, "invoke_agent "+[]string{"cursor-agent", "claude"}[i%2], 0, float64(1000+i))
		root.Attributes = append(root.Attributes, whole("gen_ai.usage.input_tokens", int64(1000*i)), number("gen_ai.usage.cost", float64(i)/100))
		if i%10 == 0 {
			root.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
		}
		input, cost = input+int64(1000*i), cost+float64(i)/100
		for range i % 4 {
			m.span(root, "execute_tool shell", 0, 10)
			calls++
		}
		spans = append(spans, m.spans...)
	}
	random.spans = spans
	v := viewFiles(t, random.file(t))
	c.open(v.page + "/#/runs?by=agent")
	c.await(`document.querySelectorAll("table.runs tbody tr").length === 2`)
	sums := eval[[]string](c, `[...document.querySelectorAll("table.runs tr.sum td, table.runs tr.sum th")].map((c) => c.innerText)`)
	want := []string{"All", "40", "4", "1.02s", "1.04s", "10ms", "10ms", fmt.Sprint(calls), fmt.Sprintf("%.0fk", float64(input)/1000), fmt.Sprintf("$%.2f", cost)}
	if strings.Join(sums, " ") != strings.Join(want, " ") {
		t.Errorf("%q, want %q", sums, want)
	}
	// Of days, the latest are shown, and a click on a heading sorts them.
	c.open(v.page + "/#/runs")
	c.await(`[...document.querySelectorAll("table.runs tbody th")].map((h) => h.innerText).join() === [...document.querySelectorAll("table.runs tbody th")].map((h) => h.innerText).sort().reverse().join()`)
	c.press(`//table[contains(@class, "runs")]//th//button[text()="Group"]`)
	c.await(`document.querySelector("table.runs [aria-sort=ascending]").innerText === "Group"`)
}

// Runs of one day have a bar each, which leads to its session, and no runs have the list's help.
// Tools are told apart by agent, weeks stand side by side, and ticks are round.
func TestChromiumRunsOfADay(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t)
	c.open(v.page + "/#/runs")
	c.await(`document.querySelector(".empty h2").innerText === "No sessions yet"`)
	c.look("empty")
	send := func(name string, start time.Time, took float64) {
		t.Helper()
		m := newMade(fmt.Sprint(name, start))
		m.start = start
		root := m.span(nil, "invoke_agent "+name, 0, took, str("gen_ai.agent.name", name), str("gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"שלום 12 "}]}]`), whole("gen_ai.usage.input_tokens", 100))
		m.span(root, "execute_tool shell", 0, 100, str("gen_ai.tool.name", "shell"))
		if err := upload(v.grpc, m.request()); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	noon := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 0, 0, time.Local)
	send("codex", noon, 200_000)
	send("amp", noon.Add(time.Second), 100_000)
	c.await(`document.querySelectorAll(".each li").length === 2 && !document.querySelector(".u-over")`)
	widths := eval[[]float64](c, `[...document.querySelectorAll(".each i")].map((i) => i.offsetWidth / i.parentElement.offsetWidth)`)
	if widths[0] < 0.49 || widths[0] > 0.51 || widths[1] != 1 {
		t.Errorf("%v", widths)
	}
	c.await(`[...document.querySelectorAll(".tools-table tbody tr")].map((r) => r.innerText.split(/\s+/).slice(0, 2).join(" ")).join() === "shell amp,shell codex"`)
	// What is written from right to left takes no number with it.
	c.await(`document.querySelector(".peaks p").innerText.endsWith("3m20s") && getComputedStyle(document.querySelector(".peaks bdi")).unicodeBidi === "isolate"`)
	c.look("day")
	c.press(".each a")
	c.await(`document.querySelector("#crumbs h1 span").innerText === "שלום 12" && %s === 2`, rowCount)

	send("codex", noon.AddDate(0, 0, -9), 60_000)
	c.open(v.page + "/#/runs")
	c.await(`document.querySelector(".u-over") && !document.querySelector(".each")`)
	sums := eval[[]string](c, `[...document.querySelectorAll("table.runs tr.sum")].map((r) => [...r.children].slice(0, 2).map((cell) => cell.innerText).join(" "))`)
	if strings.Join(sums, ", ") != "All 3, Last 7 days 2, The 7 days before 1" {
		t.Errorf("%q", sums)
	}
	c.screenshot("weeks")
}

// runsAre awaits that so many runs are counted.
const runsAre = `document.querySelector(".page .foot").innerText.startsWith("%d run")`

// A slowdown that hides among 300 runs is found in three clicks: on the peak of the chart, on
// the slowest run, and on what it spent its time on.
func TestChromiumSlowdown(t *testing.T) {
	c := startChromium(t)
	all := newMade("all")
	for i := range 300 {
		m := newMade(fmt.Sprint("run ", i))
		m.start = time.Unix(0, madeStart).Add(time.Duration(i) * 2 * time.Hour)
		took := float64(1000 + 7*(i%13))
		if i == 207 {
			took = 9000
		}
		root := m.span(nil, "invoke_agent cursor-agent", 0, took)
		m.span(root, "execute_tool read", 0, 100)
		m.span(root, "execute_tool shell", 200, took-500)
		if i%50 == 3 {
			m.spans[2].Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
		}
		all.spans = append(all.spans, m.spans...)
	}
	v := viewFiles(t, all.file(t))
	c.open(v.page + "/")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 300`)
	c.press(`//a[text()="Runs over time"]`)
	c.await(runsAre+` && document.querySelector(".u-over")`, 300)
	c.screenshot("all")

	day := time.Unix(0, madeStart).Add(207 * 2 * time.Hour).Format(time.DateOnly)
	first := time.Unix(0, madeStart)
	last := first.Add(299 * 2 * time.Hour)
	midnight := func(at time.Time) time.Time {
		return time.Date(at.Year(), at.Month(), at.Day(), 12, 0, 0, 0, at.Location())
	}
	days := midnight(last).Sub(midnight(first)).Hours()/24 + 1
	peak := (midnight(first.Add(207*2*time.Hour)).Sub(midnight(first)).Hours()/24 + 0.5) / days
	c.click(fmt.Sprintf(`(() => { const box = document.querySelector(".u-over").getBoundingClientRect(); return { x: box.left + %f * box.width, y: box.top + 9 }; })()`, peak))
	c.await(`document.querySelector(".narrowed").innerText.startsWith("day %s") && `+runsAre, day, 12)
	c.screenshot("narrowed")
	c.press(`//div[@class="peaks"]//a`)
	c.await(`%s === 3`, rowCount)
	c.press("#tab-summary")
	c.await(`document.querySelector(".slowest li").innerText.startsWith("shell")`)

	// Back leads to the same runs, and the way there can be taken back.
	c.do(chromedp.NavigateBack())
	c.await(runsAre, 12)
	c.press(".narrowed button")
	c.await(`document.querySelector(".page .foot").innerText.startsWith("300 runs on 26 days")`)

	// So do tools and their failures, and what was chosen in the list.
	c.press(`//table[contains(@class, "tools-table")]//tbody//tr[1]/td[3]/button`)
	c.await(runsAre+` && document.querySelector(".narrowed").innerText.startsWith("failing tool shell")`, 6)
	c.press(".narrowed button")
	c.await(`document.querySelector(".page .foot").innerText.startsWith("300 runs on 26 days")`)
	c.press(`//table[contains(@class, "tools-table")]//th//button[text()="Failure rate"]`)
	c.await(`document.querySelector(".tools-table [aria-sort=descending]").innerText === "Failure rate" && document.querySelector(".tools-table tbody tr").innerText.startsWith("shell")`)
	eval[bool](c, `(() => { const s = document.querySelector("select[aria-label=State]"); s.value = "failed"; s.dispatchEvent(new Event("change")); return true; })()`)
	c.await(runsAre, 6)
	c.press(`//nav//a[text()="Sessions"]`)
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 6 && location.hash === "#/?state=failed"`)
}

// Runs say of how many of them the cost is, and what was computed.
func TestChromiumPrices(t *testing.T) {
	c := startChromium(t)
	all := newMade("all")
	for i, attributes := range [][]*commonpb.KeyValue{
		{number("gen_ai.usage.cost", 2)},
		{str("gen_ai.request.model", "m"), whole("gen_ai.usage.input_tokens", 1_000_000), whole("gen_ai.usage.output_tokens", 100_000)},
		{str("gen_ai.request.model", "unknown"), whole("gen_ai.usage.input_tokens", 1_000_000)},
	} {
		m := newMade(fmt.Sprint("priced ", i))
		m.span(nil, "invoke_agent cursor-agent", 0, 1000, attributes...)
		all.spans = append(all.spans, m.spans...)
	}
	prices := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(prices, []byte(`{"m": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	v := startView(t, nil, append([]string{"view", "--prices", prices, all.file(t)}, freePorts...)...)
	c.open(v.page + "/#/runs")
	c.await(`document.querySelector(".foot").innerText.includes("$2.00 of 1 run that states it · $4.50 computed for 1 run by --prices")`)
	c.await(`document.querySelector("table.runs tr.sum").innerText.includes("$2.00 of 1 + $4.50 computed of 1")`)
	c.screenshot("runs")
}
