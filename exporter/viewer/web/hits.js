// @ts-check
// Where a session has what was searched in the list: a line that leads from hit to hit, and
// marks in the texts beside the waterfall.

import { getHits } from "./api.js";
import { fill, h, stepButton } from "./dom.js";
import { count, plural } from "./format.js";

// marked are the pieces of a text, of which every second was found.
/** @type {(pieces: string[]) => Leaf[]} */
export const marked = (pieces) => pieces.map((p, i) => (i % 2 ? h("mark", {}, p) : p.replace(/\*\*|\\n/g, " ")));

// maxMarks bounds how many marks are drawn.
const maxMarks = 1000;

export class Search {
  // select is told of the span of a hit, end that the search is over.
  /** @param {string} id @param {string} words @param {AbortSignal} signal @param {{ select: Select, end(): void }} on */
  constructor(id, words, signal, { select, end }) {
    this.id = id;
    this.words = words;
    this.signal = signal;
    this.select = select;
    this.at = -1;
    this.pending = false; // the words of the hit were not in sight yet
    this.total = 0;
    /** @type {Hit[]} */
    this.hits = [];
    this.where = h("span", { role: "status" });
    this.excerpt = h("span", { class: "dim excerpt" });
    /** @type {(way: number) => void} */
    const step = (way) => this.go(this.at + way);
    this.element = h("div", { class: "hits-line" }, h("span", {}, "Search: ", h("b", {}, words)),
      stepButton(-1, "Previous hit", step), stepButton(1, "Next hit", step), this.where, this.excerpt,
      h("button", { type: "button", class: "quiet", onclick: () => {
        this.mark(null);
        this.element.remove();
        end();
      } }, "End search"));
    signal.addEventListener("abort", () => this.mark(null));
  }

  // load looks for the hits, and goes to the first one in a span.
  /** @param {string} [span] */
  async load(span) {
    try {
      const { total, hits } = await getHits(this.id, this.words, this.signal);
      Object.assign(this, { total, hits });
      this.where.textContent = plural(total, "hit");
      const first = hits.findIndex((hit) => hit.span === span);
      if (hits.length) this.go(Math.max(0, first));
    } catch (e) {
      if (!this.signal.aborted) this.where.textContent = e.message;
    }
  }

  /** @param {number} to */
  go(to) {
    const { length } = this.hits;
    if (!length) return;
    this.at = (to + length) % length;
    const hit = this.hits[this.at];
    this.where.textContent = `hit ${count(this.at + 1)} of ${count(this.total)}`;
    fill(this.excerpt, marked(hit.text));
    this.pending = true;
    this.select(hit.span);
  }

  // mark marks the words in an element, or nowhere, and reports whether those of the hit are in sight.
  /** @param {Element | null} element */
  mark(element) {
    if (!globalThis.CSS?.highlights) return true;
    CSS.highlights.delete("found");
    const found = new Set(this.hits.flatMap((hit) => hit.text.filter((_, i) => i % 2)).map((text) => text.toLowerCase()));
    if (!element || !found.size) return true;
    /** @type {Range[]} */
    const ranges = [];
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node && ranges.length < maxMarks; node = texts.nextNode()) {
      const text = (node.nodeValue ?? "").toLowerCase();
      for (const word of found) {
        for (let i = text.indexOf(word); i >= 0 && ranges.length < maxMarks; i = text.indexOf(word, i + word.length)) {
          const range = new Range();
          range.setStart(node, i);
          range.setEnd(node, i + word.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
    if (this.pending) this.pending = !this.reveal(element, ranges);
    return !this.pending;
  }

  // reveal brings the words of the hit into sight, if they are there.
  /** @param {Element} element @param {Range[]} ranges */
  reveal(element, ranges) {
    const place = element.querySelector(".panel:not([hidden]) :is(.entry.selected, .details)");
    const there = ranges.filter((r) => place?.contains(r.startContainer)), shown = there.filter((r) => r.getClientRects().length);
    const list = shown.length ? shown : there, { span } = this.hits[this.at];
    const nth = this.hits.slice(0, this.at).filter((hit) => hit.span === span).length; // of the hits in this span
    const range = list[Math.min(nth, list.length - 1)];
    if (!range) return false;
    for (let box = range.startContainer.parentElement; box; box = box.parentElement) if (box instanceof HTMLDetailsElement) box.open = true;
    bring(range);
    return true;
  }
}

// bring scrolls all that a range is in, until it is in sight.
/** @param {Range} range */
function bring(range) {
  for (let box = range.startContainer.parentElement; box; box = box.parentElement) {
    if (box.scrollHeight <= box.clientHeight || !/auto|scroll/.test(getComputedStyle(box).overflowY)) continue;
    const at = range.getBoundingClientRect(), { top, bottom } = box.getBoundingClientRect();
    if (at.top < top || at.bottom > bottom) box.scrollTop += at.top - top - box.clientHeight / 3;
  }
}
