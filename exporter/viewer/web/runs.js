// @ts-check
// Runs over time: what many sessions took, by day, agent, model or folder, as the viewer adds it
// up. A click on a name narrows all that is shown.

import { getRuns } from "./api.js";
import { bars, chart } from "./chart.js";
import { fill, h, headings } from "./dom.js";
import { Filters, parameters } from "./filters.js";
import { writeAddress } from "./finding.js";
import { count, duration, money, percent, plural, roughly } from "./format.js";
import { noMatch, toList, welcome } from "./list.js";
import { sortBy, week, withGaps } from "./stats.js";
import { onTheme } from "./theme.js";
import { beginning, headline } from "./words.js";

/** @type {(us: number | null) => string} */
const time = (us) => (us === null ? "–" : duration(us));
/** @type {(n: number) => string} */
const number = (n) => (n ? count(n) : "–");

// cost tells what runs state from what is computed for others, and says of how many runs it is.
/** @param {Measures} m */
function cost(m) {
  /** @type {(usd: number, of: number, how: string) => Child[]} */
  const part = (usd, of, how) => [money(usd), h("span", { class: "dim" }, how + (of < m.runs ? ` of ${count(of)}` : ""))];
  if (!m.statedRuns && !m.computedRuns) return "–";
  return [...(m.statedRuns ? part(m.stated, m.statedRuns, "") : []), m.statedRuns && m.computedRuns ? " + " : "", ...(m.computedRuns ? part(m.computed, m.computedRuns, " computed") : [])].flat();
}

/** @type {(key: keyof Measures, title: string, format: (v: number) => string) => Column<Group>} */
const measured = (key, title, format) => ({ key, title, cell: (g) => format(/** @type {number} */ (g[key])) });

/** @type {Column<Group>[]} */
const columns = [
  measured("runs", "Runs", count), measured("failed", "Failed", number),
  measured("durationP50", "Duration p50", time), measured("durationP95", "p95", time),
  measured("firstP50", "First chunk p50", time), measured("firstP95", "p95", time),
  measured("toolP50", "Tool call p50", time), measured("toolP95", "p95", time),
  measured("tools", "Tool calls", number), measured("toolErrors", "Failed", number),
  measured("input", "Tokens in", roughly), measured("output", "Tokens out", roughly), { key: "stated", title: "Cost", cell: cost },
];

const states = [["", "any state"], ["failed", "with errors"]];
const groupings = ["day", "agent", "model", "folder"];
const mostShown = 20; // rows of a table

