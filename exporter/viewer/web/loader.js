// @ts-check
// A Loader keeps a trace up to date: it asks for what is new, one question at
// a time.

import { getSession } from "./api.js";
import { Trace } from "./trace.js";

export class Loader {
  // moved is told of a trace's other id: until the first stamp of a stream, it
  // has a provisional one.
  /** @param {string} id @param {AbortSignal} signal @param {(trace: Trace) => void} draw @param {(e: Error) => void} fail @param {(id: string) => void} moved */
  constructor(id, signal, draw, fail, moved = () => {}) {
    this.trace = new Trace(id);
    this.signal = signal;
    this.draw = draw;
    this.fail = fail;
    this.moved = moved;
    this.busy = this.again = false;
    this.load();
  }

  async load() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      let more = true;
      while (more && !this.signal.aborted) {
        const overview = await getSession(this.trace.id, this.trace.seq, this.signal);
        if (overview.session.id !== this.trace.id && !this.signal.aborted) {
          this.moved(overview.session.id);
          return;
        }
        more = overview.more;
        this.trace.merge(overview);
        if (!this.signal.aborted) this.draw(this.trace);
      }
    } catch (e) {
      if (!this.signal.aborted) this.fail(e);
    }
    this.busy = false;
    if (this.again && !this.signal.aborted) {
      this.again = false;
      this.load();
    }
  }

  /** @param {Set<string> | null} ids */
  changed(ids) {
    if (!ids || ids.has(this.trace.id) || this.trace.session?.now) this.load();
  }
}
