// @ts-check
// A Timeline is the piece of time that is in sight. Several views may share
// one, so that they zoom and pan as one; times are relative to a start of each.
export class Timeline {
  constructor() {
    this.from = 0;
    this.to = 1;
    this.total = 1;
    this.fitted = true;
    /** @type {Set<TimeView>} */
    this.views = new Set();
  }

  // extend sets how long the longest of the views is.
  /** @param {number} total */
  extend(total) {
    this.total = Math.max(1, total);
    if (this.fitted) this.to = this.total;
    this.show();
  }

  get span() { return this.to - this.from; }
  get zoomed() { return !this.fitted; }

  /** @param {number} from @param {number} to */
  set(from, to) {
    const least = 10; // microseconds
    const span = Math.min(Math.max(to - from, least), this.total);
    this.from = Math.min(Math.max(from, 0), this.total - span);
    this.to = this.from + span;
    this.fitted = span >= this.total;
    this.show();
  }

  fit() { this.set(0, this.total); }

  // zoom makes it factor times as long, around an instant that stays in place.
  /** @param {number} factor @param {number} at */
  zoom(factor, at) {
    const span = Math.min(Math.max(this.span * factor, 10), this.total);
    const share = (at - this.from) / this.span;
    this.set(at - share * span, at + (1 - share) * span);
  }

  /** @param {number} by */
  pan(by) { this.set(this.from + by, this.to + by); }

  // reveal brings a span into sight.
  /** @param {number} start @param {number} end */
  reveal(start, end) {
    if (end <= this.from || start >= this.to) {
      const middle = (start + end) / 2;
      this.set(middle - this.span / 2, middle + this.span / 2);
    }
  }

  show() {
    for (const view of this.views) (view.moved ?? view.redraw).call(view);
  }
}

// steps are round instants of a piece of time, at most so many, and the
// distance between two.
/** @param {number} from @param {number} to @param {number} most */
export function steps(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  let step;
  if (rough > 30e6) {
    step = [60e6, 120e6, 300e6, 600e6, 900e6, 1800e6, 3600e6, 7200e6, 14400e6, 43200e6, 86400e6].find((s) => s >= rough) ?? rough;
  } else {
    const ten = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
    step = [1, 2, 5, 10].map((n) => n * ten).find((s) => s >= rough) ?? 10 * ten;
    if (step === 50e6) step = 60e6;
  }
  const list = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) list.push(at);
  return { list, step };
}

// stepLabel writes an instant as finely as the distance to the next asks for.
/** @param {number} at @param {number} step */
export function stepLabel(at, step) {
  if (at === 0) return "0";
  if (step < 1e3) return `${+(at / 1e3).toFixed(3)}ms`;
  if (step < 1e6 && at < 1e6) return `${Math.round(at / 1e3)}ms`;
  if (at < 60e6) return `${+(at / 1e6).toFixed(step < 1e6 ? Math.ceil(6 - Math.log10(step)) : 0)}s`;
  const s = at / 1e6;
  const rest = step < 1e6 ? (s % 60).toFixed(Math.ceil(6 - Math.log10(step))) : String(Math.round(s % 60));
  const minutes = Math.floor(s / 60) % 60, hours = Math.floor(s / 3600);
  if (hours) return `${hours}h${String(minutes).padStart(2, "0")}` + (step < 60e6 ? `m${rest.padStart(2, "0")}s` : "m");
  return +rest ? `${minutes}m${rest.padStart(2, "0")}s` : `${minutes}m`;
}
