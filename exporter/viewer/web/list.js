// @ts-check
// The list of sessions.

import { getHits, listSessions, offline, oneAtATime } from "./api.js";
import { dropFiles } from "./drop.js";
import { arrange, copyButton, fill, h, help, inField } from "./dom.js";
import { Filters, parameters, since } from "./filters.js";
import { writeAddress } from "./finding.js";
import { count, duration, exactMoment, moment, money, plural, roughly, size } from "./format.js";
import { marked } from "./hits.js";
import { folderName, headline, inState, parted, present, state, tellApart, what, who } from "./words.js";

const columns = [
  ["", "pick"], ["Session", "name"], ["Started", "num", "started"], ["Duration", "num", "duration"], ["Tools", "num", "tools"],
  ["Errors", "num", "errors"], ["Tokens in", "num", "input"], ["Tokens out", "num", "output"], ["Cost", "num", "cost"],
];

// mayBeEmpty are the columns that are left out if no session has a value.
/** @type {("tools" | "errors" | "input" | "output" | "cost")[]} */
const mayBeEmpty = ["tools", "errors", "input", "output", "cost"];

const states = [["", "any state"], ["running", "running"], ["stuck", "stuck"], ["failed", "with errors"]];

const pageSize = 500; // of the API

// left is how the list was left: its address, how far down, and on which session.
const left = { address: "#/", top: 0, id: "" };

// toList leads back to the list as it was left.
export const toList = () => h("a", { href: left.address }, "Sessions");

/** @type {Record<string, number>} */
const ways = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

// interval is how often the list is drawn at most, in milliseconds.
const interval = 500;
const hiddenInterval = 60e3;

