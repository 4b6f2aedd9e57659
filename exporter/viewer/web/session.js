// One session: what it was, where its time went, and its waterfall.

import { getSession, listSessions } from "./api.js";
import { Details } from "./details.js";
import { copyButton, h } from "./dom.js";
import { count, duration, exactMoment, moment, plural } from "./format.js";
import { state, what, who } from "./list.js";
import { Minimap } from "./minimap.js";
import { strip, toolTable } from "./strip.js";
import { Timeline } from "./timeline.js";
import { Trace } from "./trace.js";
import { Waterfall } from "./waterfall.js";

// A Loader keeps a trace up to date: it asks for what is new, one question at
// a time.
export class Loader {
  constructor(id, signal, draw, fail) {
    Object.assign(this, { trace: new Trace(id), signal, draw, fail });
    this.load();
  }

  async load() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      const overview = await getSession(this.trace.id, this.trace.seq, this.signal);
      if (overview.spans.length || !this.trace.session) {
        this.trace.merge(overview);
        this.draw(this.trace);
      }
    } catch (e) {
      if (!this.signal.aborted) this.fail(e);
    }
    this.busy = false;
    if (this.again && !this.signal.aborted) {
      this.again = false;
      this.load();
    }
  }

  changed(ids) {
    if (!ids || ids.has(this.trace.id)) this.load();
  }
}

export function sessionView({ main, crumbs, signal }, id, span) {
  const head = h("div", { class: "head" });
  const spent = h("div", { class: "spent" });
  const filter = h("input", { type: "search", placeholder: "Filter spans", "aria-label": "Filter spans" });
  const found = h("span", { class: "dim" });
  const timeline = new Timeline();
  const details = new Details(id, signal, (to) => waterfall.select(to));
  const minimap = new Minimap(timeline, signal);
  const waterfall = new Waterfall(timeline, signal, {
    select(n) {
      details.show(n);
      history.replaceState(null, "", `#/trace/${id}${n ? "/" + n.id : ""}`);
    },
    open() { details.element.focus(); },
  });
  const overview = h("div", { class: "overview" }, minimap.element);
  main.append(
    head, spent,
    h("div", { class: "split" },
      h("section", { class: "chart" },
        overview,
        h("div", { class: "tools" }, filter, found, h("span", { class: "grow" }), help()),
        waterfall.element),
      details.element),
  );

  let wanted = span;
  const loader = new Loader(id, signal, (trace) => {
    document.title = `${who(trace.session)} · spantee`;
    crumbs.replaceChildren(h("a", { href: "#/" }, "Sessions"), h("span", {}, `${who(trace.session)} ${what(trace.session)}`));
    head.replaceChildren(...facts(trace));
    spent.replaceChildren(...strip(trace));
    timeline.extend(trace.duration);
    minimap.show(trace);
    waterfall.show(trace);
    details.about(trace, [toolTable(trace)]);
    if (wanted && trace.byId.has(wanted)) {
      waterfall.select(trace.byId.get(wanted).id);
      wanted = null;
    }
    tally();
  }, (e) => {
    if (!loader.trace.session) {
      main.replaceChildren(h("div", { class: "empty" }, h("h1", {}, "No such session"),
        h("p", {}, e.message), h("p", {}, h("a", { href: "#/" }, "All sessions"))));
    }
  });

  function tally() {
    const shown = waterfall.rows.length, all = loader.trace.nodes.length;
    found.textContent = filter.value ? `${count(shown)} of ${plural(all, "span")}` : plural(all, "span");
  }
  filter.addEventListener("input", () => {
    const lower = filter.value.trim().toLowerCase();
    waterfall.filter(lower ? (n) => n.mentions(lower) : null);
    tally();
  });
  filter.addEventListener("keydown", (e) => {
    if (e.key === "Escape") {
      filter.value = "";
      filter.dispatchEvent(new Event("input"));
    }
    if (e.key === "Enter" || e.key === "Escape") waterfall.scroller.focus();
  });
  addEventListener("keydown", (e) => {
    if (e.key === "/" && e.target !== filter) {
      e.preventDefault();
      filter.focus();
    }
  }, { signal });
  waterfall.scroller.focus({ preventScroll: true });
  return { changed: (ids) => loader.changed(ids) };
}

// latestView waits for a session and goes to the latest.
export function latestView({ main, signal }) {
  main.append(h("div", { class: "empty" }, h("h1", {}, "Waiting for the first span"),
    h("p", {}, "A span is shown when it ends: a turn of the model, or a tool."),
    h("p", {}, h("a", { href: "#/" }, "All sessions"))));
  const changed = async () => {
    const list = await listSessions("", signal).catch(() => null);
    if (list?.sessions.length && !signal.aborted) location.replace(`#/trace/${list.sessions[0].id}`);
  };
  return { changed };
}

// facts are the headline of a session.
export function facts(trace) {
  const s = trace.session;
  const [kind, words] = state(s);
  const fact = (label, value, extra = {}) => value && h("div", { class: "fact" }, h("dt", {}, label), h("dd", extra, value));
  return [
    h("h1", {}, h("span", { class: `state ${kind}`, title: words, role: "img", "aria-label": words }), who(s), " ",
      h("span", { class: "dim" }, what(s)), s.failure && h("span", { class: "badge" }, s.failure)),
    h("dl", {},
      fact("Started", moment(s.start), { title: exactMoment(s.start) }),
      fact("Duration", duration(s.end - s.start)),
      fact("Tools", count(s.tools)),
      fact("Errors", count(s.errors), { class: s.errors ? "red" : "" }),
      fact("Spans", count(s.spans)),
      s.input > 0 && fact("Tokens in", count(s.input)),
      s.output > 0 && fact("Tokens out", count(s.output)),
      h("div", { class: "fact" }, h("dt", {}, "Trace"), h("dd", { class: "mono" }, copyButton(s.id, s.id)))),
  ];
}

function help() {
  const rows = [
    ["↑ ↓", "choose a span"], ["← →", "close, open"], ["+ − or Ctrl-wheel", "zoom"], ["A D or drag", "pan"],
    ["0", "all"], ["F or double-click", "zoom to the span"], ["E", "next error"], ["/", "filter"], ["Esc", "back to the summary"],
  ];
  return h("details", { class: "help" }, h("summary", {}, "Keys"),
    h("table", {}, rows.map(([k, v]) => h("tr", {}, h("th", { scope: "row" }, k), h("td", {}, v)))));
}
