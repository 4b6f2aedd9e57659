// @ts-check
// Prompts, answers, arguments and results: JSON strings in the shapes of the
// GenAI conventions, shown as the text that they are.

import { h } from "./dom.js";
import { markdown } from "./markdown.js";
import { parse } from "./reading.js";

// contentTitles are the attributes with content.
/** @type {Record<string, string>} */
export const contentTitles = {
  "gen_ai.system_instructions": "Instructions",
  "gen_ai.input.messages": "Prompt",
  "gen_ai.output.messages": "Answer",
  "gen_ai.tool.call.arguments": "Arguments",
  "gen_ai.tool.call.result": "Result",
};

/** @param {string} key @param {string} text */
export function readable(key, text) {
  const value = parse(text);
  if (key.endsWith(".messages") && Array.isArray(value)) return h("div", { class: "messages" }, value.map(message));
  if (key === "gen_ai.system_instructions" && Array.isArray(value)) return h("div", { class: "messages" }, value.map(part));
  return tree(value, 0);
}

/** @param {Foreign | null} m */
function message(m) {
  if (m === null || typeof m !== "object") return tree(m, 0);
  const parts = Array.isArray(m.parts) ? m.parts : [m.content ?? m];
  return h("div", { class: `message ${m.role === "user" ? "user" : ""}` },
    h("h3", {}, typeof m.role === "string" ? m.role : "message", m.finish_reason ? h("span", { class: "dim" }, ` ${text(m.finish_reason)}`) : ""),
    parts.map(part));
}

/** @param {Foreign | string | null} p */
function part(p) {
  if (typeof p === "string") return h("pre", {}, p);
  if (p === null || typeof p !== "object") return tree(p, 0);
  switch (p.type) {
    case "text": return markdown(text(p.content));
    case "reasoning": return h("pre", { class: "dim" }, text(p.content));
    case "tool_call": return h("div", {}, h("h4", {}, `calls ${text(p.name)}`), tree(p.arguments ?? null, 0));
    case "tool_call_response": return h("div", {}, h("h4", {}, "result"), tree(p.response ?? p.result ?? null, 0));
  }
  return tree(p, 0);
}

/** @type {(v: unknown) => string} */
const text = (v) => (typeof v === "string" ? v : JSON.stringify(v, null, 2) ?? "");

// tree shows a value with its strings as text, line ends and all.
/** @param {unknown} v @param {number} depth @returns {Element} */
function tree(v, depth) {
  if (typeof v === "string") {
    const inner = depth < 8 && /^\s*[[{]/.test(v) ? parse(v) : v;
    return typeof inner === "string" ? h("pre", {}, inner) : tree(inner, depth + 1);
  }
  if (v === null || typeof v !== "object") return h("pre", {}, String(v));
  if (depth > 8) return h("pre", {}, JSON.stringify(v, null, 2));
  const entries = Object.entries(v);
  if (!entries.length) return h("pre", { class: "dim" }, Array.isArray(v) ? "[]" : "{}");
  return h("dl", { class: "tree" }, entries.map(([k, value]) =>
    h("div", { class: isShort(value) ? "short" : "" }, h("dt", {}, k), h("dd", {}, tree(value, depth + 1)))));
}

// isShort tells what fits beside its name.
/** @param {unknown} v */
function isShort(v) {
  return v === null || typeof v !== "object" && !/[\n[{]/.test(String(v)) && String(v).length < 40;
}
