// @ts-check
// The page: a list of sessions (#/), a session (#/trace/ID, and the latest
// #/latest), two side by side (#/compare/A/B), and all over time (#/runs).

import { contains, listSessions, offline, watch } from "./api.js";
import { compareView } from "./compare.js";
import { fill, h } from "./dom.js";
import { parseAddress } from "./finding.js";
import { listView, toList } from "./list.js";
import { runsView } from "./runs.js";
import { latestView, sessionView } from "./session.js";
import { startTheme } from "./theme.js";

const [main, crumbs, live, theme] = ["view", "crumbs", "live", "theme"].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
/** @type {AbortController | undefined} */
let leave; // the view that is shown
/** @type {View} */
let view;

function route() {
  const { parts: [name, ...args], query } = parseAddress(location.hash);
  leave?.abort();
  leave = new AbortController();
  main.replaceChildren();
  main.className = name;
  document.title = "spantee";
  fill(crumbs, h("h1", {}, "Sessions"));
  const place = { main, entitle, signal: leave.signal, address: query };
  if (name === "trace" && args[0]) view = sessionView(place, args[0], args[1]);
  else if (name === "latest") view = latestView(place);
  else if (name === "compare" && args[1]) view = compareView(place, args[0], args[1]);
  else if (name === "runs" && !offline) view = runsView(place);
  else view = listView(place);
}

// entitle names a page, and the way back from it.
/** @type {Place["entitle"]} */
function entitle(title, back = toList()) {
  if (document.title === `${title} · spantee`) return;
  document.title = `${title} · spantee`;
  fill(crumbs, back, h("h1", {}, h("span", { dir: "auto" }, title)));
}

startTheme(theme);
addEventListener("hashchange", route);
// An exported page opens on its session, unless there are several.
if (offline && !location.hash) {
  listSessions("", new AbortController().signal).then(({ sessions: [first, ...more] }) => {
    if (first && !more.length) location.replace(`#/trace/${first.id}`);
    else route();
  });
} else route();
if (offline) {
  live.textContent = `exported with ${contains.length ? contains.join(", ") : "names, sizes and times only"}`;
  live.classList.add("still");
}
watch(
  (ids) => view.changed(ids),
  (up) => {
    live.textContent = up ? "live" : "the viewer does not answer";
    live.classList.toggle("down", !up);
  },
);
