// @ts-check
// A chart of days: one line for each of two values.

import { fill, h } from "./dom.js";
import { writeAddress } from "./finding.js";
import { color } from "./theme.js";
import { stepLabel } from "./timeline.js";
import { headline, tellApart } from "./words.js";

const day = 86400; // seconds
/** @type {Intl.DateTimeFormatOptions} */
const dated = { day: "numeric", month: "short" };

// increments are those between two round values: of times, in microseconds, and of numbers.
const tens = [1, 10, 100, 1e3, 1e4, 1e5].flatMap((ten) => [ten, 2 * ten, 5 * ten]);
const increments = { times: [...tens, ...[1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000].map((s) => s * 1e6)], numbers: [...tens, ...tens.map((n) => n * 1e6)] };

// bars draws a bar for each run.
/** @param {HTMLElement} box @param {Measure} measure @param {Single[]} runs @param {string} title */
export function bars(box, { one, format }, runs, title) {
  const most = Math.max(...runs.map(one)), shorten = tellApart(runs.map((r) => headline(r.session)));
  fill(box, h("ol", { class: "each", "aria-label": `${title} by run` }, runs.toSorted((a, b) => b.session.start - a.session.start).map((r) => {
    const bar = h("i"), value = one(r);
    bar.style.width = `${100 * value / most}%`;
    return h("li", {}, h("a", { href: writeAddress(["trace", r.session.id], {}), dir: "auto" }, shorten(headline(r.session))), h("span", { class: "num" }, value ? format(value) : "–"), h("div", {}, value > 0 && bar));
  })));
}

// chart draws measure.lines, each a label and a key of the groups, and calls choose with the day of a point that was clicked.
// Without a value there is nothing to draw.
/** @param {HTMLElement} box @param {Measure} measure @param {(Partial<Group> & { name: string, runs: number })[]} days @param {string} title @param {(day: string) => void} choose */
export function chart(box, measure, days, title, choose) {
  const { lines, format, timed } = measure;
  if (!days.some((d) => lines.some(([, key]) => d[key]))) return undefined;
  const otherYear = [days[0], days[days.length - 1]].some((d) => Number(d.name.slice(0, 4)) !== new Date().getFullYear());
  const name = new Intl.DateTimeFormat(undefined, otherYear ? { ...dated, year: "numeric" } : dated);
  /** @type {(v: number | null | undefined) => string} */
  const shown = (v) => (v === null || v === undefined ? "–" : format(v));
  const grid = { stroke: color("grid"), width: 1 }, axis = { stroke: color("dim"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const plot = new uPlot({
    width: Math.max(240, box.clientWidth), height: 190,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { range: (/** @type {unknown} */ _, /** @type {number} */ from, /** @type {number} */ to) => [from - day / 2, to + day / 2] },
      y: { range: (/** @type {unknown} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, most * 1.05 || 1] },
    },
    series: [
      {},
      ...lines.map((_, i) => ({ stroke: color(i ? "approval" : "chat"), width: i ? 2 : 3, dash: i ? [5, 4] : [], points: { show: true, size: 8, fill: color(i ? "approval" : "chat") } })),
    ],
    axes: [
      { ...axis, space: otherYear ? 100 : 64, incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * day), values: (/** @type {unknown} */ _, /** @type {number[]} */ at) => at.map((s) => name.format(s * 1e3)) },
      { ...axis, size: 64, incrs: increments[timed ? "times" : "numbers"], values: (/** @type {unknown} */ _, /** @type {number[]} */ at) => at.map((n) => (n === 0 ? "0" : timed ? stepLabel(n, at[1] - at[0]) : format(n))) },
    ],
  }, [
    days.map((d) => new Date(`${d.name}T12:00`).getTime() / 1e3),
    ...lines.map(([, key]) => days.map((d) => d[key] ?? null)),
  ], box);
  const text = `${title} by day: ` + days.filter((d) => d.runs).map((d) => `${d.name} ${lines.map(([label, key]) => `${label} ${shown(d[key])}`).join(", ")}`).join("; ");
  plot.root.prepend(h("span", { class: "unseen" }, text), ...lines.map(([label], i) => h("span", { class: i ? "line-name dashed" : "line-name" }, label)));
  plot.over.addEventListener("click", (e) => {
    const at = days[plot.posToIdx(e.offsetX)];
    if (at?.runs) choose(at.name);
  });
  return plot;
}
