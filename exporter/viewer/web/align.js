// @ts-check
// Two sessions step by step: which steps they share, in order, and where they
// first do something else.

import { longestCommon } from "./reading.js";
import { toolName } from "./breakdown.js";

const mostSteps = 1500; // of each: their product is what it takes

// stepsOf are what an agent did, in order: its turns and calls.
/** @param {Trace} trace */
export function stepsOf(trace) {
  return trace.nodes.filter((n) => n.op === "chat" || n.op === "tool" || n.op === "approval");
}

// signature says what makes two steps the same. Turns are the same whatever
// they said; calls are, if they were about the same.
/** @param {TraceNode} n */
export function signature(n) {
  if (n.op === "chat") return "chat";
  return `${n.op} ${n.op === "tool" ? toolName(n) : n.title} ${n.detail}`;
}

// align pairs the steps of two traces. Each pair has one from the left, one
// from the right, or both; diverged is the index of the first that is not both,
// or whose outcome differs.
/** @param {Trace} left @param {Trace} right */
export function align(left, right) {
  const a = stepsOf(left).slice(0, mostSteps), b = stepsOf(right).slice(0, mostSteps);
  const { pairs } = longestCommon(a.map(signature), b.map(signature));
  /** @type {{ left: TraceNode | null, right: TraceNode | null }[]} */
  const rows = [];
  let i = 0, j = 0;
  for (const [x, y] of [...pairs, [a.length, b.length]]) {
    while (i < x) rows.push({ left: a[i++], right: null });
    while (j < y) rows.push({ left: null, right: b[j++] });
    if (x < a.length) rows.push({ left: a[i++], right: b[j++] });
  }
  const diverged = rows.findIndex((r) => !r.left || !r.right || Boolean(r.left.failure) !== Boolean(r.right.failure));
  const cut = stepsOf(left).length > mostSteps || stepsOf(right).length > mostSteps;
  return { rows, diverged, cut };
}
