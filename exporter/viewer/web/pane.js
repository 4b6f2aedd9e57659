// @ts-check
// A Pane shows a long list, of which only the items in and near sight are elements: 10,000 steps
// take a browser a minute. It keeps its place, an item and where in the pane that begins,
// while items come, go and change their heights. At its end it stays at its end.

import { arrange, h } from "./dom.js";

const slack = 4; // pixels from the end that still count as the end

export class Pane {
  following = false; // it stays at its end
  /** @type {{ id: string, index: number, top: number } | null} */ place = null; // null for the beginning
  /** @type {string[]} */ ids = [];
  /** @type {Map<string, number>} */ index = new Map();
  /** @type {Map<string, number>} */ heights = new Map(); // as they were last measured
  usual = 80; // the mean of these
  from = 0; // of what are elements
  to = 0;
  width = 0;
  top = 0; // how far it was scrolled when the place was noted

  // make returns the element of an item, the same one as long as the item is the same.
  /** @param {HTMLElement} list @param {(i: number) => HTMLElement} make */
  constructor(list, make) {
    this.list = list;
    this.make = make;
    this.before = h("li", { "aria-hidden": "true" });
    this.after = h("li", { "aria-hidden": "true" });
    this.box = list; // what scrolls
  }

  /** @param {HTMLElement} box */
  within(box) {
    this.box = box;
    box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(box);
  }

  /** @param {string[]} ids */
  show(ids) {
    this.note();
    this.ids = ids;
    this.index = new Map(ids.map((id, i) => [id, i]));
    this.draw();
  }

  // bring brings an item into sight.
  /** @param {string} id */
  bring(id) {
    this.note();
    const index = this.index.get(id), room = this.box.clientHeight;
    if (index === undefined) return;
    const el = room ? this.element(index) : undefined, top = el ? this.topOf(el) : -1;
    const whole = el && top >= 0 && top + Math.min(el.offsetHeight, room / 2) <= room;
    this.following = false;
    this.place = { id, index, top: whole ? top : Math.round(room / 6) };
    this.draw();
  }

  /** @param {number} i */
  element(i) { return i >= this.from && i < this.to ? /** @type {HTMLElement} */ (this.list.children[1 + i - this.from]) : undefined; }
  /** @param {Element} el */
  topOf(el) { return el.getBoundingClientRect().top - this.box.getBoundingClientRect().top; }
  /** @param {number} i */
  height(i) { return this.heights.get(this.ids[i]) ?? this.usual; }

  // note takes down the place if somebody has scrolled.
  note() {
    const { box, ids } = this;
    if (Math.abs(box.scrollTop - this.top) < 1 || box.clientWidth !== this.width) return;
    this.top = box.scrollTop;
    this.following = box.scrollTop + box.clientHeight >= box.scrollHeight - slack;
    let i = 0, top = this.topOf(this.list);
    while (i < ids.length - 1 && top + this.height(i) <= 0) top += this.height(i++);
    const el = this.element(i);
    this.place = { id: ids[i], index: i, top: el ? this.topOf(el) : top };
  }

  scrolled() {
    this.note();
    const room = this.box.clientHeight, { from, to, ids } = this;
    if (from > 0 && this.topOf(this.before) + this.before.offsetHeight > -room / 2 || to < ids.length && this.topOf(this.after) < 1.5 * room) this.draw();
  }

  // draw makes elements of what is around the place, and puts the place where it was.
  draw() {
    const { box, ids } = this, room = box.clientHeight;
    if (box.clientWidth !== this.width) this.heights.clear();
    this.width = room && box.clientWidth; // of no use while it is hidden
    if (!room || !ids.length) return;
    const at = this.following ? ids.length - 1 : Math.min(this.index.get(this.place?.id ?? "") ?? this.place?.index ?? 0, ids.length - 1);
    for (let pass = 0; pass < 8; pass++) { // what was not yet measured may be less high than it was taken to be
      const top = this.following ? room - this.height(at) : this.place?.top ?? 0;
      let from = at, to = at;
      for (let above = top; from > 0 && above > -room;) above -= this.height(--from);
      for (let below = top; to < ids.length && below < 2 * room;) below += this.height(to++);
      if (pass) [from, to] = [Math.min(from, this.from), Math.max(to, this.to)];
      if (pass && from === this.from && to === this.to) break;
      [this.from, this.to] = [from, to];
      this.fill();
    }
    const el = this.element(at);
    if (this.following) box.scrollTop = box.scrollHeight;
    else if (el && this.place) box.scrollTop += this.topOf(el) - this.place.top;
    this.top = box.scrollTop;
  }

  fill() {
    const { list, from, to } = this;
    arrange(list, [this.before, ...this.ids.slice(from, to).map((_, i) => this.make(from + i)), this.after]);
    const tops = [...list.children].map((el) => /** @type {HTMLElement} */ (el).offsetTop);
    for (let i = from; i < to; i++) this.heights.set(this.ids[i], tops[i - from + 2] - tops[i - from + 1]);
    let sum = 0, before = 0, after = 0;
    for (const each of this.heights.values()) sum += each;
    if (sum) this.usual = sum / this.heights.size;
    for (let i = 0; i < from; i++) before += this.height(i);
    for (let i = to; i < this.ids.length; i++) after += this.height(i);
    this.before.style.height = `${before}px`;
    this.after.style.height = `${after}px`;
  }
}
