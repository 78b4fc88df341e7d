// @ts-check
// The recorded reconciles, and each with its causes, reads, writes, logs and effects.
import { useAnnouncement } from '../page/lib/announce.js';
import { address, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { Badge, Header, Loading, ObjectLink, Problem, clock, span } from '../page/lib/ui.js';
import { Causes, ReconcileLink, Untraced, pastTense, micros } from '../why/why.js';

/** @param {{query: URLSearchParams, parts: string[]}} props */
export function Reconcile({ query, parts }) {
  return parts.length === 2 ? html`<${One} run=${parts[0]} id=${parts[1]} />` : html`<${All} query=${query} />`;
}

/** What a reconcile wrote and returned. @param {any} r */
export function result(r) {
  const writes = (r.writes ?? []).filter((/** @type {any} */ w) => w.changed || w.error);
  return html`${writes.map((/** @type {any} */ w, /** @type {number} */ i) => html`${i ? ', ' : ''}${w.error ? 'not ' : ''}${pastTense(w)} <${ObjectLink} ...${w} />`)}
    ${r.requeueAfter ? html` <span class="quiet">again after ${r.requeueAfter}</span>` : null}
    ${r.error ? html` <span class="bad">${r.error}</span>` : null}
    ${!writes.length && !r.error && !r.requeueAfter ? html`<span class="quiet">nothing to do</span>` : null}
    ${r.repeats ? html` <span class="quiet">and ${r.repeats.toLocaleString()} more like it</span>` : null}`;
}

/** @param {any} r */
function because(r) {
  const c = r.causes?.[0];
  if (!c) return html`<span class="quiet">unknown</span>`;
  const more = r.causes.length - 1 + (r.moreCauses ?? 0);
  const same = !c.kind || (c.kind === r.kind && c.name === r.name);
  return html`${same ? '' : html`<${ObjectLink} ...${c} /> `}<span class="quiet">${c.event}${c.manager ? ' by ' + c.manager : ''}${more ? ` +${more}` : ''}</span>`;
}

/** @param {{query: URLSearchParams}} props */
function All({ query }) {
  const controller = query.get('controller') ?? '', q = query.get('q') ?? '', failed = query.get('failed') ?? '';
  const [state, error] = useStates(address('reconciles', { controller, q, failed }));
  useAnnouncement(state ? state.matching.toLocaleString() + ' reconciles' : '', controller + ' ' + failed + q);
  return html`<${Header} title="Reconciles" note=${state ? state.matching.toLocaleString() : ''} actions=${html`
      <button aria-pressed=${failed === 'true'} onClick=${() => setQuery({ failed: failed ? null : 'true' }, { replace: true })}>Failed only</button>
      <input class="filter" type="search" placeholder="Object or error" aria-label="Filter by object or error" value=${q} onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value }, { replace: true })} />`} />
    <${Problem} error=${error} />
    ${!state ? (error ? null : html`<${Loading} />`) : !state.controllers.length ? html`<${Untraced} traced=${state.traced} errors=${state.errors} />` : html`
      <div class="cards">${state.controllers.map((/** @type {any} */ c) => html`<button class="card" aria-pressed=${controller === c.name} onClick=${() => setQuery({ controller: controller === c.name ? null : c.name }, { replace: true })}>
        <b>${c.name}</b><span>${c.reconciles.toLocaleString()} reconciles</span>
        <span class=${c.errors ? 'bad' : 'quiet'}>${c.errors ? c.errors.toLocaleString() + ' failed' : 'none failed'}</span>
        <span class="quiet">${c.idle.toLocaleString()} with nothing to do · median ${span(Math.round(c.median / 1000))}, slowest ${span(Math.round(c.slowest / 1000))}</span>
        ${c.queue ? html`<span class="quiet">queue: ${c.queue.ready} ready, ${c.queue.delayed} delayed · longest wait ${span(Math.round((c.longest ?? 0) / 1000))}</span>` : null}</button>`)}</div>
      <table class="plain"><thead><tr><th>Time</th><th>Controller</th><th>Object</th><th>Cause</th><th>Result</th><th>Took</th></tr></thead>
        <tbody>${state.reconciles.map((/** @type {any} */ r) => html`<tr key=${r.run + r.id} class=${r.error ? 'failed' : ''}><td class="mono quiet">${clock(r.time)}</td><td><${ReconcileLink} r=${r} /></td>
          <td><${ObjectLink} ...${r} tab="why" /></td><td class="mixed">${because(r)}</td><td class="wrap">${result(r)}${r.loop ? html` <${Badge} text="hot loop" as="bad" />` : null}</td>
          <td class="number">${span(micros(r.duration))}</td></tr>`)}</tbody></table>
      ${state.matching > state.reconciles.length ? html`<p class="quiet">Only the last ${state.reconciles.length} are shown.</p>` : null}`}`;
}

