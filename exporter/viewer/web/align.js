// @ts-check
// Two sessions step by step: which steps they share, in order.

import { toolName } from "./breakdown.js";
import { weave } from "./reading.js";

const mostSteps = 1500; // of each: their product is what it takes

// signature says what makes two steps the same. Turns are the same whatever
// they said; calls are, if they were about the same.
/** @param {TraceNode} n */
function signature(n) {
  if (n.op === "chat") return "chat";
  return `${n.op} ${n.op === "tool" ? toolName(n) : n.title} ${n.detail}`;
}

/** @type {(pair: Pair) => boolean} */
const differs = ({ left, right }) => !left || !right || Boolean(left.failure) !== Boolean(right.failure);

// alignLines pairs the rows of two waterfalls, and says on which lines differences begin.
/** @param {TraceNode[]} left @param {TraceNode[]} right */
export function alignLines(left, right) {
  const cut = mostSteps, lines = [...weave(left.slice(0, cut), right.slice(0, cut), signature), ...weave(left.slice(cut), [], signature), ...weave([], right.slice(cut), signature)];
  return { lines, differences: lines.flatMap((line, i) => (differs(line) && (i === 0 || !differs(lines[i - 1])) ? [i] : [])) };
}
