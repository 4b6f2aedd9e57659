// @ts-check
// Files that are dropped on the page.

import { addFile, offline } from "./api.js";

/** @param {HTMLElement} target @param {AbortSignal} signal @param {HTMLElement} status */
export function dropFiles(target, signal, status) {
  if (offline) return;
  /** @type {(e: DragEvent) => void} */
  const over = (e) => {
    if (!e.dataTransfer?.types.includes("Files")) return;
    e.preventDefault();
    target.classList.add("dropping");
  };
  target.addEventListener("dragover", over, { signal });
  target.addEventListener("dragleave", () => target.classList.remove("dropping"), { signal });
  target.addEventListener("drop", async (e) => {
    e.preventDefault();
    target.classList.remove("dropping");
    const added = [];
    for (const file of e.dataTransfer?.files ?? []) {
      try {
        status.textContent = `reading ${file.name}`;
        added.push(...await addFile(file));
        status.textContent = "";
      } catch (error) {
        status.textContent = error.message;
      }
    }
    if (added.length === 1 && !signal.aborted) location.hash = `#/trace/${added[0]}`;
  }, { signal });
}
