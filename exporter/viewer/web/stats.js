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

// groupings put a run into one group.
/** @type {Record<string, (r: Run) => string>} */
export const groupings = {
  day: (r) => localDay(r.start),
  agent: (r) => r.agent || r.service || "unknown",
  model: (r) => r.model || "unknown",
  folder: (r) => r.folder || "unknown",
};

// has tells what runs can be narrowed to, besides groups.
/** @type {Record<string, (r: Run, value: string) => boolean>} */
const has = {
  tool: (r, tool) => r.toolNames.includes(tool),
  "failing tool": (r, tool) => r.calls.some(([name, , failed]) => failed && r.toolNames[name] === tool),
  error: (r, error) => r.failure === error,
};

// narrow leaves the runs that are in all of some groups, each written as "day:2026-11-25".
/** @param {Run[]} runs @param {string[]} only */
export function narrow(runs, only) {
  return only.reduce((left, each) => {
    const [, key, value] = /^([^:]*):(.*)$/s.exec(each) ?? [];
    const is = has[key] ?? ((r, v) => key in groupings && groupings[key](r) === v);
    return left.filter((r) => is(r, value));
  }, runs);
}

/** @type {(r: Run) => boolean} */
export const failedRun = (r) => r.failure !== "";

// timed tells that a run's spans have times: those of some recordings all happened at once.
/** @type {(r: Run) => boolean} */
const timed = (r) => r.end > r.start;

// priced are the runs of an answer, with their cost by a price list unless they state one.
/** @param {RunsAnswer} answer @returns {Run[]} */
export function priced({ runs, values, prices }) {
  return runs.map((run) => pricedRun(/** @type {Run} */ (Object.fromEntries(values.map((name, i) => [name, run[i]]))), prices));
}

/** @param {Run} run @param {RunsAnswer["prices"]} prices */
function pricedRun(run, prices) {
  const { input, output, cached, written, costStated } = run, price = prices[run.model];
  run.toolNames ??= [];
  run.costFrom = "";
  if (costStated || run.cost) run.costFrom = "stated";
  else if (price && (input || output)) {
    const { input_cost_per_token: each, output_cost_per_token, cache_read_input_token_cost: read = each, cache_creation_input_token_cost: write = each } = price;
    run.cost = Math.max(0, input - cached - written) * each + cached * read + written * write + output * output_cost_per_token;
    run.costFrom = "computed";
  }
  return run;
}

// summarize is what a group of runs has in common. Quantiles leave out runs
// that do not say.
/** @param {Run[]} runs */
export function summarize(runs) {
  /** @type {(f: (r: Run) => number) => number} */
  const sum = (f) => runs.reduce((total, r) => total + f(r), 0);
  /** @type {(f: (r: Run) => number) => number[]} */
  const sorted = (f) => runs.map(f).filter((v) => v > 0).sort((a, b) => a - b);
  const durations = sorted((r) => r.end - r.start), firsts = sorted((r) => r.firstChunk);
  const calls = runs.filter(timed).flatMap((r) => r.calls.map((c) => c[1])).sort((a, b) => a - b);
  return {
    runs: runs.length,
    failed: runs.filter(failedRun).length,
    durationP50: quantile(durations, 0.5), durationP95: quantile(durations, 0.95),
    firstP50: quantile(firsts, 0.5), firstP95: quantile(firsts, 0.95),
    toolP50: quantile(calls, 0.5), toolP95: quantile(calls, 0.95),
    tools: sum((r) => r.tools), toolErrors: sum((r) => r.toolErrors),
    input: sum((r) => r.input), output: sum((r) => r.output), cached: sum((r) => r.cached), cost: sum((r) => r.cost),
    stated: runs.filter((r) => r.costFrom === "stated").length, computed: runs.filter((r) => r.costFrom === "computed").length,
  };
}

/** @param {Run[]} runs @param {(r: Run) => string} by */
function grouped(runs, by) {
  /** @type {Map<string, Run[]>} */
  const groups = new Map();
  for (const r of runs) {
    const name = by(r), list = groups.get(name);
    if (list) list.push(r);
    else groups.set(name, [r]);
  }
  return [...groups];
}

// group puts runs together by one of the groupings, in the order of its names.
/** @param {Run[]} runs @param {string} by @returns {Group[]} */
export function group(runs, by) {
  return grouped(runs, groupings[by]).map(([name, list]) => ({ name, ...summarize(list) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

// byDay has a group for each day from the first to the last, also for those without a run.
/** @param {Run[]} runs */
export function byDay(runs) {
  /** @type {Group[]} */
  const days = [];
  for (const g of group(runs, "day")) {
    const next = days.length ? new Date(`${days[days.length - 1].name}T12:00`) : null;
    while (next) {
      next.setDate(next.getDate() + 1);
      const name = localDay(next.getTime() * 1e3);
      if (name >= g.name || days.length > mostDays) break;
      days.push({ name, ...summarize([]) });
    }
    days.push(g);
  }
  return days;
}

const mostDays = 3660;

// sortBy sorts by a column, descending if it begins with -; what has no value comes last, whichever way.
/** @template T @param {T[]} rows @param {string} column */
export function sortBy(rows, column) {
  const descending = column.startsWith("-"), key = /** @type {keyof T} */ (column.replace("-", ""));
  /** @type {(v: unknown) => boolean} */
  const missing = (v) => v === undefined || v === null || Number.isNaN(v);
  return [...rows].sort((a, b) => {
    const x = a[key], y = b[key];
    if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y));
    const way = x < y ? -1 : x > y ? 1 : 0;
    return descending ? -way : way;
  });
}

// toolTimes are the tools over all runs: calls, failures and quantiles, without times of runs that have none.
/** @param {Run[]} runs */
export function toolTimes(runs) {
  /** @type {Map<string, { calls: number, failed: number, total: number, times: number[] }>} */
  const tools = new Map();
  for (const r of runs) {
    for (const [i, us, failed] of r.calls) {
      const name = r.toolNames[i], t = tools.get(name) ?? { calls: 0, failed: 0, total: 0, times: [] };
      t.calls++;
      t.failed += failed;
      t.total += us;
      if (timed(r)) t.times.push(us);
      tools.set(name, t);
    }
  }
  return [...tools].map(([name, { times, ...sums }]) => {
    times.sort((a, b) => a - b);
    return { name, ...sums, rate: sums.failed / sums.calls, p50: quantile(times, 0.5), p95: quantile(times, 0.95) };
  });
}

// errors are the ways in which runs failed, the most frequent first.
/** @param {Run[]} runs */
export function errors(runs) {
  return grouped(runs.filter(failedRun), (r) => r.failure).map(([name, list]) => ({ name, runs: list.length })).sort((a, b) => b.runs - a.runs);
}

// outliers names the run with most of each measure, with how many times the median it has.
/** @param {Run[]} runs */
export function outliers(runs) {
  /** @type {[string, (r: Run) => number][]} */
  const measures = [["Slowest", (r) => r.end - r.start], ["Most expensive", (r) => r.cost], ["Most failures", (r) => r.errors]];
  return measures.flatMap(([title, of]) => {
    const values = runs.map(of).filter((v) => v > 0).sort((a, b) => a - b);
    const run = runs.find((r) => of(r) === values[values.length - 1]);
    return run ? [{ title, run, times: of(run) / quantile(values, 0.5) }] : [];
  });
}
