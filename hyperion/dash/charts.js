// Curves on canvases. A point may stand for many steps: its mean is the line, its lowest and highest the band behind it.

export const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [14, 5], [4, 2], [1, 4]];
export const COLORS = 7;
export const colorOf = (slot) => css(`--run-${slot % COLORS}`);
export const dashOf = (slot) => DASHES[(slot + Math.floor(slot / COLORS)) % DASHES.length];

const kept = new Map();
const css = (name) => {
  if (!kept.has(name)) kept.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return kept.get(name);
};
export const forgetColors = () => kept.clear();
const finite = (y) => y !== null && y !== undefined;
const MARGIN = { left: 58, right: 12, top: 8, bottom: 22 };

// About `wanted` round numbers from low to high.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || 10 * power;
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) found.push(i * step);
  return found;
}

function decades(low, high) {
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
    for (const m of high / low > 1000 ? [1] : [1, 2, 5]) if (m * 10 ** p >= low && m * 10 ** p <= high) found.push(m * 10 ** p);
  return found.length > 1 ? found : [low, high];
}

// The least and the greatest of what is drawn.
function extent(lines, view, logarithmic) {
  let low = Infinity, high = -Infinity;
  const take = (y) => {
    if (!finite(y) || (logarithmic && y <= 0)) return;
    if (y < low) low = y;
    if (y > high) high = y;
  };
  for (const { x, mean, low: lows, high: highs, points } of lines) {
    for (let i = 0; i < x.length; ++i) {
      if (x[i] < view.from || x[i] > view.to) continue;
      take(lows ? lows[i] : mean[i]);
      take(highs ? highs[i] : mean[i]);
    }
    for (const [at, y] of points) if (at >= view.from && at <= view.to) take(y);
  }
  if (low > high) return null;
  if (low === high) return logarithmic ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  if (logarithmic) return [low, high];
  const room = (high - low) * 0.06;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// The index of the x nearest to a value, of rising ones.
export function nearest(x, value) {
  let low = 0, high = x.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - x[low - 1] < x[low] - value ? low - 1 : low;
}

export class Chart {
  // `on`: { cursor(x or null), zoom(from, to), zoomBy(factor), back() }
  constructor(name, title, format, first, on) {
    this.name = name, this.title = title, this.format = format, this.on = on;
    this.figure = document.createElement('figure');
    if (first) this.figure.className = 'first';
    const caption = document.createElement('figcaption');
    const heading = document.createElement('span');
    heading.textContent = title;
    this.read = document.createElement('span');
    this.read.className = 'read';
    caption.append(heading, this.read);
    this.canvas = document.createElement('canvas');
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.figure.append(caption, this.canvas);
    this.lines = [], this.view = null, this.cursor = null, this.dragged = null;
    this.listen();
  }

  listen() {
    const { canvas, on } = this;
    const at = (event) => this.valueAt(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener('pointerdown', (event) => {
      this.dragged = { from: at(event), x: event.clientX };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => on.cursor(at(event)));
    canvas.addEventListener('pointerup', (event) => {
      const begun = this.dragged;
      this.dragged = null;
      if (begun && Math.abs(event.clientX - begun.x) > 12) on.zoom(Math.min(begun.from, at(event)), Math.max(begun.from, at(event)));
    });
    canvas.addEventListener('pointercancel', () => { this.dragged = null; });
    canvas.addEventListener('pointerleave', () => { if (!this.dragged) on.cursor(null); });
    canvas.addEventListener('dblclick', () => on.back());
    canvas.addEventListener('blur', () => on.cursor(null));
    canvas.addEventListener('keydown', (event) => {
      const x = this.lines.length ? this.lines[0].x : [];
      const here = this.cursor === null ? x.length - 1 : nearest(x, this.cursor);
      const far = event.shiftKey ? 20 : 1;
      const moves = { ArrowLeft: here - far, ArrowRight: here + far, Home: 0, End: x.length - 1 };
      if (event.key in moves && x.length) on.cursor(x[Math.max(0, Math.min(x.length - 1, moves[event.key]))]);
      else if (event.key === '+' || event.key === '=') on.zoomBy(0.5);
      else if (event.key === '-') on.zoomBy(2);
      else if (event.key === 'Escape') on.back();
      else return;
      event.preventDefault();
    });
  }

  valueAt(pixel) {
    const inner = this.canvas.clientWidth - MARGIN.left - MARGIN.right;
    const part = Math.max(0, Math.min(1, (pixel - MARGIN.left) / inner));
    return this.view ? this.view.from + part * (this.view.to - this.view.from) : 0;
  }

  // Before any chart is drawn: what is read of the page after something was changed in it costs a layout.
  measure() {
    this.width = this.canvas.clientWidth, this.height = this.canvas.clientHeight;
  }

  // lines: [{ label, color, dash, x, mean, low, high, points: [[x, y]] }]; view: { from, to, logarithmic, formatX }
  draw(lines, view, cursor) {
    this.lines = lines, this.view = view, this.cursor = cursor;
    const { canvas, width, height } = this;
    this.range = extent(lines, view, view.logarithmic);
    if (width === 0) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (!this.range) return;
    const [low, high] = this.range;
    const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
    const scale = view.logarithmic ? Math.log : (y) => y;
    const toX = (x) => MARGIN.left + (x - view.from) / (view.to - view.from || 1) * (right - MARGIN.left);
    const toY = (y) => bottom - (scale(y) - scale(low)) / (scale(high) - scale(low)) * (bottom - MARGIN.top);
    this.axes(pen, { low, high, right, bottom, toX, toY });
    pen.save();
    pen.beginPath();
    pen.rect(MARGIN.left, 0, right - MARGIN.left + 1, height);
    pen.clip();
    for (const line of lines) this.line(pen, line, toX, toY);
    if (cursor !== null) this.mark(pen, cursor, toX, bottom);
    pen.restore();
  }

  axes(pen, { low, high, right, bottom, toX, toY }) {
    const { view } = this;
    pen.font = '11.5px system-ui, sans-serif';
    pen.fillStyle = css('--soft');
    pen.strokeStyle = css('--grid');
    pen.lineWidth = 1;
    pen.setLineDash([]);
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    for (const y of view.logarithmic ? decades(low, high) : ticks(low, high, 5)) {
      const at = Math.round(toY(y)) + 0.5;
      pen.beginPath();
      pen.moveTo(MARGIN.left, at);
      pen.lineTo(right, at);
      pen.stroke();
      pen.fillText(this.format(y), MARGIN.left - 6, at);
    }
    pen.textBaseline = 'top';
    for (const x of view.to > view.from ? ticks(view.from, view.to, Math.max(2, (right - MARGIN.left) / 110)) : [view.to]) {
      const text = view.formatX(x), half = pen.measureText(text).width / 2;
      pen.textAlign = 'center';
      pen.fillText(text, Math.min(Math.max(toX(x), MARGIN.left + half), right - half), bottom + 6);
    }
  }

  line(pen, { color, dash, x, mean, low, high, points }, toX, toY) {
    const shown = (y) => finite(y) && !(this.view.logarithmic && y <= 0);
    pen.fillStyle = pen.strokeStyle = color;
    if (low) {
      pen.globalAlpha = 0.25;
      const wide = Math.max(1, x.length > 1 ? (toX(x[x.length - 1]) - toX(x[0])) / x.length : 1);
      pen.beginPath();
      for (let i = 0; i < x.length; ++i) {
        if (!shown(low[i]) || low[i] === high[i]) continue;
        const top = toY(high[i]);
        pen.rect(toX(x[i]) - wide, top, wide, Math.max(1, toY(low[i]) - top));
      }
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.lineWidth = 1.6;
    pen.lineJoin = 'round';
    pen.setLineDash(dash);
    pen.beginPath();
    let drawing = false;
    for (let i = 0; i < x.length; ++i) {
      if (!shown(mean[i])) { drawing = false; continue; }
      const alone = !drawing && !(i + 1 < x.length && shown(mean[i + 1]));
      if (drawing) pen.lineTo(toX(x[i]), toY(mean[i])); else pen.moveTo(toX(x[i]) - (alone ? 2 : 0), toY(mean[i]));
      if (alone) pen.lineTo(toX(x[i]) + 2, toY(mean[i]));
      drawing = true;
    }
    pen.stroke();
    pen.setLineDash([]);
    const ground = css('--sheet');
    for (const [at, y] of points) {
      if (!shown(y)) continue;
      pen.beginPath();
      pen.arc(toX(at), toY(y), 3.6, 0, 2 * Math.PI);
      pen.fillStyle = ground;
      pen.fill();
      pen.stroke();
    }
  }

  mark(pen, cursor, toX, bottom) {
    pen.strokeStyle = css('--soft');
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(toX(cursor), MARGIN.top);
    pen.lineTo(toX(cursor), bottom);
    pen.stroke();
    if (!this.dragged) return;
    pen.globalAlpha = 0.12;
    pen.fillStyle = css('--accent');
    pen.fillRect(toX(this.dragged.from), MARGIN.top, toX(cursor) - toX(this.dragged.from), bottom - MARGIN.top);
    pen.globalAlpha = 1;
  }

  // What stands at the cursor, else the newest.
  say() {
    const words = [];
    for (const { label, x, mean, points } of this.lines) {
      let y, at = this.cursor;
      if (x.length) {
        const i = at === null ? x.length - 1 : nearest(x, at);
        y = mean[i], at = x[i];
      } else if (points.length) {
        [at, y] = points[at === null ? points.length - 1 : nearest(points.map((one) => one[0]), at)];
      }
      if (finite(y)) words.push((this.lines.length > 1 ? `${label} ` : '') + this.format(y) + (this.cursor === null ? '' : ` at ${this.view.formatX(at)}`));
    }
    const few = words.length > 3 ? [...words.slice(0, 3), '…'] : words;
    this.read.textContent = few.join(' · ');
    this.canvas.setAttribute('aria-label', `${this.title}: ${this.range ? words.join(', ') : 'nothing yet'}`);
  }
}
