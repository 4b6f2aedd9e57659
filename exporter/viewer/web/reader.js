// @ts-check
// The transcript as it is read, beside the waterfall.

import { h } from "./dom.js";
import { count, duration, money, plural, seconds, size } from "./format.js";
import { markdown } from "./markdown.js";
import { entries } from "./transcript.js";
import { rowDetail } from "./words.js";

const around = 120; // entries shown before and after the one that is looked at
const longText = 1600; // characters shown until one asks for more

export class Reader {
  /** @type {Trace} */ trace;
  /** @type {Map<string, number>} */ index = new Map();

  // select is told of a node that was chosen here.
  /** @param {Select} select */
  constructor(select) {
    this.select = select;
    this.list = h("ol", { class: "transcript", "aria-label": "Transcript" });
    this.before = h("button", { type: "button", class: "quiet", onclick: () => this.grow(-1) }, "Earlier steps");
    this.after = h("button", { type: "button", class: "quiet", onclick: () => this.grow(1) }, "Later steps");
    this.element = h("div", { class: "reader" }, this.before, this.list, this.after);
    this.made = new Map(); // elements by span id, with what they were made of
    /** @type {Entry[]} */
    this.entries = [];
    this.from = 0;
    this.to = 2 * around;
    this.selected = null;
    this.opened = new Set(); // what was unfolded, which outlives a change of its step
  }

  // show draws what is there by now. At the end of a session that goes on, it
  // stays at the end.
  /** @param {Trace} trace @param {Content} content */
  show(trace, content) {
    const following = trace.live && this.to >= this.entries.length && this.isAtEnd();
    this.trace = trace;
    this.entries = entries(trace, content);
    this.index = new Map(this.entries.map((e, i) => [e.node.id, i]));
    if (following) {
      this.to = this.entries.length;
      this.from = Math.max(0, this.to - 2 * around);
    }
    this.draw();
    const box = this.element.parentElement;
    if (following && box) box.scrollTop = box.scrollHeight;
  }

  isAtEnd() {
    const box = this.element.parentElement;
    return box && box.scrollHeight > 0 && box.scrollTop + box.clientHeight > box.scrollHeight - 40;
  }

  /** @param {number} way */
  grow(way) {
    if (way < 0) this.from -= 2 * around;
    else this.to += 2 * around;
    this.draw();
  }

  draw() {
    this.to = Math.min(Math.max(this.to, 2 * around), this.entries.length);
    this.from = Math.max(0, Math.min(this.from, this.to));
    this.before.hidden = this.from === 0;
    this.after.hidden = this.to === this.entries.length;
    const shown = this.entries.slice(this.from, this.to).map((e) => {
      const sign = signature(e);
      const made = this.made.get(e.node.id);
      if (made?.sign === sign) return made.element;
      const element = this.entry(e);
      this.made.set(e.node.id, { sign, element });
      return element;
    });
    if (shown.length !== this.list.children.length || shown.some((el, i) => this.list.children[i] !== el)) this.list.replaceChildren(...shown);
    this.mark();
  }

  // look brings the step of a node into sight.
  /** @param {TraceNode | null | undefined} node */
  look(node, scroll = true) {
    this.selected = node?.id ?? null;
    const i = node ? this.index?.get(node.id) : undefined;
    if (i !== undefined && (i < this.from || i >= this.to)) {
      this.from = i - around;
      this.to = i + around;
      this.draw();
    }
    this.mark();
    const element = node && this.made.get(node.id)?.element;
    if (scroll && element?.isConnected) element.scrollIntoView({ block: "nearest" });
  }

  mark() {
    for (const el of this.list.querySelectorAll(".selected")) el.classList.remove("selected");
    this.made.get(this.selected)?.element.classList.add("selected");
  }

  // tick updates what lasts until now.
  tick() {
    for (const e of this.entries) {
      if (!e.node.open) continue;
      const el = this.made.get(e.node.id)?.element.querySelector(".took");
      if (el) el.textContent = seconds(e.node.duration);
    }
  }

  /** @param {Entry} e */
  entry(e) {
    const n = e.node;
    const go = h("button", { type: "button", class: "go", title: "Show in the waterfall", onclick: () => this.select(n.id) },
      h("b", {}, name(n)), " ", h("span", { class: "about" }, rowDetail(n, this.trace.session?.folder)));
    const li = h("li", { class: `entry ${e.kind}${n.failure ? " failed" : ""}${n.open ? " open" : ""}`, "data-id": n.id },
      h("div", { class: "what" }, go, h("span", { class: "took" }, n.open ? seconds(n.duration) : duration(n.duration))), ...this.body(e, n));
    if (e.depth) li.style.marginLeft = `${Math.min(e.depth, 6) * 14}px`;
    return li;
  }