/** @param {Place} place @returns {View} */
export function listView({ main, signal, address }) {
  const filters = new Filters(address, states, () => chosen()), { search } = filters;
  const over = h("a", { class: "quiet" }, "Runs over time");
  const compare = h("a", { class: "button", hidden: true }, "Compare the two");
  const body = h("tbody");
  let sort = address.get("sort") ?? "";
  const heads = columns.map(([name, kind, key]) => h("th", { class: key ? `${kind} of-${key}` : kind, scope: "col" },
    key ? h("button", { type: "button", class: "quiet", onclick: () => sortBy(key) }, name) : name || h("span", { class: "unseen" }, "Compare")));
  const table = h("table", { class: "sessions" }, h("thead", {}, h("tr", {}, heads)), body);
  const alike = h("p", { class: "dim", hidden: true }, "Sessions are named after their agent and model: prompts and commands were not recorded. Run spantee with --content=full, or open the recordings here.");
  const nothing = h("div", { class: "empty", hidden: true });
  const foot = h("p", { class: "foot" });
  /** @type {(way: number, name: string) => HTMLButtonElement} */
  const turn = (way, name) => h("button", { type: "button", class: "quiet", hidden: true, onclick: () => chosen(offset + way * pageSize) }, name);
  const earlier = turn(-1, "← Previous page"), later = turn(1, "Next page →");
  const page = h("div", { class: "page" }, alike, table, nothing, h("nav", { "aria-label": "Pages" }, earlier, later), foot);
  main.append(
    h("div", { class: "tools chosen" }, filters.elements, compare, h("span", { class: "grow" }),
      !offline && over, help([["↓ ↑ or J K", "select a session"], ["Enter", "open it"], ["Esc", "back to the list"], ["/", "search"]])),
    page,
  );
  dropFiles(main, signal, foot);
  let offset = Math.max(0, Number(address.get("offset")) || 0);

  /** @type {Map<string, Row>} */
  const rows = new Map(); // by trace id
  /** @type {Set<string>} */
  const picked = new Set();
  let drawn = 0; // when

  const query = () => ({ ...filters.chosen, sort, offset: offset ? String(offset) : "" });

  const refresh = oneAtATime(signal, async () => {
    const wait = drawn + interval - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      const asked = query(), list = await ask(asked);
      if (!signal.aborted) draw(narrow(list, asked), asked.q);
    } catch (e) {
      if (!signal.aborted) foot.textContent = e.message;
    }
    drawn = performance.now();
  });

  // ask asks for the sessions that changed since the last answer to the same question, and puts them with the others.
  /** @type {{ question: string, seq: number, sessions: Map<string, Session> }} */
  let last = { question: "", seq: 0, sessions: new Map() };
  /** @param {ReturnType<typeof query>} asked @returns {Promise<List>} */
  async function ask(asked, again = false) {
    const question = JSON.stringify(asked), from = question === last.question ? last : { seq: 0, sessions: new Map() }, words = parameters(asked);
    if (from.seq) words.set("after", String(from.seq));
    const list = await listSessions(words, signal);
    const known = new Map(from.sessions);
    for (const s of list.sessions) known.set(s.id, s);
    const sessions = list.order.flatMap((id) => known.get(id) ?? []);
    const whole = sessions.length === list.order.length; // not if one comes from another page of the list
    last = { question, seq: whole ? list.seq : 0, sessions: new Map(sessions.map((s) => [s.id, s])) };
    return whole || again ? { ...list, sessions } : ask(asked, true); // a session may be deleted meanwhile
  }

  // chosen keeps what was chosen in the address, so that Back brings it back.
  function chosen(to = 0) {
    offset = Math.max(0, to);
    page.scrollTop = 0;
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
    filters.offer(list);
    over.href = writeAddress(["runs"], filters.chosen);
    for (const [i, [, , key]] of columns.entries()) {
      if (!key) continue;
      const way = sort === key || !sort && key === "started" ? "descending" : sort === `-${key}` ? "ascending" : "none";
      if (heads[i].getAttribute("aria-sort") !== way) heads[i].setAttribute("aria-sort", way);
    }
    const shorten = tellApart(list.sessions.map(headline));
    /** @type {Element[]} */
    const order = list.sessions.map((s) => {
      let row = rows.get(s.id);
      if (!row) {
        row = new Row(s, picked, pick);
        rows.set(s.id, row);
      }
      row.show(s, words, shorten(headline(s)));
      return row.element;
    });
    arrange(body, order);
    earlier.hidden = offset === 0;
    later.hidden = list.matching <= offset + pageSize;
    table.hidden = !order.length;
    alike.hidden = list.sessions.length < 2 || list.sessions.some((s) => s.prompt || s.first);
    for (const key of mayBeEmpty) table.classList.toggle(`no-${key}`, !list.sessions.some((s) => s[key === "errors" ? "toolErrors" : key]));
    nothing.hidden = order.length > 0;
    if (!order.length) nothing.replaceChildren(...(list.total ? noMatch() : welcome()));
    set(foot, order.length ? footer(list, offset) : "");
    countStuck();
    if (!restored) restore();
    drawnWords = words;
    if (opening) openFirst();
    askHits(list, words);
  }

  // Enter opens the first session that has the words, at its first hit.
  let drawnWords = "", opening = false;
  function openFirst() {
    const first = body.querySelector(".name a");
    opening = drawnWords !== search.value.trim();
    if (!opening && drawnWords && first instanceof HTMLAnchorElement) location.hash = first.hash;
  }
  search.addEventListener("keydown", (e) => { if (e.key === "Enter") openFirst(); });

  // Rows say where they have the words, one after the other.
  let asking = "";
  /** @param {List} list @param {string} words */
  async function askHits(list, words) {
    if (!words || asking === words) return;
    asking = words;
    for (const s of list.sessions) {
      const row = rows.get(s.id);
      if (!row || row.words === words && row.asked === s.came) continue; // it has the hits
      const found = await getHits(s.id, words, signal).catch(() => null);
      if (signal.aborted || asking !== search.value.trim()) break;
      if (found) row.showHits(found, words, s.came);
    }
    asking = "";
  }

  function pick() {
    const [a, b] = picked;
    compare.hidden = picked.size !== 2;
    compare.href = `#/compare/${a}/${b}`;
    for (const box of body.querySelectorAll("input")) box.disabled = picked.size === 2 && !box.checked;
  }

  // A list that one comes back to is where it was left.
  let restored = false;
  function restore() {
    restored = true;
    if (left.address !== writeAddress([], query())) return;
    page.scrollTop = left.top;
    if (document.activeElement !== search) rows.get(left.id)?.link.focus({ preventScroll: true });
  }
  const selected = () => body.querySelector("tr:focus-within");
  /** @param {number} way */
  function step(way) {
    const all = [...body.querySelectorAll("tr")], from = all.findIndex((el) => el === selected());
    const to = all[Math.min(Math.max(from + way, 0), all.length - 1)];
    rows.get(to?.dataset.id ?? "")?.link.focus();
  }

  function countStuck() {
    const stuck = body.querySelectorAll(".state.stuck").length;
    document.title = stuck ? `(${stuck} stuck) spantee` : "spantee";
  }

  // What runs now lasts a second longer every second, and may be stuck by then. A hidden page, which hears of no changes, still has a title.
  const clock = setInterval(() => {
    if (document.hidden) {
      if (performance.now() - drawn > hiddenInterval) refresh();
      return;
    }
    for (const row of rows.values()) if (row.element.isConnected) row.tick();
    countStuck();
  }, 1000);
  signal.addEventListener("abort", () => {
    clearInterval(clock);
    Object.assign(left, { address: writeAddress([], query()), top: page.scrollTop, id: selected()?.getAttribute("data-id") ?? "" });
  });
  addEventListener("keydown", (e) => {
    const way = ways[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey || inField(e) && !(e.target === search && e.key === "ArrowDown")) return;
    if (e.key !== "/" && !way) return;
    e.preventDefault();
    if (way) step(way);
    else search.focus();
  }, { signal });
  refresh();
  return { changed: refresh };
}

