// @ts-check
// The objects that own, select or refer to each other. The server computes the positions.
import { useState } from 'preact/hooks';
import { address, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { listHref, objectHref, setQuery } from '../page/lib/route.js';
import { enlarged } from '../page/lib/size.js';
import { Header, Loading, ObjectLink, Problem, Unreadable } from '../page/lib/ui.js';

const columnWidth = 262, rowHeight = 34, boxWidth = 216, boxHeight = 26, margin = 6;

/** @param {{query: URLSearchParams, namespace: string}} props */
export function Map({ query, namespace }) {
  const all = query.get('all') ?? '';
  const problems = query.get('problems') ?? '';
  const [state, error] = useStates(address('map', { namespace, all, problems }));
  const [traced] = useStates(address('controllers'));
  const [near, setNear] = useState('');
  const g = state?.graph;
  return html`<${Header} title="Map" note=${g ? `${g.objects.toLocaleString()} objects${g.bad ? `, ${g.bad.toLocaleString()} with problems` : ''}${g.folded ? ', grouped by kind' : ''}` : ''} actions=${html`
      <button aria-pressed=${problems === 'true'} title="Show only objects with problems, with their owners" onClick=${() => setQuery({ problems: problems ? null : 'true' }, { replace: true })}>Only problems</button>
      <button aria-pressed=${all === 'true'} title="Also show objects that neither own nor refer to others" onClick=${() => setQuery({ all: all ? null : 'true' }, { replace: true })}>All objects</button>`} />
    <${Problem} error=${error} />
    ${!g ? (error ? null : html`<${Loading} />`) : html`
      ${traced?.links?.length ? html`<${Controllers} links=${traced.links} />` : null}
      ${!g.nodes.length ? html`<p class="empty">${state.synced ? (problems ? 'No object has a problem.' : 'No object owns or refers to another.') : 'Reading the cluster…'}</p>` : html`<${Drawing} g=${g} near=${near} setNear=${setNear} /><${Links} g=${g} />`}
      <p class="legend quiet"><span class="entry"><span class="l owns"></span>owns</span><span class="entry"><span class="l refers"></span>refers to</span><span class="entry"><span class="l selects"></span>selects</span><span class="entry"><span class="h bad"></span>has a problem</span><span class="entry"><span class="h wait"></span>waits</span></p>
      <${Unreadable} failures=${state.failures} />`}`;
}

/** @param {{g: any, near: string, setNear: (id: string) => void}} props */
function Drawing({ g, near, setNear }) {
  /** @type {Record<string, any>} */
  const at = {};
  for (const n of g.nodes) at[n.id] = n;
  const x = (/** @type {any} */ n) => margin + n.x * columnWidth, y = (/** @type {any} */ n) => margin + n.y * rowHeight;
  const path = (/** @type {any} */ e) => {
    const a = at[e.from], b = at[e.to];
    if (e.type === 'owns') {
      // down the gap between the columns, so that siblings share a line
      const sx = x(a) + boxWidth, sy = y(a) + boxHeight / 2, ty = y(b) + boxHeight / 2, middle = sx + (columnWidth - boxWidth) / 2;
      return sy === ty ? `M${sx},${sy}H${x(b)}` : `M${sx},${sy}H${middle - 5}Q${middle},${sy} ${middle},${sy + 5}V${ty - 5}Q${middle},${ty} ${middle + 5},${ty}H${x(b)}`;
    }
    // from the side that faces the other node; within a column, around the right side
    const toRight = b.x > a.x, toLeft = b.x < a.x;
    const sx = toLeft ? x(a) : x(a) + boxWidth, tx = toRight ? x(b) : x(b) + boxWidth;
    const sy = y(a) + boxHeight / 2, ty = y(b) + boxHeight / 2;
    const bend = Math.min(90, 30 + Math.abs(sy - ty) / 6);
    return `M${sx},${sy}C${toLeft ? sx - bend : sx + bend},${sy} ${toRight ? tx - bend : tx + bend},${ty} ${tx},${ty}`;
  };
  const linked = new Set(near ? [near] : []);
  for (const e of g.edges) if (near && (e.from === near || e.to === near)) linked.add(e.from).add(e.to);
  const width = g.columns * columnWidth + 120, height = g.rows * rowHeight + 2 * margin;
  // Chromium gives the focus to elements of SVG that listen for it, so the listener is around them.
  return html`<div class="map" tabIndex=${0} role="region" aria-label="Drawing of the objects; the links follow as text"
    onFocusIn=${(/** @type {any} */ e) => setNear(e.target.closest('.node')?.dataset.id ?? '')} onFocusOut=${() => setNear('')}><svg width=${width * enlarged} height=${height * enlarged} viewBox=${`0 0 ${width} ${height}`} role="list" aria-label="Objects">
    <g role="presentation">${g.edges.map((/** @type {any} */ e) => html`<path key=${e.from + e.to + e.type} class=${'edge ' + e.type + (near && (e.from === near || e.to === near) ? ' near' : '')} d=${path(e)} />`)}</g>
    ${g.groups.map((/** @type {any} */ n) => html`<text key=${'namespace ' + n.namespace} class="group" x=${margin} y=${margin + n.y * rowHeight + boxHeight / 2 + 6}>${n.namespace || 'without a namespace'}</text>`)}
    ${g.nodes.map((/** @type {any} */ n) => html`<g key=${n.id} role="listitem" class=${'node ' + (n.tone ?? '') + (n.deleting ? ' deleting' : '') + (near && !linked.has(n.id) ? ' far' : '')}
        data-id=${n.id} onMouseEnter=${() => setNear(n.id)} onMouseLeave=${() => setNear('')}>
      <a href=${n.count ? listHref(n.resource, n.namespace) : objectHref(n.resource, n.namespace, n.name)}>
        <rect x=${x(n)} y=${y(n)} width=${boxWidth} height=${boxHeight} rx="5" />
        <text x=${x(n) + 9} y=${y(n) + boxHeight / 2 + 4}><tspan class="t-kind">${n.kind}</tspan> ${n.count ? `× ${n.count.toLocaleString()}${n.problems ? `, ${n.problems.toLocaleString()} ⚠` : ''}` : shorten(n.name, 27 - n.kind.length)}</text>
        <title>${n.kind} ${n.namespace ? n.namespace + '/' : ''}${n.count ? `(${n.count}${n.problems ? ', of which ' + n.problems + ' have problems or wait' : ''})` : n.name}${n.tone && !n.count ? { bad: ': has a problem', wait: ': waits' }[/** @type {string} */ (n.tone)] : ''}</title>
      </a></g>`)}
  </svg></div>`;
}

const relations = /** @type {Record<string, string>} */ ({ owns: 'owns', refers: 'refers to', selects: 'selects' });

/** The lines of the drawing as text. @param {{g: any}} props */
function Links({ g }) {
  const [open, setOpen] = useState(false);
  const [shown, setShown] = useState(maxLinks);
  if (!g.edges.length) return null;
  const at = new globalThis.Map(g.nodes.map((/** @type {any} */ n) => [n.id, n]));
  const name = (/** @type {string} */ id) => {
    const n = /** @type {any} */ (at.get(id));
    return n.count ? html`<a href=${listHref(n.resource, n.namespace)}><span class="kind">${n.kind}</span> × ${n.count}</a>` : html`<${ObjectLink} ...${n} />`;
  };
  return html`<details class="notelist" onToggle=${(/** @type {any} */ e) => setOpen(e.currentTarget.open)}><summary>${g.edges.length.toLocaleString()} ${g.edges.length === 1 ? 'link' : 'links'} as text</summary>
    ${open ? html`<table class="plain"><thead><tr><th>Object</th><th>Relation</th><th>Other object</th></tr></thead><tbody>${g.edges.slice(0, shown).map((/** @type {any} */ e) => html`<tr key=${e.from + e.to + e.type}><td class="wrap">${name(e.from)}</td>
      <td>${relations[e.type] ?? e.type}</td><td class="wrap">${name(e.to)}</td></tr>`)}</tbody></table>
      ${g.edges.length > shown ? html`<p><button onClick=${() => setShown(shown + maxLinks)}>Show more</button></p>` : null}` : null}</details>`;
}

const maxLinks = 200;

/** @param {string} text @param {number} length */
const shorten = (text, length) => (text.length > length ? text.slice(0, Math.ceil(length / 2) - 1) + '…' + text.slice(text.length - Math.floor(length / 2)) : text);

/** @param {{links: any[]}} props */
function Controllers({ links }) {
  return html`<details class="controllers" open><summary>What controllers watch and write</summary><table class="plain"><thead><tr><th>Controller</th><th>Kind</th><th>Reconciled</th><th>Events</th><th>Writes</th><th>Failed writes</th></tr></thead>
    <tbody>${links.map((l) => html`<tr key=${l.controller + l.kind}><td>${l.controller}</td><td>${l.kind}</td>${[l.reconciles, l.causes, l.writes].map((n) => html`<td class="number">${n ? n.toLocaleString() : html`<span class="none">–</span>`}</td>`)}
      <td class=${'number' + (l.errors ? ' bad' : '')}>${l.errors ? l.errors.toLocaleString() : html`<span class="none">–</span>`}</td></tr>`)}</tbody></table></details>`;
}
