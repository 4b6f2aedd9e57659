// @ts-check
// Where the time went, as package runs accounts for it in the terminal: every instant of a
// session belongs to one thing, the first of these that is going on: an approval, tools (which
// share it evenly), hooks, the model's output, waiting for the model, a tool that waits for the
// steps below it, and otherwise the agent itself. The steps of sub-agents count as those of the
// session, and work in the background does not count.

// timeSpent returns the parts, the longest first. They are estimated if they rest on an inferred
// start or end.
/** @param {Trace} trace */
export function timeSpent(trace) {
  const from = trace.root?.start ?? trace.start;
  const to = trace.root?.end ?? trace.end;
  const known = trace.nodes.some((n) => works.has(n.op));

  /** @type {Edge[]} */
  const edges = [];
  /** @type {(kind: Kind, start: number, end: number, startInferred: boolean, endInferred: boolean) => void} */
  const add = (kind, start, end, startInferred, endInferred) => {
    start = Math.max(start, from);
    end = Math.min(end, to);
    const of = { kind, inferred: startInferred || endInferred };
    if (start < end) edges.push({ at: start, of, begins: true, inferred: startInferred }, { at: end, of, begins: false, inferred: endInferred });
  };
  for (const n of trace.nodes) {
    if (n === trace.root || inBackground(n)) continue;
    const { startInferred = false, endInferred = false } = n.bar;
    const calls = n.op === "tool" && n.children.some((c) => !beside.has(c.op));
    const alone = !n.children.length && (n.op === "agent" ? n.parent?.op !== "tool" : !n.op && !known);
    const first = n.op === "chat" ? Math.min(n.firstChunk || Math.min(n.text[0] ?? n.end, n.thinking[0] ?? n.end), n.end) : n.start;
    if (n.op === "chat") add(kindOf("wait"), n.start, first, startInferred, first === n.end && endInferred);
    if (n.op === "chat") add(kindOf("model"), first, n.end, first === n.start && startInferred, endInferred);
    else if (works.has(n.op) || alone) add(kindOf(calls ? "caller" : n.op, toolName(n)), n.start, n.end, startInferred, endInferred);
  }
  edges.sort((a, b) => a.at - b.at);

  /** @type {Map<string, Part>} */
  const parts = new Map();
  /** @type {(kind: Kind, us: number, inferred: boolean) => void} */
  const spend = (kind, us, inferred) => {
    const part = parts.get(kind.key) ?? { ...kind, us: 0, estimated: false };
    part.us += us;
    part.estimated ||= inferred;
    parts.set(kind.key, part);
  };
  /** @type {Set<Edge["of"]>} */
  const active = new Set();
  let last = from, lastInferred = Boolean(trace.root?.bar.startInferred), before = kindOf("own");
  /** @type {(until: number, inferred: boolean) => void} */
  const pass = (until, inferred) => {
    const rank = Math.min(...[...active].map((a) => a.kind.rank)), us = until - last;
    const now = [...active].filter((a) => a.kind.rank === rank);
    if (us <= 0) return;
    if (!now.length && us > touching) before = kindOf("own");
    if (!now.length) spend(before, us, us > touching && (inferred || lastInferred));
    for (const a of now) spend(before = a.kind, us / now.length, a.inferred);
  };
  for (const e of edges) {
    pass(e.at, e.inferred);
    last = e.at;
    lastInferred = e.inferred;
    if (e.begins) active.add(e.of);
    else active.delete(e.of);
  }
  pass(to, Boolean(trace.root?.bar.endInferred));
  const list = [...parts.values()].sort((a, b) => b.us - a.us || a.order - b.order || (a.label < b.label ? -1 : 1));
  return { total: Math.max(1, to - from), parts: edges.length || trace.live ? list : [] };
}

// percentages are those of the parts, rounded by the largest remainder so that they are 100.
/** @param {{ total: number, parts: Part[] }} spent */
export function percentages({ total, parts }) {
  const exact = parts.map((p) => 100 * p.us / total), list = exact.map((p) => Math.floor(p + 1e-9));
  const left = parts.length ? 100 - list.reduce((sum, p) => sum + p, 0) : 0;
  const byRemainder = exact.map((_, i) => i).sort((i, j) => exact[j] - list[j] - (exact[i] - list[i]));
  for (const i of byRemainder.slice(0, left)) list[i]++;
  return list;
}