/** @param {{run: string, id: string}} props */
function One({ run, id }) {
  const [state, error] = useStates(address('reconcile', { run, id }));
  if (!state) return html`<${Header} title=${'Reconcile ' + id} /><${Problem} error=${error} />${error ? null : html`<${Loading} />`}`;
  const r = state.reconcile;
  return html`<${Header} title=${html`<a class="crumb" href="/reconcile">Reconcile</a> ${r.controller} #${r.id}`} note=${html`${r.error ? html`<${Badge} text="failed" as="bad" />` : html`<${Badge} text="succeeded" as="good" />`}`} />
    <${Problem} error=${error} />
    ${r.error ? html`<div class="problem"><strong>Error</strong> ${r.error}</div>` : null}
    ${r.loop ? html`<div class="problem"><strong>Hot loop</strong> ${r.loop.reconciles} reconciles repeatedly write ${r.loop.objects.join(' and ')}${r.loop.fields?.length ? ': ' + r.loop.fields.join(', ') : ''}</div>` : null}
    <dl class="facts"><dt>Object</dt><dd><${ObjectLink} ...${r} tab="why" /></dd><dt>Started</dt><dd>${clock(r.time)} <span class="quiet">${r.time}</span></dd>
      <dt>Took</dt><dd>${span(micros(r.duration))}</dd>${r.requeueAfter ? html`<dt>Runs again after</dt><dd>${r.requeueAfter}</dd>` : null}
      <dt>Timeline</dt><dd><a href=${'/timeline?select=' + encodeURIComponent(run + '/' + id)}>show it in the timeline</a></dd></dl>
    <h2>Causes</h2><div class="why"><section class="chain"><${Causes} r=${r} /></section></div>
    ${r.queue ? html`<h2>Queue</h2><dl class="facts"><dt>Waited</dt><dd>${span(micros(r.queue.waited))} <span class="quiet">from ready to start</span></dd>
      <dt>Priority</dt><dd>${r.queue.priority ?? 0}</dd><dt>Retries</dt><dd>${r.queue.retries ?? 0}${r.retryAfter ? html` <span class="quiet">again after a backoff of ${span(micros(r.retryAfter))}</span>` : null}</dd>
      <dt>Other objects</dt><dd>${r.queue.ready} ready, ${r.queue.delayed} delayed, ${r.queue.running - 1} running</dd></dl>` : null}
    <h2>Reads, writes and logs</h2>${state.steps?.length ? html`<table class="plain steps"><thead><tr><th>After</th><th>Call</th><th>Object</th><th>Version</th><th>Took</th><th>Result</th></tr></thead><tbody>
      ${state.steps.map((/** @type {any} */ s) => html`<${StepRow} s=${s} />`)}</tbody></table>` : html`<p class="quiet">The reconcile wrote nothing, and the trace has no reads or logs of it.</p>`}
    ${r.moreReads || r.moreLogs ? html`<p class="quiet">${r.moreReads ?? 0} more reads and ${r.moreLogs ?? 0} more log records are not in the trace.</p>` : null}`;
}

/** @param {{s: any}} props */
function StepRow({ s }) {
  const at = html`<td class="mono quiet">${s.at === undefined ? '' : '+' + span(Math.round(s.at))}</td>`;
  const took = html`<td class="number">${s.took === undefined ? '' : span(Math.round(s.took))}</td>`;
  if (s.log)
    return html`<tr>${at}<td><${Badge} text=${s.log.level} as=${/** @type {any} */ ({ __proto__: null, ERROR: 'bad', WARN: 'wait' })[s.log.level] ?? ''} /></td>
      <td class="wrap" colspan="4">${s.log.message} <span class="mono quiet">${s.log.attributes}</span></td></tr>`;
  if (s.write) {
    const w = s.write.write;
    return html`<tr>${at}<td><b>${w.verb}</b>${w.subresource ? ' ' + w.subresource : ''}</td><td><${ObjectLink} ...${w} tab="why" /></td><td class="mono quiet">${w.resourceVersion}</td>${took}
      <td class="wrap">${w.error ? html`<span class="bad">${w.error}</span>` : !w.changed ? html`<span class="quiet">no change</span>` : null}
        ${(s.write.reconciles ?? []).map((/** @type {any} */ l) => html`<div>caused <${ReconcileLink} r=${l} /> <${ObjectLink} ...${l} /></div>`)}</td></tr>`;
  }
  const r = s.read;
  return html`<tr class=${s.stale ? 'stale' : ''}>${at}<td>${r.verb}${r.live ? html` <span class="quiet">from the server</span>` : null}</td>
    <td>${r.verb === 'list' ? html`<span class="kind">${r.kind}</span> ${r.namespace ? html`<span class="ns">in ${r.namespace}</span>` : null} <span class="mono quiet">${r.selector}</span>` : html`<${ObjectLink} ...${r} tab="why" />`}</td>
    <td class="mono quiet">${r.resourceVersion}</td>${took}
    <td class="wrap">${r.error ? html`<span class="bad">${r.error}</span>` : r.verb === 'list' ? `${r.count} ${r.count === 1 ? 'object' : 'objects'}` : null}
      ${s.stale ? html` <${Badge} text="stale" as="bad" /> <${Newer} stale=${s.stale} read=${r} />` : null}</td></tr>`;
}

/** @param {{stale: any, read: any}} props */
function Newer({ stale, read }) {
  const by = html`<${ReconcileLink} r=${stale} />`;
  return html`${stale.version ? html`${read.verb === 'list' ? html`<${ObjectLink} ...${stale.object} tab="why" />: ` : null}version ${stale.version} ${stale.seen ? html`had already caused ${by}` : html`was written before, by ${by}`}` : null}
    ${stale.conflict ? html`${stale.version ? '; ' : ''}a later write failed with a conflict` : null}`;
}
