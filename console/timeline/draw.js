// @ts-check
// Draws the timeline on a canvas. The cost depends on what is visible, not on the number of marks.
import { enlarged } from '../page/lib/size.js';
import { moment } from '../page/lib/ui.js';
import { Type } from './model.js';

export const laneHeight = Math.round(22 * enlarged);
export const axisHeight = Math.round(24 * enlarged);

/** @typedef {{model: import('./model.js').Model, axis: import('./model.js').Axis, lanes: number[], from: number, scale: number, top: number,
 *   width: number, height: number, gutter: number, selected: string, chain: Set<string>|null, colors: Record<string, string>, fonts: {sans: string}}} View */

/** @param {Element} el */
export function palette(el) {
  const style = getComputedStyle(el);
  const names = ['bg', 'panel', 'line', 'line-strong', 'text', 'quiet', 'faint', 'accent', 'good', 'wait', 'bad', 'blue', 'violet', 'select'];
  return Object.fromEntries(names.map((n) => [n, style.getPropertyValue('--' + n).trim()]));
}

/** @param {CanvasRenderingContext2D} g @param {View} v */
export function draw(g, v) {
  const { model, axis, colors: c, width, height, gutter, scale } = v;
  g.fillStyle = c.bg;
  g.fillRect(0, 0, width + 1, height + 1); // also the partial pixel at the edge
  const first = Math.max(0, Math.floor(v.top / laneHeight));
  const last = Math.min(v.lanes.length, Math.ceil((v.top + height - axisHeight) / laneHeight));
  const toX = (/** @type {number} */ t) => gutter + (axis.position(t) - v.from) * scale;

  g.save();
  g.beginPath();
  g.rect(gutter, axisHeight, width - gutter, height - axisHeight);
  g.clip();
  for (const f of axis.folds) {
    const x = toX(f.from), end = toX(f.to);
    if (end < gutter || x > width) continue;
    g.fillStyle = c.panel;
    g.fillRect(x, axisHeight, end - x, height);
  }
  g.fillStyle = c.line;
  for (let i = first; i < last; i++) g.fillRect(gutter, axisHeight + (i + 1) * laneHeight - v.top - 1, width - gutter, 1);

  const begin = axis.time(v.from), stop = axis.time(v.from + (width - gutter) / scale);
  const tones = [c.accent, c.bad, c.wait, c.blue, c.bad, c.quiet, c.wait, c.violet];
  for (let i = first; i < last; i++) {
    const lane = v.lanes[i];
    const list = model.marks[lane];
    const y = axisHeight + i * laneHeight - v.top;
    // the span before the first visible start may reach into the view
    const edge = new Float64Array(8).fill(-1e9); // the last pixel painted, by type
    for (let m = Math.max(0, model.first(lane, begin) - 1); m < list.length; m++) {
      const mark = list[m];
      if (mark.start > stop) break;
      const x = toX(mark.start);
      const w = mark.length ? Math.max(2, toX(mark.start + mark.length) - x) : 0;
      if (x + Math.max(w, 3) < edge[mark.type] + 1 && mark.id !== v.selected) {
        // nothing new would be visible; continue with the first mark that begins a pixel later
        const next = model.first(lane, axis.time(v.from + (edge[mark.type] - gutter + 1) / scale));
        if (sameType(list, m, next, mark.type)) {
          m = Math.max(m, next - 1);
          continue;
        }
      }
      edge[mark.type] = Math.max(edge[mark.type], x + Math.max(w, 3));
      g.globalAlpha = v.chain && !v.chain.has(mark.id) ? 0.18 : 1;
      g.fillStyle = tones[mark.type];
      if (mark.type < Type.write) {
        g.fillRect(x, y + 5, w, laneHeight - 11);
      } else if (mark.type >= Type.event) {
        g.beginPath();
        g.arc(x, y + laneHeight / 2 - 0.5, 3.5, 0, 2 * Math.PI);
        g.fill();
      } else {
        g.beginPath();
        const middle = y + laneHeight / 2 - 0.5;
        g.moveTo(x, middle - 4.5);
        g.lineTo(x + 4.5, middle);
        g.lineTo(x, middle + 4.5);
        g.lineTo(x - 4.5, middle);
        g.fill();
      }
    }
    g.globalAlpha = 1;
  }
  const lineTones = { restart: c.violet, fault: c.bad, alarm: c.bad, input: c.quiet };
  for (const line of model.lines) {
    if (line.start < begin || line.start > stop) continue;
    const x = toX(line.start);
    g.strokeStyle = lineTones[line.type];
    g.lineWidth = line.type === 'input' ? 1 : 1.5;
    g.setLineDash(line.type === 'input' ? [2, 4] : line.type === 'alarm' ? [] : [5, 3]);
    g.beginPath();
    g.moveTo(x, axisHeight);
    g.lineTo(x, height);
    g.stroke();
  }
  g.setLineDash([]);
  const note = model.notes.get(v.selected);
  if (note) {
    const row = v.lanes.indexOf(note.lane);
    g.strokeStyle = c.text;
    g.lineWidth = 1.5;
    g.beginPath();
    g.arc(toX(note.start), axisHeight + row * laneHeight - v.top + laneHeight / 2 - 0.5, 7, 0, 2 * Math.PI);
    if (row >= 0) g.stroke();
  }
  const chosen = model.spans.get(v.selected);
  if (chosen) {
    const row = v.lanes.indexOf(chosen.lane);
    const x = toX(chosen.start), w = Math.max(2, toX(chosen.start + chosen.length) - x);
    g.strokeStyle = c.text;
    g.lineWidth = 1.5;
    if (row >= 0) g.strokeRect(x - 2.5, axisHeight + row * laneHeight - v.top + 2.5, w + 5, laneHeight - 6);
  }
  g.restore();
  labels(g, v, first, last);
  ticks(g, v, toX, begin, stop);
}

