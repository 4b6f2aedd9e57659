// @ts-check
// The divider between the waterfall and what is beside it, which moves by mouse and keyboard.

import { h, store, stored } from "./dom.js";

const key = "spantee.side";
const least = 20, usual = 40, most = 75; // percent of the width

/** @param {HTMLElement} split what is divided */
export function divider(split) {
  const element = h("div", { class: "divider", role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": "Width of the transcript", "aria-valuemin": least, "aria-valuemax": most });
  let side = Number(stored(key)) || usual;
  /** @param {number} percent */
  const set = (percent) => {
    side = Math.min(Math.max(percent, least), most);
    split.style.setProperty("--side", `${side}%`);
    element.setAttribute("aria-valuenow", String(Math.round(side)));
    store(key, String(side));
  };
  set(side);
  element.addEventListener("pointerdown", (e) => {
    e.preventDefault();
    element.setPointerCapture(e.pointerId);
  });
  element.addEventListener("pointermove", (e) => {
    if (!element.hasPointerCapture(e.pointerId)) return;
    const box = split.getBoundingClientRect();
    set(100 * (box.right - e.clientX) / box.width);
  });
  element.addEventListener("keydown", (e) => {
    if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
    e.preventDefault();
    set(side + (e.key === "ArrowLeft" ? 2 : -2));
  });
  element.addEventListener("dblclick", () => set(usual));
  return element;
}
