// Where the time went: every instant of a session belongs to one thing, the
// first of these that goes on: an approval, tools (which share it evenly), the
// model, something in the background, and else nothing.

// timeSpent returns the parts, in that order but for the tools by their share.
export function timeSpent(trace) {
  const from = trace.root?.start ?? trace.start;
  const to = trace.root?.end ?? trace.end;
  let working = trace.nodes.filter((n) => rank(n.op) > 0);
  if (!working.length) working = trace.nodes.filter((n) => n !== trace.root && !n.children.length);

  const edges = [];
  const add = (start, end, kind) => {
    start = Math.max(start, from);
    end = Math.min(end, to);
    if (start < end) edges.push({ at: start, step: 1, kind }, { at: end, step: -1, kind });
  };
  for (const n of working) {
    if (n.op === "chat") {
      const first = Math.min(Math.max(n.firstChunk, n.start), n.end);
      add(n.start, first, kindOf("wait"));
      add(first, n.end, kindOf("model"));
    } else {
      add(n.start, n.end, kindOf(n.op, n.title));
    }
  }
  edges.sort((a, b) => a.at - b.at);

  const parts = new Map();
  const spend = (kind, us) => {
    const part = parts.get(kind.key) ?? { ...kind, us: 0 };
    part.us += us;
    parts.set(kind.key, part);
  };
  const active = new Map(); // kinds by key, with how many go on
  let last = from;
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

function share(active, us, spend) {
  let first = null, kinds = [];
  for (const a of active.values()) {
    if (!first || a.kind.rank < first.rank) {
      first = a.kind;
      kinds = [];
    }
    if (a.kind.rank === first.rank) kinds.push(a);
  }
  if (!first) {
    spend(kindOf("idle"), us);
    return;
  }
  const all = kinds.reduce((sum, a) => sum + a.n, 0);
  for (const a of kinds) spend(a.kind, us * a.n / all);
}

function rank(op) {
  return { approval: 1, tool: 2, chat: 3, background: 4 }[op] ?? 0;
}

// kindOf says how a part is called and painted, and where it stands.
function kindOf(op, title) {
  switch (op) {
    case "wait": return { key: "wait", label: "waiting for the model", color: "chat-wait", rank: 3, order: 1 };
    case "model": return { key: "model", label: "model", color: "chat", rank: 3, order: 0 };
    case "approval": return { key: "approval", label: "waiting for approval", color: "approval", rank: 1, order: 3 };
    case "background": return { key: "background", label: "background only", color: "background", rank: 4, order: 4 };
    case "idle": return { key: "idle", label: "idle", color: "idle", rank: 5, order: 5 };
  }
  return { key: `tool ${title}`, label: title, color: op === "tool" ? "tool" : "other", rank: 2, order: 2 };
}

// toolStats are the tools, those that took longest first.
export function toolStats(trace) {
  let tools = trace.nodes.filter((n) => n.op === "tool");
  if (!tools.length) tools = trace.nodes.filter((n) => n.op === "" && n !== trace.root);
  const stats = new Map();
  for (const n of tools) {
    const s = stats.get(n.title) ?? { tool: n.title, calls: 0, failed: 0, total: 0, times: [] };
    s.calls++;
    if (n.failure) s.failed++;
    s.total += n.duration;
    s.times.push(n.duration);
    stats.set(n.title, s);
  }
  for (const s of stats.values()) {
    s.times.sort((a, b) => a - b);
    s.p95 = s.times[Math.ceil(s.times.length * 0.95) - 1];
  }
  return [...stats.values()].sort((a, b) => b.total - a.total);
}
