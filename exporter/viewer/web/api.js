async function json(path, signal) {
  const answer = await fetch(path, { signal });
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

export const listSessions = (query, signal) => json(`api/sessions?${query}`, signal);
export const getSession = (id, since, signal) => json(`api/sessions/${encodeURIComponent(id)}?since=${since}`, signal);
export const getSpan = (id, span, signal) =>
  json(`api/sessions/${encodeURIComponent(id)}/spans/${encodeURIComponent(span)}`, signal);

// watch calls changed with the ids of traces that have grown, and with null
// when some may have been missed. state is told whether the viewer answers.
export function watch(changed, state) {
  let source;
  const open = () => {
    source = new EventSource("api/changes");
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
