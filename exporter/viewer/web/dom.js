// h makes an element. Strings become text, never HTML.
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") el.className = value;
    else if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return el;
}

// copyButton copies text, and says that it did.
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
