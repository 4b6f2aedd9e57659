// The theme follows the system until the button says otherwise.

const key = "spantee.theme";
const next = { auto: "light", light: "dark", dark: "auto" };
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
const resolved = new Map();
let probe;

let chosen = "auto";
try {
  chosen = next[localStorage.getItem(key)] ? localStorage.getItem(key) : "auto";
} catch {
  // No storage, as in a private window.
}

function apply() {
  document.documentElement.style.colorScheme = chosen === "auto" ? "" : chosen;
  resolved.clear();
  for (const f of listeners) f();
}

export function startTheme(button) {
  const label = () => {
    button.textContent = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[chosen];
  };
  button.addEventListener("click", () => {
    chosen = next[chosen];
    try {
      localStorage.setItem(key, chosen);
    } catch {
      // It lasts as long as the page.
    }
    label();
    apply();
  });
  system.addEventListener("change", apply);
  label();
  apply();
}

// onTheme calls f whenever colors have changed, until signal is aborted.
export function onTheme(f, signal) {
  listeners.add(f);
  signal.addEventListener("abort", () => listeners.delete(f));
}

// color is a color of base.css as a canvas takes it: there a custom property
// would be the light-dark() it was written as.
export function color(name) {
  let c = resolved.get(name);
  if (c === undefined) {
    if (!probe) {
      probe = document.createElement("span");
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    c = getComputedStyle(probe).color;
    resolved.set(name, c);
  }
  return c;
}
