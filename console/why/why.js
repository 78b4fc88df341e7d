// @ts-check
// From an object, or one of its fields, back to the first causes, and forward to its effects.
import { useMemo } from 'preact/hooks';
import { address, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { kindOf } from '../page/lib/kinds.js';
import { setQuery } from '../page/lib/route.js';
import { Age, Badge, Header, Loading, ObjectLink, Problem, clock, span, useSome } from '../page/lib/ui.js';
import { fields } from './fields.js';

// without a prototype: a text of a trace, such as __proto__, must not select one of its properties
const pastTenses = { __proto__: null, create: 'created', update: 'updated', patch: 'patched', apply: 'applied', delete: 'deleted', deletecollection: 'deleted' };
const events = { __proto__: null, add: 'was created', update: 'changed', delete: 'was deleted', sync: 'existed when the operator started', resync: 'was resynced' };

/** Describes a write: "updated in its status". @param {any} w */
export const pastTense = (w) => (/** @type {any} */ (pastTenses)[w.verb] ?? w.verb) + (w.subresource ? ' in its ' + w.subresource : '');

/** Returns microseconds. @param {string} text a duration of Go */
export function micros(text) {
  let total = 0;
  for (const [, n, unit] of text.matchAll(/([\d.]+)(h|ms|µs|us|ns|m|s)/g)) total += Number(n) * /** @type {any} */ ({ h: 3.6e9, m: 6e7, s: 1e6, ms: 1e3, µs: 1, us: 1, ns: 1e-3 })[unit];
  return Math.round(total);
}

/** @param {{r: any}} props */
export const ReconcileLink = ({ r }) => html`<a href=${'/reconcile/' + encodeURIComponent(r.run || '-') + '/' + r.id}>${r.controller}<span class="quiet"> #${r.id}</span></a>`;

/** The view of all objects of the traces. */
export function Why() {
  const [state, error] = useStates(address('traced'));
  return html`<${Header} title="Why" note=${state ? `${(state.objects.length + state.more).toLocaleString()} objects that operators reconciled or wrote` : ''} />
    <${Problem} error=${error} />
    ${!state ? (error ? null : html`<${Loading} />`)
      : !state.objects.length ? html`<${Untraced} traced=${state.traced} errors=${state.errors} />`
      : html`<table class="plain"><thead><tr><th>Object</th><th>Writes</th><th>Last</th><th>State</th></tr></thead><tbody>
          ${state.objects.map((/** @type {any} */ o) => html`<tr key=${o.kind + o.namespace + '/' + o.name}><td><${ObjectLink} ...${o} tab="why" /></td><td>${o.writes}</td>
            <td><${Age} time=${o.time} /></td><td>${o.failed ? html`<${Badge} text="failed" as="bad" />` : null}</td></tr>`)}</tbody></table>`}`;
}

/**
 * Says why nothing is known.
 * @param {{traced: boolean, errors?: Record<string, string>, recorded?: boolean, object?: any}} props recorded: the traces have reconciles, but not of this object
 */
export function Untraced({ traced, errors, recorded, object }) {
  const owners = object?.metadata?.ownerReferences ?? [];
  return html`<div class="empty">
    ${Object.entries(errors ?? {}).map(([place, why]) => html`<p class="bad">${place}: ${why}</p>`)}
    ${recorded ? html`No recorded reconcile involves this object.${owners.length ? ' It is owned by ' : ''}${owners.map((/** @type {any} */ o, /** @type {number} */ i) => html`${i ? ', ' : ''}<${ObjectLink} kind=${o.kind} namespace=${object.metadata.namespace ?? ''} name=${o.name} tab="why" />`)}`
      : traced ? 'The operators’ traces have no reconciles yet.' : html`No operator’s trace is connected. An operator built with Kelson’s library writes one with <code>KELSON_TRACE=file:PATH</code>; start <code>kelson console --trace PATH</code>. <code>kelson dev</code> connects it by itself.`}
  </div>`;
}

/** A link to an object whose kind may have no namespaces. @param {{object: any}} props */
const Named = ({ object: o }) => html`<${ObjectLink} kind=${o.kind} namespace=${kindOf(o.kind)?.namespaced ?? true ? o.namespace ?? '' : ''} name=${o.name} tab="why" />`;

/**
 * What the cluster says about an object: the same as kelson why.
 * @param {{diagnosed: any, own: {kind: string, namespace: string, name: string}}} props
 */
function Findings({ diagnosed, own }) {
  const { findings, error, at } = diagnosed;
  const itself = (/** @type {any} */ f) => f.objects === 1 && f.object.kind === own.kind && (f.object.namespace ?? '') === own.namespace && f.object.name === own.name;
  return html`
    ${error ? html`<p class="quiet">${at ? `The cluster can’t be read. This is what was known at ${clock(at).slice(0, 8)}: ` : 'The problem is unknown: '}${error}</p>` : null}
    ${!findings.length ? (error ? null : html`<p class="calm"><span class="tick" aria-hidden="true">✓</span> As it should be: nothing in its status, its Events and what it owns says otherwise.</p>`)
      : html`<ul class="items findings" aria-label="Findings">${findings.map((/** @type {any} */ f) => html`<li class=${'item ' + (f.level === 'broken' ? 'bad' : f.level === 'waiting' ? 'wait' : 'note')}>
        <div class="itemhead"><span class="dot" aria-hidden="true"></span><span class="level">${f.level}</span> ${itself(f) ? null : html`<${Named} object=${f.object} />${f.objects > 1
          ? html` <span class="quiet">${f.objects === 2 ? 'and another one' : `and ${(f.objects - 1).toLocaleString()} others`}</span>` : null}`}</div>
        <p class="what">${f.text}</p>
        ${f.details?.length ? html`<pre class="details">${f.details.join('\n')}</pre>` : null}
        ${f.next ? html`<p class="next"><span class="quiet">next:</span> ${f.next}</p>` : null}
        <p class="quiet source">source: ${f.source}${f.since ? html`, <${Age} time=${f.since} /> ago` : null}</p></li>`)}</ul>`}`;
}

/**
 * The tab of an object.
 * @param {{kind: string|undefined, resource: string, namespace: string, name: string, object: any, failed: boolean, gone: boolean, query: URLSearchParams}} props
 *   failed: the page shows why the object can't be read
 */
export function WhyObject({ kind, resource, namespace, name, object, failed, gone, query }) {
  const last = query.get('last') ?? '5';
  const [state, error] = useStates(kind ? address('why', { kind, resource, namespace, name, last }) : null);
  const blame = useMemo(() => fields(object), [object]);
  const [shown, more] = useSome(blame, 500, 'fields');
  const absent = gone && !object ? html`<p class="empty">The object does not exist. Its causes and history may still be recorded.</p>` : null;
  if (!state) return error ? html`<${Problem} error=${error} />` : absent ?? (kind || !failed ? html`<${Loading} />` : null);
  const known = state.writes?.length || state.reconciles?.length || state.effects?.length || state.unsettled?.length || state.loops?.length;
  return html`<div class="why"><${Problem} error=${error} />
    ${state.diagnosed && (!absent || state.diagnosed.findings.length) ? html`<${Findings} diagnosed=${state.diagnosed} own=${{ kind, namespace, name }} />` : absent}
    ${known ? html`<h2>What operators and clients did</h2>` : null}
    ${state.owners?.length ? html`<p class="owners">${kind} ${name}${state.owners.map((/** @type {any} */ o) => html`, owned by <${Named} object=${o} />`)}</p>` : null}
    ${state.loops?.map((/** @type {any} */ l) => html`<div class="problem"><strong>Hot loop</strong> ${clock(l.time)}: ${l.loop.reconciles} reconciles of ${l.loop.controllers.join(' and ')} repeatedly write
      ${l.loop.objects.join(' and ')}${l.loop.fields?.length ? html`<ul>${l.loop.fields.map((/** @type {string} */ f) => html`<li><code>${f}</code></li>`)}</ul>` : null}</div>`)}
    ${state.unsettled?.map((/** @type {any} */ r) => html`<div class=${'problem' + (r.error ? '' : ' warn')}><strong>${r.error ? 'Last reconcile failed' : 'Will be reconciled again'}</strong>${' '}
      <${ReconcileLink} r=${r} /> at ${clock(r.time)}: ${r.error || 'after ' + r.requeueAfter}</div>`)}
    ${!known ? html`<${Untraced} traced=${state.traced} errors=${state.errors} recorded=${state.recorded} object=${object} />` : null}
    ${state.earlierWrites ? html`<p><button onClick=${() => setQuery({ last: String(Math.min(200, Number(last) * 4)) }, { replace: true })}>Show earlier writes</button> <span class="quiet">${state.earlierWrites} more</span></p>` : null}
    ${(state.writes ?? []).slice().reverse().map((/** @type {any} */ s) => html`<section class="chain"><${Cause} time=${s.by.time} what=${html`<b>${s.write.error ? 'not ' : ''}${pastTense(s.write)}</b> by`} r=${s.by} bad=${s.write.error} /><${Causes} r=${s.by} /></section>`)}
    ${(state.reconciles ?? []).slice().reverse().map((/** @type {any} */ r) => html`<section class="chain"><${Cause} time=${r.time} what=${html`<b>reconciled</b> by`} r=${r} bad=${r.error} /><${Causes} r=${r} /></section>`)}
    ${state.effects?.length ? html`<section><h2>Effects</h2><ul class="effects">${state.effects.map((/** @type {any} */ r) => html`<li><span class="mono quiet">${clock(r.time)}</span>
      <${ReconcileLink} r=${r} /> reconciled <${ObjectLink} ...${r} tab="why" />${(r.writes ?? []).filter((/** @type {any} */ w) => w.changed || w.error).map((/** @type {any} */ w) => html`, ${pastTense(w)} <${ObjectLink} ...${w} tab="why" />`)}
      ${r.error ? html` <span class="bad">${r.error}</span>` : null}</li>`)}</ul></section>` : null}
    ${blame.length ? html`<section><h2>Who set which field</h2><table class="plain blame"><thead><tr><th>Field</th><th>Value</th><th>Manager</th><th>When</th></tr></thead>
      <tbody>${shown.map((f) => html`<tr><td class="mono wrap">${f.path}</td><td class="mono wrap">${f.value}</td><td>${f.manager}${f.subresource ? html` <span class="quiet">${f.subresource}</span>` : null}
        <span class="quiet"> ${f.operation}</span></td><td>${f.time ? html`<${Age} time=${f.time} />` : ''}</td></tr>`)}</tbody></table>${more}</section>` : null}
  </div>`;
}

/** A line of a chain. @param {{time: string, what: any, r: any, bad?: string}} props */
function Cause({ time, what, r, bad }) {
  return html`<div class="cause"><time class="mono quiet" dateTime=${time}>${clock(time)}</time><span>${what} <${ReconcileLink} r=${r} />
    <span class="quiet"> reconciling</span> <${ObjectLink} ...${r} /> <span class="quiet">${span(micros(r.duration))}</span>${bad ? html` <span class="bad">${bad}</span>` : null}</span></div>`;
}

/**
 * Returns the first of consecutive reconciles that failed with the same error, each a retry of the
 * previous one, and how many of them precede r.
 * @param {any} r
 */
function retries(r) {
  let first = r, folded = 0;
  for (;;) {
    const because = first.because ?? [];
    const before = because.length === 1 && because[0].cause.event === 'retry' ? because[0].by : null;
    if (!before || before.error !== r.error || before.repeated || before.cut) return { first, folded };
    first = before;
    folded++;
  }
}

/** The causes of a reconcile, and the causes of these. @param {{r: any}} props */
export function Causes({ r }) {
  if (r.repeated) return html`<ol class="causes"><li class="quiet">causes are shown above</li></ol>`;
  if (r.cut) return html`<ol class="causes"><li class="quiet">…</li></ol>`;
  if (!r.because?.length) return html`<ol class="causes"><li class="quiet">cause unknown</li></ol>`;
  return html`<ol class="causes">${r.because.map((/** @type {any} */ b) => {
    const c = b.cause;
    const object = c.kind ? html`<${ObjectLink} ...${c} />` : null;
    const event = /** @type {any} */ (events)[c.event];
    const what = c.event === 'retry' ? 'the previous reconcile failed' : c.event === 'after' ? 'the previous reconcile requested it'
      : c.event === 'other' ? html`an event outside of the cluster ${c.name}` : b.write ? html`${object} was <b>${pastTense(b.write)}</b>` : html`${object} ${event ?? c.event}`;
    const { first, folded } = c.event === 'retry' && b.by ? retries(b.by) : { first: b.by, folded: 0 };
    const more = c.fields ? html` <code class="quiet">${c.fields}</code>` : null;
    return html`<li>${b.by
      ? html`<${Cause} time=${b.by.time} what=${html`<span class="quiet">because</span> ${what}${more}${c.kind ? html` <span class="quiet">by</span>` : ':'}`} r=${b.by} bad=${b.by.error} />${folded ? html`<div class="quiet folded">${folded === 1 ? 'as did the one before it' : `as did the ${folded.toLocaleString()} before it`}, since ${clock(first.time)}</div>` : null}<${Causes} r=${first} />`
      : html`<div class="cause"><span class="first" aria-hidden="true"></span><span><span class="quiet">because</span> ${what}${more}${c.manager ? html` <span class="quiet">by</span> <b>${c.manager}</b>` : null}</span></div>`}</li>`;
  })}${r.moreCauses ? html`<li class="quiet">and ${r.moreCauses} more causes</li>` : null}</ol>`;
}
