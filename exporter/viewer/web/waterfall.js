// A Waterfall draws a trace on a canvas: only the rows and instants in sight.

import { bar, drawBar } from "./bars.js";
import { h } from "./dom.js";
import { duration } from "./format.js";
import { gestures } from "./gestures.js";
import { axisHeight, indent, rowHeight } from "./layout.js";
import { Pen } from "./pen.js";
import { onTheme } from "./theme.js";
import { stepLabel, steps } from "./timeline.js";

const rightMargin = 24;

export class Waterfall {
  // on.select is told of a node that was chosen, or null; on.open of one that
  // is to be looked at.
  constructor(timeline, signal, on, labels = 300) {
    this.timeline = timeline;
    this.on = on;
    this.labels = labels;
    this.collapsed = new Set();
    this.match = null;
    this.rows = [];
    this.selected = this.hovered = null; // ids
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.spacer = h("div");
    this.tip = h("div", { class: "tip", hidden: true });
    this.spoken = h("div", { class: "unseen", "aria-live": "polite" });
    this.scroller = h("div", {
      class: "scroller", tabindex: "0", role: "application",
      "aria-label": "Waterfall. Arrow keys choose a span, plus and minus zoom, A and D pan, 0 shows all, F the chosen span, E the next error.",
    }, this.canvas, this.spacer);
    this.element = h("div", { class: "waterfall" }, this.scroller, this.tip, this.spoken, h("div", { class: "focus" }));
    this.pen = new Pen(this.canvas);
    this.canvas.waterfall = this; // for a look from the console, and the tests

    timeline.views.add(this);
    const resized = new ResizeObserver(() => this.layout());
    resized.observe(this.scroller);
    this.scroller.addEventListener("scroll", () => this.redraw(), { passive: true });
    onTheme(() => this.redraw(), signal);
    signal.addEventListener("abort", () => {
      resized.disconnect();
      timeline.views.delete(this);
    });
    gestures(this);
  }

  // show draws a trace, which may have grown.
  show(trace) {
    this.trace = trace;
    this.arrange();
  }

  // filter leaves the nodes that match, or all.
  filter(match) {
    this.match = match;
    this.arrange();
  }

  arrange() {
    this.rows = this.trace.rows(this.match ? new Set() : this.collapsed, this.match);
    this.layout();
  }

