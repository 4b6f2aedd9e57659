// @ts-check
// What a session comes down to: its tools, the slowest steps, and how its
// context and cost grew.

import { slowest, usage } from "./breakdown.js";
import { h } from "./dom.js";
import { roughly } from "./format.js";
import { strip, toolTable } from "./strip.js";
import { rowDetail, rowName, tokens } from "./words.js";

/** @param {Trace} trace @param {{ select: Select, filter(word: string): void }} on */
export function summary(trace, { select, filter }) {
  const steps = slowest(trace), used = usage(trace), { timeless } = trace;
  return [
    !timeless && h("h2", {}, "Where the time went"),
    !timeless && strip(trace, filter)(),
    !timeless && h("h2", {}, "Slowest steps"),
    !timeless && steps.length > 0 && h("ol", { class: "slowest" }, steps.map((n) => h("li", {},
      h("button", { type: "button", class: "go", onclick: () => select(n.id) },
        h("b", {}, h("bdi", {}, rowName(n, trace.session))), " ", h("bdi", { class: "about" }, rowDetail(n, trace.session.folder)),
        n.failure && h("span", { class: "red" }, ` ${n.failure}`)),
      h("span", { class: "num" }, trace.took(n))))),
    h("h2", {}, "Tools"), toolTable(trace, filter),
    used.turns.length > 0 && h("h2", {}, used.input ? "Context by turn" : "Usage"),
    used.turns.length > 0 && context(used, select),
  ];
}

// context has a bar for each model call: what it read, the cached part darker.
/** @param {ReturnType<typeof usage>} used @param {Select} select */
function context({ turns, ...sums }, select) {
  const most = Math.max(1, ...turns.map((t) => t.input));
  const shown = turns.slice(-200);
  return h("div", {},
    h("p", { class: "dim" }, tokens(sums).join(" · ")),
    sums.input > 0 && h("div", { class: "context", role: "list" }, shown.map((t, i) => {
      const label = `turn ${t.node.bar.turn ?? i + 1}: ${tokens(t).join(", ")}`;
      const bar = h("i"), cached = h("i", { class: "cached" });
      bar.style.height = `${Math.max(2, 100 * t.input / most)}%`;
      cached.style.height = `${t.input ? 100 * Math.min(1, t.cached / t.input) : 0}%`;
      bar.append(cached);
      return h("div", { role: "listitem" }, h("button", { type: "button", class: t.inner ? "inner" : "", title: label, "aria-label": label, onclick: () => select(t.node.id) }, bar));
    })),
    sums.input > 0 && h("p", { class: "dim" }, `The largest context was ${roughly(most)} ${most === 1 ? "token" : "tokens"}.`));
}