/** @param {{type: number}[]} list @param {number} from @param {number} to @param {number} type */
function sameType(list, from, to, type) {
  if (to - from > 64) to = from + 64; // a sample; denser lanes are a solid bar anyway
  for (let i = from; i < to && i < list.length; i++) if (list[i].type !== type && list[i].type !== Type.write && list[i].type !== Type.succeeded) return false;
  return true;
}

/** @param {CanvasRenderingContext2D} g @param {View} v @param {number} first @param {number} last */
function labels(g, v, first, last) {
  const c = v.colors;
  g.fillStyle = c.bg;
  g.fillRect(0, axisHeight, v.gutter, v.height + 1);
  g.font = 12 * enlarged + 'px ' + v.fonts.sans;
  g.textBaseline = 'middle';
  g.save();
  g.beginPath();
  g.rect(0, axisHeight, v.gutter - 8, v.height);
  g.clip();
  for (let i = first; i < last; i++) {
    const lane = v.model.lanes[v.lanes[i]];
    const y = axisHeight + i * laneHeight - v.top + laneHeight / 2;
    g.fillStyle = c.quiet;
    g.fillText(lane.kind, 2, y);
    const x = 2 + g.measureText(lane.kind + ' ').width;
    g.fillStyle = c.text;
    g.fillText((lane.namespace ? lane.namespace + '/' : '') + lane.name, x, y);
  }
  g.restore();
  g.fillStyle = c['line-strong'];
  g.fillRect(v.gutter - 1, 0, 1, v.height);
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 3e7, 6e7, 3e8, 6e8, 1.8e9, 3.6e9, 2.16e10, 8.64e10, 6.048e11];

/** @param {CanvasRenderingContext2D} g @param {View} v @param {(t: number) => number} toX @param {number} begin @param {number} stop */
function ticks(g, v, toX, begin, stop) {
  const c = v.colors;
  g.fillStyle = c.bg;
  g.fillRect(0, 0, v.width, axisHeight);
  g.fillStyle = c['line-strong'];
  g.fillRect(0, axisHeight - 1, v.width, 1);
  g.font = 11 * enlarged + 'px ' + v.fonts.sans;
  g.textBaseline = 'middle';
  const step = steps.find((s) => s * v.scale >= 90 * enlarged && (!v.model.steps || s >= 1000)) ?? steps[steps.length - 1];
  let edge = v.gutter;
  const put = (/** @type {number} */ t) => {
    const x = toX(t);
    if (x < edge || x > v.width) return;
    const text = v.model.steps ? 'step ' + Math.round(t / 1000) : label(v.model.origin, t, step);
    g.fillStyle = c['line-strong'];
    g.fillRect(x, axisHeight - 6, 1, 6);
    g.fillStyle = c.quiet;
    g.fillText(text, x + 4, axisHeight / 2 - 1);
    edge = x + g.measureText(text).width + 16;
  };
  // round times, from the end of each fold on
  let from = Math.max(v.model.begin, begin);
  for (const f of [...v.axis.folds, { from: Infinity, to: Infinity }]) {
    const to = Math.min(f.from, stop);
    if (to > from) {
      if (from > begin) put(from);
      for (let t = Math.ceil(from / step) * step, n = 0; t <= to && n < 200; t += step, n++) put(t);
    }
    from = Math.max(from, f.to);
    if (from > stop) break;
  }
  g.fillStyle = c.quiet;
  for (const f of v.axis.folds) {
    const x = (toX(f.from) + toX(f.to)) / 2;
    if (x > v.gutter && x < v.width) g.fillText('⋯', x - 5, axisHeight - 8);
  }
}

/** @param {number} origin ms @param {number} t µs @param {number} step µs */
function label(origin, t, step) {
  const date = new Date(origin + t / 1000);
  if (step >= 8.64e10) return moment(date.getTime()).slice(0, 10);
  const time = date.toTimeString().slice(0, 8);
  if (step >= 1e6) return time;
  const micros = Math.round((((origin * 1000 + t) % 1e6) + 1e6) % 1e6);
  return time.slice(3) + '.' + (step >= 1e3 ? String(Math.floor(micros / 1e3)).padStart(3, '0') : String(micros).padStart(6, '0'));
}
