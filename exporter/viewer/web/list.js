// @ts-check
// The list of sessions.

import { getHits, listSessions, offline } from "./api.js";
import { dropFiles } from "./drop.js";
import { fill, h } from "./dom.js";
import { writeAddress } from "./finding.js";
import { count, duration, exactMoment, moment, money, plural, roughly, size } from "./format.js";
import { marked } from "./hits.js";
import { folderName, headline, present, state, what, who } from "./words.js";

const columns = [
  ["", "pick"], ["Session", "name"], ["Started", "num", "started"], ["Duration", "num", "duration"], ["Tools", "num", "tools"],
  ["Errors", "num", "errors"], ["Tokens in", "num", "input"], ["Tokens out", "num", "output"], ["Cost", "num", "cost"],
];

// interval is how often the list is drawn at most, in milliseconds.
const interval = 500;

/** @param {Place} place @returns {View} */
export function listView({ main, signal, address }) {
  const search = h("input", { type: "search", placeholder: "Search: words, \"a phrase\", tool:shell, file:main.go", title: "Words are found by their beginning. Fields: tool, agent, model, file, failed, id, text", "aria-label": "Search", autofocus: true });
  const agent = h("select", { "aria-label": "Agent" });
  const model = h("select", { "aria-label": "Model" });
  const failed = h("input", { type: "checkbox" });
  const compare = h("a", { class: "button", hidden: true }, "Compare the two");
  const body = h("tbody");
  let sort = address.get("sort") ?? "";
  const heads = columns.map(([name, kind, key]) => h("th", { class: kind, scope: "col" },
    key ? h("button", { type: "button", class: "quiet", onclick: () => sortBy(key) }, name) : name || h("span", { class: "unseen" }, "Compare")));
  const table = h("table", { class: "sessions" }, h("thead", {}, h("tr", {}, heads)), body);
  const nothing = h("div", { class: "empty", hidden: true });
  const foot = h("p", { class: "foot" });
  main.append(
    h("div", { class: "tools" }, search, agent, model, h("label", { class: "check" }, failed, "with errors"), compare, h("span", { class: "grow" }),
      !offline && h("a", { class: "quiet", href: "#/runs" }, "Runs over time")),
    h("div", { class: "page" }, h("h1", { class: "unseen" }, "Sessions"), table, nothing, foot),
  );
  dropFiles(main, signal, foot);
  search.value = address.get("q") ?? "";
  failed.checked = address.get("failed") === "1";

  /** @type {Map<string, Row>} */
  const rows = new Map(); // by trace id
  /** @type {Set<string>} */
  const picked = new Set();
  let busy = false, again = false, drawn = 0;

  // Until the first answer there is nothing to choose from.
  /** @type {(select: HTMLSelectElement, key: string) => string} */
  const choice = (select, key) => (select.options.length ? select.value : address.get(key) ?? "");
  const query = () => ({ q: search.value.trim(), agent: choice(agent, "agent"), model: choice(model, "model"), failed: failed.checked ? "1" : "", sort });

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    const wait = drawn + interval - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      const asked = query();
      const list = await listSessions(new URLSearchParams(asked), signal);
      if (!signal.aborted) draw(offline ? filtered(list, query()) : list, asked.q);
    } catch (e) {
      if (!signal.aborted) foot.textContent = e.message;
    }
    busy = false;
    drawn = performance.now();
    if (again && !signal.aborted) {
      again = false;
      refresh();
    }
  }

  // chosen keeps what was chosen in the address, so that Back brings it back.
  function chosen() {
    history.replaceState(null, "", writeAddress([], query()));
    drawn = 0;
    refresh();
  }

  /** @param {string} key */
  function sortBy(key) {
    sort = sort === key ? `-${key}` : sort === `-${key}` ? "" : key;
    chosen();
  }

  /** @param {List} list @param {string} words */
  function draw(list, words) {
    choices(agent, "all agents", list.agents, address.get("agent"));
    choices(model, "all models", list.models, address.get("model"));
    for (const [i, [, , key]] of columns.entries()) {
      if (!key) continue;
      const way = sort === key || !sort && key === "started" ? "descending" : sort === `-${key}` ? "ascending" : "none";
      if (heads[i].getAttribute("aria-sort") !== way) heads[i].setAttribute("aria-sort", way);
    }
    const order = list.sessions.map((s) => {
      let row = rows.get(s.id);
      if (!row) {
        row = new Row(s, picked, pick);
        rows.set(s.id, row);
      }
      row.show(s, words);
      return row.element;
    });
    // Only if needed: what moves loses the focus.
    if (order.length !== body.children.length || order.some((el, i) => body.children[i] !== el)) body.replaceChildren(...order);
    table.hidden = !order.length;
    nothing.hidden = order.length > 0;
    if (!order.length) nothing.replaceChildren(...(list.total ? noMatch() : welcome()));
    set(foot, order.length ? footer(list) : "");
    askHits(list, words);
  }

  // Rows say where they have the words, one after the other.
  let asking = "";
  /** @param {List} list @param {string} words */
  async function askHits(list, words) {
    if (!words || asking === words) return;
    asking = words;
    for (const s of list.sessions) {
      if (rows.get(s.id)?.knows(words, s.came)) continue;
      const found = await getHits(s.id, words, signal).catch(() => null);
      if (signal.aborted || asking !== search.value.trim()) break;
      if (found) rows.get(s.id)?.showHits(found, words, s.came);
    }
    asking = "";
  }

  function pick() {
    const [a, b] = picked;
    compare.hidden = picked.size !== 2;
    compare.href = `#/compare/${a}/${b}`;
    for (const box of body.querySelectorAll("input")) box.disabled = picked.size === 2 && !box.checked;
  }

  // What runs now lasts a second longer every second.
  const clock = setInterval(() => {
    if (!document.hidden) for (const row of rows.values()) if (row.element.isConnected) row.tick();
  }, 1000);
  signal.addEventListener("abort", () => clearInterval(clock));
  for (const control of [agent, model, failed]) control.addEventListener("change", chosen);
  search.addEventListener("input", chosen);
  addEventListener("keydown", (e) => {
    if (e.key === "/" && e.target === document.body) {
      e.preventDefault();
      search.focus();
    }
  }, { signal });
  refresh();
  return { changed: refresh };
}

