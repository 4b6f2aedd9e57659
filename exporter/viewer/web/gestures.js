// @ts-check
// Mouse, wheel and keys on a waterfall.

import { axisHeight, lead, rowHeight } from "./layout.js";
import { spoken } from "./words.js";

/** @param {Waterfall} w */
export function gestures(w) {
  const { scroller } = w;
  scroller.addEventListener("wheel", (e) => wheel(w, e), { passive: false });
  scroller.addEventListener("pointerdown", (e) => press(w, e));
  scroller.addEventListener("pointermove", (e) => hover(w, e));
  scroller.addEventListener("pointerleave", () => leave(w));
  scroller.addEventListener("dblclick", (e) => {
    const n = w.rowAt(place(w, e).y);
    if (n) zoomTo(w, n);
    else w.timeline.fit();
  });
  scroller.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = keys[e.key] ?? keys[e.key.toLowerCase()];
    if (!act) return;
    e.preventDefault();
    act(w);
  });
}

/** @param {Waterfall} w @param {MouseEvent} e */
function place(w, e) {
  const box = w.scroller.getBoundingClientRect();
  return { x: e.clientX - box.left, y: e.clientY - box.top };
}

// wheel scrolls; with Ctrl (and by a pinch), or over the axis, it zooms; with
// Shift or sideways it pans.
/** @param {Waterfall} w @param {WheelEvent} e */
function wheel(w, e) {
  const { x, y } = place(w, e);
  if (e.ctrlKey || e.metaKey || y < axisHeight) {
    e.preventDefault();
    w.timeline.zoom(Math.exp(Math.max(-100, Math.min(100, e.deltaY)) * 0.003), w.at(Math.max(x, w.left)));
  } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
    e.preventDefault();
    w.timeline.pan((e.deltaX || e.deltaY) / w.plot * w.timeline.span);
  }
}

/** @param {Waterfall} w @param {PointerEvent} e */
function press(w, e) {
  if (e.button !== 0) return;
  const from = place(w, e);
  if (from.x >= w.scroller.clientWidth) return; // the scroll bar
  if (Math.abs(from.x - w.left) < 5) {
    drag(w, e, (to) => {
      w.labels = Math.max(120, Math.min(to.x, w.width * 0.6));
      w.redraw();
    });
    return;
  }
  const began = { from: w.timeline.from, to: w.timeline.to };
  let moved = false;
  drag(w, e, (to) => {
    if (!moved && Math.abs(to.x - from.x) < 4) return;
    moved = true;
    if (from.x < w.left) return;
    const by = (to.x - from.x) / w.plot * (began.to - began.from);
    w.timeline.set(began.from - by, began.to - by);
  }, () => {
    if (moved) return;
    const n = w.rowAt(from.y);
    if (n && from.x < w.left && onCaret(w, n, from.x)) w.toggle(n);
    else if (from.y >= axisHeight) w.select(n?.id ?? null, { reveal: false });
  });
}

/** @param {Waterfall} w @param {TraceNode} n @param {number} x */
function onCaret(w, n, x) {
  const at = lead(n, w.narrow);
  return n.below.length > 0 && x > at - 8 && x < at + 16;
}

/** @param {Waterfall} w @param {PointerEvent} e @param {(to: { x: number, y: number }) => void} move */
function drag(w, e, move, end = () => {}) {
  const over = new AbortController();
  const options = { signal: over.signal };
  w.tip.hidden = true;
  w.dragging = true;
  addEventListener("pointermove", (e) => move(place(w, e)), options);
  const stop = () => {
    over.abort();
    w.dragging = false;
  };
  addEventListener("pointerup", () => { stop(); end(); }, options);
  addEventListener("pointercancel", stop, options);
}

/** @param {Waterfall} w @param {PointerEvent} e */
function hover(w, e) {
  if (w.dragging) return;
  const { x, y } = place(w, e);
  w.scroller.style.cursor = Math.abs(x - w.left) < 5 ? "col-resize" : "default";
  const n = x < w.scroller.clientWidth ? w.rowAt(y) : null;
  if (w.hovered !== (n?.id ?? null)) {
    w.hovered = n?.id ?? null;
    w.redraw();
  }
  if (!n || x < w.left) {
    w.tip.hidden = true;
    return;
  }
  w.tip.textContent = spoken(n, w.trace);
  w.tip.hidden = false;
  const width = w.tip.offsetWidth;
  w.tip.style.left = `${Math.max(4, Math.min(x + 12, w.width - width - 4))}px`;
  w.tip.style.top = `${y + 20 + w.tip.offsetHeight > w.height ? y - 12 - w.tip.offsetHeight : y + 20}px`;
}

/** @param {Waterfall} w */
function leave(w) {
  w.hovered = null;
  w.tip.hidden = true;
  w.redraw();
}

/** @type {(w: Waterfall) => TraceNode | undefined} */
const chosen = (w) => w.rows.find((n) => n.id === w.selected);

/** @param {number} by @returns {Act} */
function step(by) {
  return (w) => {
    const at = w.rows.findIndex((n) => n.id === w.selected), from = at < 0 && by !== 1 ? 0 : at;
    const i = Math.min(Math.max(from + by, 0), w.rows.length - 1);
    if (w.rows[i]) w.select(w.rows[i].id);
  };
}

/** @type {(factor: number) => Act} */
const zoom = (factor) => (w) => w.timeline.zoom(factor, (w.timeline.from + w.timeline.to) / 2);

/** @param {Waterfall} w @param {TraceNode} n */
function zoomTo(w, n) {
  const margin = Math.max(n.duration * 0.1, 10);
  w.timeline.set(n.start - w.trace.start - margin, n.end - w.trace.start + margin);
}

/** @type {(w: Waterfall) => number} */
const page = (w) => Math.max(1, Math.floor((w.height - axisHeight) / rowHeight) - 1);

/** @type {Record<string, Act>} */
const keys = {
  ArrowDown: step(1), j: step(1),
  ArrowUp: step(-1), k: step(-1),
  PageDown: (w) => step(page(w))(w),
  PageUp: (w) => step(-page(w))(w),
  Home: step(-Infinity),
  End: step(Infinity),
  ArrowRight: (w) => {
    const n = chosen(w);
    if (n && w.collapsed.has(n.id)) w.toggle(n, false);
    else if (n?.below.length) step(1)(w);
  },
  ArrowLeft: (w) => {
    const n = chosen(w);
    if (n?.below.length && !w.collapsed.has(n.id)) w.toggle(n, true);
    else if (n?.above) w.select(n.above.id);
  },
  "+": zoom(0.7), "=": zoom(0.7), w: zoom(0.7),
  "-": zoom(1 / 0.7), s: zoom(1 / 0.7),
  a: (w) => w.timeline.pan(-0.2 * w.timeline.span),
  d: (w) => w.timeline.pan(0.2 * w.timeline.span),
  0: (w) => w.timeline.fit(),
  f: (w) => { const n = chosen(w); if (n) zoomTo(w, n); },
  e: (w) => w.step(1, (n) => n.failure !== ""),
  Enter: (w) => { const n = chosen(w); if (n) w.on.open?.(n); },
  Escape: (w) => w.select(null),
};
