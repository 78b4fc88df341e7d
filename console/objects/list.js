// @ts-check
// The list of the objects of a kind, with the columns of the server.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useAnnouncement } from '../page/lib/announce.js';
import { address, useStream } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { stringify } from '../page/lib/json.js';
import { resourceOf } from '../page/lib/kinds.js';
import { navigate, objectHref, setQuery } from '../page/lib/route.js';
import { enlarged } from '../page/lib/size.js';
import { Header, Loading, Problem, duration, moment, readiness, tone, useClock } from '../page/lib/ui.js';

/**
 * @typedef {{namespace?: string, name: string, created?: string, deleting?: boolean, cells: any[]}} Row
 * @typedef {{name: string, type?: string, format?: string, description?: string, priority?: number}} Column
 */

const rowHeight = Math.round(29 * enlarged);
const overscan = 12;

/** @param {Row} r */
const keyOf = (r) => (r.namespace ?? '') + '/' + r.name;

/** Follows a table. @param {string} resource @param {string} namespace */
function useTable(resource, namespace) {
  const [version, setVersion] = useState(0);
  const data = useRef({ url: '', columns: /** @type {Column[]} */ ([]), rows: /** @type {Map<string, Row>} */ (new Map()), complete: false, begun: false });
  const timer = useRef(0);
  const began = useRef(0); // when the rows were last shown
  const cost = useRef(0); // how long that took, in milliseconds
  const url = address('table', { resource, namespace });
  if (data.current.url !== url) data.current = { url, columns: [], rows: new Map(), complete: false, begun: false };
  const error = useStream(url, (event, value) => {
    const d = data.current;
    if (event !== 'rows' || d.url !== url) return;
    if (value.columns) {
      d.columns = value.columns;
      d.rows = new Map();
      d.begun = true;
      d.complete = false;
    }
    for (const row of value.set ?? []) d.rows.set(keyOf(row), row);
    for (const row of value.gone ?? []) d.rows.delete(keyOf(row));
    if (value.complete) d.complete = true;
    // Many changes arrive together: show them at most once per frame. Long lists are shown less
    // often, because each time all rows are sorted; so the page has time for the user's input.
    if (!timer.current)
      timer.current = window.setTimeout(() => {
        timer.current = 0;
        began.current = performance.now();
        setVersion((v) => v + 1);
      }, Math.max(16, 4 * cost.current));
  });
  useLayoutEffect(() => void (cost.current = performance.now() - began.current), [version]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return { ...data.current, version, error };
}

// localeCompare would construct a collator in each call
const collator = new Intl.Collator(undefined, { numeric: true });

/** @param {any} a @param {any} b */
function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(String(a ?? ''), String(b ?? ''));
}

/** @param {{resource: string, query: URLSearchParams, namespace: string}} props */
export function List({ resource, query, namespace }) {
  const kind = resourceOf(resource);
  const { url, columns, rows, version, complete, begun, error } = useTable(resource, namespace);
  const filter = (query.get('q') ?? '').toLowerCase();
  const wide = query.get('wide') === 'true';
  const [sort, descending] = [query.get('sort')?.replace(/^-/, ''), query.get('sort')?.startsWith('-')];
  const narrow = useNarrow();
  const some = columns.map((c, i) => ({ ...c, i })).filter((c) => wide || !c.priority);
  // on a phone, the state stands beside the name
  const shown = narrow ? [...some.slice(0, 1), ...some.slice(1).filter(isState), ...some.slice(1).filter((c) => !isState(c))] : some;
  const withNamespace = !namespace && !narrow && (kind?.namespaced ?? true);

  const visible = useMemo(() => {
    let all = [...rows.values()];
    if (filter) {
      all = all.filter((r) => (keyOf(r) + ' ' + r.cells.join(' ')).toLowerCase().includes(filter));
    }
    const at = columns.findIndex((c) => c.name === sort);
    /** @type {(r: Row) => any} */
    let value = keyOf;
    let sign = descending ? -1 : 1;
    if (sort === 'Age' || sort === 'Created At') {
      value = (r) => r.created ?? '';
      sign = -sign;
    } else if (sort === 'Namespace') value = (r) => r.namespace ?? '';
    else if (at >= 0) value = (r) => r.cells[at];
    return all.sort((a, b) => sign * compare(value(a), value(b)) || (keyOf(a) < keyOf(b) ? -1 : 1));
  }, [version, filter, sort, descending, columns]);

  useAnnouncement(!complete ? '' : filter ? `${visible.length.toLocaleString()} of ${rows.size.toLocaleString()} rows match` : `${rows.size.toLocaleString()} rows`, url + filter);
  return html`
    <${Header}
      title=${kind?.kind ?? resource}
      note=${begun ? `${visible.length.toLocaleString()}${filter ? ' of ' + rows.size.toLocaleString() : ''}${complete ? '' : '…'}` : ''}
      actions=${html`
        <input class="filter" type="search" placeholder="Filter" aria-label="Filter rows" value=${query.get('q') ?? ''}
          onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value }, { replace: true })} />
        ${columns.some((c) => c.priority)
          ? html`<button aria-pressed=${wide} onClick=${() => setQuery({ wide: wide ? null : 'true' }, { replace: true })}>All columns</button>`
          : null}
      `}
    />
    <${Problem} error=${error} />
    ${error?.code === 403 && !namespace && kind?.namespaced ? html`<p class="quiet">If you may list a single namespace, choose it at the top of the page.</p>` : null}
    ${begun
      ? visible.length
        ? html`<${Rows} ...${{ resource, rows: visible, columns: shown, withNamespace, narrow, sort, descending }} />`
        : html`<p class="empty">${filter ? 'No row matches the filter.' : complete ? `No ${kind?.kind ?? 'object'} ${namespace ? 'in namespace ' + namespace : 'exists'}.` : ''}</p>`
      : error
        ? null
        : html`<${Loading} />`}
  `;
}