// A Row changes only the cells whose text has changed: there may be hundreds
// of rows, several times a second.
class Row {
  /** @type {Session} */ session;
  words = ""; // of the hits
  asked = 0;

  /** @param {Session} s @param {Set<string>} picked @param {() => void} changed */
  constructor(s, picked, changed) {
    this.box = h("input", { type: "checkbox", onchange: () => {
      if (this.box.checked) picked.add(s.id);
      else picked.delete(s.id);
      changed();
    } });
    this.dot = h("span", { class: "state", "aria-hidden": "true" });
    this.link = h("a", { href: `#/trace/${s.id}` });
    this.about = h("span", { class: "dim about" });
    this.outcome = h("span", { class: "outcome" });
    this.found = h("a", { class: "found", hidden: true });
    this.cells = columns.slice(2).map(() => h("td", { class: "num" }));
    this.element = h("tr", { "data-id": s.id },
      h("td", { class: "pick" }, this.box),
      h("td", { class: "name" }, h("div", { class: "line" }, this.dot, this.link), h("div", { class: "line" }, this.about, this.outcome), this.found),
      this.cells);
    this.element.addEventListener("click", (e) => {
      if (!(e.target instanceof Element && e.target.closest("input, a, .pick")) && !getSelection()?.toString()) location.hash = this.link.hash;
    });
  }

  /** knows reports whether the row has the hits of words, as of an instant. @param {string} words @param {number} came */
  knows(words, came) {
    return this.words === words && this.asked === came;
  }

  /** @param {Hits} found @param {string} words @param {number} came */
  showHits({ total, hits }, words, came) {
    this.words = words;
    this.asked = came;
    this.found.hidden = !hits.length;
    if (!hits.length) return;
    this.found.href = writeAddress(["trace", this.session.id, hits[0].span], { find: words });
    fill(this.found, h("span", { class: "hits" }, plural(total, "hit")), ` ${hits[0].name}: `, marked(hits[0].text));
  }

