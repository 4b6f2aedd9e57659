// @ts-check
// A Waterfall draws a trace on a canvas: only the rows and instants in sight.

import { bar, drawBar } from "./bars.js";
import { h } from "./dom.js";
import { gestures } from "./gestures.js";
import { axisHeight, lead, rowHeight } from "./layout.js";
import { Pen, keepDrawn } from "./pen.js";
import { stepLabel, steps } from "./timeline.js";
import { rowDetail, rowName, spoken } from "./words.js";

const rightMargin = 24;

export class Waterfall {
  /** @type {Trace} */ trace;
  /** @type {number | undefined} */ frame;
  width = 0;
  height = 0;
  dragging = false;
  following = false; // it stays at its end
  scrolled = 0; // how far, as this class did it or was told

  // on.select is told of the node that was selected, or null; on.open of one to
  // look at; on.rows that the rows have changed.
  /** @param {Timeline} timeline @param {AbortSignal} signal @param {On} on */
  constructor(timeline, signal, on, labels = 360) {
    this.timeline = timeline;
    this.on = on;
    this.labels = labels;
    /** @type {Set<string>} */
    this.collapsed = new Set();
    /** @type {Match | null} */
    this.match = null;
    /** @type {TraceNode[]} */
    this.all = []; // rows, whatever the zoom
    /** @type {TraceNode[]} */
    this.rows = [];
    /** @type {(TraceNode | null)[]} */
    this.lines = []; // the rows, with gaps if another waterfall is beside this one
    /** @type {string | null} */
    this.selected = null; // an id
    /** @type {string | null} */
    this.hovered = null;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.spacer = h("div");
    this.tip = h("div", { class: "tip", hidden: true });
    this.spoken = h("div", { class: "unseen", "aria-live": "polite" });
    this.scroller = h("div", {
      class: "scroller", tabindex: "0", role: "application",
      "aria-label": "Waterfall. Arrow keys select a span, plus and minus zoom, A and D pan, 0 shows everything, F zooms to the selected span, E selects the next error.",
    }, this.canvas, this.spacer);
    this.element = h("div", { class: "waterfall" }, this.scroller, this.tip, this.spoken, h("div", { class: "focus" }));
    this.pen = new Pen(this.canvas);
    Object.assign(this.canvas, { waterfall: this }); // for a look from the console, and the tests

    keepDrawn(this, this.scroller, timeline, signal);
    this.scroller.addEventListener("scroll", () => {
      this.note();
      this.redraw();
    }, { passive: true });
    gestures(this);
  }

