// @ts-check
// The line that says where the time went, and the table of tools.

import { percentages, timeSpent, toolStats } from "./breakdown.js";
import { h, headings } from "./dom.js";
import { toolWord } from "./finding.js";
import { count } from "./format.js";
import { failedTools, rowDetail, rowName } from "./words.js";

const mostTools = 4;

export const withoutTimes = "Without times: only the order of the steps is known.";

// filter is told of the word that finds the spans of a part.
/** @param {Trace} trace @param {(word: string) => void} filter */
export function strip(trace, filter, most = mostTools) {
  if (trace.timeless) return h("p", { class: "dim" }, withoutTimes);
  const { total, parts } = timeSpent(trace), spent = shorten({ total, parts: parts.filter((p) => trace.time(p.us)) }, most), shares = percentages(spent);
  let tool = 0;
  const painted = spent.parts.map((p) => ({ ...p, paint: p.color === "tool" || p.color === "other" ? shade(p.color, tool++) : `var(--${p.color})` }));
  return h("ul", { class: "legend", "aria-label": "Where the time went" }, painted.map((p, i) => {
    const swatch = h("i"), word = p.tool ? toolWord(p.tool) : words[p.key];
    swatch.style.background = p.paint;
    const said = [swatch, h("bdi", {}, p.label), h("b", {}, trace.time(p.us)), h("span", { class: "dim" }, `${shares[i] || "<1"}%${p.estimated ? " estimated" : ""}`)];
    return h("li", {}, word ? h("button", { type: "button", class: "quiet", title: "Show only these spans", onclick: () => filter(word) }, said) : said);
  }));
}

const mostFailed = 4;

// failures names the tools that failed first, each a link to its span.
/** @param {Trace} trace @param {Select} select @param {(word: string) => void} filter */
export function failures(trace, select, filter) {
  const failed = failedTools(trace);
  return failed.length > 0 && h("p", { class: "failures" },
    h("button", { type: "button", class: "quiet red", title: "Show only these spans", onclick: () => filter("is:error op:tool") }, `${count(failed.length)} failed:`),
    failed.slice(0, mostFailed).map((n) => h("button", { type: "button", class: "quiet", onclick: () => select(n.id) },
      h("bdi", {}, `${rowName(n)} ${rowDetail(n, trace.session.folder).slice(0, 60)}`.trim()), ` (${n.failure.slice(0, 40)})`)));
}

/** @type {Record<string, string>} */
const words = { wait: "is:wait", model: "op:chat", approval: "op:approval", hook: "op:hook" };

// shorten makes one of the tools that took least.
/** @param {{ total: number, parts: Part[] }} spent */
function shorten({ total, parts }, most = mostTools) {
  const few = parts.filter((p) => p.order === 1).slice(most);
  if (few.length < 2) return { total, parts };
  const rest = { ...few[0], key: "tool", tool: "", label: `${few.length} other tools`, us: few.reduce((sum, p) => sum + p.us, 0), estimated: few.some((p) => p.estimated) };
  return { total, parts: [...parts.filter((p) => !few.includes(p)), rest] };
}

// shade tells tools apart, all of them being tools.
/** @type {(color: string, i: number) => string} */
const shade = (color, i) => `color-mix(in oklab, var(--${color}), var(--text) ${Math.min(i * 13, 65)}%)`;

/** @param {Trace} trace @param {(word: string) => void} filter */
export function toolTable(trace, filter) {
  const stats = toolStats(trace), timed = !trace.timeless;
  if (!stats.length) return h("p", { class: "dim" }, "No tools.");
  const most = stats[0].total || 1;
  return h("table", { class: "stats" },
    headings(["Tool", "Calls", "Failed", ...(timed ? ["Total", "p95"] : [])]),
    h("tbody", {}, stats.slice(0, 100).map((s) => {
      const bar = h("i");
      bar.style.width = `${timed ? 100 * s.total / most : 0}%`;
      return h("tr", {},
        h("th", { scope: "row", title: s.tool },
          h("button", { type: "button", class: "quiet", title: "Show only these spans", onclick: () => filter(toolWord(s.tool)) }, h("bdi", {}, s.tool)), bar),
        h("td", { class: "num" }, count(s.calls)),
        h("td", { class: s.failed ? "num red" : "num" }, s.failed ? count(s.failed) : "–"),
        timed && [s.total, s.p95].map((us) => h("td", { class: "num" }, trace.time(us) || "–")));
    })));
}
