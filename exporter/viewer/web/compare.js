// Two sessions side by side, on one scale of time that both start on.

import { timeSpent, toolStats } from "./breakdown.js";
import { h } from "./dom.js";
import { count, duration } from "./format.js";
import { Loader, facts } from "./session.js";
import { strip } from "./strip.js";
import { Timeline } from "./timeline.js";
import { Waterfall } from "./waterfall.js";

export function compareView({ main, crumbs, signal }, ...ids) {
  crumbs.replaceChildren(h("a", { href: "#/" }, "Sessions"), h("span", {}, "Compare"));
  const timeline = new Timeline();
  const table = h("div", { class: "page" });
  const sides = ids.map((id) => {
    const head = h("div", { class: "head" });
    const spent = h("div", { class: "spent" });
    const waterfall = new Waterfall(timeline, signal, {
      select() {},
      open: (n) => { location.hash = `#/trace/${id}/${n.id}`; },
    }, 230);
    const element = h("section", { class: "side" }, head, spent, waterfall.element);
    const side = { element, waterfall, trace: null };
    side.loader = new Loader(id, signal, (trace) => {
      side.trace = trace;
      const [title, list] = facts(trace);
      list.lastChild.remove(); // the id: the headline leads there
      head.replaceChildren(h("a", { href: `#/trace/${id}` }, title), list);
      spent.replaceChildren(...strip(trace));
      timeline.extend(Math.max(...sides.map((s) => s.trace?.duration ?? 0)));
      waterfall.show(trace);
      if (sides.every((s) => s.trace)) table.replaceChildren(difference(...sides.map((s) => s.trace)));
    }, (e) => head.replaceChildren(h("p", {}, `${id}: ${e.message}`)));
    return side;
  });
  main.append(h("div", { class: "sides" }, sides.map((s) => s.element)), table);
  return { changed: (changed) => sides.forEach((s) => s.loader.changed(changed)) };
}

// difference has a line for everything that took time in one of the two.
function difference(a, b) {
  const lines = new Map();
  const put = (key, label, side, us, calls) => {
    const line = lines.get(key) ?? { label, us: [0, 0], calls: ["", ""] };
    line.us[side] = us;
    line.calls[side] = calls;
    lines.set(key, line);
  };
  [a, b].forEach((trace, side) => {
    const calls = new Map(toolStats(trace).map((s) => [s.tool, count(s.calls)]));
    put("", "whole session", side, trace.duration, "");
    for (const p of timeSpent(trace).parts) put(p.key, p.label, side, p.us, p.order === 2 ? calls.get(p.label) : "");
  });
  const rows = [...lines.values()].sort((x, y) => Math.max(...y.us) - Math.max(...x.us));
  const time = (us) => (us === 0 ? "–" : duration(us));
  const signed = (us) => (us === 0 ? "–" : (us > 0 ? "+" : "") + duration(us));
  return h("table", { class: "stats difference" },
    h("thead", {}, h("tr", {}, ["Time in", "Left", "calls", "Right", "calls", "Difference"].map((t, i) => h("th", { scope: "col", class: i ? "num" : "" }, t)))),
    h("tbody", {}, rows.map((r) => h("tr", {},
      h("th", { scope: "row" }, r.label),
      h("td", { class: "num" }, time(r.us[0])), h("td", { class: "num dim" }, r.calls[0] || "–"),
      h("td", { class: "num" }, time(r.us[1])), h("td", { class: "num dim" }, r.calls[1] || "–"),
      h("td", { class: "num" }, signed(r.us[1] - r.us[0]))))));
}