  /** @param {Session} s @param {string} words */
  show(s, words) {
    this.session = s;
    const title = headline(s);
    set(this.link, title);
    this.link.title = title;
    this.link.href = writeAddress(["trace", s.id], { find: words });
    this.box.setAttribute("aria-label", `Compare ${title}, ${moment(s.start)}`);
    set(this.about, [s.prompt && [who(s), what(s)].filter(Boolean).join(" "), s.folder && folderName(s), s.pinned && "pinned"].filter(Boolean).join(" · "));
    if (this.words !== words) this.found.hidden = true;
    const values = [
      moment(s.start), "", s.tools ? count(s.tools) : "–", s.errors ? count(s.errors) : "–",
      s.input ? roughly(s.input) : "–", s.output ? roughly(s.output) : "–", s.cost ? money(s.cost) : "–",
    ];
    values.forEach((v, i) => i !== 1 && set(this.cells[i], v));
    this.cells[0].title = exactMoment(s.start);
    this.cells[3].classList.toggle("red", s.errors > 0);
    if (s.input) this.cells[4].title = `${count(s.input)} tokens${s.cached ? `, ${count(s.cached)} cached` : ""}`;
    this.tick();
  }

  // tick shows what depends on the time of day.
  tick() {
    const s = this.session;
    const [kind, words] = state(s);
    const name = `state ${kind}`;
    if (this.dot.className !== name) {
      this.dot.className = name;
      this.outcome.className = `outcome ${kind}`;
    }
    set(this.outcome, words);
    set(this.cells[1], duration((s.now ? Math.max(s.end, present(s)) : s.end) - s.start));
  }
}

/** @param {Element} el @param {string} text */
function set(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

/** @param {HTMLSelectElement} select @param {string} all @param {string[]} values @param {string | null} wanted */
function choices(select, all, values, wanted) {
  const have = [...select.options].slice(1).map((o) => o.value);
  if (select.options.length && have.length === values.length && have.every((v, i) => v === values[i])) return;
  const chosen = select.options.length ? select.value : wanted;
  select.replaceChildren(h("option", { value: "" }, all), ...values.map((v) => h("option", { value: v }, v)));
  select.value = chosen && values.includes(chosen) ? chosen : "";
}

// filtered searches an exported page, which has no viewer to ask.
/** @param {List} list @param {{ q: string, failed: string }} query */
function filtered(list, { q, failed }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const sessions = list.sessions.filter((s) => {
    const text = JSON.stringify(s).toLowerCase();
    return words.every((w) => text.includes(w)) && (!failed || s.errors > 0);
  });
  return { ...list, agents: list.agents ?? [], models: list.models ?? [], sessions, matching: sessions.length };
}

/** @param {List} l */
function footer(l) {
  const facts = [];
  if (l.matching > l.sessions.length) facts.push(`the first ${count(l.sessions.length)} of ${count(l.matching)}, search to find the others`);
  else if (l.matching < l.total) facts.push(`${count(l.matching)} of ${plural(l.total, "session")}`);
  else if (l.total) facts.push(plural(l.total, "session"));
  if (l.total) facts.push(plural(l.spans, "span"));
  if (l.kept.limit) facts.push(`${size(l.kept.bytes)} of ${size(l.kept.limit)}${l.kept.memory ? " in memory: nothing is kept" : ""}`);
  if (l.kept.going.sessions) facts.push(`${plural(l.kept.going.sessions, "session")} not changed since ${moment(l.kept.going.before)} will be removed next: pin what should stay, or raise --keep`);
  return facts.join(" · ");
}

function noMatch() {
  return [h("h2", {}, "Nothing matches"), h("p", {}, "All words must match. Try fewer of them."),
    h("p", {}, "Also: \"a phrase\", tool:shell, agent:codex, model:gpt, file:main.go, failed:yes, id:17a8.")];
}

function welcome() {
  return [
    h("h2", {}, "No sessions yet"),
    h("p", {}, "Run an agent through spantee. It appears here while it works:"),
    h("pre", {}, 'cursor-agent -p --output-format stream-json --stream-partial-output "fix the failing test" | spantee | jq -r .type'),
    h("p", {}, "Or open a recording, or drop it on this page:"),
    h("pre", {}, "spantee view session.jsonl"),
  ];
}
