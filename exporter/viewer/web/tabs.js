// @ts-check
// Tabs, of which one is shown.

import { h } from "./dom.js";

/** @param {string} label @param {[string, Element][]} list @param {() => void} changed */
export function tabs(label, list, changed) {
  /** @type {Map<string, { tab: HTMLElement, panel: HTMLElement }>} */
  const panels = new Map();
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const element = h("aside", { class: "side-panel" }, bar);
  /** @param {string} name */
  const choose = (name) => {
    if (panels.has(name)) side.chosen = name;
    show();
    changed();
    return panels.get(side.chosen)?.panel;
  };
  const show = () => {
    for (const [each, { tab, panel }] of panels) {
      tab.setAttribute("aria-selected", String(each === side.chosen));
      tab.tabIndex = each === side.chosen ? 0 : -1;
      panel.hidden = each !== side.chosen;
    }
  };
  // raise brings the panel into sight where it lies below.
  const raise = () => { if (matchMedia("(max-width: 900px)").matches) element.scrollIntoView({ block: "end", behavior: "auto" }); };
  const side = { element, chosen: list[0][0], choose, raise };
  for (const [name, content] of list) {
    const key = name.toLowerCase();
    const tab = h("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": `panel-${key}`, onclick: () => choose(name) }, name);
    const panel = h("div", { class: "panel", role: "tabpanel", id: `panel-${key}`, "aria-labelledby": `tab-${key}`, tabindex: "0" }, content);
    tab.addEventListener("keydown", (e) => {
      if (e.key !== "ArrowRight" && e.key !== "ArrowLeft") return;
      const way = e.key === "ArrowRight" ? 1 : -1, names = [...panels.keys()];
      choose(names[(names.indexOf(name) + way + names.length) % names.length]);
      panels.get(side.chosen)?.tab.focus();
    });
    panels.set(name, { tab, panel });
    bar.append(tab);
    element.append(panel);
  }
  show();
  return side;
}
