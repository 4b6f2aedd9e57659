// @ts-check
// Two sessions step by step: which steps they share, in order, and where they
// first do something else.

import { longestCommon } from "./reading.js";
import { toolName } from "./breakdown.js";

const mostSteps = 1500; // of each: their product is what it takes

// stepsOf are what an agent did, in order: its turns and calls.
/** @param {Trace} trace */
function stepsOf(trace) {
  return trace.nodes.filter((n) => n.op === "chat" || n.op === "tool" || n.op === "approval");
}

// signature says what makes two steps the same. Turns are the same whatever
// they said; calls are, if they were about the same.
/** @param {TraceNode} n */
function signature(n) {
  if (n.op === "chat") return "chat";
  return `${n.op} ${n.op === "tool" ? toolName(n) : n.title} ${n.detail}`;
}

// align pairs the steps of two traces. Each pair has one from the left, one
// from the right, or both; diverged is the index of the first that is not both,
// or whose outcome differs.
/** @param {Trace} left @param {Trace} right */
export function align(left, right) {
  const a = stepsOf(left).slice(0, mostSteps), b = stepsOf(right).slice(0, mostSteps);
  const rows = weave(a, b);
  const diverged = rows.findIndex(differs);
  const cut = stepsOf(left).length > mostSteps || stepsOf(right).length > mostSteps;
  return { rows, diverged, cut };
}

/** @type {(pair: Pair) => boolean} */
const differs = ({ left, right }) => !left || !right || Boolean(left.failure) !== Boolean(right.failure);

// alignLines pairs the rows of two waterfalls, and says on which lines differences begin.
/** @param {TraceNode[]} left @param {TraceNode[]} right */
export function alignLines(left, right) {
  const lines = [...weave(left.slice(0, mostSteps), right.slice(0, mostSteps)), ...weave(left.slice(mostSteps), []), ...weave([], right.slice(mostSteps))];
  return { lines, differences: lines.flatMap((line, i) => (differs(line) && (i === 0 || !differs(lines[i - 1])) ? [i] : [])) };
}

// weave pairs what is the same in two lists, in order.
/** @param {TraceNode[]} a @param {TraceNode[]} b */
function weave(a, b) {
  const { pairs } = longestCommon(a.map(signature), b.map(signature));
  /** @type {Pair[]} */
  const rows = [];
  let i = 0, j = 0;
  for (const [x, y] of [...pairs, [a.length, b.length]]) {
    while (i < x) rows.push({ left: a[i++], right: null });
    while (j < y) rows.push({ left: null, right: b[j++] });
    if (x < a.length) rows.push({ left: a[i++], right: b[j++] });
  }
  return rows;
}
