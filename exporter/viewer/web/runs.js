// @ts-check
// Runs over time: what many sessions took, by day, agent, model or folder.

import { getRuns } from "./api.js";
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { writeAddress } from "./finding.js";
import { count, duration, money, percent, plural, roughly } from "./format.js";
import { toList } from "./list.js";
import { failedRun, group, groupings, localDay, sortBy, summarize, toolTimes } from "./stats.js";

/** @type {(us: number) => string} */
const time = (us) => (Number.isNaN(us) ? "–" : duration(us));
/** @type {(n: number) => string} */
const number = (n) => (n ? count(n) : "–");

/** @type {[keyof Measures, string, (v: number) => string][]} */
const columns = [
  ["runs", "Runs", count], ["failed", "Failed", number],
  ["durationP50", "Duration p50", time], ["durationP95", "p95", time], ["firstP50", "First chunk p50", time], ["firstP95", "p95", time],
  ["toolP50", "Tool call p50", time], ["toolP95", "p95", time], ["tools", "Tool calls", number], ["toolErrors", "Failed", number],
  ["input", "Tokens in", roughly], ["output", "Tokens out", roughly], ["cost", "Cost", (v) => (v ? money(v) : "–")],
];

/** @type {[keyof Group, string][]} */
const titles = [["name", "Group"], ...columns.map(([column, title]) => /** @type {[keyof Group, string]} */ ([column, title]))];

// long are the titles that only stand beside their neighbour's.
/** @type {Record<string, string>} */
const long = { durationP95: "Duration p95", firstP95: "First chunk p95", toolP95: "Tool call p95", toolErrors: "Tool calls failed" };

/** @param {Place} place @returns {View} */
export function runsView({ main, crumbs, signal, address }) {
  crumbs.replaceChildren(toList(), h("span", {}, "Runs over time"));
  document.title = "Runs over time · spantee";
  /** @type {(label: string, names: string[], chosen: string | null) => HTMLSelectElement} */
  const choose = (label, names, chosen) => {
    const el = h("select", { "aria-label": label }, names.map((n) => h("option", { value: n }, n)));
    el.value = chosen && names.includes(chosen) ? chosen : names[0];
    el.addEventListener("change", () => redraw());
    return el;
  };
  const by = choose("Group by", Object.keys(groupings), address.get("by"));
  const measure = choose("Chart", Object.keys(measures), address.get("chart"));
  const charts = h("div", { class: "charts" });
  const table = h("div", { class: "scroll" }), tools = h("div", { class: "scroll" }), total = h("p", { class: "foot" });
  let sort = address.get("sort") ?? "name";
  /** @type {Runs} */
  let runs = { runs: [], tools: [] };
  /** @type {string[]} */
  let picked = [];
  const difference = h("div", {});
  main.append(
    h("div", { class: "tools" }, h("label", { class: "check" }, "by", by), h("label", { class: "check" }, "chart", measure), h("span", { class: "grow" })),
    h("div", { class: "page" }, h("h1", { class: "unseen" }, "Runs over time"), charts, table, difference, h("h2", {}, "Tools"), tools, total));

  async function load() {
    try {
      runs = await getRuns(signal);
      redraw();
    } catch (e) {
      if (!signal.aborted) total.textContent = e.message;
    }
  }

  function redraw() {
    if (signal.aborted) return;
    history.replaceState(null, "", writeAddress(["runs"], { by: by.value, chart: measure.value, sort: sort === "name" ? "" : sort }));
    const groups = group(runs.runs, by.value);
    drawChart();
    const descending = sort.startsWith("-"), key = /** @type {keyof Group} */ (sort.replace("-", ""));
    const head = titles.map(([column, title]) => {
      const way = key === column ? (descending ? "descending" : "ascending") : "none";
      return h("th", { scope: "col", class: column === "name" ? "" : "num", "aria-sort": way },
        h("button", { type: "button", class: "quiet", onclick: () => {
          sort = key === column && !descending ? `-${column}` : column;
          redraw();
        } }, title));
    });
    /** @type {(g: Group) => Element} */
    const box = (g) => h("input", { type: "checkbox", "aria-label": `Compare ${g.name}`, checked: picked.includes(g.name),
      disabled: picked.length === 2 && !picked.includes(g.name), onchange: () => pick(g.name) });
    /** @type {(g: Group, first: Child, kind?: string) => Element} */
    const row = (g, first, kind) => h("tr", { class: kind }, h("td", {}, first),
      h("th", { scope: "row" }, g.name), columns.map(([column, , format]) => h("td", { class: "num" }, format(g[column]))));
    table.replaceChildren(h("table", { class: "stats runs" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "unseen" }, "Compare")), head)),
      h("tbody", {}, sortBy(groups, key, descending).map((g) => row(g, box(g)))),
      h("tfoot", {}, row({ name: "All", ...summarize(runs.runs) }, "", "sum"))));
    compareGroups(groups);
    tools.replaceChildren(toolsTable(toolTimes(runs.runs, runs.tools)));
    const days = new Set(runs.runs.map((r) => localDay(r.start))).size;
    total.textContent = `${plural(runs.runs.length, "run")} on ${plural(days, "day")}, ${number(runs.runs.filter(failedRun).length)} failed`;
  }

  function drawChart() {
    charts.replaceChildren(chart(measures[measure.value], group(runs.runs, "day"), measure.value, Math.max(240, charts.clientWidth)));
  }
  const resized = new ResizeObserver(drawChart);
  resized.observe(charts);
  signal.addEventListener("abort", () => resized.disconnect());

  /** @param {string} name */
  function pick(name) {
    picked = picked.includes(name) ? picked.filter((p) => p !== name) : [...picked, name];
    redraw();
  }

  /** @param {Group[]} groups */
  function compareGroups(groups) {
    const [a, b] = picked.map((name) => groups.find((g) => g.name === name));
    difference.replaceChildren(...(a && b ? [h("h2", {}, `${a.name} and ${b.name}`), h("table", { class: "stats" },
      h("thead", {}, h("tr", {}, ["Measure", a.name, b.name, "Change"].map((t, i) => h("th", { scope: "col", class: i ? "num" : "" }, t)))),
      h("tbody", {}, columns.map(([column, title, format]) => h("tr", {},
        h("th", { scope: "row" }, long[column] ?? title),
        h("td", { class: "num" }, format(a[column])), h("td", { class: "num" }, format(b[column])),
        h("td", { class: "num" }, change(a[column], b[column]))))))] : []));
  }

  load();
  let waiting = 0;
  return { changed: () => {
    waiting ||= setTimeout(() => {
      waiting = 0;
      if (!signal.aborted) load();
    }, 2000);
  } };
}

