// @ts-check
// Two sessions side by side, on one scale of time that both start on.

import { alignLines } from "./align.js";
import { timeSpent } from "./breakdown.js";
import { fill, h, headings, stepButton } from "./dom.js";
import { parseFilter } from "./finding.js";
import { count, duration, plural } from "./format.js";
import { rowHeight } from "./layout.js";
import { Loader } from "./loader.js";
import { facts } from "./session.js";
import { withoutTimes } from "./strip.js";
import { Timeline } from "./timeline.js";
import { Waterfall } from "./waterfall.js";
import { headline, rowDetail, rowName, tellApart } from "./words.js";

/** @param {Place} place @param {...string} ids @returns {View} */
export function compareView({ main, entitle, signal }, ...ids) {
  entitle("Compare");
  const timeline = new Timeline();
  const filter = h("input", { type: "search", placeholder: "Words, is:error, tool:shell", "aria-label": "Filter spans" });
  const where = h("span", { class: "dim found", role: "status" });
  const table = h("div", { class: "page", tabindex: "0", role: "region", "aria-label": "Where the time went" });
  const sides = ids.map((id) => {
    const head = h("div", { class: "head-facts" });
    const waterfall = new Waterfall(timeline, signal, {
      select() {},
      rows: () => place(),
      open: (n) => { location.hash = `#/trace/${id}/${n.id}`; },
    }, 270);
    const element = h("section", { class: "side" }, h("div", { class: "head" }, head), waterfall.element);
    const title = h("a", { href: `#/trace/${id}` });
    const loader = new Loader(id, signal, (trace) => {
      fill(head, h("h2", { dir: "auto" }, title), ...facts(trace));
      const names = sides.map(({ loader: { trace: { session } } }) => (session ? headline(session) : ""));
      sides.forEach((s, i) => fill(s.title, tellApart(names)(names[i])));
      timeline.extend(Math.max(...sides.map((s) => s.loader.trace.duration)));
      waterfall.show(trace);
      const [a, b] = sides.map((s) => s.loader.trace);
      if (a.nodes.length && b.nodes.length) fill(table, h("h2", {}, "Where the time went"), a.timeless || b.timeless ? h("p", { class: "dim" }, withoutTimes) : difference(a, b));
    }, (e) => fill(head, h("h2", {}, "No such session"), h("p", {}, `${id}: ${e.message}`)));
    return { element, title, loader, waterfall };
  });
  main.append(h("div", { class: "tools" }, filter, stepButton(-1, "Previous difference", go), stepButton(1, "Next difference", go), where),
    h("div", { class: "sides" }, sides.map((s) => s.element)), table);
  filter.addEventListener("input", () => {
    for (const { waterfall } of sides) if (waterfall.trace) waterfall.filter(parseFilter(filter.value));
  });

  // What is the same stands side by side, and scrolls as one.
  /** @type {ReturnType<typeof alignLines>} */
  let aligned = { lines: [], differences: [] };
  let at = -1;
  /** @type {TraceNode[][]} */
  let of = []; // rows
  function place() {
    const [a, b] = sides.map((s) => s.waterfall);
    if (!a.trace || !b.trace) return;
    if (a.rows !== of[0] || b.rows !== of[1]) {
      const before = String(aligned.differences);
      aligned = alignLines(a.rows, b.rows);
      of = [a.rows, b.rows];
      if (String(aligned.differences) !== before || !where.textContent) {
        at = -1;
        where.textContent = plural(aligned.differences.length, "difference");
      }
    }
    a.place(aligned.lines.map((l) => l.left));
    b.place(aligned.lines.map((l) => l.right));
    if (at < 0 && !top) scroll(above(aligned.differences[0] ?? 0)); // the first difference is in sight
  }
  let top = 0; // of both: a scroll event that was pending must not move the other back
  /** @param {number} to */
  function scroll(to) {
    if (top === to) return;
    top = to;
    for (const { waterfall } of sides) waterfall.scroller.scrollTop = to;
  }
  for (const { waterfall: { scroller } } of sides) scroller.addEventListener("scroll", () => scroll(scroller.scrollTop), { passive: true });
  /** @type {(line: number) => number} */
  const above = (line) => Math.max(0, (line - 2) * rowHeight);
  /** @param {number} way */
  function go(way) {
    const { lines, differences } = aligned;
    if (!differences.length) return;
    const next = (at < 0 && way < 0 ? 0 : at) + way + differences.length, index = next % differences.length, line = differences[index];
    const pair = [lines[line].left, lines[line].right];
    for (const [side, n] of pair.entries()) {
      const { waterfall } = sides[side];
      waterfall.selected = n?.id ?? null;
      waterfall.redraw();
    }
    scroll(above(line));
    at = index;
    where.textContent = `difference ${count(index + 1)} of ${count(differences.length)}: ${pair.map((n) => (n ? [rowName(n), rowDetail(n), n.failure].filter(Boolean).join(" ") : "nothing")).join(" | ")}`;
  }
  return { changed: (changed) => sides.forEach((s) => s.loader.changed(changed)) };
}

// difference has a line for everything that took time in one of the two.
/** @param {Trace} a @param {Trace} b */
function difference(a, b) {
  const least = Math.min(a.least, b.least), [before, after] = [a, b].map((trace) => new Map(timeSpent(trace).parts.map((p) => [p.key, p])));
  /** @type {(key: string) => (Part | undefined)[]} */
  const sides = (key) => [before.get(key), after.get(key)];
  /** @type {(key: string) => number} */
  const most = (key) => Math.max(...sides(key).map((p) => p?.us ?? 0));
  /** @type {(us: number, estimated?: boolean) => string} */
  const time = (us, estimated) => (Math.abs(us) < least ? "–" : duration(us) + (estimated ? " estimated" : ""));
  const keys = [...new Set([...before.keys(), ...after.keys()])].filter((key) => most(key) >= least).sort((x, y) => most(y) - most(x));
  return h("table", { class: "stats difference" }, headings(["Time in", "Left", "Right", "Difference"]), h("tbody", {}, keys.map((key) => {
    const [left, right] = sides(key), more = (right?.us ?? 0) - (left?.us ?? 0);
    return h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, (left ?? right)?.label)), [
      ...[left, right].map((p) => time(p?.us ?? 0, p?.estimated)), (more < least ? "" : "+") + time(more, left?.estimated || right?.estimated),
    ].map((t) => h("td", { class: "num" }, t)));
  })));
}
