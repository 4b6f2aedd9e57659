// Sizes in the waterfall, in pixels.
export const axisHeight = 28;
export const rowHeight = 24;
export const indent = 14;
