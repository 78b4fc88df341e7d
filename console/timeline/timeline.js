// @ts-check
// A lane for each object: reconciles as spans, writes and Events as marks; restarts and faults as
// lines. It shows the traces of operators, or the steps of a failure.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useAnnouncement } from '../page/lib/announce.js';
import { address, request, useStates, useStream } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { enlarged } from '../page/lib/size.js';
import { Header, Loading, ObjectLink, Problem, clock, span } from '../page/lib/ui.js';
import { ReconcileLink, Untraced, micros } from '../why/why.js';
import { axisHeight, draw, laneHeight, palette } from './draw.js';
import { Axis, Model, Type } from './model.js';

/** @param {{query: URLSearchParams, namespace: string, session: any}} props */
export function Timeline({ query, namespace, session }) {
  const run = query.get('run') ?? '';
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  const [model, setModel] = useState(() => new Model());
  const [version, setVersion] = useState(0);
  const fresh = useRef(model);
  const error = useStream(
    run ? null : address('timeline'),
    (event, m) => {
      if (event !== 'marks') return;
      fresh.current.add(m);
      setVersion((v) => v + 1);
    },
    () => setModel((fresh.current = new Model())),
  );
  useEffect(() => {
    if (!run) return;
    const control = new AbortController();
    setRefused(null);
    setModel((fresh.current = new Model()));
    request('timeline', { run }, { signal: control.signal }).then((m) => {
      fresh.current.add(m);
      setVersion((v) => v + 1);
    }, (e) => control.signal.aborted || setRefused(e));
    return () => control.abort();
  }, [run]);
  const search = (query.get('q') ?? '').toLowerCase();
  const fold = query.get('fold') !== 'false';
  const selected = query.get('select') ?? '';
  const axis = useMemo(() => new Axis(model, fold), [model, version, fold]);
  const lanes = useMemo(() => {
    const all = model.lanes.map((_, i) => i);
    return all.filter((i) => {
      const l = model.lanes[i];
      return (!namespace || l.namespace === namespace) && (!search || `${l.kind} ${l.namespace ?? ''}/${l.name} ${l.controller ?? ''}`.toLowerCase().includes(search));
    });
  }, [model, version, search, namespace]);

  useAnnouncement(model.count ? lanes.length.toLocaleString() + ' lanes' : '', namespace + ' ' + run + search);
  return html`<${Header} title="Timeline" note=${model.count ? `${model.count.toLocaleString()} marks in ${lanes.length.toLocaleString()} lanes` : ''} actions=${html`
      ${run ? null : html`<button aria-pressed=${fold} title="Shorten times without marks" onClick=${() => setQuery({ fold: fold ? 'false' : null }, { replace: true })}>Fold gaps</button>`}
      <input class="filter" type="search" placeholder="Object or controller" aria-label="Filter lanes" value=${query.get('q') ?? ''} onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value }, { replace: true })} />`} />
    <${Problem} error=${error ?? refused} />
    ${session?.failure ? html`<div class="bar"><label>Show <select value=${run} onChange=${(/** @type {any} */ e) => setQuery({ run: e.target.value, select: null }, { replace: true })}>
      <option value="">the traces and Events</option><option value="failing">the failing run</option><option value="passing">the run without faults</option></select></label></div>` : null}
    ${!model.version ? (error || refused ? null : html`<${Loading} />`) : !model.count ? html`<${Untraced} traced=${model.traced} errors=${model.error ? { trace: model.error } : {}} />`
      : html`<${Canvas} ...${{ model, axis, lanes, selected, version }} /><${Marks} model=${model} lanes=${lanes} version=${version} />`}
    ${model.count && model.error ? html`<p class="quiet">Not readable: ${model.error}</p>` : null}
    ${model.skipped ? html`<p class="quiet">${model.skipped.toLocaleString()} older reconciles are not shown.</p>` : null}
    ${!selected ? null : model.notes.has(selected) ? html`<${Note} model=${model} id=${selected} />` : /^(event|step)[/]/.test(selected) ? null : html`<${Selected} id=${selected} />`}`;
}

const lineNames = { restart: 'restart', fault: 'fault', alarm: 'alarm', input: 'input' };
const maxNotes = 200;

