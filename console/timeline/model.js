// @ts-check
// The marks of the timeline, and the axis that maps times to positions.

/** @typedef {{kind: string, namespace?: string, name: string, cluster?: string, controller?: string}} Lane */

export const Type = { succeeded: 0, failed: 1, looping: 2, write: 3, refused: 4, event: 5, warning: 6, request: 7 };

export class Model {
  /** @type {Lane[]} */ lanes = [];
  /** @type {{start: number, length: number, type: number, id: string}[][]} marks by lane and time */ marks = [];
  /** @type {Map<string, {lane: number, start: number, length: number}>} the span of each reconcile */ spans = new Map();
  /** @type {number[]} */ starts = []; // sorted lazily, for the axis
  /** @type {Map<string, {lane: number, start: number, text: string}>} marks that are not reconciles */ notes = new Map();
  /** @type {{start: number, type: 'restart'|'fault'|'alarm'|'input', text: string}[]} marks of all lanes, by time */ lines = [];
  steps = false; // a run of a failure is shown; a step takes a millisecond
  /** @type {number[]} */ times = []; // of the steps, in seconds since the first
  begin = 0;
  count = 0;
  origin = 0;
  end = 1;
  version = 0;
  complete = false;
  traced = true;
  skipped = 0;
  error = '';

  /** @param {any} m an event of the stream */
  add(m) {
    for (const lane of m.lanes ?? []) {
      this.lanes.push(lane);
      this.marks.push([]);
    }
    this.origin = Date.parse(m.origin);
    /** @type {Set<number>} */
    const touched = new Set();
    for (let i = 0; i < m.lane.length; i++) {
      const lane = m.lane[i], start = m.start[i], length = m.length[i];
      const list = this.marks[lane];
      if (list.length && list[list.length - 1].start > start) touched.add(lane);
      list.push({ start, length, type: m.type[i], id: m.id[i] });
      const text = m.text?.[i];
      if (text !== undefined) this.notes.set(m.id[i], { lane, start, text });
      if (start < this.begin) this.begin = start;
      if (m.type[i] < Type.write) this.spans.set(m.id[i], { lane, start, length });
      this.starts.push(start);
      if (start + length > this.end) this.end = start + length;
    }
    for (const line of m.lines ?? []) {
      this.lines.push(line);
      this.starts.push(line.start);
      if (line.start > this.end) this.end = line.start;
    }
    this.lines.sort((a, b) => a.start - b.start);
    for (const lane of touched) this.marks[lane].sort((a, b) => a.start - b.start);
    this.count += m.lane.length + (m.lines?.length ?? 0);
    this.steps = !!m.steps;
    if (m.times) this.times = m.times;
    this.complete = m.complete;
    this.traced = m.traced;
    this.skipped = m.skipped ?? 0;
    this.error = m.error ?? '';
    this.version++;
  }

  /**
   * Returns the index of the first mark of a lane at or after a time.
   * @param {number} lane @param {number} t
   */
  first(lane, t) {
    const list = this.marks[lane];
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle].start < t) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * An axis maps times to positions. Times in which nothing happens are folded to a short length.
 */
export class Axis {
  /** @type {number[]} */ times = [0];
  /** @type {number[]} */ positions = [0];
  /** @type {{from: number, to: number}[]} */ folds = [];
  length = 1;

  /** @param {Model} model @param {boolean} fold */
  constructor(model, fold) {
    const starts = fold ? Float64Array.from(model.starts).sort() : new Float64Array();
    const limit = Math.max(1e6, foldLimit(starts));
    let position = 0, last = (this.times[0] = model.begin);
    for (const t of starts) {
      if (t - last > limit) {
        const kept = limit / 4;
        position += kept / 2; // time passes normally at the edges
        this.times.push(last + kept / 2);
        this.positions.push(position);
        position += kept;
        this.times.push(t - kept / 2);
        this.positions.push(position);
        this.folds.push({ from: last + kept / 2, to: t - kept / 2 });
        position += kept / 2;
      } else position += Math.max(0, t - last);
      last = Math.max(last, t);
      if (this.times[this.times.length - 1] < last && this.folds.length && this.folds[this.folds.length - 1].to + limit / 8 >= last) {
        this.times.push(last);
        this.positions.push(position);
      }
    }
    position += Math.max(1, model.end - last);
    this.times.push(Math.max(model.end, last + 1));
    this.positions.push(position);
    this.length = position;
  }

  /** @param {number[]} from @param {number[]} to @param {number} x */
  static map(from, to, x) {
    let low = 0, high = from.length - 1;
    if (x <= from[0]) return to[0] + (x - from[0]);
    if (x >= from[high]) return to[high] + (x - from[high]);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (from[middle] <= x) low = middle;
      else high = middle;
    }
    const width = from[high] - from[low];
    return width ? to[low] + ((x - from[low]) / width) * (to[high] - to[low]) : to[low];
  }

  /** @param {number} t */
  position(t) {
    return Axis.map(this.times, this.positions, t);
  }
  /** @param {number} p */
  time(p) {
    return Axis.map(this.positions, this.times, p);
  }
}

/**
 * Returns the gap from which time is folded: the marks between gaps keep most of the width.
 * @param {Float64Array} starts sorted
 */
function foldLimit(starts) {
  if (starts.length < 2) return Infinity;
  const gaps = new Float64Array(starts.length - 1);
  for (let i = 1; i < starts.length; i++) gaps[i - 1] = starts[i] - starts[i - 1];
  gaps.sort();
  // the 20 longest gaps are candidates; they are long if they exceed what all others take together
  let rest = 0;
  const from = Math.max(0, gaps.length - 20);
  for (let i = 0; i < from; i++) rest += gaps[i];
  return Math.max(rest / 10, gaps[Math.floor(gaps.length / 2)] * 20);
}
