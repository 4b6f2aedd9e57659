// @ts-check
// Where the time went: every instant of a session belongs to one thing, the
// first of these that is going on: an approval, tools (which share it evenly),
// the model, a tool that waits for its sub-agent, something in the background,
// and otherwise nothing. The steps of sub-agents count as those of the session.

// timeSpent returns the parts, in that order but for the tools by their share.
/** @param {Trace} trace */
export function timeSpent(trace) {
  const from = trace.root?.start ?? trace.start;
  const to = trace.root?.end ?? trace.end;
  let working = trace.nodes.filter((n) => works.has(n.op));
  if (!working.length) working = trace.nodes.filter((n) => n !== trace.root && !n.children.length);

  /** @type {{ at: number, step: number, kind: Kind }[]} */
  const edges = [];
  /** @type {(start: number, end: number, kind: Kind) => void} */
  const add = (start, end, kind) => {
    start = Math.max(start, from);
    end = Math.min(end, to);
    if (start < end) edges.push({ at: start, step: 1, kind }, { at: end, step: -1, kind });
  };
  for (const n of working) {
    if (n.op === "chat") {
      const first = n.firstChunk || (n.open && !n.chunks ? n.end : n.start);
      add(n.start, Math.min(first, n.end), kindOf("wait"));
      add(Math.min(first, n.end), n.end, kindOf("model"));
    } else if (n.holdsAgent) {
      add(n.start, n.end, kindOf("sub-agent", n.title));
    } else {
      add(n.start, n.end, kindOf(n.op, toolName(n)));
    }
  }
  edges.sort((a, b) => a.at - b.at);

  /** @type {Map<string, Part>} */
  const parts = new Map();
  /** @type {(kind: Kind, us: number) => void} */
  const spend = (kind, us) => {
    const part = parts.get(kind.key) ?? { ...kind, us: 0 };
    part.us += us;
    parts.set(kind.key, part);
  };
  /** @type {Active} */
  const active = new Map(); // kinds by key, with how many go on
  let last = from;
  /** @type {(until: number) => void} */
  const pass = (until) => {
    if (until > last) share(active, until - last, spend);
    last = until;
  };
  for (const e of edges) {
    pass(e.at);
    const a = active.get(e.kind.key) ?? { kind: e.kind, n: 0 };
    a.n += e.step;
    if (a.n) active.set(e.kind.key, a);
    else active.delete(e.kind.key);
  }
  pass(to);
  const total = Math.max(1, to - from);
  return {
    total,
    parts: [...parts.values()].sort((a, b) => a.order - b.order || b.us - a.us),
  };
}

/** @param {Active} active @param {number} us @param {(kind: Kind, us: number) => void} spend */
function share(active, us, spend) {
  let rank = Infinity;
  /** @type {{ kind: Kind, n: number }[]} */
  let kinds = [];
  for (const a of active.values()) {
    if (a.kind.rank < rank) {
      rank = a.kind.rank;
      kinds = [];
    }
    if (a.kind.rank === rank) kinds.push(a);
  }
  if (!kinds.length) {
    if (us > apart) spend(kindOf("idle"), us);
    return;
  }
  const all = kinds.reduce((sum, a) => sum + a.n, 0);
  for (const a of kinds) spend(a.kind, us * a.n / all);
}

// apart is what spantee leaves between a span and the next, in microseconds:
// Jaeger takes spans that touch for overlapping. Nobody idled in it.
const apart = 1;

const works = new Set(["approval", "tool", "chat", "background"]);

// toolName leaves out the executable that a name may end with.
/** @type {(n: TraceNode) => string} */
export const toolName = (n) => n.bar.tool || n.title;

// kindOf says how a part is called and painted, and where it stands.
/** @param {string} op @param {string} [title] @returns {Kind} */
function kindOf(op, title = "") {
  switch (op) {
    case "wait": return { key: "wait", label: "waiting for the model", color: "chat-wait", rank: 3, order: 1 };
    case "model": return { key: "model", label: "model", color: "chat", rank: 3, order: 0 };
    case "approval": return { key: "approval", label: "waiting for approval", color: "approval", rank: 1, order: 3 };
    case "sub-agent": return { key: `tool ${title}`, label: title, tool: title, color: "tool", rank: 4, order: 2 };
    case "background": return { key: "background", label: "background only", color: "background", rank: 5, order: 4 };
    case "idle": return { key: "idle", label: "idle", color: "idle", rank: 6, order: 5 };
  }
  return { key: `tool ${title}`, label: title, tool: op === "tool" ? title : "", color: op === "tool" ? "tool" : "other", rank: 2, order: 2 };
}

// toolStats are the tools, those that took longest first. The time of a
// sub-agent is that of its own steps.
/** @param {Trace} trace */
export function toolStats(trace) {
  let tools = trace.nodes.filter((n) => n.op === "tool");
  if (!tools.length) tools = trace.nodes.filter((n) => n.op === "" && n !== trace.root);
  /** @type {Map<string, { tool: string, calls: number, failed: number, total: number, times: number[], p95: number }>} */
  const stats = new Map();
  for (const n of tools) {
    const name = toolName(n);
    const s = stats.get(name) ?? { tool: name, calls: 0, failed: 0, total: 0, times: [], p95: 0 };
    s.calls++;
    if (n.failure) s.failed++;
    s.total += n.own;
    s.times.push(n.duration);
    stats.set(name, s);
  }
  for (const s of stats.values()) s.p95 = quantile(s.times.sort((a, b) => a - b), 0.95);
  return [...stats.values()].sort((a, b) => b.total - a.total);
}

// quantile of a sorted list is one of its values: that of the nearest rank.
/** @param {number[]} sorted @param {number} q */
function quantile(sorted, q) {
  return sorted.length ? sorted[Math.max(0, Math.ceil(sorted.length * q) - 1)] : NaN;
}

// slowest are the steps that took longest. A call that waited for its
// sub-agent is told by that one's steps.
/** @param {Trace} trace */
export function slowest(trace, most = 10) {
  return trace.nodes
    .filter((n) => n !== trace.root && n.op !== "agent" && n.op !== "background" && !n.holdsAgent)
    .sort((a, b) => b.duration - a.duration)
    .slice(0, most);
}

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
