// @ts-check
// Arguments and results of tools as a person reads them: blocks made of JSON in
// the shapes that agents use. What is left over, and what parsers put in, is
// in the raw text.

// A block has a kind and its text, or lines, or items:
// command, path, query, output, error, diff, list, links, todos, fields.
/** @param {string | undefined} args @param {string | undefined} result */
export function readCall(args, result) {
  const a = parse(args), r = parse(result);
  const [variant, body] = unwrap(r);
  /** @type {Block[]} */
  const blocks = [];
  /** @type {Add} */
  const add = (kind, value, more = {}) => {
    const empty = value === undefined || value === null || value === "" || Array.isArray(value) && !value.length;
    if (!empty) blocks.push(/** @type {Block} */ ({ kind, value, ...more }));
    return !empty;
  };
  if (isObject(a)) readArguments(a, add, blocks);
  else if (typeof a === "string") add("text", a);
  if (isObject(body)) readResult(body, a, variant, add);
  else if (Array.isArray(body)) add("output", texts(body));
  else if (body !== undefined && body !== null) add("output", String(body));
  if (variant && !/success/i.test(variant) && !blocks.some((b) => b.kind === "error")) add("error", words(variant));
  return blocks;
}

/** @type {(o: Foreign, ...keys: string[]) => any} */
const first = (o, ...keys) => {
  for (const key of keys) {
    const v = o[key];
    if (typeof v === "string" && v !== "" || Array.isArray(v) && v.length) return v;
  }
};

// pathKeys and the like are the names that agents give to the same thing.
const pathKeys = ["path", "file_path", "filePath", "absolute_path", "targetFile", "notebook_path", "directory", "targetDirectory"];
const queryKeys = ["pattern", "query", "searchTerm", "globPattern", "glob_pattern", "url", "search_term", "prompt", "description", "explanation"];
const outputKeys = ["interleavedOutput", "aggregated_output", "output", "stdout", "content", "markdown", "text", "results", "message", "response"];
const errorKeys = ["error", "errorMessage", "modelVisibleError", "clientVisibleError", "reason", "stderr"];
const noise = new Set(["exitCode", "exit_code", "toolCallId", "tool_call_id", "parsingResult", "simpleCommands", "hasInputRedirect", "hasOutputRedirect",
  "fileOutputThresholdBytes", "isBackground", "workingDirectory", "timeout", "timeoutMs", "skipApproval", "requestedSandboxPolicy",
  "executionTime", "localExecutionTimeMs", "durationMs", "signal", "aborted", "isEmpty", "exceededLimit", "readRange", "isReadonly", "fileSize"]);

/** @param {Foreign} a @param {Add} add @param {Block[]} blocks */
function readArguments(a, add, blocks) {
  /** @type {Set<string>} */
  const known = new Set(noise);
  /** @type {(kind: Block["kind"], keys: string[]) => void} */
  const take = (kind, keys) => {
    const v = first(a, ...keys);
    if (v === undefined || v.length && typeof v[0] === "object") return;
    keys.forEach((k) => known.add(k));
    add(kind, Array.isArray(v) ? v.join(" ") : v);
  };
  if (!(/^\w+$/.test(a.command) && first(a, ...pathKeys))) take("command", ["command", "cmd", "script"]); // an editor's is no program's
  take("path", pathKeys);
  const before = first(a, "old_string", "oldText", "old_str"), after = a.new_string ?? a.newText ?? a.new_str;
  if (before !== undefined || typeof after === "string") {
    add("diff", diffLines(before ?? "", after ?? ""));
    ["old_string", "oldText", "old_str", "new_string", "newText", "new_str", "replace_all"].forEach((k) => known.add(k));
  }
  for (const edit of Array.isArray(a.edits) ? a.edits : []) {
    if (isObject(edit)) add("diff", diffLines(edit.old_string ?? edit.oldText ?? "", edit.new_string ?? edit.newText ?? ""));
    known.add("edits");
  }
  const file = first(a, "fileText", "file_text", "contents", "patch") ?? (first(a, ...pathKeys) && first(a, "content"));
  if (typeof file === "string") {
    add("diff", looksLikeDiff(file) ? patchLines(file) : file.replace(/\n$/, "").split("\n").map((text) => ({ sign: "+", text })));
    ["fileText", "file_text", "contents", "patch", "content"].forEach((k) => known.add(k));
  }
  take("query", queryKeys);
  if (Array.isArray(a.todos)) add("todos", a.todos.map(todo));
  if (Array.isArray(a.questions)) add("list", a.questions.filter(isObject).map((q) => [q.prompt ?? q.question, ...(q.options ?? []).map((/** @type {any} */ o) => `  ${o.label ?? o}`)].join("\n")));
  if (!blocks.length) add("fields", Object.entries(a).filter(([k, v]) => !known.has(k) && meaningful(v)));
}

