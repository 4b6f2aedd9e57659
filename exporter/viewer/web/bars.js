// How a node is drawn in its row. A turn of the model shows its rhythm: pale
// until the first chunk, which has a mark, then a line for every chunk.

import { rowHeight } from "./layout.js";

// bar is the place of a node's bar.
export function bar(waterfall, n) {
  const height = n.op === "agent" ? 4 : 12;
  const x = waterfall.x(n.start);
  return {
    x,
    y: waterfall.y(n.row) + (rowHeight - height) / 2,
    width: Math.max(2, waterfall.x(n.end) - x), // an instant, too, is to be seen
    height,
    color: n.failure ? "error" : n.op || "other",
  };
}

export function drawBar(pen, w, n, b) {
  // Beyond the edges nothing is drawn, nor do coordinates of a million pixels help.
  const x0 = Math.max(b.x, w.left - 8), x1 = Math.min(b.x + b.width, w.width + 8);
  const streamed = n.text.length + n.thinking.length > 0;
  if (n.op !== "chat" || n.failure || !n.firstChunk && !streamed) {
    pen.rounded(b.color, x0, b.y, x1 - x0, b.height);
    drawEvents(pen, w, n.events, b);
    return;
  }
  pen.rounded("chat-wait", x0, b.y, x1 - x0, b.height);
  const first = n.firstChunk || n.start;
  const from = Math.max(w.x(first), x0);
  if (from < x1) pen.fill("chat-stream", from, b.y, x1 - from, b.height);
  rhythm(pen, w, n.thinking, b, "thinking");
  rhythm(pen, w, n.text, b, "chat");
  if (n.firstChunk) pen.fill("chat", Math.round(w.x(first)), b.y - 3, 1.5, b.height + 6);
  drawEvents(pen, w, n.events, b);
}

// rhythm draws instants as lines, the denser the stronger: one look per pixel,
// however many there are.
function rhythm(pen, w, times, b, ink) {
  const end = Math.min(b.x + b.width, w.width);
  let i = lowerBound(times, w.trace.start + w.at(Math.max(b.x, w.left)));
  while (i < times.length) {
    const x = Math.floor(w.x(times[i]));
    if (x > end) return;
    const next = Math.max(i + 1, lowerBound(times, w.trace.start + w.at(x + 1), i));
    pen.fill(ink, x, b.y, 1, b.height, Math.min(1, 0.5 + 0.15 * (next - i)));
    i = next;
  }
}

function drawEvents(pen, w, times, b) {
  const end = Math.min(b.x + b.width, w.width);
  let i = lowerBound(times, w.trace.start + w.at(Math.max(b.x, w.left)));
  while (i < times.length) {
    const x = Math.floor(w.x(times[i]));
    if (x > end) return;
    pen.fill("text", x, b.y - 2, 1, b.height + 4, 0.7);
    i = Math.max(i + 1, lowerBound(times, w.trace.start + w.at(x + 2), i));
  }
}

export function lowerBound(list, value, low = 0) {
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
