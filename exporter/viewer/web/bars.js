// @ts-check
// How a node is drawn in its row. A turn of the model shows its rhythm: a thin
// line while it waits for the first chunk, then a band with a mark for every chunk.

import { rowHeight } from "./layout.js";

// bar is the place of a node's bar.
/** @param {Waterfall} waterfall @param {TraceNode} n */
export function bar(waterfall, n) {
  const height = n.op === "agent" ? 4 : 12;
  const x = waterfall.x(n.start);
  return {
    x,
    y: waterfall.y(n.row) + (rowHeight - height) / 2,
    width: Math.max(2, waterfall.x(n.end) - x), // an instant must be visible, too
    height,
    color: n.failure ? "error" : n.op || "other",
  };
}

// waited tells until when a turn waited for its first chunk.
/** @param {TraceNode} n */
export function waited(n) {
  if (n.firstChunk) return Math.min(n.firstChunk, n.end);
  return n.open && !n.chunks ? n.end : n.start;
}

/** @param {Pen} pen @param {Waterfall} w @param {TraceNode} n @param {Box} b */
export function drawBar(pen, w, n, b) {
  // Nothing is drawn beyond the edges: coordinates of a million pixels do not help.
  const x0 = Math.max(b.x, w.left - 8), x1 = Math.min(b.x + b.width, w.width + 8);
  if (n.op === "chat") drawTurn(pen, w, n, b, x0, x1);
  else pen.rounded(b.color, x0, b.y, x1 - x0, b.height);
  if (n.failure) pen.cross(b.x + b.width + 8, b.y + b.height / 2, "error");
  inSight(w, n.marks.map((m) => m.at), b, 2, (x) => pen.fill("text", x, b.y - 2, 1, b.height + 4, 0.7));
  if (n.open && x1 < w.width) pen.fill("accent", x1 - 1, b.y - 3, 2, b.height + 6);
}

/** @param {Pen} pen @param {Waterfall} w @param {TraceNode} n @param {Box} b @param {number} x0 @param {number} x1 */
function drawTurn(pen, w, n, b, x0, x1) {
  const until = waited(n), ink = n.failure ? "error" : "chat";
  const from = Math.min(Math.max(w.x(until), x0), x1);
  if (until > n.start) pen.fill("chat-wait", x0, b.y + b.height / 2 - 2, from - x0, 4);
  if (!n.text.length && !n.thinking.length) {
    if (until < n.end || n.end === n.start) pen.rounded(ink, from, b.y, x1 - from, b.height);
  } else {
    pen.fill(n.failure ? "error-stream" : "chat-stream", from, b.y, x1 - from, b.height);
    rhythm(pen, w, n.thinking, b, n.failure ? "error" : "thinking");
    rhythm(pen, w, n.text, b, ink);
  }
  if (n.firstChunk) pen.fill(ink, Math.round(w.x(n.firstChunk)), b.y - 3, 1.5, b.height + 6);
}

// rhythm draws instants as lines, the denser the stronger: one look per pixel,
// however many there are.
/** @param {Pen} pen @param {Waterfall} w @param {number[]} times @param {Box} b @param {string} ink */
function rhythm(pen, w, times, b, ink) {
  inSight(w, times, b, 1, (x, n) => pen.fill(ink, x, b.y, 1, b.height, Math.min(1, 0.5 + 0.15 * n)));
}

// inSight calls draw where instants are, with how many there are in so many pixels.
/** @param {Waterfall} w @param {number[]} times @param {Box} b @param {number} pixels @param {(x: number, n: number) => void} draw */
function inSight(w, times, b, pixels, draw) {
  const end = Math.min(b.x + b.width, w.width);
  let i = lowerBound(times, w.trace.start + w.at(Math.max(b.x, w.left)));
  while (i < times.length) {
    const x = Math.floor(w.x(times[i]));
    if (x > end) return;
    const next = Math.max(i + 1, lowerBound(times, w.trace.start + w.at(x + pixels), i));
    draw(x, next - i);
    i = next;
  }
}

/** @param {number[]} list @param {number} value */
function lowerBound(list, value, low = 0) {
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
