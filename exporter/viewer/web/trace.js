// @ts-check
// A Trace is what came of one trace, as a tree of nodes. It grows.

import { duration } from "./format.js";

export class Trace {
  /** @type {Session} */ session;
  /** @type {Map<string, Node>} */ byId = new Map();
  start = 0;
  end = 0;
  least = 2; // the shortest time that says something

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.seq = 0;
    /** @type {Map<string, Bar>} */
    this.bars = new Map(); // of spans that ended, by id
    /** @type {Map<string, Bar>} */
    this.open = new Map(); // of those that did not
    /** @type {TraceNode[]} */
    this.nodes = [];
    /** @type {TraceNode[]} */
    this.tops = [];
    /** @type {TraceNode | null} */
    this.root = null;
  }

  // merge takes what the viewer says of the spans that are new, and of all that
  // are open. Nodes are changed in place unless some come or go.
  /** @param {Overview} overview */
  merge(overview) {
    this.session = overview.session;
    this.seq = overview.seq;
    const open = new Map(overview.open.map((bar) => [bar.id, bar]));
    const same = !overview.spans.length && this.nodes.length > 0 &&
      open.size === this.open.size && [...open.keys()].every((id) => this.open.has(id));
    this.open = open;
    for (const bar of overview.spans) this.bars.set(bar.id, bar);
    if (same) for (const bar of open.values()) this.byId.get(bar.id)?.replace(bar);
    if (same && this.nodes.every((n) => !n.open || n.parts.length === 1)) this.tick(this.at);
    else this.link();
  }

  link() {
    const bars = [...this.bars.values()];
    for (const bar of this.open.values()) if (!this.bars.has(bar.id)) bars.push(bar);
    bars.sort(byTime);
    /** @type {Map<string, Node>} */
    const byId = new Map();
    this.nodes = [];
    for (const bar of [...bars.filter((b) => b.op !== "deltas"), ...bars.filter((b) => b.op === "deltas")]) {
      const chat = bar.op === "deltas" ? byId.get(bar.parent) : undefined, node = chat ?? new Node(bar), { content = "", words = "" } = this.byId.get(bar.id) ?? {};
      if (!chat) Object.assign(node, { content, words });
      byId.set(bar.id, node);
      if (chat) chat.append(bar);
      else this.nodes.push(node); // deltas stand in for a chat that is missing
    }
    this.byId = byId;
    this.least = bars.every((b) => b.coarse) ? 999 : 2;
    this.connect(byId);
    if (this.timeless) for (let at = 0, i = 0; i < this.tops.length; i++) at = spread(this.tops[i], at);
    this.start = this.nodes[0]?.start ?? 0;
    for (const n of this.nodes) this.start = Math.min(this.start, n.start);
    this.tick(this.at);
  }

  // time writes a duration. What has no time is given a microsecond, and spantee knows milliseconds, of which it leaves one microsecond free.
  /** @param {number} us */
  time(us) { return this.timeless || us < this.least ? "" : duration(us); }

  // stated writes a duration, and whether it rests on an inferred start or end.
  /** @param {number} us @param {boolean} estimated */
  stated(us, estimated) { return this.time(us) && this.time(us) + (estimated ? " estimated" : ""); }
  /** @param {Node} n */
  took(n) { return this.stated(n.duration, n.estimated); }

  // timeless tells that only the order of the steps is known.
  get timeless() { return Boolean(this.session?.timeless && !this.session.now); }

  /** @param {Map<string, Node>} byId */
  connect(byId) {
    /** @type {(n: Node) => boolean} */
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
    for (const n of this.nodes) n.inner = innerAgent(n);
    for (const n of [null, ...this.nodes]) groupTurns(n ? n.children : this.tops, n);
  }

  // tick sets the time, in microseconds since 1970. Open spans last until then, and those
  // that nobody will end until they were last heard of. A span that its process still
  // holds back, but no longer lets last until its reports, has ended.
  /** @param {number} [at] */
  tick(at) {
    this.at = at;
    const { gone = false, asked = 0 } = this.session?.now ?? {};
    this.end = this.start;
    for (const n of this.nodes) {
      if (n.open && n.bar.end + late < asked) n.open = false;
      if (n.open) n.end = gone || !at ? Math.max(n.start, n.bar.end) : Math.max(n.start, n.bar.end, at);
      this.end = Math.max(this.end, n.end);
    }
  }

  get live() { return this.open.size > 0 && !this.session?.now?.gone; }
  get duration() { return this.end - this.start; }
  get ran() { return this.root ? this.tops.reduce((end, n) => Math.max(end, n.end), 0) - this.start : this.duration; } // background work may end later

  // rows are the nodes in the order they are drawn. Only those that match, and
  // what they belong to, if match is given.
  /** @param {Set<string>} collapsed @param {Match | null} [match] */
  rows(collapsed, match) {
    /** @type {Set<Node> | null} */
    const wanted = match ? new Set() : null;
    if (match && wanted) {
      for (const n of this.nodes) {
        if (!match(n)) continue;
        /** @type {Node | null} */
        let p = n;
        for (; p && !wanted.has(p); p = p.above) wanted.add(p);
      }
    }
    for (const n of this.nodes) n.row = -1;
    /** @type {Node[]} */
    const rows = [];
    const stack = this.tops.filter((n) => !n.above).map((n) => ({ n, depth: 0 })).reverse();
    for (let next = stack.pop(); next; next = stack.pop()) {
      const { n, depth } = next;
      if (wanted && !wanted.has(n)) continue;
      n.depth = depth;
      n.row = rows.push(n) - 1;
      if (collapsed.has(n.id)) continue;
      for (let i = n.below.length - 1; i >= 0; i--) stack.push({ n: n.below[i], depth: depth + 1 });
    }
    return rows;
  }
}

