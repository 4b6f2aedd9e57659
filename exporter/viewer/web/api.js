// @ts-check
// The viewer's answers. In an exported page they are all in one element, by path.

const embedded = document.getElementById("answers");
const answers = embedded && JSON.parse(embedded.textContent ?? "");
export const offline = answers !== null;
/** @type {string[]} */
export const contains = answers?.contains ?? []; // in an exported page

/** @param {string} path @param {string | URLSearchParams} query @param {AbortSignal} signal */
async function json(path, query, signal) {
  if (offline) {
    const found = answers[path];
    if (!found) throw new Error("This page was exported without that.");
    return found;
  }
  const answer = await fetch(query ? `${path}?${query}` : path, { signal }).catch((e) => { throw signal.aborted ? e : new Error("The viewer has ended."); });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}

/** @type {(id: string) => string} */
const session = (id) => `api/sessions/${encodeURIComponent(id)}`;

/** @type {(query: string | URLSearchParams, signal: AbortSignal) => Promise<List>} */
export const listSessions = (query, signal) => json("api/sessions", query, signal);
/** @type {(id: string, since: number, signal: AbortSignal) => Promise<Overview>} */
export const getSession = (id, since, signal) => json(session(id), `since=${since}`, signal);
/** @type {(id: string, since: number, signal: AbortSignal) => Promise<Steps>} */
export const getSteps = (id, since, signal) => json(`${session(id)}/steps`, `since=${since}`, signal);
/** @type {(id: string, span: string, signal: AbortSignal) => Promise<Detail>} */
export const getSpan = (id, span, signal) => json(`${session(id)}/spans/${encodeURIComponent(span)}`, "", signal);
/** @type {(query: URLSearchParams, signal: AbortSignal) => Promise<RunsAnswer>} */
export const getRuns = (query, signal) => json("api/runs", query, signal);
/** @type {(id: string, kind: string, without: string[]) => string} */
export const exportPath = (id, kind, without) => `${session(id)}/export.${kind}?${new URLSearchParams(without.map((part) => ["without", part]))}`;

/** @type {(id: string, query: string, signal: AbortSignal) => Promise<Hits>} */
export const getHits = (id, query, signal) => json(`${session(id)}/hits`, new URLSearchParams({ q: query }), signal);

/** @param {string} path @param {File} [body] */
async function post(path, body) {
  const answer = await fetch(path, { method: "POST", body });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// change pins, unpins or deletes a session.
/** @type {(id: string, what: string) => Promise<void>} */
export const change = (id, what) => post(`${session(id)}/${what}`);

// addFile sends a file that was dropped on the page, and returns the ids of its traces.
/** @type {(file: File) => Promise<string[]>} */
export const addFile = (file) => post(`api/files?name=${encodeURIComponent(file.name)}`, file);

// oneAtATime returns a function that does work. Calls meanwhile make it do the work once more.
/** @param {AbortSignal} signal @param {() => Promise<void>} work */
export function oneAtATime(signal, work) {
  let busy = false, again = false;
  return async () => {
    again = busy;
    if (busy) return;
    busy = true;
    do {
      again = false;
      await work();
    } while (again && !signal.aborted);
    busy = false;
  };
}

// watch calls changed with the ids of traces that have grown, and with null
// when some may have been missed. state is told whether the viewer answers. A
// viewer that was restarted counts from zero again, so the page starts anew.
/** @param {View["changed"]} changed @param {(up: boolean) => void} state */
export function watch(changed, state) {
  if (offline) return;
  /** @type {EventSource} */
  let source;
  /** @type {string | undefined} */
  let epoch;
  const open = () => {
    source = new EventSource("api/changes");
    source.addEventListener("epoch", (e) => {
      if (epoch && epoch !== e.data) location.reload();
      epoch = e.data;
    });
    source.onopen = () => { state(true); changed(null); };
    source.onerror = () => state(false);
    source.onmessage = (e) => changed(new Set(JSON.parse(e.data)));
  };
  // A browser has six connections to a host: a hidden page must not keep one.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else open();
  });
  open();
}
