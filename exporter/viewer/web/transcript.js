// @ts-check
// A transcript is a trace as a conversation: what was asked, thought, said and
// done, in order. Without content it is a list of steps.

import { parse, readCall } from "./reading.js";
import { beginning } from "./words.js";

// Content holds what came of the steps' content so far.
export class Content {
  constructor() {
    this.seq = 0;
    /** @type {Map<string, Step>} */
    this.steps = new Map(); // by span id
    /** @type {Map<string, Step>} */
    this.open = new Map();
  }

  /** @param {Steps} answer */
  merge(answer) {
    this.seq = answer.seq;
    for (const s of answer.spans) this.steps.set(s.id, s);
    this.open = new Map(answer.open.map((s) => [s.id, s]));
  }

  // tell gives the nodes that an answer is about what they say.
  /** @param {Steps} answer @param {Trace} trace */
  tell(answer, trace) {
    for (const { id } of [...answer.spans, ...answer.open]) {
      const n = trace.byId.get(id);
      if (!n) continue;
      const steps = this.of(n), all = said(steps);
      n.words = beginning((all.find((s) => s.kind === "text") ?? all[0])?.text ?? "");
      n.content = [...steps.flatMap((s) => [s.prompt, s.answer, s.arguments, s.result]), ...all.map((s) => s.text)].filter(Boolean).join("\n").toLowerCase();
    }
  }

  // of returns the content of a node, in all of its spans.
  /** @param {TraceNode} node */
  of(node) { return node.parts.flatMap((id) => this.steps.get(id) ?? this.open.get(id) ?? []); }
}

// entries are the lines of a transcript, in order.
/** @param {Trace} trace @param {Content} content */
export function entries(trace, content) {
  /** @type {Entry[]} */
  const list = [];
  /** @type {(node: TraceNode, depth: number) => void} */
  const add = (node, depth) => {
    list.push(new Entry(node, depth, content));
    const inner = node.holdsAgent || node.op === "agent" && node !== trace.root ? depth + 1 : depth;
    for (const child of node.children) add(child, inner);
  };
  for (const n of trace.tops) add(n, 0);
  return list;
}

// An Entry has a node, a kind (agent, turn, tool, approval, background, hook, or none)
// and a depth that counts sub-agents. Its content is only read when it is
// shown: there may be 50,000 entries.
class Entry {
  /** @type {Step[] | undefined} */ found;

  /** @param {TraceNode} node @param {number} depth @param {Content} content */
  constructor(node, depth, content) {
    this.node = node;
    this.depth = depth;
    this.content = content;
    this.kind = node.op === "chat" ? "turn" : node.op;
  }

  /** @returns {Step[]} */
  get steps() { return this.found ??= this.content.of(this.node); }
  get cut() { return this.steps.reduce((sum, s) => sum + (s.cut ?? 0), 0); }
  get prompt() { return this.node.op === "agent" ? this.steps.map((s) => lastPrompt(s.prompt)).find(Boolean) ?? "" : ""; }
  get said() { return this.node.op === "chat" ? said(this.steps) : []; }
  get notes() { return this.steps.flatMap((s) => s.notes ?? []); }
  get blocks() { return this.steps.filter((s) => s.arguments || s.result).flatMap((s) => readCall(s.arguments, s.result)); }
  get raw() { return this.steps.flatMap((s) => [["Arguments", s.arguments], ["Result", s.result]]).filter(([, text]) => text); }

  // weight changes with the content, and costs little.
  get weight() { return this.steps.reduce((sum, s) => sum + (s.weight ??= JSON.stringify(s).length), 0); }
}

/** @type {(steps: Step[]) => Said[]} */
const said = (steps) => steps.flatMap((s) => answer(s.answer) ?? s.said ?? []);

// lastPrompt is what the user said last, in gen_ai.input.messages.
/** @param {string} [text] */
function lastPrompt(text) {
  const messages = list(text).filter((m) => m?.role === "user");
  const said = messages.map((m) => partsOf(m).filter((p) => p?.type === "text" && typeof p.content === "string").map((p) => p.content).join("\n"));
  return said.filter(Boolean).pop() ?? "";
}

// answer is what gen_ai.output.messages say, null if they say nothing.
/** @param {string} [text] */
function answer(text) {
  /** @type {Said[]} */
  const said = [];
  for (const m of list(text)) {
    for (const p of partsOf(m)) {
      if (typeof p?.content !== "string" || !p.content) continue;
      if (p.type === "text") said.push({ kind: "text", text: p.content });
      if (p.type === "reasoning" || p.type === "thinking") said.push({ kind: "thinking", text: p.content });
    }
  }
  return said.length ? said : null;
}

/** @type {(m: Foreign) => Foreign[]} */
const partsOf = (m) => (Array.isArray(m?.parts) ? m.parts : []);

/** @param {string} [text] @returns {Foreign[]} */
function list(text) {
  const value = parse(text);
  return Array.isArray(value) ? value : [];
}