// spread gives a node equal steps instead of times, and returns the next one.
/** @param {Node} n @param {number} step @returns {number} */
function spread(n, step) {
  Object.assign(n, { start: step, firstChunk: 0, text: [], thinking: [], marks: [], estimated: false });
  for (const child of n.children) step = spread(child, step);
  n.end = n.children.length ? step : step + 1e6;
  return n.end;
}

// innerAgent is the sub-agent that a node works for, or null.
/** @param {Node} n */
function innerAgent(n) {
  for (let p = n.op === "agent" ? n.parent : n; p; p = p.parent) {
    if (p.op === "agent") return p.parent ? p : null;
  }
  return null;
}

// groupTurns sets what is drawn below what: the calls of a turn below the chat
// that asked for them, if the spans say which turn they belong to.
/** @param {Node[]} siblings @param {Node | null} parent */
function groupTurns(siblings, parent) {
  /** @type {Map<number, Node>} */
  const chats = new Map();
  for (const n of siblings) if (n.op === "chat" && n.bar.turn) chats.set(n.bar.turn, n);
  for (const n of siblings) {
    n.above = (n.op !== "chat" && chats.get(n.bar.turn ?? 0)) || parent;
    if (n.above) n.above.below.push(n);
  }
}

// late is how far the reports of several processes may be apart, in microseconds.
const late = 1.5e6;

// A Node is a span, or a turn of the model with the spans that hold more of its deltas.
export class Node {
  /** @type {Bar} */ bar;
  /** @type {string[]} */ parts;
  /** @type {number[]} */ text;
  /** @type {number[]} */ thinking;
  /** @type {Mark[]} */ marks;
  start = 0;
  end = 0;
  firstChunk = 0;
  chunks = 0;
  open = false;
  estimated = false;
  failure = "";
  title = "";
  prefix = "";
  detail = "";
  content = ""; // what a filter finds
  words = ""; // the first that a turn says

  /** @param {Bar} bar */
  constructor(bar) {
    this.id = bar.id;
    this.op = bar.op === "deltas" ? "chat" : bar.op ?? "";
    /** @type {Node | null} */
    this.parent = null;
    /** @type {Node | null} */
    this.above = null; // the one it is drawn below
    /** @type {Node | null} */
    this.inner = null; // the sub-agent it works for
    /** @type {Node[]} */
    this.children = [];
    /** @type {Node[]} */
    this.below = [];
    this.depth = 0;
    this.row = -1;
    this.replace(bar);
  }

  /** @param {Bar} bar */
  replace(bar) {
    this.bar = bar;
    this.open = Boolean(bar.open);
    this.parts = [bar.id];
    this.start = bar.start;
    this.end = bar.end;
    this.failure = bar.failure ?? "";
    this.estimated = Boolean(bar.startInferred || bar.endInferred);
    this.firstChunk = bar.firstChunk ? bar.start + bar.firstChunk : 0;
    this.chunks = bar.chunks ?? 0;
    this.text = absolute(bar, bar.text);
    this.thinking = absolute(bar, bar.thinking);
    this.marks = (bar.marks ?? []).map((m) => ({ name: m.name, at: bar.start + m.at }));
    this.title = bar.title || bar.name;
    this.prefix = this.op === this.title ? "" : { background: "background", approval: "waits for approval of" }[this.op] ?? "";
    this.detail = bar.detail ?? "";
  }

  get duration() { return this.end - this.start; }

  /** @param {Bar} bar */
  append(bar) {
    this.parts.push(bar.id);
    this.end = Math.max(this.end, bar.end);
    this.failure ||= bar.failure ?? "";
    this.chunks += bar.chunks ?? 0;
    this.text = this.text.concat(absolute(bar, bar.text));
    this.thinking = this.thinking.concat(absolute(bar, bar.thinking));
    this.marks = this.marks.concat((bar.marks ?? []).map((m) => ({ name: m.name, at: bar.start + m.at })));
  }

  // notes are what the bar does not say.
  notes() {
    const { executable } = this.bar, unsaid = executable && !this.detail && !this.title.endsWith(` ${executable}`);
    return [this.failure, unsaid && executable, this.estimated && "times estimated"].filter(Boolean);
  }

  // holdsAgent tells a tool call whose time is that of a sub-agent.
  get holdsAgent() { return this.op === "tool" && this.children.some((n) => n.op === "agent"); }
}

/** @type {(a: Bar, b: Bar) => number} */
const byTime = (a, b) => a.start - b.start || a.end - b.end || (a.id < b.id ? -1 : 1);

// absolute makes the instants of events microseconds since 1970, in order.
/** @param {Bar} bar @param {number[]} offsets */
function absolute(bar, offsets = []) {
  const at = offsets.map((o) => bar.start + o);
  return at.every((t, i) => i === 0 || at[i - 1] <= t) ? at : at.sort((a, b) => a - b);
}

// lanes parts nodes so that none overlaps another of its lane; what finds no
// lane goes to the last.
/** @template {{ start: number, end: number }} T @param {T[]} nodes @param {number} most */
export function lanes(nodes, most) {
  /** @type {number[]} */
  const ends = [];
  return nodes.map((node) => {
    let lane = ends.findIndex((end) => end <= node.start);
    if (lane < 0) lane = ends.length < most ? ends.push(0) - 1 : most - 1;
    ends[lane] = Math.max(ends[lane], node.end);
    return { node, lane };
  });
}
