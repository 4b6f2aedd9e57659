// @ts-check
// The transcript as it is read, beside the waterfall.

import { h } from "./dom.js";
import { count, duration, plural, roughly, seconds, size } from "./format.js";
import { markdown } from "./markdown.js";
import { Pane } from "./pane.js";
import { words } from "./reading.js";
import { entries } from "./transcript.js";
import { beginning, readable, rowDetail, rowName, tokens } from "./words.js";

const longText = 1600; // characters shown until one asks for more

export class Reader {
  /** @type {Trace | undefined} */ trace;
  /** @type {Entry[]} */ entries = [];
  /** @type {Map<string, { sign: string, element: HTMLElement }>} */ made = new Map(); // elements by span id, with what they were made of
  /** @type {string | null} */ selected = null;
  awaited = ""; // the step to bring into sight once it is there
  whole = ""; // the step that is shown with all its text
  /** @type {Set<string>} */ opened = new Set(); // what was unfolded, which outlives a change of its step

  // select is told of a node that was chosen here.
  /** @param {Select} select */
  constructor(select) {
    this.select = select;
    this.list = h("ol", { class: "transcript", "aria-label": "Transcript" });
    this.element = h("div", { class: "reader" }, this.list);
    this.pane = new Pane(this.list, (i) => this.step(this.entries[i]));
  }

  // show draws what is there by now. A session that goes on is shown from its end.
  /** @param {Trace} trace @param {Content} content */
  show(trace, content) {
    const { pane, element } = this;
    if (!this.trace) {
      if (element.parentElement) pane.within(element.parentElement);
      pane.following = trace.live;
    }
    this.trace = trace;
    this.entries = entries(trace, content);
    pane.show(this.entries.map((e) => e.node.id));
    if (this.awaited) this.look(trace.byId.get(this.awaited));
    this.forget();
  }

  /** @param {Entry} e */
  step(e) {
    const { id } = e.node, sign = `${signature(e)} ${id === this.whole}`;
    let made = this.made.get(id);
    if (made?.sign !== sign) this.made.set(id, made = { sign, element: this.entry(e) });
    made.element.classList.toggle("selected", id === this.selected);
    return made.element;
  }

  // forget leaves only elements that are shown.
  forget() {
    for (const [id, { element }] of this.made) if (!element.isConnected) this.made.delete(id);
  }

  // look brings the step of a node into sight.
  /** @param {TraceNode | null | undefined} node */
  look(node) {
    this.made.get(this.selected ?? "")?.element.classList.remove("selected");
    this.selected = node?.id ?? null;
    this.awaited = node && !this.pane.index.has(node.id) ? node.id : "";
    if (node) this.pane.bring(node.id);
    this.forget();
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
    const chat = n.op === "chat", leads = chat || e.prompt !== "", { session } = this.trace ?? {};
    const title = [n.prefix, rowName(n, session)].filter(Boolean).join(" "), about = rowDetail(n, session?.folder);
    const go = h("button", { type: "button", class: "go", title: chat ? turnFacts(n) : "Show in the waterfall", onclick: () => this.select(n.id) },
      leads ? [title, chat && n.bar.input && `${roughly(n.bar.input)} in`, chat && n.bar.output && `${roughly(n.bar.output)} out`].filter(Boolean).join(" · ") :
        [h("b", {}, h("bdi", {}, title)), " ", h("bdi", { class: n.bar.path ? "about path" : "about" }, about)]);
    const took = !this.trace?.timeless && h("span", { class: "took" }, n.open ? seconds(n.duration) : this.trace?.took(n));
    const li = h("li", { class: `entry ${e.kind}${leads ? " words" : ""}${n.failure ? " failed" : ""}${n.open ? " open" : ""}${n.id === this.whole ? " whole" : ""}`, "data-id": n.id },
      h("div", { class: "what" }, go, took), chat && !e.said.length && h("p", { class: "about" }, about), ...this.body(e, n));
    if (e.depth) li.style.marginLeft = `${Math.min(e.depth, 6) * 14}px`;
    return li;
  }