/** Renders the rows that are in view, between two spacers. @param {any} props */
function Rows({ resource, rows, columns, withNamespace, narrow, sort, descending }) {
  const now = useClock();
  const scroller = useRef(/** @type {HTMLDivElement|null} */ (null));
  const [range, setRange] = useState([0, 60]);
  const [active, setActive] = useState(0);

  useEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const measure = () => {
      const from = Math.max(0, Math.floor(el.scrollTop / rowHeight) - overscan);
      const to = Math.ceil((el.scrollTop + el.clientHeight) / rowHeight) + overscan;
      setRange((r) => (r[0] === from && r[1] === to ? r : [from, to]));
    };
    measure();
    el.addEventListener('scroll', measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(el);
    return () => {
      el.removeEventListener('scroll', measure);
      observer.disconnect();
    };
  }, []);

  // Widths come from all rows, so that columns don't move while scrolling.
  const widths = useMemo(() => {
    const widthOf = (/** @type {(r: Row) => any} */ get, /** @type {string} */ title) => {
      let width = title.length + 2;
      for (const r of rows) width = Math.max(width, Math.min(narrow ? 20 : 60, String(get(r) ?? '').length));
      return width + 2.5;
    };
    return [
      ...(withNamespace ? [widthOf((r) => r.namespace, 'Namespace')] : []),
      ...columns.map((/** @type {any} */ c) => (isAge(c) ? 9 : widthOf((r) => r.cells[c.i], c.name))),
    ];
  }, [rows, columns.length, withNamespace, narrow]);

  // Keys select a row. When the row is rendered, its link gets the focus.
  const focus = useRef(false);
  useEffect(() => {
    const link = focus.current && /** @type {HTMLElement|null} */ (scroller.current?.querySelector('tr.active a'));
    if (!link) return;
    focus.current = false;
    link.focus({ preventScroll: true });
  }, [active, range]);
  const move = (/** @type {number} */ to) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    focus.current = true;
    if (next === active) setRange([...range]); // the focus may be elsewhere
    setActive(next);
    const el = scroller.current;
    if (!el) return;
    const top = next * rowHeight;
    if (top < el.scrollTop) el.scrollTop = top;
    else if (top + 2 * rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = top + 2 * rowHeight - el.clientHeight + 8;
  };
  const key = (/** @type {KeyboardEvent} */ e) => {
    const page = Math.floor((scroller.current?.clientHeight ?? 300) / rowHeight) - 1;
    const to = { ArrowDown: active + 1, j: active + 1, ArrowUp: active - 1, k: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 }[e.key];
    if (to !== undefined) move(to);
    else if (e.key === 'Enter' && e.target === scroller.current) {
      const r = rows[active];
      if (r) navigate(objectHref(resource, r.namespace, r.name));
    } else return;
    e.preventDefault();
  };
  const header = (/** @type {string} */ name, /** @type {string} */ description) => html`<th role="columnheader" title=${description}
    aria-sort=${sort === name ? (descending ? 'descending' : 'ascending') : undefined}>
    <button onClick=${() => setQuery({ sort: sort === name ? (descending ? null : '-' + name) : name }, { replace: true })}>${name}<span
      class="arrow" aria-hidden="true">${sort === name ? (descending ? '↓' : '↑') : ''}</span></button>
  </th>`;

  const from = Math.min(range[0], Math.max(0, rows.length - 1)), to = Math.min(range[1], rows.length);
  // The scrolling part is the grid, so that it can have the focus. In a grid, screen readers pass
  // the arrow keys to the page, which renders the rows that the user reaches. Screen readers read
  // only rendered rows.
  return html`<div class="rows" ref=${scroller} tabIndex=${0} onKeyDown=${key} role="grid" aria-label="Objects" aria-rowcount=${rows.length + 1}
      aria-activedescendant=${active >= from && active < to ? 'active-row' : undefined}>
    <table role="presentation">
      <colgroup>${widths.map((w) => html`<col style=${{ width: w + 'ch' }} />`)}<col /></colgroup>
      <thead role="rowgroup"><tr role="row" aria-rowindex=${1}>
        ${withNamespace ? header('Namespace', 'The namespace of the object.') : null}
        ${columns.map((/** @type {any} */ c) => header(c.name, c.description))}<td role="gridcell"></td>
      </tr></thead>
      <tbody role="rowgroup">
        ${from > 0 ? html`<tr aria-hidden="true" style=${{ height: from * rowHeight + 'px' }}></tr>` : null}
        ${rows.slice(from, to).map((/** @type {Row} */ r, /** @type {number} */ i) => html`<tr key=${keyOf(r)} role="row" aria-rowindex=${from + i + 2}
            class=${(from + i === active ? 'active' : '') + (r.deleting ? ' deleting' : '')} style=${{ height: rowHeight + 'px' }} onClick=${() => setActive(from + i)} onFocusIn=${() => setActive(from + i)}>
          ${withNamespace ? html`<td role="gridcell" class="quiet">${r.namespace}</td>` : null}
          ${columns.map((/** @type {any} */ c) => html`<td role="gridcell" class=${/number|bigint/.test(typeof r.cells[c.i]) ? 'number' : ''}>${cell(r, c, resource, now, from + i === active)}</td>`)}<td role="gridcell"></td>
        </tr>`)}
        ${to < rows.length ? html`<tr aria-hidden="true" style=${{ height: (rows.length - to) * rowHeight + 'px' }}></tr>` : null}
      </tbody>
    </table>
  </div>`;
}