/** @param {Model} model @param {number} start */
function when(model, start) {
  if (!model.steps) return clock(model.origin + start / 1000);
  const step = Math.round(start / 1000), seconds = model.times[step - 1];
  return 'step ' + step + (seconds === undefined ? '' : ', after ' + span(Math.round(seconds * 1e6)));
}

const types = ['reconcile', 'failed reconcile', 'hot loop', 'write', 'refused write', 'Event', 'warning', 'request'];

/**
 * All marks of the lanes, and the lines, as text.
 * @param {{model: Model, lanes: number[], version: number}} props
 */
function Marks({ model, lanes, version }) {
  const [open, setOpen] = useState(false);
  const [shown, setShown] = useState(maxNotes);
  const all = useMemo(() => {
    if (!open) return [];
    /** @type {{id: string, lane: number, start: number, length: number, what: string, text: string}[]} */
    const list = model.lines.map((l) => ({ id: '', lane: -1, start: l.start, length: 0, what: lineNames[l.type], text: l.text }));
    for (const lane of lanes)
      for (const m of model.marks[lane]) list.push({ ...m, lane, what: types[m.type], text: model.notes.get(m.id)?.text ?? (m.length ? 'took ' + span(m.length) : 'show the reconcile') });
    return list.sort((a, b) => a.start - b.start);
  }, [model, lanes, version, open]);
  return html`<details class="notelist" onToggle=${(/** @type {any} */ e) => setOpen(e.currentTarget.open)}><summary>${model.count.toLocaleString()} ${model.steps ? 'steps' : 'marks'} as text</summary>
    ${open ? html`${all.length > shown ? html`<p><button onClick=${() => setShown(shown + maxNotes)}>Show earlier</button> <span class="quiet">${(all.length - shown).toLocaleString()} more</span></p>` : null}
      <table class="plain"><thead><tr><th>Time</th><th>Object</th><th>What</th><th>Details</th></tr></thead><tbody>${all.slice(-shown).map((n) => html`<tr><td class="mono quiet">${when(model, n.start)}</td><td class="wrap">${n.lane < 0 ? '' : laneName(model.lanes[n.lane])}</td>
        <td>${n.lane < 0 ? html`<strong>${n.what}</strong>` : n.what}</td><td class="wrap">${n.id ? html`<button class="plainbutton" onClick=${() => setQuery({ select: n.id }, { replace: true })}>${n.text}</button>` : n.text}</td></tr>`)}</tbody></table>` : null}</details>`;
}

/** The selected mark as text; empty if there is none. @param {Model} model @param {string} id */
function spoken(model, id) {
  const note = model.notes.get(id), chosen = model.spans.get(id);
  if (note) return `${laneName(model.lanes[note.lane])} at ${when(model, note.start)}: ${note.text}`;
  if (!chosen) return '';
  const mark = model.marks[chosen.lane].find((m) => m.id === id && m.type < Type.write);
  return `${laneName(model.lanes[chosen.lane])} ${mark ? types[mark.type] : ''} at ${when(model, chosen.start)}, took ${span(chosen.length)}`;
}

/** Clears the selection. */
const clear = () => {
  setQuery({ select: null }, { replace: true });
  /** @type {HTMLElement|null} */ (document.querySelector('.timeline canvas'))?.focus();
};

/** @param {import('./model.js').Lane} l */
const laneName = (l) => `${l.kind} ${l.namespace ? l.namespace + '/' : ''}${l.name}`;

/** @param {{model: Model, id: string}} props */
function Note({ model, id }) {
  const n = /** @type {{lane: number, start: number, text: string}} */ (model.notes.get(id));
  const lane = model.lanes[n.lane];
  return html`<aside class="selected" aria-label="Selected mark">${model.steps ? html`<b>${laneName(lane)}</b>` : html`<${ObjectLink} ...${lane} tab="events" />`} <span class="quiet">at</span> ${when(model, n.start)} <span>${n.text}</span>
    <span class="spring"></span><button onClick=${clear}>Clear</button></aside>`;
}