/** @param {Foreign} body @param {unknown} a @param {string} variant @param {Add} add */
function readResult(body, a, variant, add) {
  const bad = variant && !/success/i.test(variant);
  const diff = first(body, "diffString", "diff", "unified_diff", "gitDiff"), hunks = body.structuredPatch;
  const patch = typeof diff === "string" ? [diff] : Array.isArray(hunks) ? hunks.map((hunk) => (hunk.lines ?? []).join("\n")) : null;
  if (patch) {
    add("diff", patch.flatMap(patchLines));
    return;
  }
  const message = bad || body.isError ? first(body, ...errorKeys) : undefined;
  const list = first(body, "files", "filenames", "matches") ?? workspace(body);
  const links = first(body, "references", "contents", "resources");
  if (Array.isArray(list)) add("list", list.map((f) => (typeof f === "string" ? f : f.path ?? f.uri ?? JSON.stringify(f))), { note: counted(body) });
  else if (Array.isArray(links)) add("links", links.filter(isObject).map((l) => ({ title: l.title ?? l.name ?? l.url ?? l.uri, url: l.url ?? l.uri ?? "", text: l.text ?? l.chunk ?? "" })));
  else if (Array.isArray(body.todos)) { if (!isObject(a) || !Array.isArray(a.todos)) add("todos", body.todos.map(todo)); }
  else {
    const output = first(body, ...outputKeys);
    const said = Array.isArray(output) ? texts(output) : output;
    if (said !== undefined) add("output", said, { error: Boolean(body.isError) });
    if (first(body, "interleavedOutput") === undefined && body.stderr) add("output", body.stderr, { error: true });
    if (said === undefined && !body.stderr && message === undefined) add("fields", Object.entries(body).filter(([k, v]) => !noise.has(k) && meaningful(v) && !repeats(a, k, v)));
  }
  if (typeof message === "string" && message !== body.stderr) add("error", message);
  const exit = body.exitCode ?? body.exit_code;
  if (exit) add("error", `exit code ${exit}`);
}

/** @type {(t: Foreign) => { done: boolean, doing: boolean, text: string }} */
const todo = (t) => ({ done: /complete|done/i.test(t.status ?? ""), doing: /progress/i.test(t.status ?? ""), text: t.content ?? t.text ?? t.description ?? t.title ?? "" });
/** @type {(a: unknown, key: string, v: unknown) => boolean} */
const repeats = (a, key, v) => isObject(a) && JSON.stringify(a[key]) === JSON.stringify(v);
/** @type {(v: unknown) => boolean} */
const meaningful = (v) => v !== null && v !== "" && v !== false && !(typeof v === "object" && !Object.keys(v).length);
/** @type {(body: Foreign) => string} */
const counted = (body) => (body.clientTruncated || body.ripgrepTruncated || body.truncated ? "truncated by the tool" : "");

