// @ts-check
// Every detail of the selected span.

import { getSpan } from "./api.js";
import { contentTitles, readable } from "./content.js";
import { copyButton, fill, h } from "./dom.js";
import { count, duration, exactMoment, plural } from "./format.js";

const atFirst = 100; // events shown until one asks for more

export class Details {
  /** @param {string} trace @param {AbortSignal} signal @param {Select} go */
  constructor(trace, signal, go) {
    this.trace = trace;
    this.signal = signal;
    this.go = go;
    this.element = h("div", { class: "details" });
    /** @type {TraceNode | null} */
    this.node = null;
    /** @type {Trace | null} */
    this.times = null;
    this.show(null);
  }

  // refresh shows a node again if it has grown.
  /** @param {Trace} trace */
  refresh(trace) {
    this.times = trace;
    const node = this.node && trace.byId.get(this.node.id);
    if (node && (node !== this.node || node.open)) this.show(node);
  }

  /** @param {TraceNode | null} node */
  async show(node) {
    this.node = node;
    if (!node) {
      this.element.replaceChildren(h("p", { class: "dim" }, "Select a span in the waterfall or a step in the transcript."));
      return;
    }
    try {
      const parts = await Promise.all(node.parts.map((id) => getSpan(this.trace, id, this.signal)));
      if (this.node === node) fill(this.element, ...this.span(node, parts));
    } catch (e) {
      if (!this.signal.aborted && this.node === node) this.element.replaceChildren(h("p", {}, e.message));
    }
  }

  /** @param {TraceNode} node @param {Detail[]} parts */
  span(node, parts) {
    const s = parts[0], timeless = this.times?.timeless ?? false;
    const attributes = s.attributes;
    const content = attributes.filter((a) => a.key in contentTitles);
    const events = parts.flatMap((p) => p.events.map((e) => ({ ...e, at: e.at + p.start - s.start })));
    const links = parts.flatMap((p) => p.links);
    const dropped = parts.reduce((n, p) => n + p.dropped, 0);
    return [
      h("div", { class: "title" },
        h("h2", {}, s.name),
        h("button", { class: "quiet", type: "button", title: "Deselect (Esc)", "aria-label": "Deselect", onclick: () => this.go(null) }, "✕")),
      node.failure && h("p", { class: "failure" }, node.failure),
      h("dl", { class: "facts" },
        !timeless && fact("Duration", node.open ? `${duration(node.duration)} so far` : this.times?.took(node)),
        node.firstChunk > 0 && fact("First chunk", duration(node.firstChunk - s.start)),
        !timeless && fact("Started", exactMoment(s.start)),
        fact("Status", (node.open ? "open" : s.status) + (s.message ? `: ${s.message}` : "")),
        fact("Kind", s.kind)),
      content.map((a) => section(contentTitles[a.key], readable(a.key, a.value))),
      section(`Attributes`, table(attributes.filter((a) => !(a.key in contentTitles)))),
      events.length > 0 && section(plural(events.length, "event"), eventList(events, (us) => this.times?.time(us) ?? "")),
      links.length > 0 && section("Links", h("ul", { class: "links" }, links.map((l) => this.link(l)))),
      section("Resource", table(s.resource), s.scope && h("p", { class: "dim" }, s.scope)),
      section("Ids", h("dl", { class: "facts" },
        fact("Span", copyButton(s.id, s.id)),
        s.parent && fact("Parent", this.to(s.trace, s.parent, s.parent)),
        parts.length > 1 && fact("More deltas in", parts.slice(1).map((p) => p.id).join(" ")))),
      parts.some((p) => p.omitted) && h("p", { class: "dim" }, `${plural(parts.reduce((n, p) => n + p.omitted, 0), "event")} more, not shown here.`),
      dropped > 0 && h("p", { class: "dim" }, `The sender dropped ${plural(dropped, "attribute, event or link")}.`),
    ];
  }

  /** @param {SpanLink} l */
  link(l) {
    const label = l.trace === this.trace ? `span ${l.span}` : `span ${l.span} of trace ${l.trace}`;
    return h("li", {}, this.to(l.trace, l.span, label), l.attributes.length > 0 && table(l.attributes));
  }

  // to leads to a span, of this trace or another.
  /** @param {string} trace @param {string} span @param {string} label */
  to(trace, span, label) {
    return h("a", { href: `#/trace/${trace}/${span}`, onclick: (e) => {
      if (trace !== this.trace) return;
      e.preventDefault();
      this.go(span);
    } }, label);
  }
}

/** @type {(label: string, value: Child, extra?: Props) => Leaf} */
export const fact = (label, value, extra = {}) => value && h("div", {}, h("dt", {}, label), h("dd", extra, value));

/** @type {(title: string, ...children: Child[]) => Element} */
const section = (title, ...children) => h("details", { open: true }, h("summary", {}, title), ...children);

/** @param {Attribute[]} attributes */
function table(attributes) {
  if (!attributes.length) return h("p", { class: "dim" }, "None.");
  const sorted = [...attributes].sort((a, b) => (a.key < b.key ? -1 : 1));
  return h("table", { class: "attributes" }, h("tbody", {}, sorted.map((a) =>
    h("tr", {}, h("th", { scope: "row" }, a.key), h("td", { class: a.type }, value(a))))));
}

/** @param {Attribute} a */
function value(a) {
  if (a.type === "int") return count(BigInt(a.value));
  if (a.type === "json") return readable(a.key, a.value);
  return a.value === "" ? h("span", { class: "dim" }, "empty") : a.value;
}

/** @param {SpanEvent[]} events @param {(us: number) => string} time */
function eventList(events, time) {
  const list = h("ol", { class: "events" });
  let shown = 0;
  const more = h("button", { type: "button", class: "quiet" });
  /** @type {(n: number) => void} */
  const add = (n) => {
    list.append(...events.slice(shown, shown + n).map((e, i) => {
      const before = events[shown + i - 1], since = before && time(e.at - before.at);
      return h("li", {},
        h("span", { class: "num" }, time(e.at)),
        h("span", { class: "num dim" }, since && `+${since}`),
        h("span", {}, e.name, " ", h("span", { class: "dim" }, e.attributes.map((a) => `${short(a.key)} ${a.value}`).join(" · "))));
    }));
    shown = Math.min(shown + n, events.length);
    more.textContent = `${count(events.length - shown)} more`;
    more.hidden = shown === events.length;
  };
  more.addEventListener("click", () => add(1000));
  add(atFirst);
  return h("div", {}, list, more);
}

/** @type {(key: string) => string} */
const short = (key) => key.replace(/^spantee\.(delta\.)?/, "");
