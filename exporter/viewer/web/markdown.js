// @ts-check
// Prompts and answers as Markdown. What the parser finds becomes elements; nothing is ever
// read as HTML, and nothing is loaded.

import { h } from "./dom.js";
import { lexer } from "./vendor/marked.js";

// maxMarkdown bounds what is parsed, in characters.
const maxMarkdown = 64 << 10;

/** @param {string} text */
export function markdown(text) {
  if (text.length <= maxMarkdown) {
    try {
      return h("div", { class: "markdown" }, lexer(text, { breaks: true, gfm: true }).map(element));
    } catch {
      // It is nested too deep for the parser.
    }
  }
  return h("pre", { class: "prose" }, text);
}

/** @param {Token} t @returns {Leaf} */
function element(t) {
  /** @type {() => Leaf[]} */
  const inside = () => (t.tokens ? t.tokens.map(element) : [t.text ?? t.raw]);
  switch (t.type) {
    case "space": case "def": case "checkbox": return null;
    case "heading": return h("p", { class: `heading level${t.depth}` }, inside());
    case "paragraph": return h("p", {}, inside());
    case "code": return h("pre", { class: "code", title: t.lang }, t.text);
    case "blockquote": return h("blockquote", {}, inside());
    case "list": return h(t.ordered ? "ol" : "ul", { start: t.ordered && t.start !== 1 && t.start }, (t.items ?? []).map(element));
    case "list_item": return h("li", {}, t.task && (t.checked ? "☑ " : "☐ "), inside());
    case "table": return h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, (t.header ?? []).map((cell) => h("th", { scope: "col" }, cell.tokens.map(element))))),
      h("tbody", {}, (t.rows ?? []).map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell.tokens.map(element))))))));
    case "hr": return h("hr");
    case "strong": return h("strong", {}, inside());
    case "em": return h("em", {}, inside());
    case "del": return h("del", {}, inside());
    case "codespan": return h("code", {}, t.text);
    case "br": return h("br");
    case "link": case "image": return link(t, t.type === "image" ? [t.text || "image"] : inside());
    case "text": case "escape": return t.tokens ? h("span", {}, inside()) : t.text;
  }
  return t.raw; // HTML is text
}

// link leads only to the web: a script or a file is no address that a model should choose.
/** @param {Token} t @param {Leaf[]} label */
function link({ href = "" }, label) {
  return /^https?:\/\//i.test(href) ? h("a", { href, target: "_blank", rel: "noopener noreferrer" }, label) : h("span", {}, label, ` (${href})`);
}