// A Row changes only the cells whose text has changed: there may be hundreds
// of rows, several times a second.
class Row {
  /** @type {Session} */ session;
  words = ""; // of the hits
  asked = 0; // when the session had last changed then

  /** @param {Session} s @param {Set<string>} picked @param {() => void} changed */
  constructor(s, picked, changed) {
    this.box = h("input", { type: "checkbox", onchange: () => {
      if (this.box.checked) picked.add(s.id);
      else picked.delete(s.id);
      changed();
    } });
    this.dot = h("span", { class: "state", "aria-hidden": "true" });
    this.link = h("a", { href: `#/trace/${s.id}`, dir: "auto" });
    this.about = h("span", { class: "dim about" });
    this.outcome = h("span", { class: "outcome" });
    this.found = h("a", { class: "found", hidden: true });
    this.cells = columns.slice(2).map(([, , key]) => h("td", { class: `num of-${key}` }));
    this.element = h("tr", { "data-id": s.id },
      h("td", { class: "pick" }, this.box),
      h("td", { class: "name" }, h("div", { class: "line" }, this.dot, this.link), h("div", { class: "line" }, this.about, this.outcome), this.found),
      this.cells);
    this.element.addEventListener("click", (e) => {
      if (!(e.target instanceof Element && e.target.closest("input, a, .pick")) && !getSelection()?.toString()) {
        this.link.focus();
        location.hash = this.link.hash;
      }
    });
  }

  /** @param {Hits} found @param {string} words @param {number} came */
  showHits({ total, hits }, words, came) {
    this.words = words;
    this.asked = came;
    if (!hits.length) return;
    this.found.href = writeAddress(["trace", this.session.id, hits[0].span], { find: words });
    fill(this.found, h("span", { class: "hits" }, plural(total, "hit")), ` ${hits[0].name}: `, marked(hits[0].text));
  }

