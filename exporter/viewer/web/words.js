// @ts-check
// How a session is called and how it goes, in words.

import { count, duration, money, percent, plural, seconds } from "./format.js";

/** @type {(s: Named) => string} */
export const who = (s) => s.agent || s.service || "unknown service";
/** @type {(s: Named) => string} */
export const what = (s) => s.model || (s.agent ? "" : s.name);
// folderName is the end of a path, which says most.
/** @type {(path: string, parts?: number) => string} */
export const folderName = (path, parts = 1) => path.replace(/[/\\]+$/, "").split(/[/\\]/).slice(-parts).join("/");

// headline is what tells a session from others: the first words of its prompt, or else its
// first command or answer, as far as they were recorded.
/** @type {(s: Named) => string} */
export const headline = (s) => beginning(s.prompt || s.first || "", 2000) || [who(s), what(s)].filter(Boolean).join(" · ");

// beginning is the first words of a text on one line, without the marks of Markdown.
/** @type {(text: string, most?: number) => string} */
export const beginning = (text, most = 300) => text.slice(0, most).replace(/(^|\s)#{1,6} |\*\*|__|`/g, "$1").replace(/\s+/g, " ").trim();

// tellApart shortens names at what they have in common with others.
/** @param {string[]} names @returns {(name: string) => string} */
export function tellApart(names) {
  const sorted = [...new Set(names)].sort();
  /** @type {(a: string, b?: string) => number} */
  const common = (a, b = "") => { let n = 0; while (n < a.length && a[n] === b[n]) n++; return n; };
  const short = new Map(sorted.map((name, i) => {
    const same = Math.max(common(name, sorted[i - 1]), common(name, sorted[i + 1])), word = name.lastIndexOf(" ", same) + 1;
    const from = same - word < shownOfCommon ? word : same;
    return [name, from > 1.5 * shownOfCommon ? `${name.slice(0, shownOfCommon).trim()}… ${name.slice(from)}` : name];
  }));
  return (name) => short.get(name) ?? name;
}

const shownOfCommon = 20;

// recent is how long after its last span a session whose sender does not tell
// what is open is taken to be running, in milliseconds.
const recent = 10 * 60e3;

// present is the time by the clock of a session's spans, in microseconds: a recording that is
// played has its own. All that is said of a live session follows from what its process reported,
// when that was read, and at, the time of day.
/** @param {{ now?: Now }} s */
export function present({ now }, at = Date.now() * 1e3) {
  if (!now) return at;
  return now.gone ? now.asked : now.asked + Math.max(0, at - now.read);
}

// state returns a color and words. now is in milliseconds.
/** @param {Session} s @param {number} now @returns {[kind: string, words: string]} */
export function state(s, now = present(s) / 1e3) {
  if (s.now?.gone) return ["gone", "gone: the process stopped reporting"];
  if (s.now && isStuck(s.now, now * 1e3)) return ["stuck", `stuck${s.now.op === "tool" ? " in a tool" : ""}: ${activity(s.now, now)}`];
  if (s.now) return ["running", activity(s.now, now)];
  if (s.failure) return ["failed", s.failure === "failed" ? s.failure : `failed: ${s.failure}`];
  if (s.ended && s.doubts?.length) return ["mixed", `ended, but ${s.doubts.map(doubt).join(", ")}`];
  if (s.ended && s.toolErrors) return ["mixed", `ended, ${plural(s.toolErrors, "error")}`]; // a run's errors are its failed tools
  if (s.ended) return ["ok", "ended well"];
  return now - s.came / 1e3 < recent ? ["running", "no end yet"] : ["open", "no end was received"];
}

// doubt says in words what makes a success doubtful.
/** @type {(d: { name: string, count: number }) => string} */
const doubt = ({ name, count: n }) => ({
  ends_on_tool: "said nothing after its last tool", last_command_failed: "its last command failed", no_work: "did nothing", bad_lines: `${plural(n, "line")} cut off`, no_end: "no line says that its last step ended", empty_answer: "its answer is empty",
  background_running: `${plural(n, "background task")} still ran`, denied: `${plural(n, "call")} denied`, open_calls: `${plural(n, "call")} never ended`, unknown_lines: `${plural(n, "line")} not understood`,
}[name] ?? name);

// isStuck tells that an agent has been silent for --stall-after. Work in the background may be.
/** @param {Now} n @param {number} us */
const isStuck = (n, us) => n.stall > 0 && n.op !== "background" && us - n.heard >= n.stall;

// inState reports whether a session is in a state that a list can be narrowed to.
/** @param {Session} s @param {string} wanted */
export function inState(s, wanted) {
  if (wanted === "failed") return s.failure !== "" || s.toolErrors > 0;
  const [kind] = state(s);
  return !wanted || kind === wanted || wanted === "running" && kind === "stuck";
}

// silent is how long nothing has to happen before it is said.
const silent = 5e6;

// activity is what an agent does this second, and since when.
/** @param {Now} n */
export function activity(n, now = Date.now()) {
  const us = now * 1e3;
  const quiet = us - n.heard > silent && us - n.since > silent ? `, silent for ${seconds(us - n.heard)}` : "";
  return `${doing(n)} for ${seconds(us - n.since)}${quiet}`;
}

// parted are the words of a state without its times, and those, which stay in sight however long the rest is.
/** @param {string} words */
export const parted = (words) => /^(.*?)((?: for \d\w*(?:, silent for \d\w*)?)?)$/s.exec(words)?.slice(1) ?? [words, ""];

/** @param {Now} n */
function doing(n) {
  switch (n.op) {
    case "chat": return !n.event ? "waiting for the model" : n.event.startsWith("thinking") ? "thinking" : n.event.startsWith("text") ? "writing" : n.event;
    case "tool": return `running ${withoutProgram(n.what, n.text)} ${n.text}`.trimEnd();
    case "approval": return `waiting for approval of ${n.what}`;
    case "background": return `in the background: ${n.what}`;
    case "agent": return "between steps";
  }
  return n.what;
}

// withoutProgram leaves the program out of a name if the command has it.
/** @param {string} what @param {string} command */
function withoutProgram(what, command) {
  const [tool, program] = what.split(" ");
  return program && command.split(/[\s/]+/).includes(program) ? tool : what;
}

// rowName names a step: a call of the session's model by its turn, another by its model as well.
/** @param {TraceNode} n @param {Session} [session] */
export function rowName(n, session) {
  if (n.op !== "chat") return withoutProgram(n.title, n.detail);
  return [n.bar.turn ? `turn ${n.bar.turn}` : "chat", n.title !== session?.model && n.title !== "chat" && n.title].filter(Boolean).join(" · ");
}

// rowDetail is what a step is about: a turn's first words, or else what it led to.
/** @param {TraceNode} n */
export function rowDetail(n, folder = "") {
  if (n.op === "chat") return n.words || ledTo(n);
  return n.bar.path && folder && n.detail.startsWith(folder + "/") ? n.detail.slice(folder.length + 1) : n.detail;
}

// spoken is a span in a sentence, for who cannot see its bar whole, or at all.
/** @param {TraceNode} n @param {Trace} trace */
export function spoken(n, trace) {
  const when = trace.timeless ? [] : [trace.time(n.duration), `at ${duration(n.start - trace.start)}`];
  const first = n.firstChunk > n.start && `first chunk after ${duration(n.firstChunk - n.start)}`;
  return [n.bar.name, rowDetail(n, trace.session?.folder), ...when, first, n.chunks && plural(n.chunks, "chunk"), n.open && "still running", n.failure && "failed", ...n.notes()].filter(Boolean).join(", ");
}

// readable writes attributes and events as words: "input tokens 9" for gen_ai.usage.input_tokens 9, "idle 20.7s" for idle_ms 20682.
/** @param {string} text */
export const readable = (text) => text
  .replace(/(^|, )([a-z]\w*(?:\.\w+)*) /g, (_, before, key) => `${before}${key.replace(/^gen_ai\.(?:(?:usage|response|request)\.)?/, "").replace(/[._]/g, " ")} `)
  .replace(/(^|, )([a-z ]+) ms (\d+)(?=,|$)/g, (_, before, key, ms) => `${before}${key} ${duration(ms * 1e3)}`)
  .replace(/(^|, )((?:[a-z ]+ )?cost) ([\d.]+)(?=,|$)/g, (_, before, key, usd) => `${before}${key} ${money(Number(usd))}`)
  .replace(/^[a-z_.]+$/, (name) => name.replace(/[._]/g, " "));

// tokens says what model calls took, as far as it is known.
/** @param {{ input?: number, cached?: number, output?: number, cost?: number }} used */
export const tokens = ({ input, cached, output, cost }) => [
  input && `${plural(input, "token")} in${cached ? ` (${percent(cached / input)} cached)` : ""}`,
  output && `${input ? count(output) : plural(output, "token")} out`,
  cost && money(cost),
].filter(Boolean);

/** @param {TraceNode} n */
function ledTo(n) {
  const tools = n.below.filter((c) => c.op === "tool").map((c) => c.bar.tool || c.title);
  if (!n.bar.turn || n.open && !tools.length) return "";
  return `→ ${(tools.length > 3 ? [...tools.slice(0, 3), "…"] : tools).join(", ") || (n.failure ? "failed" : "answer")}`;
}

// failedTools are the tool calls that failed, in order, without scripts that made calls.
/** @param {Trace} trace */
export const failedTools = (trace) => trace.nodes.filter((n) => n.failure && n.op === "tool" && !n.bar.script).sort((a, b) => a.start - b.start);
