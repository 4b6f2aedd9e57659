// @ts-check
// A chart of days: one line for each of two values.

import { h } from "./dom.js";
import { color } from "./theme.js";

const day = 86400; // seconds
const name = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

// chart draws measure.lines, each a label and a key of the groups, and calls choose with the day of a point that was clicked.
/** @param {HTMLElement} box @param {Measure} measure @param {(Partial<Group> & { name: string, runs: number })[]} days @param {string} title @param {(day: string) => void} choose */
export function chart(box, measure, days, title, choose) {
  const { lines, format } = measure;
  /** @type {(v: number | null | undefined) => string} */
  const shown = (v) => (v === null || v === undefined ? "–" : format(v));
  const grid = { stroke: color("grid"), width: 1 }, axis = { stroke: color("dim"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const plot = new uPlot({
    width: Math.max(240, box.clientWidth), height: 190,
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { range: (/** @type {unknown} */ _, /** @type {number} */ from, /** @type {number} */ to) => [from - day / 2, to + day / 2] },
      y: { range: (/** @type {unknown} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, most * 1.05 || 1] },
    },
    series: [
      { label: "day", value: (/** @type {unknown} */ _, /** @type {number | null} */ v) => (v === null ? "–" : name.format(v * 1e3)) },
      ...lines.map(([label], i) => ({
        label, stroke: color(i ? "approval" : "chat"), width: i ? 2 : 3, dash: i ? [5, 4] : [], points: { show: true, size: 8, fill: color(i ? "approval" : "chat") },
        value: (/** @type {unknown} */ _, /** @type {number | null} */ v) => shown(v),
      })),
    ],
    axes: [
      { ...axis, space: 64, incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * day), values: (/** @type {unknown} */ _, /** @type {number[]} */ at) => at.map((s) => name.format(s * 1e3)) },
      { ...axis, size: 64, values: (/** @type {unknown} */ _, /** @type {number[]} */ at) => at.map((n) => (n === 0 ? "0" : format(n))) },
    ],
  }, [
    days.map((d) => new Date(`${d.name}T12:00`).getTime() / 1e3),
    ...lines.map(([, key]) => days.map((d) => d[key] ?? null)),
  ], box);
  const text = `${title} by day: ` + days.filter((d) => d.runs).map((d) => `${d.name} ${lines.map(([label, key]) => `${label} ${shown(d[key])}`).join(", ")}`).join("; ");
  plot.root.prepend(h("span", { class: "unseen" }, text));
  plot.over.addEventListener("click", (e) => {
    const at = days[plot.posToIdx(e.offsetX)];
    if (at?.runs) choose(at.name);
  });
  return plot;
}
