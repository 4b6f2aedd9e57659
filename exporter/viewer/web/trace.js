// A Trace is what came of one trace, as a tree of nodes. It grows.

const prefixed = { agent: "invoke_agent", chat: "chat", background: "background", approval: "await_approval" };

export class Trace {
  constructor(id) {
    this.id = id;
    this.seq = 0;
    this.bars = new Map(); // by span id
    this.nodes = [];
    this.tops = [];
    this.root = null;
  }

  // merge takes what the viewer says of the spans that are new.
  merge(overview) {
    this.session = overview.session;
    this.seq = overview.seq;
    for (const bar of overview.spans) this.bars.set(bar.id, bar);
    this.link();
  }

  link() {
    const bars = [...this.bars.values()].sort(byTime);
    const byId = new Map();
    this.nodes = [];
    for (const bar of bars) {
      const head = bar.continues && byId.get(bar.continues);
      if (head) {
        head.append(bar);
        byId.set(bar.id, head);
        continue;
      }
      const node = new Node(bar);
      this.nodes.push(node);
      byId.set(bar.id, node);
      if (bar.continues) byId.set(bar.continues, node); // the head is missing: this stands in for it
    }
    this.byId = byId;

    const isRoot = (n) => (!n.bar.parent || n.op === "agent") && !byId.has(n.bar.parent);
    this.root = this.nodes.find(isRoot) ?? null;
    this.tops = [];
    for (const n of this.nodes) {
      let parent = isRoot(n) ? null : byId.get(n.bar.parent) ?? this.root;
      for (let p = parent; p; p = p.parent) {
        if (p === n) parent = null; // a circle
      }
      n.parent = parent;
      if (parent) parent.children.push(n);
      else this.tops.push(n);
    }
    this.start = this.nodes[0]?.start ?? 0;
    this.end = this.start;
    for (const n of this.nodes) this.end = Math.max(this.end, n.end);
  }

  get duration() { return this.end - this.start; }

  // rows are the nodes in the order they are drawn. Only those that match, and
  // what they belong to, if match is given.
  rows(collapsed, match) {
    const wanted = match && new Set();
    if (match) {
      for (const n of this.nodes) {
        if (match(n)) for (let p = n; p && !wanted.has(p); p = p.parent) wanted.add(p);
      }
    }
    const rows = [];
    const stack = this.tops.map((n) => [n, 0]).reverse();
    while (stack.length) {
      const [n, depth] = stack.pop();
      if (wanted && !wanted.has(n)) continue;
      n.depth = depth;
      n.row = rows.push(n) - 1;
      if (collapsed.has(n.id)) continue;
      for (let i = n.children.length - 1; i >= 0; i--) stack.push([n.children[i], depth + 1]);
    }
    return rows;
  }
}

// A Node is a span, or a model turn with the spans that continue it.
export class Node {
  constructor(bar) {
    this.bar = bar;
    this.id = bar.id;
    this.parts = [bar.id];
    this.op = bar.op ?? "";
    this.start = bar.start;
    this.end = bar.end;
    this.failure = bar.failure ?? "";
    this.firstChunk = bar.firstChunk ? bar.start + bar.firstChunk : 0;
    this.text = absolute(bar, bar.text);
    this.thinking = absolute(bar, bar.thinking);
    this.events = absolute(bar, bar.events);
    this.parent = null;
    this.children = [];
    this.depth = 0;
    this.row = -1;
    const word = prefixed[this.op];
    const ours = word && bar.name.startsWith(word + " ");
    this.title = ours ? bar.name.slice(word.length + 1) : bar.tool || bar.name;
    this.prefix = ours && this.op !== "agent" ? word : "";
  }

  get duration() { return this.end - this.start; }

  append(bar) {
    this.parts.push(bar.id);
    this.end = Math.max(this.end, bar.end);
    this.failure ||= bar.failure ?? "";
    this.text = this.text.concat(absolute(bar, bar.text));
    this.thinking = this.thinking.concat(absolute(bar, bar.thinking));
    this.events = this.events.concat(absolute(bar, bar.events));
  }

  // notes are what the bar does not say.
  notes() {
    return [this.failure, this.bar.executable, this.bar.estimated && "times estimated"].filter(Boolean);
  }

  mentions(lower) {
    return this.bar.name.toLowerCase().includes(lower) || this.failure.toLowerCase().includes(lower) ||
      (this.bar.executable ?? "").toLowerCase().includes(lower) || this.id.startsWith(lower);
  }
}

function byTime(a, b) {
  return a.start - b.start || a.end - b.end || (a.id < b.id ? -1 : 1);
}

// absolute makes the instants of events microseconds since 1970, in order.
function absolute(bar, offsets = []) {
  const at = offsets.map((o) => bar.start + o);
  return at.every((t, i) => i === 0 || at[i - 1] <= t) ? at : at.sort((a, b) => a - b);
}

// lanes parts nodes so that none overlaps another of its lane; what finds no
// lane goes to the last.
export function lanes(nodes, most) {
  const ends = [];
  return nodes.map((node) => {
    let lane = ends.findIndex((end) => end <= node.start);
    if (lane < 0) lane = ends.length < most ? ends.push(0) - 1 : most - 1;
    ends[lane] = Math.max(ends[lane], node.end);
    return { node, lane };
  });
}