/** @param {{model: Model, axis: Axis, lanes: number[], selected: string, version: number}} props */
function Canvas({ model, axis, lanes, selected, version }) {
  const canvas = useRef(/** @type {HTMLCanvasElement|null} */ (null));
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const chain = useChain(selected, version);
  const state = useRef({ from: 0, scale: 0, top: 0, width: 0, height: 0, follow: true, frame: 0, colors: /** @type {any} */ (null), theme: '' });
  const latest = useRef({ model, axis, lanes, selected, chain });
  latest.current = { model, axis, lanes, selected, chain };
  const gutter = () => Math.min(260 * enlarged, state.current.width * 0.28);

  const limit = () => {
    const s = state.current, { axis, lanes } = latest.current;
    const view = Math.max(50, s.width - gutter());
    const all = (view - 24) / axis.length;
    if (s.follow || !s.scale) s.scale = all;
    s.scale = Math.min(Math.max(s.scale, Math.min(all, 50)), 50);
    if (s.follow) s.from = -8 / s.scale;
    s.from = Math.min(Math.max(s.from, -view / 2 / s.scale), axis.length - view / 2 / s.scale);
    s.top = Math.max(0, Math.min(s.top, lanes.length * laneHeight + axisHeight - s.height + 8));
  };
  const paint = () => {
    const s = state.current, el = canvas.current;
    s.frame = 0;
    const g = el?.getContext('2d', { alpha: false });
    if (!el || !g || !s.width) return;
    performance.mark('draw');
    limit();
    const ratio = devicePixelRatio || 1;
    const wide = Math.round(s.width * ratio), high = Math.round(s.height * ratio);
    if (el.width !== wide || el.height !== high) {
      el.width = wide;
      el.height = high;
    }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const theme = document.documentElement.dataset.theme + String(matchMedia('(prefers-color-scheme: dark)').matches);
    if (s.theme !== theme) {
      s.theme = theme;
      s.colors = palette(document.documentElement);
      s.colors.sans = getComputedStyle(document.body).fontFamily;
    }
    draw(g, { ...latest.current, ...s, gutter: gutter(), fonts: { sans: s.colors.sans } });
    performance.measure('timeline', 'draw');
  };
  const later = () => {
    if (!state.current.frame) state.current.frame = requestAnimationFrame(paint);
  };
  useEffect(later);

  useEffect(() => {
    const el = /** @type {HTMLCanvasElement} */ (canvas.current);
    const s = state.current;
    const observer = new ResizeObserver(() => {
      const rect = box.current?.getBoundingClientRect();
      if (!rect) return; // the view has closed
      s.width = rect.width;
      s.height = rect.height;
      later();
    });
    observer.observe(/** @type {Element} */ (box.current));
    const zoom = (/** @type {number} */ factor, /** @type {number} */ x) => {
      const at = s.from + (x - gutter()) / s.scale;
      s.follow = false;
      s.scale *= factor;
      limit();
      s.from = at - (x - gutter()) / s.scale;
      later();
    };
    const wheel = (/** @type {WheelEvent} */ e) => {
      e.preventDefault();
      const unit = e.deltaMode ? 24 : 1;
      if (e.ctrlKey || e.metaKey) zoom(Math.exp(-e.deltaY * unit * 0.004), e.offsetX);
      else {
        const sideways = e.shiftKey && !e.deltaX ? e.deltaY : e.deltaX;
        if (sideways) s.follow = false;
        s.from += (sideways * unit) / s.scale;
        if (!e.shiftKey) s.top += e.deltaY * unit;
        later();
      }
    };
    /** @type {{x: number, y: number, from: number, top: number, moved: boolean}|null} */
    let drag = null;
    const down = (/** @type {PointerEvent} */ e) => {
      if (e.button) return;
      el.setPointerCapture(e.pointerId);
      drag = { x: e.offsetX, y: e.offsetY, from: s.from, top: s.top, moved: false };
    };
    const move = (/** @type {PointerEvent} */ e) => {
      if (!drag) return;
      const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
      if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 5) return;
      drag.moved = true;
      if (dx) s.follow = false;
      s.from = drag.from - dx / s.scale;
      s.top = drag.top - dy;
      later();
    };
    const up = (/** @type {PointerEvent} */ e) => {
      if (drag && !drag.moved) setQuery({ select: hit(e.offsetX, e.offsetY) }, { replace: true });
      drag = null;
    };
    /** Returns the ID of the mark nearest to a point. @param {number} x @param {number} y */
    const hit = (x, y) => {
      const { model, axis, lanes } = latest.current;
      const lane = lanes[Math.floor((y - axisHeight + s.top) / laneHeight)];
      if (lane === undefined || y < axisHeight || x < gutter()) return null;
      const list = model.marks[lane];
      const at = s.from + (x - gutter()) / s.scale;
      const i = model.first(lane, axis.time(at));
      let best = null, distance = 9;
      for (let m = Math.max(0, i - 40); m < Math.min(list.length, i + 40); m++) {
        const from = axis.position(list[m].start) * s.scale, to = axis.position(list[m].start + list[m].length) * s.scale;
        const d = Math.max(0, from - at * s.scale, at * s.scale - to);
        if (d < distance) {
          distance = d;
          best = list[m].id;
        }
      }
      return best;
    };
    const key = (/** @type {KeyboardEvent} */ e) => {
      const view = s.width - gutter(), middle = gutter() + view / 2;
      const pan = (/** @type {number} */ n) => {
        s.follow = false;
        s.from += (n * view) / s.scale;
        later();
      };
      const vertical = (/** @type {number} */ by) => {
        if (latest.current.selected) return across(by);
        s.top += by * laneHeight * 3;
        later();
      };
      const actions = /** @type {Record<string, () => void>} */ ({
        ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => vertical(-1), ArrowDown: () => vertical(1),
        PageUp: () => ((s.top -= s.height), later()), PageDown: () => ((s.top += s.height), later()),
        '+': () => zoom(1.4, middle), '=': () => zoom(1.4, middle), '-': () => zoom(1 / 1.4, middle), 0: () => ((s.follow = true), later()),
        n: () => step(1), p: () => step(-1), Escape: () => setQuery({ select: null }, { replace: true }),
      });
      if (!actions[e.key] || e.ctrlKey || e.metaKey) return;
      e.preventDefault();
      actions[e.key]();
    };
    /**
     * Returns the marks of a lane that can be selected: its reconciles if it has any.
     * @param {number} lane
     */
    const selectable = (lane) => {
      const { model } = latest.current;
      const own = (model.marks[lane] ?? []).filter((m) => (model.spans.get(m.id) ?? model.notes.get(m.id))?.lane === lane);
      const reconciles = own.filter((m) => m.type < Type.write);
      return reconciles.length && !reconciles.some((m) => m.id === latest.current.selected) && own.some((m) => m.id === latest.current.selected) ? own : reconciles.length ? reconciles : own;
    };
    /**
     * Selects a mark and shows it.
     * @param {number} lane @param {{id: string, start: number}} mark
     */
    const select = (lane, mark) => {
      const { lanes, axis } = latest.current;
      setQuery({ select: mark.id }, { replace: true });
      const at = axis.position(mark.start), x = (at - s.from) * s.scale;
      if (x < 0 || x > s.width - gutter()) s.from = at - (s.width - gutter()) / 2 / s.scale;
      const y = lanes.indexOf(lane) * laneHeight;
      s.top = Math.max(y + axisHeight + 2 * laneHeight - s.height, Math.min(s.top, y));
      later();
    };
    /** Selects the next or the previous mark of the lane. @param {number} by */
    const step = (by) => {
      const { model, selected } = latest.current;
      const now = model.spans.get(selected) ?? model.notes.get(selected);
      if (!now) return across(1);
      const list = selectable(now.lane);
      const next = list[list.findIndex((m) => m.id === selected) + by];
      if (next) select(now.lane, next);
    };
    /**
     * Selects the nearest mark in the next or the previous lane that has one.
     * @param {number} by
     */
    const across = (by) => {
      const { model, lanes, selected } = latest.current;
      const now = model.spans.get(selected) ?? model.notes.get(selected);
      for (let row = now ? lanes.indexOf(now.lane) + by : Math.floor(s.top / laneHeight); lanes[row] !== undefined; row += by) {
        const list = selectable(lanes[row]);
        const distance = (/** @type {{start: number}} */ m) => (now ? Math.abs(m.start - now.start) : 0);
        if (list.length) return select(lanes[row], list.reduce((best, m) => (distance(m) < distance(best) ? m : best)));
      }
    };
    el.addEventListener('wheel', wheel, { passive: false });
    el.addEventListener('pointerdown', down);
    el.addEventListener('pointermove', move);
    el.addEventListener('pointerup', up);
    el.addEventListener('keydown', key);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', later);
    return () => {
      observer.disconnect();
      dark.removeEventListener('change', later);
      cancelAnimationFrame(s.frame);
    };
  }, []);

  // It is a list box, because screen readers pass the keys of a list box to the page and read its
  // selected option.
  const chosen = spoken(model, selected);
  const option = 'mark-' + encodeURIComponent(selected); // another element for each mark, because screen readers read each element once
  return html`<div class="timeline" ref=${box}><canvas ref=${canvas} tabIndex=${0} role="listbox" aria-activedescendant=${chosen ? option : undefined} aria-label=${`Timeline of ${lanes.length} objects with ${model.count} marks`}
    aria-description="Arrow keys move, plus and minus zoom, 0 shows all, n and p select the next and the previous mark, then up and down select one in another lane. All marks follow as text.">
    <div key=${option} id=${option} role="option" aria-selected=${Boolean(chosen)}>${chosen || 'No mark is selected'}</div></canvas></div>
    <p class="legend quiet">${model.steps ? html`<span class="entry"><span class="k request"></span>request</span> <span class="entry"><span class="k write"></span>write</span> <span class="entry"><span class="k event"></span>event</span> <span class="entry"><span class="k refused"></span>refused or lost</span> <span class="entry"><span class="k alarm"></span>alarm</span> <span class="entry"><span class="k fault"></span>fault</span> <span class="entry"><span class="k restart"></span>restart</span> <span class="entry"><span class="k input"></span>input</span>`
      : html`<span class="entry"><span class="k ok"></span>reconcile</span> <span class="entry"><span class="k err"></span>failed</span> <span class="entry"><span class="k loop"></span>hot loop</span> <span class="entry"><span class="k write"></span>write</span> <span class="entry"><span class="k refused"></span>refused write</span>
        <span class="entry"><span class="k event"></span>Event</span> <span class="entry"><span class="k warning"></span>warning</span> <span class="entry"><span class="k restart"></span>restart</span>`}
      <span class="spring"></span><span>drag or <kbd>←</kbd> <kbd>→</kbd> to move, <kbd>Ctrl</kbd>+wheel or <kbd>+</kbd> <kbd>−</kbd> to zoom, <kbd>0</kbd> for all, <kbd>n</kbd> <kbd>p</kbd> to step</span></p>`;
}

