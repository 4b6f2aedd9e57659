// @ts-check
// A Pen draws on a canvas, in the colors of base.css.

import { color, onTheme } from "./theme.js";

const sans = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const fonts = {
  body: `13px ${sans}`,
  strong: `600 13px ${sans}`,
  small: `11px ${sans}`,
  number: `12px ${sans}`,
};
const ellipsis = "…";
const rightToLeft = /^\P{L}*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u; // by the first letter

// keepDrawn has a view drawn again when its box or the theme changes, until signal is aborted.
/** @param {TimeView & { layout(): void }} view @param {Element} box @param {Timeline} timeline @param {AbortSignal} signal */
export function keepDrawn(view, box, timeline, signal) {
  timeline.views.add(view);
  const resized = new ResizeObserver(() => view.layout());
  resized.observe(box);
  onTheme(() => view.layout(), signal);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    timeline.views.delete(view);
  });
}

export class Pen {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    /** @type {Map<string, [string, number]>} */
    this.cuts = new Map();
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    const ratio = devicePixelRatio || 1;
    const w = Math.round(width * ratio), hgt = Math.round(height * ratio);
    if (this.canvas.width !== w || this.canvas.height !== hgt) {
      this.canvas.width = w;
      this.canvas.height = hgt;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.textBaseline = "middle";
  }

  /** @param {number} width @param {number} height */
  clear(width, height) { this.context.clearRect(0, 0, width, height); }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {() => void} draw */
  clip(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  /** @param {string} ink @param {number} x @param {number} y @param {number} width @param {number} height */
  fill(ink, x, y, width, height, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = color(ink);
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }

  /** @param {string} ink @param {number} x @param {number} y @param {number} width @param {number} height */
  rounded(ink, x, y, width, height) {
    this.context.fillStyle = color(ink);
    if (width < 4) {
      this.context.fillRect(x, y, width, height);
      return;
    }
    this.context.beginPath();
    this.context.roundRect(x, y, width, height, Math.min(3, height / 2));
    this.context.fill();
  }

  /** @param {number} x @param {number} y @param {string} ink */
  dot(x, y, ink) {
    this.context.fillStyle = color(ink);
    this.context.beginPath();
    this.context.arc(x, y, 3.5, 0, 2 * Math.PI);
    this.context.fill();
  }

  // cross marks what failed, for those who cannot tell its color.
  /** @param {number} x @param {number} y @param {string} ink */
  cross(x, y, ink, size = 3) {
    this.context.strokeStyle = color(ink);
    this.context.lineWidth = 2;
    this.context.beginPath();
    for (const way of [-1, 1]) {
      this.context.moveTo(x - size, y - way * size);
      this.context.lineTo(x + size, y + way * size);
    }
    this.context.stroke();
  }

  /** @param {number} x @param {number} y @param {boolean} closed */
  caret(x, y, closed) {
    this.context.strokeStyle = color("dim");
    this.context.lineWidth = 1.4;
    this.context.beginPath();
    if (closed) {
      this.context.moveTo(x - 1.5, y - 3.5);
      this.context.lineTo(x + 2, y);
      this.context.lineTo(x - 1.5, y + 3.5);
    } else {
      this.context.moveTo(x - 3.5, y - 1.5);
      this.context.lineTo(x, y + 2);
      this.context.lineTo(x + 3.5, y - 1.5);
    }
    this.context.stroke();
  }

  // text returns where it ends. The end of a path says more than its beginning.
  /** @param {string} text @param {number} x @param {number} y @param {string} ink @param {Font} font @param {CanvasTextAlign} align @param {number} room @param {boolean} [isPath] */
  text(text, x, y, ink, font, align = "left", room = Infinity, isPath = false) {
    this.context.font = fonts[font];
    this.context.fillStyle = color(ink);
    this.context.textAlign = align;
    this.context.direction = rightToLeft.test(text) ? "rtl" : "ltr";
    const [cut, width] = this.cut(text, font, Math.floor(room), isPath);
    this.context.fillText(cut, x, y);
    return x + width;
  }

  // cut shortens text to what fits. Measuring is slow: what it found is kept.
  /** @param {string} text @param {Font} font @param {number} room @param {boolean} isPath @returns {[string, number]} */
  cut(text, font, room, isPath) {
    const key = `${font} ${room} ${isPath} ${text}`;
    let found = this.cuts.get(key);
    if (found) return found;
    if (this.cuts.size > 5000) this.cuts.clear();
    /** @type {(length: number) => string} */
    const part = (length) => (!length ? "" : isPath ? ellipsis + text.slice(-length) : text.slice(0, length) + ellipsis);
    if (text.length > 300) text = part(300);
    /** @type {(s: string) => number} */
    const measure = (s) => this.context.measureText(s).width;
    let width = measure(text), shown = text;
    if (width > room) {
      let low = 0, high = text.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (measure(part(middle)) <= room) low = middle;
        else high = middle - 1;
      }
      shown = part(low);
      width = measure(shown);
    }
    found = [shown, width];
    this.cuts.set(key, found);
    return found;
  }
}
