// Tabs, of which one is shown.

import { h } from "./dom.js";

export function tabs(label, list, changed) {
  const panels = new Map();
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const element = h("aside", { class: "side-panel" }, bar);
  const side = { element, chosen: list[0][0] };
  for (const [name, content] of list) {
    const key = name.toLowerCase();
    const tab = h("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": `panel-${key}`, onclick: () => side.choose(name) }, name);
    const panel = h("div", { class: "panel", role: "tabpanel", id: `panel-${key}`, "aria-labelledby": `tab-${key}`, tabindex: "0" }, content);
    tab.addEventListener("keydown", (e) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!way) return;
      const names = [...panels.keys()];
      side.choose(names[(names.indexOf(name) + way + names.length) % names.length]);
      panels.get(side.chosen).tab.focus();
    });
    panels.set(name, { tab, panel });
    bar.append(tab);
    element.append(panel);
  }
  side.choose = (name) => {
    if (panels.has(name)) side.chosen = name;
    for (const [each, { tab, panel }] of panels) {
      tab.setAttribute("aria-selected", String(each === side.chosen));
      tab.tabIndex = each === side.chosen ? 0 : -1;
      panel.hidden = each !== side.chosen;
    }
    changed();
    return panels.get(side.chosen).panel;
  };
  // raise brings the panel into sight where it lies below.
  side.raise = () => {
    if (matchMedia("(max-width: 900px)").matches) element.scrollIntoView({ block: "end", behavior: "auto" });
  };
  for (const [each, { tab, panel }] of panels) {
    tab.setAttribute("aria-selected", String(each === side.chosen));
    tab.tabIndex = each === side.chosen ? 0 : -1;
    panel.hidden = each !== side.chosen;
  }
  return side;
}