/** @param {Place} place @returns {View} */
export function runsView({ main, entitle, signal, address }) {
  const list = toList();
  entitle("Runs over time", list);
  /** @type {(label: string, names: string[]) => HTMLSelectElement} */
  const choose = (label, names) => {
    const el = h("select", { "aria-label": label, onchange: () => load() }, names.map((n) => h("option", { value: n }, n)));
    el.value = names.find((n) => n === address.get(label)) ?? names[0];
    return el;
  };
  const by = choose("by", groupings), measure = choose("chart", Object.keys(measures));
  const filters = new Filters(address, states, () => load());
  const narrowed = h("p", { class: "narrowed" }), total = h("p", { class: "foot", role: "status" }), charts = h("div", { class: "charts" }), nothing = h("div", { class: "empty" });
  const [peaks, table, tools, failures] = ["peaks", "scroll", "scroll", "scroll"].map((name) => h("div", { class: name }));
  const page = h("div", { class: "page" }, total, narrowed, nothing, charts, peaks, table, tools, failures);
  main.append(h("div", { class: "tools chosen" }, filters.elements, h("label", { class: "check" }, "by", by), h("label", { class: "check" }, "chart", measure)), page);
  /** @type {Record<string, string>} */
  const sort = { sort: address.get("sort") ?? "", tools: address.get("tools") ?? "" };
  let only = address.getAll("only");
  /** @type {RunsAnswer | undefined} */
  let answer;

  async function load() {
    const query = parameters(filters.chosen);
    query.set("by", by.value);
    only.forEach((each) => query.append("only", each));
    try {
      answer = await getRuns(query, signal);
      filters.offer(answer);
      redraw();
    } catch (e) {
      if (!signal.aborted) total.textContent = e.message;
    }
  }

  // to narrows what is shown to a group, or takes that back.
  /** @type {(key: string, name: string, label?: Child) => Element} */
  const to = (key, name, label = name) => h("button", { type: "button", class: "quiet to", onclick: () => toggle(`${key}:${name}`) }, h("bdi", {}, label));
  /** @param {string} each */
  function toggle(each) {
    only = only.includes(each) ? only.filter((o) => o !== each) : [...only, each];
    page.scrollTop = 0;
    load();
  }

  // sorted is a table whose columns sort it.
  /** @template T @param {string} name @param {string} kind @param {Column<T>[]} columns @param {T[]} rows @param {(T | null)[]} sums */
  function sorted(name, kind, columns, rows, sums = []) {
    const head = columns.map(({ key, title }, i) => h("th", { scope: "col", class: i ? "num" : "", "aria-sort": sort[name] === key ? "ascending" : sort[name] === `-${key}` ? "descending" : "none" },
      h("button", { type: "button", class: "quiet", onclick: () => {
        sort[name] = sort[name] === `-${key}` || i === 0 && sort[name] !== key ? key : `-${key}`;
        redraw();
      } }, title)));
    /** @type {(row: T, kind?: string) => Element} */
    const line = (row, kind) => h("tr", { class: kind }, columns.map(({ cell }, i) => (i ? h("td", { class: "num" }, cell(row)) : h("th", { scope: "row" }, cell(row)))));
    return [
      h("table", { class: `stats ${kind}` }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, sortBy(rows, sort[name]).slice(0, mostShown).map((row) => line(row))), h("tfoot", {}, sums.map((sum) => sum && line(sum, "sum")))),
      rows.length > mostShown && h("p", { class: "foot" }, `${count(mostShown)} of ${count(rows.length)} are shown.`),
    ];
  }

  function redraw() {
    if (signal.aborted || !answer) return;
    const { all, agents, groups, peaks: most, tools: called, days, unindexed } = answer, wrong = Object.entries(answer.errors).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
    history.replaceState(null, "", writeAddress(["runs"], { ...filters.chosen, by: by.value, chart: measure.value, ...sort, only }));
    list.href = writeAddress([], filters.chosen);
    const on = only.some((o) => o.startsWith("day:")) ? 1 : days.length;
    fill(total, [all.runs ? `${plural(all.runs, "run")} on ${plural(on, "day")} · ${count(all.failed)} failed` : "0 runs that have ended",
      all.timeless > 0 && `${plural(all.timeless, "run")} without times`,
      all.statedRuns > 0 && `${money(all.stated)} of ${plural(all.statedRuns, "run")} that ${all.statedRuns === 1 ? "states" : "state"} it`,
      all.computedRuns > 0 && `${money(all.computed)} computed for ${plural(all.computedRuns, "run")} by --prices`,
      unindexed && `${plural(unindexed, "session")} not indexed yet`].filter(Boolean).join(" · "));
    fill(narrowed, only.map((each) => h("button", { type: "button", onclick: () => toggle(each) }, `${each.replace(":", " ")} ✕`)));
    narrowed.hidden = !only.length;
    fill(nothing, ...(all.runs ? [] : agents.length ? noMatch() : welcome()));
    drawChart();
    fill(peaks, most.map((m) => h("p", {}, h("b", {}, m.title), " ", h("a", { href: writeAddress(["trace", m.session.id], {}) }, h("bdi", {}, beginning(headline(m.session)))), " ",
      h("span", { class: "dim" }, m.title === "Slowest" ? time(m.durationP50) : m.title === "Most expensive" ? cost(m) : plural(m.toolErrors, "error")))));

    /** @type {Column<Group>} */
    const name = { key: "name", title: "Group", cell: (g) => (groups.includes(g) ? to(by.value, g.name) : g.name) };
    const known = columns.filter(({ key }) => groups.some((g) => g[key] || key === "stated" && g.computedRuns));
    fill(table, groups.length > 0 && sorted("sort", "runs", [name, ...known], by.value === "day" ? groups.toReversed() : groups,
      [{ ...all, name: "All" }, ...(filters.chosen.time || only.length ? [] : [week(days, "Last 7 days", 0), week(days, "The 7 days before", 7)])]));
    fill(tools, called.length > 0 && [h("h2", {}, "Tools"), ...sorted("tools", "tools-table", [
      { key: "name", title: "Tool", cell: (t) => to("tool", t.name) }, { key: "agent", title: "Agent", cell: (t) => to("agent", t.agent || "unknown") }, { key: "calls", title: "Calls", cell: (t) => count(t.calls) },
      { key: "failed", title: "Failed", cell: (t) => (t.failed ? to("failing tool", t.name, count(t.failed)) : "–") },
      { key: "rate", title: "Failure rate", cell: (t) => (t.failed ? percent(t.rate) : "–") }, { key: "total", title: "Total", cell: (t) => (t.p50 === null ? "–" : duration(t.total)) },
      { key: "p50", title: "p50", cell: (t) => time(t.p50) }, { key: "p95", title: "p95", cell: (t) => time(t.p95) },
    ], called.map((t) => ({ ...t, rate: t.failed / t.calls })))]);
    fill(failures, wrong.length > 0 && h("h2", {}, "Errors"), wrong.length > 0 && h("table", { class: "stats" },
      headings(["Error", "Runs"]),
      h("tbody", {}, wrong.slice(0, mostShown).map(([name, runs]) => h("tr", {}, h("th", { scope: "row" }, to("error", name)), h("td", { class: "num" }, count(runs)))))));
  }

  // The chart stays as it is while one looks at one day after the other.
  /** @type {uPlot | undefined} */
  let plot;
  function drawChart() {
    plot?.destroy();
    plot = undefined;
    charts.replaceChildren();
    if (answer?.each.length) bars(charts, measures[measure.value], answer.each, measure.value);
    else plot = answer && chart(charts, measures[measure.value], withGaps(answer.days), measure.value, (day) => {
      only = only.filter((o) => !o.startsWith("day:") || o === `day:${day}`);
      toggle(`day:${day}`);
    });
  }
  const resized = new ResizeObserver(() => plot?.setSize({ width: Math.max(240, charts.clientWidth), height: 190 }));
  resized.observe(charts);
  onTheme(drawChart, signal);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    plot?.destroy();
  });

  load();
  let waiting = 0;
  return { changed: () => {
    waiting ||= setTimeout(() => {
      waiting = 0;
      if (!signal.aborted) load();
    }, 2000);
  } };
}

// measures are what a chart can show: lines of days, one value of a run, and how to write it.
/** @type {Record<string, Measure>} */
const measures = {
  duration: { lines: [["p50", "durationP50"], ["p95", "durationP95"]], format: duration, timed: true, one: (m) => m.durationP50 ?? 0 },
  "first chunk": { lines: [["p50", "firstP50"], ["p95", "firstP95"]], format: duration, timed: true, one: (m) => m.firstP50 ?? 0 },
  "tool time": { lines: [["p50", "toolP50"], ["p95", "toolP95"]], format: duration, timed: true, one: (m) => m.toolP50 ?? 0 },
  failures: { lines: [["runs", "runs"], ["failed", "failed"]], format: count, one: (m) => m.toolErrors },
  tokens: { lines: [["in", "input"], ["out", "output"]], format: roughly, one: (m) => m.input + m.output },
  cost: { lines: [["stated", "stated"], ["computed", "computed"]], format: money, one: (m) => m.stated + m.computed },
};
