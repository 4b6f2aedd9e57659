// @ts-check
// Sizes in the waterfall, in pixels.
export const axisHeight = 24;
export const rowHeight = 24;
const indent = 14;

// lead is where the row of a node begins. Where there is little room, rows move left.
/** @type {(n: TraceNode, narrow: boolean) => number} */
export const lead = (n, narrow) => (narrow ? 4 + n.depth * 8 : 14 + n.depth * indent);
