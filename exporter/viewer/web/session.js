// @ts-check
// One session: what it was, where its time went, its waterfall and its transcript.

import { change, exportPath, getSteps, listSessions, offline, oneAtATime } from "./api.js";
import { Details, fact } from "./details.js";
import { divider } from "./divider.js";
import { copyButton, fill, h, help, inField, stepButton } from "./dom.js";
import { parseFilter, writeAddress } from "./finding.js";
import { count, duration, exactMoment, moment, money, percent, plural } from "./format.js";
import { Search } from "./hits.js";
import { toList } from "./list.js";
import { Loader } from "./loader.js";
import { Minimap } from "./minimap.js";
import { Reader } from "./reader.js";
import { failures, strip } from "./strip.js";
import { summary } from "./summary.js";
import { tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { Content } from "./transcript.js";
import { Waterfall } from "./waterfall.js";
import { folderName, headline as title, parted, present, state, what, who } from "./words.js";

/** @param {Place} place @param {string} id @param {string} [span] @returns {View} */
export function sessionView({ main, entitle, signal, address }, id, span) {
  const headFacts = h("div", { class: "head-facts" });
  const act = actions(id);
  const head = h("div", { class: "head" }, headFacts, act.element);
  const spent = h("div", { class: "spent" });
  const filter = h("input", { type: "search", placeholder: "Words, is:error, tool:shell", "aria-label": "Filter spans" });
  const tallied = h("span", { class: "dim found", role: "status" });
  const fold = h("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Fold turns");
  const content = new Content();
  const timeline = new Timeline();
  const minimap = new Minimap(timeline, signal);
  const details = new Details(id, signal, (to) => waterfall.select(to));
  const reader = new Reader((to) => waterfall.select(to));
  const overall = h("div", { class: "overall" });
  const side = tabs("Beside the waterfall", [["Transcript", reader.element], ["Span", details.element], ["Summary", overall]], remember);
  const waterfall = new Waterfall(timeline, signal, {
    select(n) {
      details.show(n);
      reader.look(n);
      if (n && side.chosen === "Summary") side.choose("Span");
      if (n) side.raise();
      remember();
    },
    open() { side.choose("Span")?.focus(); },
    rows: () => tally(),
  });
  /** @type {(way: number) => void} */
  const step = (way) => waterfall.step(way, stepWanted());
  const split = h("div", { class: "split" },
    h("section", { class: "chart", "aria-label": "Waterfall" },
      h("div", { class: "tools" }, filter, stepButton(-1, "Previous match, or error", step), stepButton(1, "Next match, or error", step), tallied, h("span", { class: "grow" }), fold, help(keys)),
      waterfall.element,
      h("div", { class: "overview" }, minimap.element)));
  split.append(divider(split), side.element);
  main.append(head, spent, split);
  const without = h("p", { class: "foot", hidden: true }, offline ? "Exported without content." : "Without content: it was not recorded. Run spantee with --content=full, or open the recording here.");
  reader.element.append(without);

  // What was searched in the list goes on here.
  const find = address.get("find");
  /** @type {Search | null} */
  let search = find && !offline ? new Search(id, find, signal, {
    select(to) {
      reader.whole = loader.trace.byId.get(to ?? "")?.id ?? "";
      waterfall.select(to);
      found();
    },
    end: () => { search = null; remember(); },
  }) : null;
  // found marks the words. What the transcript does not show is among the details.
  function found() {
    if (search && !search.mark(side.element) && !reading && content.seq) side.choose("Span");
  }
  if (search) {
    head.after(search.element);
    let marking = 0;
    const watcher = new MutationObserver(() => {
      clearTimeout(marking);
      marking = setTimeout(found, 50);
    });
    watcher.observe(side.element, { childList: true, subtree: true });
    signal.addEventListener("abort", () => watcher.disconnect());
  }

  // Where one is lives in the address, so that Back and a copied link lead here.
  timeline.views.add({ redraw: remember });
  let restored = false, remembering = 0;
  function remember() {
    if (!restored || signal.aborted) return;
    clearTimeout(remembering);
    remembering = setTimeout(() => {
      if (signal.aborted || !location.hash.startsWith(`#/trace/${id}`)) return; // its event comes after a new address
      history.replaceState(null, "", writeAddress(["trace", id, waterfall.selected], {
        find: search?.words ?? "", q: filter.value.trim(), tab: side.chosen === "Transcript" ? "" : side.chosen,
        from: timeline.zoomed ? Math.round(timeline.from) : "", to: timeline.zoomed ? Math.round(timeline.to) : "",
      }));
    }, 100);
  }
  /** @param {Trace} trace */
  function restore(trace) {
    restored = true;
    const from = Number(address.get("from")), to = Number(address.get("to"));
    if (to > from) timeline.set(from, to);
    side.choose(address.get("tab") ?? side.chosen);
    const n = span && trace.byId.get(span);
    if (n) waterfall.select(n.id);
    search?.load(span);
  }

  let wanted = span;
  const loader = new Loader(id, signal, (trace) => {
    entitle(title(trace.session));
    headline();
    account();
    timeline.extend(trace.duration);
    minimap.show(trace);
    waterfall.show(trace);
    details.refresh(trace);
    if (!restored) restore(trace);
    else if (wanted && trace.byId.has(wanted) && !waterfall.selected) waterfall.select(wanted);
    if (waterfall.selected) wanted = undefined;
    applyFilter();
    readMore();
  }, (e) => {
    if (!loader.trace.session) {
      main.replaceChildren(h("div", { class: "empty" }, h("h2", {}, "No such session"),
        h("p", {}, e.message), h("p", {}, h("a", { href: "#/" }, "All sessions"))));
    }
  }, (to) => location.replace(writeAddress(["trace", to, span], Object.fromEntries(address))));

  // The content comes after the first picture. The transcript waits for it: steps that get their
  // texts later would push others down.
  let reading = false;
  const readMore = oneAtATime(signal, async () => {
    const { trace } = loader;
    reading = true;
    try {
      for (let more = true; more && !signal.aborted;) {
        const answer = await getSteps(id, content.seq, signal);
        more = answer.more;
        content.merge(answer);
        content.tell(answer, trace);
        without.hidden = trace.live || trace.nodes.length === 0 || [...content.steps.values(), ...content.open.values()].some(hasText);
        reader.show(trace, content);
        waterfall.redraw();
        fill(overall, ...summary(trace, { select: (to) => waterfall.select(to), filter: toggleFilter }));
      }
      if (filter.value) applyFilter();
    } catch (e) {
      if (!signal.aborted) tallied.textContent = e.message;
    }
    reading = false;
    found();
  });

  function headline() {
    act.show(loader.trace.session);
    fill(headFacts, ...facts(loader.trace));
  }
  // account says what failed and where the time went, in as many items as fit beside one another.
  function account() {
    const failed = failures(loader.trace, (to) => waterfall.select(to), toggleFilter), parts = strip(loader.trace, toggleFilter, () => side.choose("Summary"));
    for (let few = 4, most = 8; ;) {
      const wrong = failed(few), legend = parts(most);
      fill(spent, wrong, legend);
      if (wrong && few > 1 && isCut(wrong)) few--;
      else if (most > 1 && isCut(legend)) most--;
      else return void legend.classList.toggle("tight", isCut(legend));
    }
  }
  new ResizeObserver(() => { if (loader.trace.session) account(); }).observe(spent);

  // Open spans last until now.
  let ticks = 0;
  const clock = setInterval(() => {
    const { trace } = loader;
    if (!trace.session?.now || document.hidden) return;
    trace.tick(present(trace.session));
    timeline.extend(trace.duration);
    minimap.show(trace);
    if (ticks++ % 4 === 0) {
      headline();
      reader.tick();
      if (trace.nodes.length < 5000) account();
    }
  }, 250);
  signal.addEventListener("abort", () => clearInterval(clock));

  /** @type {Match | null} */
  let match = null, matching = 0;
  /** @type {() => Match} */
  const stepWanted = () => match ?? ((n) => n.failure !== "");
  function applyFilter() {
    match = parseFilter(filter.value);
    const { nodes } = loader.trace;
    matching = match ? nodes.filter(match).length : nodes.length;
    waterfall.filter(match);
    tally();
  }
  function tally() {
    const all = plural(loader.trace.nodes.length, "span");
    const inSight = waterfall.rows.length < waterfall.all.length ? `, ${count(waterfall.rows.length)} in sight` : "";
    tallied.textContent = (match ? `${count(matching)} of ${all}` : all) + inSight;
  }
  /** @param {string} text */
  function setFilter(text) {
    filter.value = text;
    applyFilter();
    const n = loader.trace.byId.get(waterfall.selected ?? "");
    if (n) waterfall.bring(n);
    remember();
  }
  /** @type {(word: string) => void} */
  const toggleFilter = (word) => setFilter(filter.value.trim() === word ? "" : word);
  filter.value = address.get("q") ?? "";
  filter.addEventListener("input", () => setFilter(filter.value));
  filter.addEventListener("keydown", (e) => {
    if (e.key === "Escape") setFilter("");
    if (e.key === "Enter") step(1);
    if (e.key === "Enter" || e.key === "Escape") waterfall.scroller.focus();
  });
  fold.addEventListener("click", () => {
    const closed = fold.getAttribute("aria-pressed") !== "true";
    fold.setAttribute("aria-pressed", String(closed));
    waterfall.foldTurns(closed);
  });
  // Before the waterfall, which deselects at Esc.
  addEventListener("keydown", (e) => {
    if (inField(e)) return;
    if (e.key === "/") {
      e.preventDefault();
      filter.focus();
    } else if (e.key === "Escape") {
      if (waterfall.selected) waterfall.select(null);
      else location.hash = toList().hash;
    }
  }, { signal, capture: true });
  waterfall.scroller.focus({ preventScroll: true });
  return { changed: (ids) => loader.changed(ids) };
}

/** @param {Element} row */
const isCut = (row) => row.scrollWidth > row.clientWidth;

// latestView waits for a session and goes to the latest.
/** @param {Place} place @returns {View} */
export function latestView({ main, signal }) {
  main.append(h("div", { class: "empty" }, h("h2", {}, "Waiting for the first span"),
    h("p", {}, "A session appears here with its first line."),
    h("p", {}, h("a", { href: "#/" }, "All sessions"))));
  const changed = async () => {
    const list = await listSessions("", signal).catch(() => null);
    if (list?.sessions.length && !signal.aborted) location.replace(`#/trace/${list.sessions[0].id}`);
  };
  changed();
  return { changed };
}

// outcome says a state, the times of which stay in sight.
/** @param {string} kind @param {string} words */
const outcome = (kind, words) => h("span", { class: `outcome ${kind}`, title: words }, parted(words).map((part) => h("span", {}, part)));

// facts are the headline of a session.
/** @param {Trace} trace */
export function facts(trace) {
  const s = trace.session;
  const [kind, words] = state(s);
  const share = s.input > 0 && s.cached > 0 ? ` (${percent(s.cached / s.input)} cached)` : "";
  return [
    h("p", { class: "doing" }, h("span", { class: `state ${kind}`, "aria-hidden": "true" }), outcome(kind, words), h("span", { class: "dim" }, `${who(s)} ${what(s)}`)),
    h("dl", {},
      fact("Duration", trace.time(trace.ran)),
      fact("Tools", count(s.tools)),
      s.toolErrors > 0 && fact("Errors", count(s.toolErrors), { class: "red" }),
      s.input > 0 && fact("Tokens in", count(s.input) + share),
      s.output > 0 && fact("Tokens out", count(s.output)),
      s.cost > 0 && fact("Cost", money(s.cost)),
      s.retries > 0 && fact("Retries", count(s.retries) + (s.retryDelay > 0 ? ` (${duration(s.retryDelay)} delay)` : "")),
      s.reconnects > 0 && fact("Reconnects", count(s.reconnects)),
      s.compactions > 0 && fact("Compactions", count(s.compactions)),
      !trace.timeless && fact("Started", moment(s.start), { title: exactMoment(s.start) }),
      s.folder && fact("Folder", h("bdi", {}, folderName(s.folder)), { title: s.folder }),
    ),
  ];
}

// hasText reports whether a step has content: notes are there without it.
/** @type {(s: Step) => boolean} */
const hasText = (s) => Boolean(s.prompt || s.answer || s.arguments || s.result || s.said?.length);

// exported are the parts of a session that an export may leave out.
const exported = [["content", "Prompts, answers, output"], ["paths", "Paths and commands"], ["host", "Host and user"]];

// actions are the buttons of a session.
/** @param {string} id */
function actions(id) {
  if (offline) return { element: null, show() {} };
  const status = h("span", { class: "dim", role: "status" });
  /** @type {(name: string, does: () => Promise<void>) => HTMLButtonElement} */
  const button = (name, does) => h("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      await does();
    } catch (error) {
      status.textContent = error.message;
    }
  } }, name);
  let pinned = false;
  const pin = button("Pin", () => change(id, pinned ? "unpin" : "pin"));
  pin.title = "Pinned sessions are not removed to make room";
  const remove = button("Delete", async () => {
    if (remove.textContent === "Delete") {
      remove.textContent = "Delete for good";
      return;
    }
    await change(id, "delete");
    location.hash = "#/";
  });
  remove.addEventListener("blur", () => { remove.textContent = "Delete"; });
  const [html, json] = ["Save as HTML", "OTLP JSON"].map((name) => h("a", { class: "quiet", download: "" }, name));
  const boxes = exported.map(([part, label]) => h("label", { class: "check" }, h("input", { type: "checkbox", value: part, checked: true, onchange: () => choose() }), label));
  const choose = () => {
    const inputs = boxes.map((label) => label.querySelector("input")).filter((input) => input !== null);
    const [content, paths] = inputs;
    content.disabled = !paths.checked; // content has paths in it
    if (!paths.checked) content.checked = false;
    const without = inputs.filter((input) => !input.checked).map((input) => input.value);
    html.href = exportPath(id, "html", without);
    json.href = exportPath(id, "json", without);
  };
  choose();
  const more = h("div");
  return {
    element: h("div", { class: "actions" }, status,
      h("details", { class: "help export" }, h("summary", {}, "Export"), h("div", {}, boxes, html, json)),
      h("details", { class: "help export" }, h("summary", {}, "More"), h("div", {}, pin, remove, more))),
    /** @param {Session} session */
    show(session) {
      pinned = Boolean(session.pinned);
      pin.textContent = pinned ? "Unpin" : "Pin";
      pin.setAttribute("aria-pressed", String(pinned));
      fill(more, h("div", {}, plural(session.turns, "turn")), h("div", {}, plural(session.spans, "span")), h("div", {}, "Trace ", copyButton(session.id, session.id.slice(0, 8))));
    },
  };
}

const keys = [
  ["↑ ↓", "select a span"], ["← →", "fold, unfold"], ["+ − or Ctrl-wheel", "zoom"], ["A D or drag", "pan"],
  ["0", "everything"], ["F or double-click", "zoom to the span"], ["E", "next error"], ["/", "filter"], ["Enter", "details"], ["Esc", "deselect, then back to the list"],
];