/** Reports whether a column says how an object is. @param {Column} c */
const isState = (c) => /^(Status|Phase|Ready|Reason)$/i.test(c.name);

const narrowScreen = matchMedia('(max-width: 35em)');

/** Reports whether the screen is as narrow as that of a phone. */
function useNarrow() {
  const [narrow, setNarrow] = useState(narrowScreen.matches);
  useEffect(() => {
    const change = () => setNarrow(narrowScreen.matches);
    narrowScreen.addEventListener('change', change);
    return () => narrowScreen.removeEventListener('change', change);
  }, []);
  return narrow;
}

/** @param {Column} c */
const isAge = (c) => c.name === 'Age';

/** @param {Row} r @param {Column & {i: number}} c @param {string} resource @param {number} now @param {boolean} active */
function cell(r, c, resource, now, active) {
  const value = r.cells[c.i];
  if (c.format === 'name' || (c.i === 0 && c.name === 'Name')) return html`<a id=${active ? 'active-row' : undefined} href=${objectHref(resource, r.namespace, r.name)}>${value}</a>`;
  if (isAge(c) && r.created) return html`<span title=${moment(r.created)}>${duration(now - Date.parse(r.created))}</span>`;
  if (isState(c) && typeof value === 'string') {
    const t = readiness(value) || tone(value);
    return t ? html`<span class=${'state ' + t}>${value}</span>` : value;
  }
  if (value === null || value === undefined || value === '<none>' || value === '') return html`<span class="none">–</span>`;
  const text = typeof value === 'object' ? stringify(value) : String(value);
  return html`<span title=${text.length > 40 ? text : undefined}>${text}</span>`;
}
