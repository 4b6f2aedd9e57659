// The list of sessions.

import { listSessions } from "./api.js";
import { h } from "./dom.js";
import { count, duration, exactMoment, moment, plural, roughly } from "./format.js";

const columns = [
  ["", "pick"], ["Session", "name"], ["Started", "num"], ["Duration", "num"], ["Tools", "num"],
  ["Errors", "num"], ["Tokens in", "num"], ["out", "num"], ["Trace", "id"],
];

export function listView({ main, signal }) {
  const search = h("input", { type: "search", placeholder: "Search agent, model, tool, error, session or trace id", "aria-label": "Search", autofocus: true });
  const agent = h("select", { "aria-label": "Agent" });
  const model = h("select", { "aria-label": "Model" });
  const failed = h("input", { type: "checkbox" });
  const compare = h("a", { class: "button", hidden: true }, "Compare the two");
  const body = h("tbody");
  const table = h("table", { class: "sessions" },
    h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { class: kind, scope: "col" }, name)))), body);
  const nothing = h("div", { class: "empty", hidden: true });
  const foot = h("p", { class: "foot" });
  main.append(
    h("div", { class: "tools" }, search, agent, model, h("label", { class: "check" }, failed, "with errors"), compare),
    h("div", { class: "page" }, table, nothing, foot),
  );

  const rows = new Map(); // by trace id
  const picked = new Set();
  let busy = false, again = false;

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const query = new URLSearchParams({ q: search.value, agent: agent.value, model: model.value, failed: failed.checked ? "1" : "" });
      draw(await listSessions(query, signal));
    } catch (e) {
      if (!signal.aborted) foot.textContent = e.message;
    }
    busy = false;
    if (again && !signal.aborted) {
      again = false;
      refresh();
    }
  }

  function draw(list) {
    choices(agent, "all agents", list.agents);
    choices(model, "all models", list.models);
    const order = list.sessions.map((s) => {
      const written = JSON.stringify(s);
      let row = rows.get(s.id);
      if (row?.written !== written) {
        const fresh = { written, element: sessionRow(s, picked, pick) };
        row?.element.replaceWith(fresh.element);
        row = fresh;
        rows.set(s.id, row);
      }
      return row.element;
    });
    // Only when it has to be: what moves loses the focus.
    if (order.length !== body.children.length || order.some((el, i) => body.children[i] !== el)) body.replaceChildren(...order);
    table.hidden = !order.length;
    nothing.hidden = order.length > 0;
    if (!order.length) nothing.replaceChildren(...(list.total ? noMatch() : welcome()));
    foot.textContent = footer(list);
  }

  function pick() {
    const [a, b] = picked;
    compare.hidden = picked.size !== 2;
    compare.href = `#/compare/${a}/${b}`;
    for (const box of body.querySelectorAll("input")) box.disabled = picked.size === 2 && !box.checked;
  }

  for (const control of [agent, model, failed]) control.addEventListener("change", refresh);
  search.addEventListener("input", refresh);
  addEventListener("keydown", (e) => {
    if (e.key === "/" && e.target === document.body) {
      e.preventDefault();
      search.focus();
    }
  }, { signal });
  refresh();
  return { changed: refresh };
}

function choices(select, all, values) {
  const have = [...select.options].slice(1).map((o) => o.value);
  if (select.options.length && have.length === values.length && have.every((v, i) => v === values[i])) return;
  const chosen = select.value;
  select.replaceChildren(h("option", { value: "" }, all), ...values.map((v) => h("option", { value: v }, v)));
  select.value = values.includes(chosen) ? chosen : "";
}

// recent is how long after its last span a session without an end is taken to
// be running, in milliseconds.
const recent = 10 * 60e3;

export function state(s) {
  if (s.failure) return ["failed", s.failure];
  if (s.ended) return s.errors ? ["mixed", `${plural(s.errors, "span")} failed`] : ["ok", "ended well"];
  return Date.now() - s.came / 1e3 < recent ? ["running", "no end yet"] : ["open", "never ended"];
}

export const who = (s) => s.agent || s.service || "unknown service";
export const what = (s) => s.model || (s.agent ? "" : s.name);

function sessionRow(s, picked, changed) {
  const box = h("input", { type: "checkbox", "aria-label": "Compare", onchange: () => {
    if (box.checked) picked.add(s.id);
    else picked.delete(s.id);
    changed();
  } });
  box.checked = picked.has(s.id);
  const [kind, words] = state(s);
  const row = h("tr", { "data-id": s.id },
    h("td", { class: "pick" }, box),
    h("td", { class: "name" },
      h("span", { class: `state ${kind}`, title: words, role: "img", "aria-label": words }),
      h("a", { href: `#/trace/${s.id}` }, who(s)), " ", h("span", { class: "dim" }, what(s)),
      s.failure && h("span", { class: "badge" }, s.failure)),
    h("td", { class: "num", title: exactMoment(s.start) }, moment(s.start)),
    h("td", { class: "num" }, duration(s.end - s.start)),
    h("td", { class: "num" }, s.tools ? count(s.tools) : "–"),
    h("td", { class: s.errors ? "num red" : "num" }, s.errors ? count(s.errors) : "–"),
    h("td", { class: "num", title: count(s.input) }, s.input ? roughly(s.input) : "–"),
    h("td", { class: "num", title: count(s.output) }, s.output ? roughly(s.output) : "–"),
    h("td", { class: "id", title: s.id }, s.id.slice(0, 8)),
  );
  row.addEventListener("click", (e) => {
    if (!e.target.closest("input, a, .pick") && !getSelection().toString()) location.hash = `#/trace/${s.id}`;
  });
  return row;
}

function footer(l) {
  const facts = [];
  if (l.matching > l.sessions.length) facts.push(`the latest ${count(l.sessions.length)} of ${count(l.matching)}: search for the others`);
  else if (l.matching < l.total) facts.push(`${count(l.matching)} of ${plural(l.total, "session")}`);
  else if (l.total) facts.push(plural(l.total, "session"));
  if (l.total) facts.push(plural(l.spans, "span"));
  facts.push(`${roughly(l.bytes)}B of ${roughly(l.limit)}B`);
  if (l.lost.traces) facts.push(`${plural(l.lost.traces, "older trace")} given up for room (--max-memory)`);
  return facts.join(" · ");
}

function noMatch() {
  return [h("h1", {}, "Nothing matches"), h("p", {}, "All words have to occur. Try fewer of them.")];
}

function welcome() {
  return [
    h("h1", {}, "No sessions yet"),
    h("p", {}, "Run an agent through spantee, and it appears here while it works:"),
    h("pre", {}, 'cursor-agent -p --output-format stream-json --stream-partial-output "fix the failing test" | spantee | jq -r .type'),
    h("p", {}, "Or look at a recording:"),
    h("pre", {}, "spantee view session.jsonl"),
  ];
}