/**
 * Returns the IDs of the reconciles that caused the selected one, and of those that it caused.
 * @param {string} selected @param {number} version
 */
function useChain(selected, version) {
  const [chain, setChain] = useState(/** @type {{of: string, ids: Set<string>}|null} */ (null));
  useEffect(() => {
    if (!selected || /^(event|step)[/]/.test(selected)) return;
    const [run, id] = selected.split('/');
    const control = new AbortController();
    request('chain', { run: run || '-', id }, { signal: control.signal }).then((got) => setChain({ of: selected, ids: new Set(got.ids) }), () => {});
    return () => control.abort();
  }, [selected, Math.floor(version / 10)]);
  return chain?.of === selected ? chain.ids : null;
}

/** @param {{id: string}} props */
function Selected({ id }) {
  const [run, number] = id.split('/');
  const [state, error] = useStates(address('reconcile', { run: run || '-', id: number }));
  const read = state?.reconcile;
  useAnnouncement(read ? `reconcile ${read.id} of controller ${read.controller}${read.error ? ' failed: ' + read.error : ' succeeded'}` : '');
  if (!state) return error ? html`<${Problem} error=${error} />` : null;
  const r = state.reconcile;
  return html`<aside class="selected" aria-label="Selected reconcile"><${ReconcileLink} r=${r} /> <${ObjectLink} ...${r} tab="why" /> <span class="quiet">at</span> ${clock(r.time)}
    <span class="quiet">took</span> ${span(micros(r.duration))} ${r.error ? html`<span class="bad">${r.error}</span>` : null}
    <span class="quiet">because</span> ${(r.causes ?? []).slice(0, 2).map((/** @type {any} */ c) => html`${c.kind ? html`<${ObjectLink} ...${c} /> ` : ''}${c.event}${c.manager ? ' by ' + c.manager : ''} `)}
    <span class="spring"></span><button onClick=${clear}>Clear</button></aside>`;
}