  /** @param {Session} s @param {string} words @param {string} name */
  show(s, words, name) {
    this.session = s;
    const title = headline(s);
    set(this.link, name);
    this.link.title = title;
    this.link.href = writeAddress(["trace", s.id], { find: words });
    this.box.setAttribute("aria-label", `Compare ${title}, ${moment(s.start)}`);
    set(this.about, [(s.prompt || s.first) && [who(s), what(s)].filter(Boolean).join(" "), s.folder && folderName(s.folder), s.pinned && "pinned"].filter(Boolean).join(" · "));
    this.found.hidden = !words || offline; // it has its room before it is filled
    if (this.words !== words) fill(this.found).removeAttribute("href");
    const values = [
      moment(s.start), "", s.tools ? count(s.tools) : "–", s.toolErrors ? count(s.toolErrors) : "–",
      s.input ? roughly(s.input) : "–", s.output ? roughly(s.output) : "–", s.cost ? money(s.cost) : "–",
    ];
    values.forEach((v, i) => i !== 1 && set(this.cells[i], v));
    this.cells[0].title = exactMoment(s.start);
    this.cells[3].classList.toggle("red", s.toolErrors > 0);
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
    if (this.outcome.textContent !== words) fill(this.outcome, parted(words).map((part) => h("span", {}, part)));
    set(this.cells[1], !s.now && (s.timeless || s.end - s.start <= 1) ? "–" : duration((s.now && !s.ended ? Math.max(s.end, present(s)) : s.end) - s.start));
  }
}

/** @param {Element} el @param {string} text */
function set(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

// narrow leaves out what the API does not know to leave out: whether a session is stuck changes with time. An exported page has no API.
/** @param {List} list @param {Chosen} chosen */
function narrow(list, { q, state, time, agent, model, folder }) {
  const words = offline ? q.toLowerCase().split(/\s+/).filter(Boolean) : [];
  const sessions = list.sessions.filter((s) => inState(s, state) && (!words.length || words.every((w) => JSON.stringify(s).toLowerCase().includes(w))) &&
    (!offline || s.start >= since(time) && (!agent || s.agent === agent) && (!model || s.model === model) && (!folder || s.folder === folder)));
  return { ...list, agents: list.agents ?? [], models: list.models ?? [], folders: list.folders ?? [], sessions, matching: list.matching - list.sessions.length + sessions.length };
}

/** @param {List} l @param {number} offset */
function footer(l, offset) {
  const facts = [];
  if (l.matching > l.sessions.length) facts.push(`${count(offset + 1)}–${count(offset + l.sessions.length)} of ${plural(l.matching, "session")}`);
  else if (l.matching < l.total) facts.push(`${count(l.matching)} of ${plural(l.total, "session")}`);
  else if (l.total) facts.push(plural(l.total, "session"));
  if (l.total) facts.push(plural(l.spans, "span"));
  if (l.unindexed) facts.push(`${plural(l.unindexed, "session")} not indexed yet`);
  if (l.kept.limit) facts.push(`${size(l.kept.bytes)} of ${size(l.kept.limit)}${l.kept.memory ? " in memory: nothing is kept" : ""}`);
  if (l.kept.going.sessions) facts.push(`${plural(l.kept.going.sessions, "session")} not changed since ${moment(l.kept.going.before)} will be removed next: pin what should stay, or raise --keep`);
  return facts.join(" · ");
}

export function noMatch() {
  return [h("h2", {}, "Nothing matches"), h("p", {}, "All words must match. Try fewer of them."),
    h("p", {}, "Also: \"a phrase\", tool:shell, agent:codex, model:gpt, file:main.go, failed:yes, id:17a8.")];
}

export function welcome() {
  const here = location.port === "4319" ? "" : ` --endpoint ${location.origin} --protocol http/protobuf`; // 4319: of a viewer that receives where spantee sends
  return [h("h2", {}, "No sessions yet"), ...[
    ["Run an agent through spantee. It appears here while it works:", `cursor-agent -p --output-format stream-json --stream-partial-output "fix the failing test" | spantee --content=full${here} | jq -r .type`],
    ["Or read the sessions of the last weeks from an agent's own folder:", `spantee replay --content=full${here} ~/.claude/projects`],
    ["And the next ones as they are written:", `spantee follow --content=full${here}`],
    ["Or open a recording, or drop it on this page:", "spantee view session.jsonl"],
  ].flatMap(([why, command]) => [h("p", {}, why), h("div", { class: "type" }, h("pre", {}, command), copyButton(command, "Copy"))])];
}