  // note takes down whether somebody has scrolled to the end. New rows may come before the event.
  note() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    if (Math.abs(scrollTop - this.scrolled) >= 1) this.following = scrollTop + clientHeight >= scrollHeight - 4;
    this.scrolled = scrollTop;
  }

  // show draws a trace, which may have grown.
  /** @param {Trace} trace */
  show(trace) {
    if (!this.trace) this.following = trace.live; // it is shown from its end, and stays there
    this.trace = trace;
    this.arrange();
  }

  // filter leaves the nodes that match, or all.
  /** @param {Match | null} match */
  filter(match) {
    if (!match && !this.match) return;
    this.match = match;
    this.arrange();
  }

  arrange() {
    this.all = this.trace.rows(this.match ? new Set() : this.collapsed, this.match);
    this.layout();
  }

  // follow leaves the rows that have something in sight, if they would not all fit.
  follow() {
    const { timeline, trace, all } = this;
    const crowded = axisHeight + all.length * rowHeight > this.height;
    if (crowded && timeline.zoomed) {
      const from = trace.start + timeline.from, to = trace.start + timeline.to;
      this.rows = all.filter((n) => n.start <= to && n.end >= from || n.id === this.selected);
    } else {
      this.rows = all;
    }
    this.place(this.rows);
    this.on.rows?.();
  }

  // place puts each row on a line.
  /** @param {(TraceNode | null)[]} lines */
  place(lines) {
    this.note();
    const { scroller } = this, { scrollTop } = scroller, before = this.lines.slice(Math.floor(scrollTop / rowHeight));
    this.lines = lines;
    for (const n of this.trace.nodes) n.row = -1;
    lines.forEach((n, i) => { if (n) n.row = i; });
    this.spacer.style.height = `${Math.max(0, axisHeight + lines.length * rowHeight + 12 - this.height)}px`;
    // The first row in sight that is still there stays where it was.
    const i = before.findIndex((n) => n && (this.trace.byId.get(n.id)?.row ?? -1) >= 0);
    if (this.following) scroller.scrollTop = scroller.scrollHeight;
    else if (i >= 0) scroller.scrollTop = ((this.trace.byId.get(before[i]?.id ?? "")?.row ?? 0) - i) * rowHeight + scrollTop % rowHeight;
    this.scrolled = scroller.scrollTop;
    this.redraw();
  }

  layout() {
    const n = this.trace?.byId.get(this.selected ?? ""), seen = n && n.row >= 0 && this.y(n.row) < this.height;
    this.width = this.scroller.clientWidth;
    this.height = this.scroller.clientHeight;
    this.pen.size(this.width, this.height);
    if (this.trace) this.follow();
    if (seen && n.row >= 0 && this.y(n.row) + rowHeight > this.height) this.bring(n); // there is less room than before
    this.redraw();
  }

  // moved is called when the time in sight has changed.
  moved() {
    if (this.trace) this.follow();
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.trace && this.width) this.draw();
    });
  }

  // The plot is where time goes from left to right.
  get narrow() { return this.width < 480; }
  get left() { return Math.min(this.labels, this.width * 0.5); }
  get plot() { return Math.max(1, this.width - this.left - rightMargin); }
  /** @param {number} at */
  x(at) { return this.left + (at - this.trace.start - this.timeline.from) / this.timeline.span * this.plot; }
  /** @param {number} x */
  at(x) { return (x - this.left) / this.plot * this.timeline.span + this.timeline.from; }
  /** @param {number} row */
  y(row) { return axisHeight + row * rowHeight - this.scroller.scrollTop; }

  /** @param {number} y */
  rowAt(y) {
    if (y < axisHeight) return null;
    return this.lines[Math.floor((y + this.scroller.scrollTop - axisHeight) / rowHeight)] ?? null;
  }

  draw() {
    const { pen, width, height, left } = this;
    pen.clear(width, height);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / rowHeight));
    const last = Math.min(this.lines.length, Math.ceil((this.scroller.scrollTop + height - axisHeight) / rowHeight));
    const axis = steps(this.timeline.from, this.timeline.to, Math.max(2, this.plot / 90));

    for (let i = first; i < last; i++) {
      const id = this.lines[i]?.id;
      if (!id) pen.fill("page", 0, this.y(i), width, rowHeight);
      else if (id === this.selected) pen.fill("selected", 0, this.y(i), width, rowHeight);
      else if (id === this.hovered) pen.fill("hover", 0, this.y(i), width, rowHeight);
    }
    for (const at of axis.list) pen.fill("grid", Math.round(this.x(this.trace.start + at)), axisHeight, 1, height);

    pen.clip(left, axisHeight, width - left, height - axisHeight, () => {
      for (const n of this.lines.slice(first, last)) if (n) this.drawBar(n);
    });
    pen.clip(0, axisHeight, left, height - axisHeight, () => {
      for (const n of this.lines.slice(first, last)) if (n) this.drawLabel(n, this.y(n.row));
    });
    this.drawAxis(axis);
    pen.fill("line", Math.round(left) - 1, 0, 1, height);
    if (!this.marked) this.marked = performance.mark("waterfall"); // how long it took is to be seen in the browser's tools
  }

  /** @param {ReturnType<typeof steps>} axis */
  drawAxis({ list, step }) {
    const { pen } = this;
    pen.fill("panel", 0, 0, this.width, axisHeight);
    pen.fill("line", 0, axisHeight - 1, this.width, 1);
    pen.text("Span", 14, axisHeight / 2, "dim", "small");
    if (this.trace.timeless) return;
    pen.text("Duration", this.left - 12, axisHeight / 2, "dim", "small", "right");
    for (const at of list) {
      const x = this.x(this.trace.start + at);
      pen.fill("line", Math.round(x), axisHeight - 6, 1, 5);
      const edge = x > this.width - 30 ? "right" : x < this.left + 14 ? "left" : "center";
      pen.text(stepLabel(at, step), edge === "left" ? x + 4 : x, axisHeight / 2 - 1, "dim", "small", edge);
    }
  }

  /** @param {TraceNode} n @param {number} top */
  drawLabel(n, top) {
    const { pen } = this;
    const middle = top + rowHeight / 2;
    const room = this.left - 78;
    let x = Math.min(lead(n, this.narrow), room * 0.6);
    if (n.below.length) pen.caret(x + 4, middle, this.collapsed.has(n.id) && !this.match);
    x += 14;
    if (n.failure) pen.cross(x + 3, middle, "error");
    else pen.dot(x + 3, middle, n.op || "other");
    x += 12;
    if (n.prefix) x = pen.text(n.prefix, x, middle, "dim", "body", "left", room - x) + 5;
    x = pen.text(rowName(n, this.trace.session), x, middle, n.failure ? "error-text" : "text", n.op === "agent" ? "strong" : "body", "left", room - x);
    const detail = rowDetail(n, this.trace.session?.folder);
    if (detail && room - x > 30) pen.text(detail, x + 7, middle, "dim", "body", "left", room - x - 7, n.bar.path);
    pen.text(this.trace.time(n.duration), this.left - 12, middle, n.failure ? "error-text" : "dim", "number", "right");
  }

  /** @param {TraceNode} n */
  drawBar(n) {
    const b = bar(this, n);
    if (b.x > this.width || b.x + b.width < this.left) {
      this.drawPointer(b);
      return;
    }
    drawBar(this.pen, this, n, b);
    const notes = n.notes().join(" · ");
    if (!notes) return;
    const after = b.x + b.width + (n.failure ? 16 : 8);
    const ink = n.failure ? "error-text" : "dim";
    const middle = b.y + b.height / 2;
    if (this.width - after > 90) this.pen.text(notes, after, middle, ink, "small", "left", this.width - after - 8);
    else if (b.x - this.left > 90) this.pen.text(notes, b.x - 8, middle, ink, "small", "right", b.x - this.left - 16);
  }

  // drawPointer says where a bar that is out of sight is.
  /** @param {Box} b */
  drawPointer(b) {
    const before = b.x < this.left;
    this.pen.text(before ? "‹" : "›", before ? this.left + 4 : this.width - 8, b.y + b.height / 2, "faint", "body", before ? "left" : "right");
  }

  /** @param {string | null} id */
  select(id, { reveal = true } = {}) {
    this.selected = id;
    const n = id && this.trace.byId.get(id);
    if (n && reveal) this.reveal(n);
    else this.follow();
    this.spoken.textContent = n ? spoken(n, this.trace) : "";
    this.redraw();
    this.on.select(n || null);
  }

  // reveal brings a node into sight, in time and among the rows.
  /** @param {TraceNode} n */
  reveal(n) {
    this.timeline.reveal(n.start - this.trace.start, n.end - this.trace.start);
    let closed = false;
    for (let p = n.above; p; p = p.above) closed = this.collapsed.delete(p.id) || closed;
    if (closed) this.arrange();
    else this.follow();
    this.bring(n);
  }

  // bring scrolls to a node, unless the filter leaves it out.
  /** @param {TraceNode} n */
  bring(n) {
    const { scroller } = this, top = n.row * rowHeight, room = this.height - axisHeight - 12;
    if (n.row < 0) return;
    this.following = false;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + rowHeight > scroller.scrollTop + room) scroller.scrollTop = top + rowHeight - room;
    this.scrolled = scroller.scrollTop;
  }

  /** @param {TraceNode} n */
  toggle(n, collapse = !this.collapsed.has(n.id)) {
    if (!n.below.length || this.match) return;
    if (collapse) this.collapsed.add(n.id);
    else this.collapsed.delete(n.id);
    this.arrange();
  }
  // foldTurns closes or opens all turns at once.
  /** @param {boolean} fold */
  foldTurns(fold) {
    for (const n of this.trace.nodes) {
      if (n.op !== "chat" || !n.below.length) continue;
      if (fold) this.collapsed.add(n.id);
      else this.collapsed.delete(n.id);
    }
    this.arrange();
  }

  // step selects the next or previous row that a condition is true of.
  /** @param {number} way @param {Match} wanted */
  step(way, wanted) {
    const rows = this.trace.rows(new Set(), this.match), at = rows.findIndex((n) => n.id === this.selected);
    for (let i = 1; i <= rows.length; i++) {
      const from = at < 0 && way < 0 ? 0 : at;
      const n = rows[(from + way * i + 2 * rows.length) % rows.length];
      if (wanted(n)) {
        this.select(n.id);
        return;
      }
    }
    this.arrange();
  }
}