// workspace finds the matches of a search over several folders.
/** @param {Foreign} body */
function workspace(body) {
  if (!isObject(body.workspaceResults)) return;
  const lines = [];
  for (const found of Object.values(body.workspaceResults)) {
    for (const f of found?.files?.files ?? []) lines.push(f);
    for (const m of found?.content?.matches ?? []) {
      for (const line of m.matches ?? []) lines.push(`${m.file}:${line.lineNumber ?? ""}: ${line.content ?? ""}`);
    }
    for (const c of found?.count?.counts ?? []) lines.push(`${c.file}: ${c.count}`);
  }
  return lines;
}

/** @param {string | undefined} text @returns {any} */
export function parse(text) {
  if (!text) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // no JSON, or cut short
  }
}

/** @type {(v: unknown) => v is Foreign} */
const isObject = /** @returns {v is Foreign} */ (v) => v !== null && typeof v === "object" && !Array.isArray(v);

// unwrap takes a result out of its variant, such as {"success": {...}}.
/** @param {unknown} r @returns {[string, unknown]} */
function unwrap(r) {
  if (!isObject(r)) return ["", r];
  const variants = Object.keys(r).filter((k) => isObject(r[k]));
  const [name] = variants;
  if (variants.length === 1 && /^(success|startSuccess|failure|error|rejected|timeout|spawnError|fileNotFound|notFound|notFile|fileBusy|[a-z]*[pP]ermissionDenied)$/.test(name)) {
    return [name, { ...r[name] }];
  }
  return ["", r];
}

// words writes camelCase and snake_case as words.
/** @type {(name: string) => string} */
export const words = (name) => name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ").toLowerCase();

// texts is the text in a list of content parts.
/** @param {any[]} parts */
function texts(parts) {
  return parts.map((p) => (typeof p === "string" ? p : typeof p?.text === "string" ? p.text : p?.text?.text ?? p?.content ?? JSON.stringify(p))).join("\n");
}

/** @type {(s: string) => boolean} */
const looksLikeDiff = (s) => /^(\*\*\* |--- |@@ |diff )/m.test(s) && /^[+-]/m.test(s);

// patchLines are the lines of a unified diff.
/** @param {string} diff */
export function patchLines(diff) {
  return diff.replace(/\n$/, "").split("\n").map((line) => {
    if (/^(@@|\*\*\*|diff |index |--- |\+\+\+ )/.test(line)) return { sign: "@", text: line };
    const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
    return { sign, text: sign === " " && line[0] !== " " ? line : line.slice(1) };
  });
}

// diffLines compares two texts line by line: what they begin and end with is
// the same, and between them the longest common sequence, if it is not too long.
/** @param {string} before @param {string} after */
export function diffLines(before, after) {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  /** @type {(list: string[]) => DiffLine[]} */
  const same = (list) => list.map((text) => ({ sign: " ", text }));
  return [
    ...same(a.slice(0, head)),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...same(tail ? a.slice(-tail) : []),
  ];
}

/** @param {string[]} a @param {string[]} b @returns {DiffLine[]} */
function middle(a, b) {
  if (a.length * b.length > 1e6) return [...a.map((text) => ({ sign: "-", text })), ...b.map((text) => ({ sign: "+", text }))];
  return weave(a, b, (line) => line).map(({ left, right }) => (left === null ? { sign: "+", text: right ?? "" } : { sign: right === null ? "-" : " ", text: left }));
}

// weave pairs what is the same in two lists, in order: a longest common subsequence.
/** @template T @param {T[]} a @param {T[]} b @param {(item: T) => string} keyOf */
export function weave(a, b, keyOf) {
  const x = a.map(keyOf), y = b.map(keyOf), width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * width + j] = x[i] === y[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  /** @type {Pair<T>[]} */
  const pairs = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    const both = i < a.length && j < b.length;
    if (both && x[i] === y[j]) pairs.push({ left: a[i++], right: b[j++] });
    else if (j === b.length || both && best[(i + 1) * width + j] >= best[i * width + j + 1]) pairs.push({ left: a[i++], right: null });
    else pairs.push({ left: null, right: b[j++] });
  }
  return pairs;
}
