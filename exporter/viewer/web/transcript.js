// A transcript is a trace as a conversation: what was asked, thought, said and
// done, in order. Without content it is a list of steps.

import { readCall } from "./reading.js";

// Content holds what came of the steps' content so far.
export class Content {
  constructor() {
    this.seq = 0;
    this.steps = new Map(); // by span id
    this.open = new Map();
  }

  merge(answer) {
    this.seq = answer.seq;
    for (const s of answer.spans) this.steps.set(s.id, s);
    this.open = new Map(answer.open.map((s) => [s.id, s]));
    return answer.spans.length + answer.open.length > 0;
  }

  // of returns the content of a node, in all of its spans.
  of(node) { return node.parts.map((id) => this.steps.get(id) ?? this.open.get(id)).filter(Boolean); }
}

// entries are the lines of a transcript, in order. Each has its node, a kind
// (prompt, turn, tool, agent, approval, background, span), a depth that counts
// sub-agents, and what there is to read: said, blocks, notes.
export function entries(trace, content) {
  const list = [];
  const add = (node, depth) => {
    const steps = content.of(node);
    if (node.op === "agent") {
      const prompt = steps.map((s) => lastPrompt(s.prompt)).find(Boolean) ?? "";
      list.push({ node, kind: "agent", depth, prompt, said: [], blocks: [], notes: [], cut: 0 });
    } else {
      list.push(entry(node, steps, depth));
    }
    const inner = node.op === "agent" && node !== trace.root ? depth + 1 : node.holdsAgent ? depth + 1 : depth;
    for (const child of node.children) add(child, inner);
  };
  for (const n of trace.tops) add(n, 0);
  return list;
}

function entry(node, steps, depth) {
  const e = { node, kind: kinds[node.op] ?? "span", depth, said: [], blocks: [], notes: [], prompt: "", raw: [] };
  e.cut = steps.reduce((sum, s) => sum + (s.cut ?? 0), 0);
  for (const s of steps) {
    if (node.op === "chat") e.said.push(...(answer(s.answer) ?? s.said ?? []));
    if (s.arguments || s.result) {
      e.blocks.push(...readCall(s.arguments, s.result));
      e.raw.push(["Arguments", s.arguments], ["Result", s.result]);
    }
    e.notes.push(...(s.notes ?? []).filter((n) => !n.name.endsWith("first_chunk")));
  }
  e.raw = e.raw.filter(([, text]) => text);
  return e;
}

const kinds = { chat: "turn", tool: "tool", approval: "approval", background: "background" };

// lastPrompt is what the user said last, in gen_ai.input.messages.
export function lastPrompt(text) {
  const messages = list(text).filter((m) => m?.role === "user");
  const said = messages.map((m) => partsOf(m).filter((p) => p?.type === "text" && typeof p.content === "string").map((p) => p.content).join("\n"));
  return said.filter(Boolean).pop() ?? "";
}

// answer is what gen_ai.output.messages say, null if they say nothing.
export function answer(text) {
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

const partsOf = (m) => (Array.isArray(m?.parts) ? m.parts : []);

function list(text) {
  try {
    const value = JSON.parse(text || "[]");
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
