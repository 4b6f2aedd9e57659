// @ts-check
// The line that says where the time went, and the table of tools.

import { percentages, timeSpent, toolStats } from "./breakdown.js";
import { h, headings } from "./dom.js";
import { toolWord } from "./finding.js";
import { count } from "./format.js";
import { failedTools, rowDetail, rowName } from "./words.js";

export const withoutTimes = "Without times: only the order of the steps is known.";

// strip returns the line of so many parts, the last of which are one. filter is told of the word
// that finds the spans of a part, and all that the others are wanted, too.
/** @param {Trace} trace @param {(word: string) => void} filter @param {() => void} [all] */
export function strip(trace, filter, all) {
  const { total, parts } = timeSpent(trace), timed = parts.filter((p) => trace.time(p.us)), shares = percentages({ total, parts: timed });
  let tool = 0;
  const painted = timed.map((p, i) => ({ ...p, share: shares[i], paint: p.order === 1 ? shade(p.color, tool++) : `var(--${p.color})` }));
  return (most = Infinity) => (trace.timeless ? h("p", { class: "dim" }, withoutTimes) : h("ul", { class: "legend", "aria-label": "Where the time went" }, shorten(painted, most).map((p) => {
    const swatch = h("i"), word = p.tool ? toolWord(p.tool) : words[p.key], title = word ? "Show only these spans" : "Show all parts";
    swatch.style.background = p.paint;
    const said = [swatch, h("bdi", {}, p.label), h("b", {}, trace.time(p.us)), h("span", { class: "dim" }, `${share(p, total)}${p.estimated ? " estimated" : ""}`)];
    return h("li", {}, word || all && p.key === "rest" ? h("button", { type: "button", class: "quiet", title, onclick: () => (word ? filter(word) : all?.()) }, said) : said);
  })));
}

// failures returns the line of so many tools that failed, each a link to its span.
/** @param {Trace} trace @param {Select} select @param {(word: string) => void} filter */
export function failures(trace, select, filter) {
  const failed = failedTools(trace);
  /** @param {string} kind @param {string} text */
  const all = (kind, text) => h("button", { type: "button", class: `quiet ${kind}`, title: "Show only these spans", onclick: () => filter("is:error op:tool") }, text);
  /** @param {number} most */
  return (most) => failed.length > 0 && h("p", { class: "failures" }, all("red", `${count(failed.length)} failed:`),
    failed.slice(0, most).map((n) => h("button", { type: "button", class: "quiet", dir: "auto", onclick: () => select(n.id) },
      `${rowName(n)} ${rowDetail(n, trace.session.folder).slice(0, 60)}`.trim(), h("bdi", {}, ` (${n.failure.slice(0, 40)})`))),
    failed.length > most && all("more", `+${count(failed.length - most)} more`));
}

/** @type {Record<string, string>} */
const words = { wait: "is:wait", model: "op:chat", approval: "op:approval", hook: "op:hook" };

// share rounds away from 0 and 100, as the terminal does. What takes less than a millisecond has no time.
/** @param {{ share: number, us: number }} part @param {number} total */
export const share = (part, total) => (part.share === 100 && total - part.us >= 999 ? ">99%" : `${part.share || "<1"}%`);

// shorten makes one of the parts that took least.
/** @template {Part & { share: number }} P @param {P[]} parts @param {number} most @returns {P[]} */
export function shorten(parts, most) {
  const rest = parts.slice(most);
  if (rest.length < 2) return parts;
  const other = parts.slice(0, most).some((p) => p.order === 1) ? "other " : "";
  const label = rest.every((p) => p.order === 1) ? `${rest.length} ${other}tools` : "other";
  /** @param {"us" | "share"} key */
  const sum = (key) => rest.reduce((all, p) => all + p[key], 0);
  return [...parts.slice(0, most), { ...rest[0], key: "rest", tool: "", label, us: sum("us"), share: sum("share"), estimated: rest.some((p) => p.estimated) }];
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
        timed && [s.total, s.p95].map((us) => h("td", { class: "num" }, trace.stated(us, s.estimated) || "–")));
    })));
}