  /** @param {Entry} e @param {TraceNode} n */
  body(e, n) {
    /** @type {(key: string, text: string, show?: (text: string) => Element) => Element} */
    const fold = (key, text, show) => this.long(`${n.id} ${key}`, text, show);
    const blocks = e.blocks;
    return [
      e.prompt && h("div", { class: "said prompt" }, fold("prompt", e.prompt, markdown)),
      n.op === "chat" && h("p", { class: "facts-line" }, turnFacts(n)),
      ...e.said.map((s, i) => (s.kind === "thinking"
        ? this.thinking(`${n.id} thinking ${i}`, s.text)
        : h("div", { class: "said" }, fold(`said ${i}`, s.text, markdown)))),
      ...blocks.map((b, i) => this.block(b, `block ${i}`, n)),
      ...e.notes.map((note) => h("p", { class: "note" }, h("b", {}, note.name), " ", h("span", {}, `after ${duration(note.at)} ${note.text}`))),
      n.failure && !blocks.some((b) => b.kind === "error") && h("p", { class: "wrong" }, n.failure),
      e.cut > 0 && h("p", { class: "note" }, `${size(e.cut)} truncated here`),
      e.raw?.length > 0 && h("details", { class: "raw" }, h("summary", {}, "raw"),
        e.raw.map(([title, text]) => h("div", {}, h("h4", {}, title), h("pre", { tabindex: "0" }, text)))),
    ];
  }

  /** @param {string} key @param {string} text */
  thinking(key, text) {
    const el = h("details", { class: "thought", open: this.opened.has(key) },
      h("summary", {}, h("span", {}, "thought"), " ", h("span", { class: "dim" }, text.replace(/\s+/g, " ").slice(0, 90))),
      h("pre", { class: "prose" }, text));
    el.addEventListener("toggle", () => {
      if (el.open) this.opened.add(key);
      else this.opened.delete(key);
    });
    return el;
  }

  // long shows the beginning of a long text, and the rest on request.
  /** @param {string} key @param {string} text @param {(text: string) => Element} show */
  long(key, text, show = (part) => h("pre", {}, part)) {
    if (text.length <= longText * 1.2 || this.opened.has(key)) return show(text);
    const beginning = show(text.slice(0, longText));
    const more = h("button", { type: "button", class: "quiet", onclick: () => {
      this.opened.add(key);
      beginning.replaceWith(show(text));
      more.remove();
    } }, `${count(text.length - longText)} more characters`);
    return h("div", {}, beginning, more);
  }

  /** @param {Block} b @param {string} key @param {TraceNode} n */
  block(b, key, n) {
    switch (b.kind) {
      case "command": return h("pre", { class: "command" }, h("span", { class: "prompt-sign", "aria-hidden": "true" }, "$ "), b.value);
      case "path": return b.value === n.detail || n.detail.endsWith(b.value) ? null : h("p", { class: "mono" }, b.value);
      case "query": return b.value === n.detail ? null : h("p", { class: "query" }, b.value);
      case "output": case "text": return h("div", { class: b.error ? "output err" : "output" }, this.long(`${n.id} ${key}`, b.value));
      case "error": return h("p", { class: "wrong" }, b.value);
      case "diff": return diff(b.value);
      case "list": return h("div", { class: "output" }, h("p", { class: "dim" }, plural(b.value.length, "result"), b.note && `, ${b.note}`),
        this.long(`${n.id} ${key}`, b.value.join("\n")));
      case "links": return h("ul", { class: "results" }, b.value.map((l) => h("li", {}, h("b", {}, l.title), " ", h("span", { class: "dim" }, l.url), l.text && h("p", {}, l.text.slice(0, 300)))));
      case "todos": return h("ul", { class: "todos" }, b.value.map((t) => h("li", { class: t.done ? "done" : "" }, t.done ? "☑ " : t.doing ? "◐ " : "☐ ", t.text)));
      case "fields": return h("dl", { class: "fields" }, b.value.map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, typeof v === "string" ? v : JSON.stringify(v)))));
    }
    return null;
  }
}

const mostLines = 80;

/** @param {DiffLine[]} lines */
function diff(lines) {
  /** @type {Record<string, string>} */
  const kinds = { "+": "added", "-": "removed", "@": "hunk" };
  return h("div", { class: "diff" },
    lines.slice(0, mostLines).map((l) => h("div", { class: kinds[l.sign] ?? "" }, h("span", { class: "sign" }, l.sign === "@" ? "" : l.sign), h("span", {}, l.text || " "))),
    lines.length > mostLines && h("p", { class: "dim" }, `${count(lines.length - mostLines)} more lines: see raw`));
}

/** @param {TraceNode} n */
function name(n) {
  return [n.prefix === "chat" ? "" : n.prefix, n.title].filter(Boolean).join(" ");
}

/** @param {TraceNode} n */
function turnFacts(n) {
  const b = n.bar;
  return [
    b.turn && `turn ${b.turn}`,
    n.firstChunk && `first chunk after ${duration(n.firstChunk - n.start)}`,
    n.chunks > 0 && plural(n.chunks, "chunk"),
    b.input && `${count(b.input)} tokens in${b.cached ? ` (${Math.round(100 * b.cached / b.input)}% cached)` : ""}`,
    b.output && `${count(b.output)} out`,
    b.cost && money(b.cost),
  ].filter(Boolean).join(" · ");
}

// signature changes with everything that is shown of an entry, but not with time.
/** @param {Entry} e */
function signature(e) {
  const n = e.node;
  return [n.open ? "open" : n.end, n.failure, n.chunks, n.firstChunk, n.detail, e.weight, e.depth].join(" ");
}
