// @ts-check
// The fields that choose sessions, in the list and in runs over time.

import { fill, h } from "./dom.js";
import { folderName } from "./words.js";

// times are in hours.
const times = [["", "any time"], ["1", "last hour"], ["24", "last day"], ["168", "last 7 days"], ["720", "last 30 days"]];

const hint = "Words are found by their beginning. Fields: tool, agent, model, file, failed, id, text";

export class Filters {
  // changed is told when something else was chosen.
  /** @param {URLSearchParams} address @param {string[][]} states @param {() => void} changed */
  constructor(address, states, changed) {
    this.address = address;
    this.search = h("input", { type: "search", placeholder: "Search: words, \"a phrase\", tool:shell, file:main.go", title: hint, "aria-label": "Search" });
    this.search.value = address.get("q") ?? "";
    /** @type {(label: string) => HTMLSelectElement} */
    const select = (label) => h("select", { "aria-label": label, onchange: changed });
    this.state = select("State");
    this.time = select("Time");
    this.agent = select("Agent");
    this.model = select("Model");
    this.folder = select("Project");
    options(this.state, states, address.get("state"));
    options(this.time, times, address.get("time"));
    this.search.addEventListener("input", changed);
    this.elements = [this.search, this.state, this.time, this.agent, this.model, this.folder];
  }

  // chosen is what was chosen, as the address has it. Until the first answer there are no agents and models to choose from.
  /** @returns {Filtered} */
  get chosen() {
    /** @type {(select: HTMLSelectElement, key: string) => string} */
    const choice = (select, key) => (select.options.length ? select.value : this.address.get(key) ?? "");
    return { q: this.search.value.trim(), state: this.state.value, time: this.time.value, agent: choice(this.agent, "agent"), model: choice(this.model, "model"), folder: choice(this.folder, "folder") };
  }

  /** @param {{ agents: string[], models: string[], folders: string[] }} there */
  offer({ agents, models, folders }) {
    choices(this.agent, "all agents", agents, this.address.get("agent"));
    choices(this.model, "all models", models, this.address.get("model"));
    const ends = folders.map((path) => folderName(path));
    choices(this.folder, "all projects", folders, this.address.get("folder"), (path) => folderName(path, ends.filter((end) => end === folderName(path)).length > 1 ? 2 : 1));
  }
}

// since is when the time that was chosen begins, in microseconds.
/** @type {(time: string) => number} */
export const since = (time) => (time ? (Date.now() - Number(time) * 3600e3) * 1e3 : 0);

// parameters are those of the API for what was chosen.
/** @param {Filtered} chosen */
export function parameters({ state, time, ...rest }) {
  return new URLSearchParams({
    ...rest, failed: state === "failed" ? "1" : "", running: state === "running" || state === "stuck" ? "1" : "",
    since: time ? String(since(time)) : "",
  });
}

/** @param {HTMLSelectElement} select @param {string} all @param {string[]} values @param {string | null} wanted */
function choices(select, all, values, wanted, name = (/** @type {string} */ v) => v) {
  const have = [...select.options].slice(1).map((o) => o.value);
  if (select.options.length && have.length === values.length && have.every((v, i) => v === values[i])) return;
  const chosen = select.options.length ? select.value : wanted;
  options(select, [["", all], ...values.map((v) => [v, name(v)])], chosen);
}

/** @param {HTMLSelectElement} select @param {string[][]} list @param {string | null} chosen */
function options(select, list, chosen) {
  fill(select, list.map(([value, name]) => h("option", { value, selected: value === chosen }, name)));
}
