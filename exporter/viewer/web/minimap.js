// @ts-check
// A Minimap shows the whole session, what ran at the same time in lanes, and
// marks the piece of time that is in sight. Dragging on it chooses another.

import { waited } from "./bars.js";
import { h } from "./dom.js";
import { lanes } from "./trace.js";
import { Pen, keepDrawn } from "./pen.js";

const height = 34;
const mostLanes = 8;

export class Minimap {
  /** @type {Trace} */ trace;
  /** @type {number | undefined} */ frame;
  width = 0;

  /** @param {Timeline} timeline @param {AbortSignal} signal */
  constructor(timeline, signal) {
    this.timeline = timeline;
    this.element = h("canvas", { class: "minimap", "aria-hidden": "true", title: "Drag to zoom, double-click for all" });
    this.pen = new Pen(this.element);
    this.drawn = new Pen(document.createElement("canvas")); // the session without the mark
    keepDrawn(this, this.element, timeline, signal);
    this.listen();
  }

  /** @param {Trace} trace */
  show(trace) {
    this.trace = trace;
    this.layout();
  }

  layout() {
    this.width = this.element.clientWidth;
    if (!this.width || !this.trace) return;
    this.pen.size(this.width, height);
    this.element.style.width = ""; // as wide as its place
    this.drawn.size(this.width, height);
    this.paint();
    this.redraw();
  }

  /** @param {number} at */
  x(at) { return at / this.timeline.total * this.width; }
  /** @param {MouseEvent} e */
  at(e) { return (e.clientX - this.element.getBoundingClientRect().left) / this.width * this.timeline.total; }

  paint() {
    const pen = this.drawn;
    pen.clear(this.width, height);
    const shown = this.trace.nodes.filter((n) => n.op !== "agent" && n !== this.trace.root);
    const placed = lanes(shown, mostLanes);
    const used = 1 + placed.reduce((most, p) => Math.max(most, p.lane), 0);
    const each = Math.min(12, (height - 12) / used);
    const top = (height - used * each) / 2;
    for (const { node, lane } of placed) {
      /** @type {(ink: string, from: number, to: number, thin?: number) => void} */
      const draw = (ink, from, to, thin = 1) => {
        const height = Math.max(1, (each - 1.5) * thin);
        pen.fill(ink, this.x(from - this.trace.start), top + (lane + 0.5) * each - height / 2, Math.max(1, this.x(to - from) - 0.5), height);
      };
      const until = node.op === "chat" ? waited(node) : node.start;
      if (until > node.start) draw("chat-wait", node.start, until, 0.4);
      if (until < node.end || node.end === node.start) draw(node.failure ? "error" : node.op || "other", until, node.end);
    }
    const marked = new Set(shown.filter((n) => n.failure).map((n) => Math.round(this.x((n.start + n.end) / 2 - this.trace.start) / 5) * 5));
    for (const x of marked) pen.cross(x, 3.5, "error", 2);
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (!this.width || !this.trace) return;
      const { pen, width } = this;
      pen.clear(width, height);
      pen.context.drawImage(this.drawn.canvas, 0, 0, width, height);
      if (!this.timeline.zoomed) return;
      const from = this.x(this.timeline.from), to = Math.max(this.x(this.timeline.to), from + 2);
      pen.fill("panel", 0, 0, from, height, 0.72);
      pen.fill("panel", to, 0, width - to, height, 0.72);
      pen.fill("accent", from - 1, 0, 2, height);
      pen.fill("accent", to - 1, 0, 2, height);
    });
  }

  listen() {
    const { element: canvas, timeline } = this;
    canvas.addEventListener("dblclick", () => timeline.fit());
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      timeline.zoom(Math.exp(Math.max(-100, Math.min(100, e.deltaY)) * 0.003), this.at(e));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      canvas.setPointerCapture(e.pointerId);
      const start = this.at(e), { from, to } = timeline;
      const inside = timeline.zoomed && start > from && start < to;
      /** @type {(e: PointerEvent) => void} */
      const move = (e) => {
        const now = this.at(e);
        if (inside) timeline.set(from + now - start, to + now - start);
        else if (Math.abs(this.x(now - start)) > 3) timeline.set(Math.min(start, now), Math.max(start, now));
      };
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener("pointerup", () => canvas.removeEventListener("pointermove", move), { once: true });
    });
  }
}
