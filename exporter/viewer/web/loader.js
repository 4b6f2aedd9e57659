// @ts-check
// A Loader keeps a trace up to date: it asks for what is new, one question at
// a time.

import { getSession, oneAtATime } from "./api.js";
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
    this.load = oneAtATime(signal, () => this.ask());
    this.load();
  }

  async ask() {
    try {
      for (let more = true; more && !this.signal.aborted;) {
        const overview = await getSession(this.trace.id, this.trace.seq, this.signal);
        if (this.signal.aborted) return;
        if (overview.session.id !== this.trace.id) {
          this.moved(overview.session.id);
          return;
        }
        more = overview.more;
        this.trace.merge(overview);
        this.draw(this.trace);
      }
    } catch (e) {
      if (!this.signal.aborted) this.fail(e);
    }
  }

  /** @param {Set<string> | null} ids */
  changed(ids) {
    if (!ids || ids.has(this.trace.id) || this.trace.session?.now) this.load();
  }
}
