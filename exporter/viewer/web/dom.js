// @ts-check
/**
 * h makes an element. Strings become text, never HTML.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props} props
 * @param {...Child} children
 */
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") el.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else el.setAttribute(key, value === true ? "" : String(value));
  }
  return fill(el, ...children);
}

/**
 * fill puts children in place of those that an element has, and leaves out what is missing.
 * @template {Element} T
 * @param {T} el
 * @param {...Child} children
 */
export function fill(el, ...children) {
  el.replaceChildren(.../** @type {(Element | string)[]} */ (children.flat().filter((c) => c !== undefined && c !== null && c !== false && c !== "")));
  return el;
}

// arrange makes elements the children of another, and moves as few as possible: what moves loses the focus.
/** @param {Element} parent @param {Element[]} order */
export function arrange(parent, order) {
  const wanted = new Set(order);
  for (const el of [...parent.children]) if (!wanted.has(el)) el.remove();
  order.forEach((el, i) => { if (parent.children[i] !== el) parent.insertBefore(el, parent.children[i] ?? null); });
}

// stored and store use what the browser keeps: nothing, in a private window.
/** @param {string} key */
export function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // It lasts as long as the page.
  }
}

// headings are the first row of a table.
/** @type {(names: string[]) => Element} */
export const headings = (names) => h("thead", {}, h("tr", {}, names.map((t, i) => h("th", { scope: "col", class: i ? "num" : "" }, t))));

// help is a table of keys and what they do.
/** @param {string[][]} rows */
export function help(rows) {
  return h("details", { class: "help" }, h("summary", {}, "Keys"),
    h("table", {}, rows.map(([keys, what]) => h("tr", {}, h("th", { scope: "row" }, keys), h("td", {}, what)))));
}

// inField reports whether a key is typed into a field.
/** @param {KeyboardEvent} e */
export const inField = (e) => e.target instanceof Element && e.target.closest("input:not([type=checkbox]), select") !== null;

// stepButton leads to the next or the previous of something.
/** @param {number} way @param {string} name @param {(way: number) => void} go */
export const stepButton = (way, name, go) => h("button", { type: "button", class: "quiet step", "aria-label": name, title: name, onclick: () => go(way) }, way < 0 ? "↑" : "↓");

// copyButton copies text, and says that it did.
/** @param {string} text @param {string} label */
export function copyButton(text, label) {
  const b = h("button", { class: "quiet copy", type: "button", title: "Copy" }, label);
  b.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      b.textContent = "copied";
    } catch {
      b.textContent = "press Ctrl-C"; // the browser does not allow it
    }
    setTimeout(() => { b.textContent = label; }, 1200);
  });
  return b;
}
