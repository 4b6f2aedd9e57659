// @ts-check
// A chart of days, as SVG: one line for each of two values.

import { h } from "./dom.js";

const height = 180, left = 64, bottom = 24, top = 12;

// label is the room that a day needs below the chart.
const label = 80;

// chart draws measure.lines, each a label and a key of the groups, so many pixels wide.
/** @param {Measure} measure @param {Group[]} groups @param {string} title @param {number} width */
export function chart(measure, groups, title, width) {
  const values = measure.lines.flatMap(([, key]) => groups.map((g) => g[key])).filter((v) => v > 0);
  const most = Math.max(1e-9, ...values);
  /** @type {(i: number) => number} */
  const x = (i) => (groups.length < 2 ? (left + width) / 2 : left + i * (width - left - 24) / (groups.length - 1));
  /** @type {(v: number) => number} */
  const y = (v) => height - bottom - v / most * (height - bottom - top);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "chart-lines",
    "aria-label": `${title} by day: ` + groups.map((g) => `${g.name} ${measure.lines.map(([label, key]) => `${label} ${Number.isNaN(g[key]) ? "none" : measure.format(g[key])}`).join(", ")}`).join("; ") });
  for (const part of [0, 0.5, 1]) {
    svg.append(s("line", { x1: left, x2: width, y1: y(most * part), y2: y(most * part), class: "grid" }));
    svg.append(s("text", { x: left - 8, y: y(most * part) + 4, "text-anchor": "end" }, !values.length ? "" : part ? measure.format(most * part) : "0"));
  }
  const every = Math.ceil(groups.length / Math.max(1, Math.floor((width - left) / label)));
  groups.forEach((g, i) => {
    if (i % every === 0) svg.append(s("text", { x: x(i), y: height - 6, "text-anchor": "middle" }, g.name.slice(5)));
  });
  measure.lines.forEach(([label, key], n) => {
    const points = groups.map((g, i) => ({ g, x: x(i), y: y(g[key] || 0) })).filter(({ g }) => !Number.isNaN(g[key]));
    svg.append(s("polyline", { points: points.map((p) => `${p.x},${p.y}`).join(" "), class: `line${n}` }));
    for (const { g, ...p } of points) {
      svg.append(s("circle", { cx: p.x, cy: p.y, r: 3, class: `line${n}` }, s("title", {}, `${g.name}, ${label}: ${measure.format(g[key])}`)));
    }
  });
  return h("figure", {}, svg, h("figcaption", { class: "legend" }, measure.lines.map(([label], n) => h("span", {}, h("i", { class: `line${n}` }), label))));
}

// s makes an element of SVG.
/** @param {string} tag @param {Record<string, string | number>} props @param {...(Element | string)} children */
function s(tag, props, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) el.setAttribute(key, String(value));
  el.append(...children);
  return el;
}
