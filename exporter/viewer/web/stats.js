// @ts-check
// Runs over time: what the page makes of the viewer's sums and quantiles.

// localDay is the day of an instant in microseconds, as YYYY-MM-DD.
/** @param {number} us */
function localDay(us) {
  const at = new Date(us / 1e3);
  /** @type {(n: number) => string} */
  const two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

// withGaps adds the days without a run, and without any other measure, between the first and the last.
/** @param {Group[]} days */
export function withGaps(days) {
  /** @type {(Partial<Group> & { name: string, runs: number })[]} */
  const all = [];
  for (const g of days) {
    const next = all.length ? new Date(`${all[all.length - 1].name}T12:00`) : null;
    while (next) {
      next.setDate(next.getDate() + 1);
      const name = localDay(next.getTime() * 1e3);
      if (name >= g.name || all.length > mostDays) break;
      all.push({ name, runs: 0 });
    }
    all.push(g);
  }
  return all;
}

const mostDays = 3660;

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