  /** @param {Entry} e @param {TraceNode} n */
  body(e, n) {
    const { blocks } = e;
    return [
      e.prompt && h("div", { class: "said prompt" }, this.long(n, "prompt", e.prompt, markdown)),
      ...e.said.map((s, i) => (s.kind === "thinking"
        ? this.folded(n, `thinking ${i}`, "thought", [h("span", {}, "thought"), " ", h("span", { class: "dim" }, beginning(s.text))], markdown(s.text))
        : h("div", { class: "said" }, this.long(n, `said ${i}`, s.text, markdown)))),
      ...blocks.map((b, i) => this.block(b, `block ${i}`, n)),
      ...e.notes.map((note) => h("p", { class: "note" }, h("b", {}, readable(note.name)), " ", h("span", {}, [this.trace?.time(note.at)].filter(Boolean).map((at) => `after ${at} `), readable(note.text)))),
      n.failure && !blocks.some((b) => b.kind === "error") && h("p", { class: "wrong" }, n.failure),
      e.cut > 0 && h("p", { class: "note" }, `${size(e.cut)} truncated here`),
      e.raw.length > 0 && this.folded(n, "raw", "raw", ["raw"], ...e.raw.map(([title, text]) => h("div", {}, h("h4", {}, title), h("pre", { tabindex: "0" }, text)))),
    ];
  }

  /** @param {TraceNode} n @param {string} key @param {string} kind @param {Leaf[]} summary @param {...Element} children */
  folded(n, key, kind, summary, ...children) {
    key = `${n.id} ${key}`;
    const el = h("details", { class: kind, open: this.opened.has(key) || kind === "thought" && n.id === this.whole }, h("summary", {}, summary), children);
    el.addEventListener("toggle", () => {
      if (el.open) this.opened.add(key);
      else this.opened.delete(key);
    });
    return el;
  }

  // long shows the beginning of a long text, and the rest on request.
  /** @param {TraceNode} n @param {string} key @param {string} text @param {(text: string) => Element} show */
  long(n, key, text, show = (part) => h("pre", {}, part)) {
    key = `${n.id} ${key}`;
    if (text.length <= longText * 1.2 || this.opened.has(key) || n.id === this.whole) return show(text);
    const part = show(text.slice(0, longText));
    const more = h("button", { type: "button", class: "quiet", onclick: () => {
      this.opened.add(key);
      part.replaceWith(show(text));
      more.remove();
    } }, `${count(text.length - longText)} more characters`);
    return h("div", {}, part, more);
  }

  /** @param {Block} b @param {string} key @param {TraceNode} n */
  block(b, key, n) {
    switch (b.kind) {
      case "command": return h("pre", { class: "command" }, h("span", { class: "prompt-sign", "aria-hidden": "true" }, "$ "), b.value);
      case "path": return b.value === n.detail || n.detail.endsWith(b.value) ? null : h("p", { class: "mono" }, b.value);
      case "query": return b.value === n.detail ? null : h("p", { class: "query" }, b.value);
      case "output": case "text": return h("div", { class: b.error ? "output err" : "output" }, this.long(n, key, b.value));
      case "error": return h("p", { class: "wrong" }, b.value);
      case "diff": return diff(b.value, n.id === this.whole ? Infinity : mostLines);
      case "list": return h("div", { class: "output" }, h("p", { class: "dim" }, plural(b.value.length, "result"), b.note && `, ${b.note}`),
        this.long(n, key, b.value.join("\n")));
      case "links": return h("ul", { class: "results" }, b.value.map((l) => h("li", {}, h("b", {}, l.title), " ", h("span", { class: "dim" }, l.url), l.text && h("p", {}, l.text.slice(0, 300)))));
      case "todos": return h("ul", { class: "todos" }, b.value.map((t) => h("li", { class: t.done ? "done" : "" }, t.done ? "☑ " : t.doing ? "◐ " : "☐ ", t.text)));
      case "fields": return h("dl", { class: "fields" }, b.value.map(([k, v]) => h("div", {}, h("dt", {}, words(k)), h("dd", {}, typeof v === "string" ? v : JSON.stringify(v)))));
    }
    return null;
  }
}

const mostLines = 80;

/** @param {DiffLine[]} lines @param {number} most */
function diff(lines, most) {
  /** @type {Record<string, string>} */
  const kinds = { "+": "added", "-": "removed", "@": "hunk" };
  return h("div", { class: "diff" },
    lines.slice(0, most).map((l) => h("div", { class: kinds[l.sign] ?? "" }, h("span", { class: "sign" }, l.sign === "@" ? "" : l.sign), h("span", {}, l.text || " "))),
    lines.length > most && h("p", { class: "dim" }, `${count(lines.length - most)} more lines: see raw`));
}

/** @param {TraceNode} n */
function turnFacts(n) {
  return [
    n.title,
    n.firstChunk && `first chunk after ${duration(n.firstChunk - n.start)}`,
    n.chunks > 0 && plural(n.chunks, "chunk"),
    ...tokens(n.bar),
  ].filter(Boolean).join(" · ");
}

// signature changes with everything that is shown of an entry, but not with time.
/** @param {Entry} e */
function signature(e) {
  const n = e.node;
  return [n.open ? "open" : n.end, n.failure, n.chunks, n.firstChunk, n.detail, n.below.length, e.weight, e.depth].join(" ");
}
