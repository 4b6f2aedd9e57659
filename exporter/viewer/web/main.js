// The page: a list of sessions (#/), a session (#/trace/ID, and the latest
// #/latest), two side by side (#/compare/A/B).

import { watch } from "./api.js";
import { compareView } from "./compare.js";
import { listView } from "./list.js";
import { latestView, sessionView } from "./session.js";
import { startTheme } from "./theme.js";

const main = document.getElementById("view");
const crumbs = document.getElementById("crumbs");
const live = document.getElementById("live");
let leave; // the view that is shown, by its AbortController
let view; // what it does when traces change

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // no address of ours
  }
}

function route() {
  const [name, ...args] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  leave?.abort();
  leave = new AbortController();
  crumbs.replaceChildren();
  main.replaceChildren();
  main.className = name;
  document.title = "spantee";
  const place = { main, crumbs, signal: leave.signal };
  if (name === "trace" && args[0]) view = sessionView(place, args[0], args[1]);
  else if (name === "latest") view = latestView(place);
  else if (name === "compare" && args[1]) view = compareView(place, args[0], args[1]);
  else view = listView(place);
}

startTheme(document.getElementById("theme"));
addEventListener("hashchange", route);
route();
watch(
  (ids) => view.changed(ids),
  (up) => {
    live.textContent = up ? "live" : "the viewer does not answer";
    live.classList.toggle("down", !up);
  },
);