// inBackground tells work that the agent does not wait for.
/** @param {TraceNode | null} n */
function inBackground(n) {
  while (n && n.op !== "background") n = n.parent;
  return Boolean(n);
}

// touching is what spantee leaves between a span and the next, in microseconds: Jaeger takes
// spans that touch for overlapping.
const touching = 1;

const works = new Set(["approval", "tool", "chat", "hook"]), beside = new Set(["approval", "hook", "background"]);

// toolName leaves out the executable that a name may end with.
/** @type {(n: TraceNode) => string} */
export const toolName = (n) => n.bar.tool || n.title;

// kindOf says how a part is called and painted, and where it stands.
/** @param {string} op @param {string} [title] @returns {Kind} */
function kindOf(op, title = "") {
  switch (op) {
    case "wait": return { key: "wait", label: "waiting for the model", color: "chat-wait", rank: 5, order: 4 };
    case "model": return { key: "model", label: "model output", color: "chat", rank: 4, order: 3 };
    case "approval": return { key: "approval", label: "approvals", color: "approval", rank: 1, order: 0 };
    case "hook": return { key: "hook", label: "hooks", color: "other", rank: 3, order: 2 };
    case "own": return { key: "own", label: "agent's own", color: "idle", rank: 7, order: 6 };
  }
  const isTool = op === "tool" || op === "caller";
  return { key: `tool ${title}`, label: title, tool: isTool ? title : "", color: isTool ? "tool" : "other", rank: op === "caller" ? 6 : 2, order: 1 };
}

// toolStats are the tools, those whose calls took longest together first.
/** @param {Trace} trace */
export function toolStats(trace) {
  let tools = trace.nodes.filter((n) => n.op === "tool" && !n.bar.script);
  if (!tools.length) tools = trace.nodes.filter((n) => n.op === "" && n !== trace.root);
  /** @type {Map<string, { tool: string, calls: number, failed: number, total: number, times: number[], p95: number, estimated: boolean }>} */
  const stats = new Map();
  for (const n of tools) {
    const name = toolName(n);
    const s = stats.get(name) ?? { tool: name, calls: 0, failed: 0, total: 0, times: [], p95: 0, estimated: false };
    s.calls++;
    s.estimated ||= n.estimated;
    if (n.failure) s.failed++;
    s.total += n.duration;
    s.times.push(n.duration);
    stats.set(name, s);
  }
  for (const s of stats.values()) s.p95 = s.times.sort((a, b) => a - b)[Math.ceil(s.times.length * 0.95) - 1]; // the nearest rank
  return [...stats.values()].sort((a, b) => b.total - a.total);
}

// slowest are the calls that took longest, as in the terminal. A call with steps of its own is told
// by those.
/** @param {Trace} trace */
export function slowest(trace, most = 10) {
  return trace.nodes
    .filter((n) => n !== trace.root && calls.has(n.op) && !n.children.some((c) => c.op === "agent" || c.op && calls.has(c.op)) && trace.time(n.duration))
    .sort((a, b) => b.duration - a.duration)
    .slice(0, most);
}

const calls = new Set(["chat", "tool", ""]); // "" of other senders

// usage sums what the model calls took, turn by turn. A sub-agent's calls are
// calls as well; the agents' own totals would count them twice.
/** @param {Trace} trace */
export function usage(trace) {
  const turns = trace.nodes
    .filter((n) => n.op === "chat" && (n.bar.input || n.bar.output || n.bar.cost))
    .map((n) => ({ node: n, input: n.bar.input ?? 0, output: n.bar.output ?? 0, cached: n.bar.cached ?? 0, cost: n.bar.cost ?? 0, inner: Boolean(n.inner) }));
  /** @type {(key: "input" | "output" | "cached" | "cost") => number} */
  const sum = (key) => turns.reduce((total, t) => total + t[key], 0);
  return { turns, input: sum("input"), output: sum("output"), cached: sum("cached"), cost: sum("cost") };
}
