// @ts-check
// Runs over time: what the page makes of the viewer's sums and quantiles.

const mostDays = 3660;

// withGaps adds the days without a run, and without any other measure, between the first and the last, unless there are very many.
/** @param {Group[]} days @returns {(Partial<Group> & { name: string, runs: number })[]} */
export function withGaps(days) {
  if (!days.length) return [];
  const known = new Map(days.map((d) => [d.name, d])), last = days[days.length - 1].name, all = [];
  for (const at = new Date(`${days[0].name}T12:00`); all.length < mostDays; at.setDate(at.getDate() + 1)) {
    const name = at.toLocaleDateString("sv"); // YYYY-MM-DD
    if (name > last) return all;
    all.push(known.get(name) ?? { name, runs: 0 });
  }
  return days;
}

// week adds up seven days, which ended so many days ago. Quantiles of days do not add up.
/** @param {Group[]} days @param {string} name @param {number} ago @returns {Group | null} */
export function week(days, name, ago) {
  /** @type {(ago: number) => string} */
  const day = (ago) => new Date(new Date().setDate(new Date().getDate() - ago)).toLocaleDateString("sv");
  const seven = days.filter((d) => day(ago + 6) <= d.name && d.name <= day(ago));
  if (!seven.length) return null;
  const sums = Object.keys(seven[0]).map((key) => [key, /P\d\d$/.test(key) ? null : seven.reduce((sum, d) => sum + Number(d[/** @type {keyof Measures} */ (key)]), 0)]);
  return { ...Object.fromEntries(sums), name };
}

// sortBy sorts by a column, descending if it begins with -; what has no value comes last, whichever way.
/** @template T @param {T[]} rows @param {string} column */
export function sortBy(rows, column) {
  const descending = column.startsWith("-"), key = /** @type {keyof T} */ (column.replace("-", ""));
  /** @type {(v: unknown) => boolean} */
  const missing = (v) => v === undefined || v === null;
  return [...rows].sort((a, b) => {
    const x = a[key], y = b[key];
    if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y));
    const way = x < y ? -1 : x > y ? 1 : 0;
    return descending ? -way : way;
  });
}