// measures are what a chart can show of each day: lines, and how to write a value.
/** @type {Record<string, Measure>} */
const measures = {
  duration: { lines: [["p50", "durationP50"], ["p95", "durationP95"]], format: duration },
  "first chunk": { lines: [["p50", "firstP50"], ["p95", "firstP95"]], format: duration },
  "tool time": { lines: [["p50", "toolP50"], ["p95", "toolP95"]], format: duration },
  failures: { lines: [["runs", "runs"], ["failed", "failed"]], format: count },
  tokens: { lines: [["in", "input"], ["out", "output"]], format: roughly },
  cost: { lines: [["cost", "cost"]], format: money },
};

/** @param {number} a @param {number} b */
function change(a, b) {
  if (Number.isNaN(a) || Number.isNaN(b) || !a) return "–";
  const part = b / a - 1;
  if (Math.abs(part) < 0.005) return "same";
  return `${part > 0 ? "+" : part < 0 ? "−" : ""}${percent(Math.abs(part))}`;
}

/** @param {ReturnType<typeof toolTimes>} list */
function toolsTable(list) {
  return h("table", { class: "stats" },
    h("thead", {}, h("tr", {}, ["Tool", "Calls", "Failed", "Total", "p50", "p95"].map((t, i) => h("th", { scope: "col", class: i ? "num" : "" }, t)))),
    h("tbody", {}, list.slice(0, 100).map((t) => h("tr", {}, h("th", { scope: "row" }, t.name), h("td", { class: "num" }, count(t.calls)),
      h("td", { class: t.failed ? "num red" : "num" }, number(t.failed)), h("td", { class: "num" }, duration(t.total)),
      h("td", { class: "num" }, duration(t.p50)), h("td", { class: "num" }, duration(t.p95))))));
}
