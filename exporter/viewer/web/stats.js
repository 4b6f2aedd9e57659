// @ts-check
// Runs over time: sums and quantiles of sessions, by day, agent, model or folder.

import { quantile } from "./breakdown.js";

// localDay is the day of an instant in microseconds, as YYYY-MM-DD.
/** @param {number} us */
export function localDay(us) {
  const at = new Date(us / 1e3);
  /** @type {(n: number) => string} */
  const two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** @type {Record<string, (r: Run) => string>} */
export const groupings = {
  day: (r) => localDay(r.start),
  agent: (r) => r.agent || r.service || "unknown",
  model: (r) => r.model || "unknown",
  folder: (r) => r.folder || "unknown",
};

/** @type {(r: Run) => boolean} */
export const failedRun = (r) => r.failure !== "";

// summarize is what a group of runs has in common. Quantiles leave out runs
// that do not say.
/** @param {Run[]} runs */
export function summarize(runs) {
  /** @type {(f: (r: Run) => number) => number} */
  const sum = (f) => runs.reduce((total, r) => total + f(r), 0);
  /** @type {(f: (r: Run) => number) => number[]} */
  const sorted = (f) => runs.map(f).filter((v) => v > 0).sort((a, b) => a - b);
  const durations = sorted((r) => r.end - r.start), firsts = sorted((r) => r.firstChunk);
  const calls = runs.flatMap((r) => r.calls.map((c) => c[1])).sort((a, b) => a - b);
  return {
    runs: runs.length,
    failed: runs.filter(failedRun).length,
    durationP50: quantile(durations, 0.5), durationP95: quantile(durations, 0.95),
    firstP50: quantile(firsts, 0.5), firstP95: quantile(firsts, 0.95),
    toolP50: quantile(calls, 0.5), toolP95: quantile(calls, 0.95),
    tools: sum((r) => r.tools), toolErrors: sum((r) => r.toolErrors),
    input: sum((r) => r.input), output: sum((r) => r.output), cached: sum((r) => r.cached), cost: sum((r) => r.cost),
  };
}

// group puts runs together by one of the groupings, in the order of its names.
/** @param {Run[]} runs @param {string} by */
export function group(runs, by) {
  /** @type {Map<string, Run[]>} */
  const groups = new Map();
  for (const r of runs) {
    const name = groupings[by](r);
    groups.set(name, [...groups.get(name) ?? [], r]);
  }
  return [...groups].map(([name, list]) => ({ name, ...summarize(list) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

// sortBy sorts by a column; what has no value comes last, whichever way.
/** @param {Group[]} rows @param {keyof Group} column @param {boolean} descending */
export function sortBy(rows, column, descending) {
  /** @type {(v: string | number) => boolean} */
  const missing = (v) => v === undefined || v === null || Number.isNaN(v);
  return [...rows].sort((a, b) => {
    const x = a[column], y = b[column];
    if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y));
    const way = x < y ? -1 : x > y ? 1 : 0;
    return descending ? -way : way;
  });
}

// toolTimes are the tools over all runs: calls, failures and quantiles.
/** @param {Run[]} runs @param {string[]} names */
export function toolTimes(runs, names) {
  /** @type {Map<number, { name: string, calls: number, failed: number, total: number, times: number[] }>} */
  const tools = new Map();
  for (const r of runs) {
    for (const [name, us, failed] of r.calls) {
      const t = tools.get(name) ?? { name: names[name], calls: 0, failed: 0, total: 0, times: [] };
      t.calls++;
      t.failed += failed;
      t.total += us;
      t.times.push(us);
      tools.set(name, t);
    }
  }
  return [...tools.values()].map((t) => {
    t.times.sort((a, b) => a - b);
    return { name: t.name, calls: t.calls, failed: t.failed, total: t.total, p50: quantile(t.times, 0.5), p95: quantile(t.times, 0.95) };
  }).sort((a, b) => b.total - a.total);
}
