// @ts-check
// Times are in microseconds.

// duration has three digits that matter, as in the text tree: 850µs, 30ms,
// 6.26s, 12.4s, 1m02s, 1h05m.
/** @param {number} us @returns {string} */
export function duration(us) {
  if (us < 0) return "−" + duration(-us);
  if (us < 999.5) return us < 0.5 ? "0ms" : `${Math.round(us)}µs`;
  const ms = us / 1e3;
  if (ms < 99.95) return `${Number(ms.toFixed(ms < 9.995 ? 2 : 1))}ms`;
  if (ms < 999.5) return `${Math.round(ms)}ms`;
  const exact = Math.round(ms); // as the terminal rounds
  if (exact < 9995) return `${(Math.round(exact / 10) / 100).toFixed(2)}s`;
  if (exact < 59950) return `${(Math.round(exact / 100) / 10).toFixed(1)}s`;
  const whole = Math.round(exact / 1e3);
  /** @type {(n: number) => string} */
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h${two(Math.floor(whole / 60) % 60)}m`;
}

/** @type {(n: number | bigint) => string} */
export const count = (n) => n.toLocaleString("en-US");

/** @param {number} n @param {string} noun */
export function plural(n, noun) {
  return n === 1 ? `1 ${noun}` : `${count(n)} ${noun}s`;
}

// roughly is short: 950, 1.2k, 79.7k, 1.3M.
/** @param {number} n */
export function roughly(n) {
  if (n < 1000) return String(n);
  if (n < 99_950) return `${(n / 1e3).toFixed(1)}k`;
  if (n < 999_500) return `${Math.round(n / 1e3)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

// percent rounds a share away from 0 and 100.
/** @type {(part: number) => string} */
export const percent = (part) => (part > 0 && part < 0.01 ? "<1%" : part > 0.99 && part < 1 ? ">99%" : `${Math.round(part * 100)}%`);

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

// moment is a time of day, with the day unless it is today.
/** @param {number} us */
export function moment(us) {
  const at = new Date(us / 1e3), now = new Date();
  if (at.toDateString() === now.toDateString()) return clock.format(at);
  return `${(at.getFullYear() === now.getFullYear() ? day : dayOfYear).format(at)}, ${clock.format(at)}`;
}

/** @type {(us: number) => string} */
export const exactMoment = (us) => new Date(us / 1e3).toISOString();

// money is in US dollars.
/** @type {(usd: number) => string} */
export const money = (usd) => (!usd ? "$0" : usd >= 100 ? `$${Math.round(usd)}` : usd >= 0.995 ? `$${usd.toFixed(2)}` : usd >= 0.01 ? `$${usd.toFixed(3)}` : `$${usd.toPrecision(2)}`);

// size is a number of bytes.
/** @param {number} n */
export function size(n) {
  if (n < 1024) return `${n} B`;
  const [part, unit] = n < 1 << 20 ? [n / 1024, "KiB"] : n < 2 ** 30 ? [n / 2 ** 20, "MiB"] : [n / 2 ** 30, "GiB"];
  return `${part < 99.95 ? Number(part.toFixed(1)) : Math.round(part)} ${unit}`;
}

// seconds is a duration that ticks: no digits that would only flicker.
/** @param {number} us */
export function seconds(us) {
  const s = Math.max(0, Math.floor(us / 1e6));
  return s < 60 ? `${s}s` : duration(s * 1e6);
}
