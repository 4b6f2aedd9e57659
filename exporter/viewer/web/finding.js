// @ts-check
// What a filter of spans means: all its words have to match. A word is text of
// a span, or one of these: is:error, is:open, is:wait, op:chat, tool:shell.

/** @param {string} text @returns {Match | null} */
export function parseFilter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return (n) => words.every((word) => matches(n, word));
}

/** @param {TraceNode} n @param {string} word */
function matches(n, word) {
  const [, kind, value] = /^(is|op|tool):(.+)$/.exec(word) ?? [];
  switch (kind) {
    case "is":
      if (value === "error") return n.failure !== "";
      if (value === "open") return n.open;
      if (value === "wait") return n.op === "chat" && n.firstChunk > 0;
      return false;
    case "op": return n.op === value;
    case "tool": return n.op === "tool" && (n.bar.tool || n.title).toLowerCase() === value.replaceAll("+", " ");
  }
  return n.bar.name.toLowerCase().includes(word) || n.failure.toLowerCase().includes(word) ||
    n.detail.toLowerCase().includes(word) || (n.bar.executable ?? "").toLowerCase().includes(word) ||
    n.id.startsWith(word) || n.content.includes(word);
}

/** @type {(tool: string) => string} */
export const toolWord = (tool) => `tool:${tool.replaceAll(" ", "+")}`;

// An address is a page with what it shows: #/trace/ID/SPAN?q=grep&from=0.
/** @param {string} hash */
export function parseAddress(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { parts: path.split("/").map(decode), query: new URLSearchParams(query) };
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // no address of ours
  }
}

// writeAddress leaves out what is empty.
/** @param {(string | null | undefined)[]} parts @param {Record<string, string | number | string[]>} values */
export function writeAddress(parts, values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) for (const v of Array.isArray(value) ? value : [value]) if (v || v === 0) query.append(key, String(v));
  const path = "#/" + parts.flatMap((p) => (p ? encodeURIComponent(p) : [])).join("/");
  return query.size ? `${path}?${query}` : path;
}
