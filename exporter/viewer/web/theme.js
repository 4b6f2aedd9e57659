// @ts-check
// The theme follows the system until the button says otherwise.

import { h, store, stored } from "./dom.js";

const key = "spantee.theme";
/** @type {Record<string, string>} */
const next = { auto: "light", light: "dark", dark: "auto" };
const system = matchMedia("(prefers-color-scheme: dark)");
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Map<string, string>} */
const resolved = new Map();
/** @type {HTMLElement | undefined} */
let probe;

const last = stored(key) ?? "";
let chosen = next[last] ? last : "auto";

function apply() {
  document.documentElement.style.colorScheme = chosen === "auto" ? "" : chosen;
  resolved.clear();
  for (const f of listeners) f();
}

/** @param {HTMLElement} button */
export function startTheme(button) {
  listeners.add(() => { button.textContent = `Theme: ${chosen === "auto" ? "system" : chosen}`; });
  button.addEventListener("click", () => {
    chosen = next[chosen];
    store(key, chosen);
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

// onTheme calls f whenever colors have changed, until signal is aborted.
/** @param {() => void} f @param {AbortSignal} signal */
export function onTheme(f, signal) {
  listeners.add(f);
  signal.addEventListener("abort", () => listeners.delete(f));
}

// color is a color of base.css as a canvas takes it: there a custom property
// would be the light-dark() it was written as.
/** @param {string} name */
export function color(name) {
  let c = resolved.get(name);
  if (c === undefined) {
    probe ??= document.body.appendChild(h("span", { hidden: true }));
    probe.style.color = `var(--${name})`;
    c = getComputedStyle(probe).color;
    resolved.set(name, c);
  }
  return c;
}