  layout() {
    this.width = this.scroller.clientWidth;
    this.height = this.scroller.clientHeight;
    this.pen.size(this.width, this.height);
    this.spacer.style.height = `${Math.max(0, axisHeight + this.rows.length * rowHeight + 12 - this.height)}px`;
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.trace && this.width) this.draw();
    });
  }

  // The plot is where time goes from left to right.
  get left() { return Math.min(this.labels, this.width * 0.6); }
  get plot() { return Math.max(1, this.width - this.left - rightMargin); }
  x(at) { return this.left + (at - this.trace.start - this.timeline.from) / this.timeline.span * this.plot; }
  at(x) { return (x - this.left) / this.plot * this.timeline.span + this.timeline.from; }
  y(row) { return axisHeight + row * rowHeight - this.scroller.scrollTop; }

  rowAt(y) {
    if (y < axisHeight) return null;
    return this.rows[Math.floor((y + this.scroller.scrollTop - axisHeight) / rowHeight)] ?? null;
  }

  // bar is where the bar of a span is drawn, in pixels of the canvas.
  bar(id) {
    const n = this.trace.byId.get(id);
    if (!n || n.row < 0) return null;
    return bar(this, n);
  }

  draw() {
    const { pen, width, height, left } = this;
    pen.clear(width, height);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / rowHeight));
    const last = Math.min(this.rows.length, Math.ceil((this.scroller.scrollTop + height - axisHeight) / rowHeight));
    const axis = this.axis();

    for (let i = first; i < last; i++) {
      const id = this.rows[i].id;
      if (id === this.selected) pen.fill("selected", 0, this.y(i), width, rowHeight);
      else if (id === this.hovered) pen.fill("hover", 0, this.y(i), width, rowHeight);
    }
    for (const at of axis.list) pen.fill("grid", Math.round(this.x(this.trace.start + at)), axisHeight, 1, height);

    pen.clip(left, axisHeight, width - left, height - axisHeight, () => {
      for (let i = first; i < last; i++) this.drawBar(this.rows[i]);
    });
    pen.clip(0, axisHeight, left, height - axisHeight, () => {
      for (let i = first; i < last; i++) this.drawLabel(this.rows[i], this.y(i));
    });
    this.drawAxis(axis);
    pen.fill("line", Math.round(left) - 1, 0, 1, height);
    if (!this.marked) this.marked = performance.mark("waterfall"); // how long it took is to be seen in the browser's tools
  }

  axis() {
    const { from, to } = this.timeline;
    return steps(from, to, Math.max(2, this.plot / 90));
  }

  drawAxis({ list, step }) {
    const { pen } = this;
    pen.fill("panel", 0, 0, this.width, axisHeight);
    pen.fill("line", 0, axisHeight - 1, this.width, 1);
    pen.text("Span", 14, axisHeight / 2, "dim", "small");
    pen.text("Duration", this.left - 12, axisHeight / 2, "dim", "small", "right");
    for (const at of list) {
      const x = this.x(this.trace.start + at);
      pen.fill("line", Math.round(x), axisHeight - 6, 1, 5);
      const edge = x > this.width - 30 ? "right" : x < this.left + 14 ? "left" : "center";
      pen.text(stepLabel(at, step), edge === "left" ? x + 4 : x, axisHeight / 2 - 1, "dim", "small", edge);
    }
  }

  drawLabel(n, top) {
    const { pen } = this;
    const middle = top + rowHeight / 2;
    const room = this.left - 78;
    let x = Math.min(14 + n.depth * indent, room * 0.6);
    if (n.children.length) pen.caret(x + 4, middle, this.collapsed.has(n.id) && !this.match);
    x += 14;
    pen.dot(x + 3, middle, n.failure ? "error" : n.op || "other");
    x += 12;
    if (n.prefix) x = pen.text(n.prefix, x, middle, "dim", "body", "left", room - x) + 5;
    pen.text(n.title, x, middle, n.failure ? "error" : "text", n.op === "agent" ? "strong" : "body", "left", room - x);
    pen.text(duration(n.duration), this.left - 12, middle, n.failure ? "error" : "dim", "number", "right");
  }

  drawBar(n) {
    const b = bar(this, n);
    if (b.x > this.width || b.x + b.width < this.left) {
      this.drawPointer(b);
      return;
    }
    drawBar(this.pen, this, n, b);
    const notes = n.notes().join(" · ");
    if (!notes) return;
    const after = b.x + b.width + 8;
    const ink = n.failure ? "error" : "dim";
    const middle = b.y + b.height / 2;
    if (this.width - after > 90) this.pen.text(notes, after, middle, ink, "small", "left", this.width - after - 8);
    else if (b.x - this.left > 90) this.pen.text(notes, b.x - 8, middle, ink, "small", "right", b.x - this.left - 16);
  }

  // drawPointer says where a bar that is out of sight is.
  drawPointer(b) {
    const before = b.x < this.left;
    this.pen.text(before ? "‹" : "›", before ? this.left + 4 : this.width - 8, b.y + b.height / 2, "faint", "body", before ? "left" : "right");
  }

  select(id, { reveal = true } = {}) {
    this.selected = id;
    const n = id && this.trace.byId.get(id);
    if (n && reveal) {
      this.scrollTo(n);
      this.timeline.reveal(n.start - this.trace.start, n.end - this.trace.start);
    }
    this.spoken.textContent = n
      ? `${n.bar.name}, ${duration(n.duration)}, at ${duration(n.start - this.trace.start)}${n.failure ? ", failed: " + n.failure : ""}` : "";
    this.redraw();
    this.on.select(n || null);
  }

  scrollTo(n) {
    for (let p = n.parent; p; p = p.parent) {
      if (this.collapsed.delete(p.id)) this.arrange();
    }
    const top = n.row * rowHeight, room = this.height - axisHeight - 12;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + rowHeight > this.scroller.scrollTop + room) this.scroller.scrollTop = top + rowHeight - room;
  }

  toggle(n, collapse = !this.collapsed.has(n.id)) {
    if (!n.children.length || this.match) return;
    if (collapse) this.collapsed.add(n.id);
    else this.collapsed.delete(n.id);
    this.arrange();
  }
}
