// @ts-check
// What an operator would do: its steps with their causes, and the fields that they change.
import { useState } from 'preact/hooks';
import { useAnnouncement } from '../page/lib/announce.js';
import { address, request, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { objectHref, setQuery } from '../page/lib/route.js';
import { Age, Badge, Header, Loading, Problem, duration, useClock } from '../page/lib/ui.js';

/** @typedef {{group?: string, kind: string, resource: string, namespace?: string, name?: string}} Ref */
/** @typedef {{path: string, from?: string, to?: string}} Change */

const page = 100; // steps that are shown at first, and with each press of the button

/** @param {{query: URLSearchParams, namespace: string}} props */
export function Plan({ query, namespace }) {
  const [state, error] = useStates(address('plan'));
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  const [shown, setShown] = useState(page);
  const text = (query.get('q') ?? '').toLowerCase();
  const steps = (state?.plan?.steps ?? []).filter((/** @type {any} */ s) => (!text || searched(s).includes(text)) && (!namespace || inNamespace(s, namespace)));
  useAnnouncement(state?.plan ? count(steps.length, 'step') : '', namespace + ' ' + text);
  if (!state) return html`<${Header} title="Plan" /><${Problem} error=${error} />${error ? null : html`<${Loading} />`}`;
  const p = state.plan;
  const start = async (/** @type {string} */ against) => {
    if (state.running) return;
    setRefused(null);
    try {
      await request('plan/run', { against }, { method: 'POST' });
    } catch (e) {
      setRefused(e);
    }
  };
  const run = state.runnable ? html`<button aria-disabled=${!!state.running} onClick=${() => start('')}>Make a plan</button>
    <button aria-disabled=${!!state.running} title="Show objects whose final states differ from those with the operator of the last commit" onClick=${() => start('HEAD')}>Compare with the last commit</button>` : null;
  const target = Number(query.get('step'));
  const position = steps.findIndex((/** @type {any} */ s) => s.number === target);
  const visible = steps.slice(0, Math.max(shown, position + 1));
  return html`<${Header} title="Plan" note=${p ? html`on a copy of ${p.cluster}, ${count(p.objects, 'object')}, <${Age} time=${state.time} /> ago` : ''} actions=${html`
      ${p ? html`<a href="/api/plan/export?format=markdown" download="plan.md">Markdown</a> <a href="/api/plan/export?format=json" download="plan.json">JSON</a>
      ${p.compared ? null : html`<input class="filter" type="search" placeholder="Object or controller" aria-label="Filter steps" value=${query.get('q') ?? ''}
        onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value }, { replace: true })} />`}` : null}`} />
    ${run ? html`<div class="bar">${run}</div>` : null}
    <${Problem} error=${error ?? refused ?? state.failure} />
    ${state.running ? html`<${Running} since=${state.running} />` : null}
    ${!p ? (state.running ? null : html`<p class="empty">${state.runnable ? 'A plan runs the operator on a copy of the cluster and shows what it would do. Nothing reaches the cluster.'
      : html`No plan is connected. Make one with <code>kelson plan -o json > plan.json</code>, and start <code>kelson console --plan plan.json</code>; in the page of <code>kelson dev</code>, a button makes one.`}</p>`) : html`
      ${p.incomplete ? html`<div class="problem" role="alert"><strong>Incomplete</strong> ${p.incomplete}</div>` : null}
      ${p.compared ? html`<${Compared} plan=${p} />` : state.empty ? html`<div class="calm" role="status">The operator would do nothing.</div>` : html`<p class="summary" role="status">${state.summary}</p>`}
      ${(p.refused ?? []).map((/** @type {any} */ r) => html`<div class="problem"><strong>Refused</strong> ${r.verb} <${Name} object=${r.object} />${r.subresource ? ` (${r.subresource})` : ''}: ${r.message}${r.times > 1 ? ` (${r.times} times)` : ''}</div>`)}
      ${p.installed?.length ? html`<details class="installed"><summary>${count(p.installed.length, 'object')} installed before the operator starts</summary><ul>${p.installed.map((/** @type {any} */ i) => html`<li><${Written} w=${i} /></li>`)}</ul></details>` : null}
      ${p.compared && visible.length ? html`<h2>Steps</h2>` : null}
      <ol class="steplist">${visible.map((/** @type {any} */ s) => html`<${Step} key=${s.number} s=${s} target=${s.number === target} />`)}</ol>
      ${steps.length > visible.length ? html`<p><button onClick=${() => setShown(visible.length + page)}>Show more</button> <span class="quiet">${count(steps.length - visible.length, 'step')} left</span></p>` : null}
      ${!steps.length && p.steps.length ? html`<p class="quiet">No step matches the filter.</p>` : null}
      ${state.more ? html`<p class="quiet">${state.more.toLocaleString()} later steps are only in the exported plan.</p>` : null}
      ${p.notes?.length ? html`<h2>Notes</h2><ul class="notes">${p.notes.map((/** @type {string} */ n) => html`<li>${n}</li>`)}</ul>` : null}`}`;
}

const count = (/** @type {number} */ n, /** @type {string} */ what) => `${n.toLocaleString()} ${what}${n === 1 ? '' : 's'}`;

/** @param {Ref} r */
const nameOf = (r) => `${r.kind} ${r.namespace ? r.namespace + '/' : ''}${r.name ?? ''}`;

/** @param {any} s */
const searched = (s) => [s.controller, s.object && nameOf(s.object), s.error, ...(s.writes ?? []).map((/** @type {any} */ w) => nameOf(w.object))].join(' ').toLowerCase();

/** @param {any} s @param {string} namespace */
const inNamespace = (s, namespace) => s.object?.namespace === namespace || (s.writes ?? []).some((/** @type {any} */ w) => w.object.namespace === namespace);

/** @param {{since: string}} props */
function Running({ since }) {
  const now = useClock();
  useAnnouncement('Building the operator and running it on a copy of the cluster');
  return html`<p class="quiet running">Building the operator and running it on a copy of the cluster: ${duration(now - Date.parse(since))}</p>`;
}

/**
 * An object, with a link if it exists before the operator runs.
 * @param {{object: Ref, absent?: boolean}} props
 */
function Name({ object: o, absent }) {
  const label = html`<span class="kind">${o.kind}</span> ${o.namespace ? html`<span class="ns">${o.namespace}/</span>` : null}${o.name}`;
  if (absent || !o.name || !o.resource) return html`<span class="object">${label}</span>`;
  return html`<a class="object" href=${objectHref(o.group ? o.resource + '.' + o.group : o.resource, o.namespace, o.name)}>${label}</a>`;
}

/** @param {{number: number}} props */
const StepLink = ({ number }) => html`<a href=${'/plan?step=' + number}>step ${number}</a>`;

/** @param {{s: any, target: boolean}} props */
function Step({ s, target }) {
  const show = (/** @type {HTMLElement|null} */ el) => {
    if (target && el && !el.dataset.shown) {
      el.dataset.shown = 'true'; // once for each address
      el.scrollIntoView({ block: 'center' });
    }
  };
  return html`<li class=${'step' + (target ? ' target' : '') + (s.error ? ' bad' : '')} ref=${show} aria-label=${'Step ' + s.number}>
    <h2><a class="stepnumber" href=${'/plan?step=' + s.number} aria-label=${'Address of step ' + s.number}>${s.number}</a> ${s.controller ? html`<span class="quiet">${s.controller}</span> ` : ''}${s.object ? html`<${Name} object=${s.object} />` : s.controller ? '' : 'A write'}
      ${s.simulated ? html` <${Badge} text="simulated" as="wait" />` : null}</h2>
    ${(s.because ?? []).map((/** @type {any} */ c) => html`<div class="because"><span class="quiet">${c.probably ? 'probably because' : 'because'}</span> ${c.text}${c.step ? html` (<${StepLink} number=${c.step} />)` : null}</div>`)}
    ${(s.writes ?? []).map((/** @type {any} */ w) => html`<${Written} w=${w} />`)}
    ${s.error ? html`<div class="because"><${Badge} text="fails" as="bad" /> ${s.error}${s.times > 1 ? ` (${s.times} times)` : ''}</div>` : null}
    ${s.simulated ? html`<div class="because quiet">${s.simulated}</div>` : null}</li>`;
}

const tones = { __proto__: null, create: 'good', update: 'wait', delete: 'bad' };

/** @param {{w: any}} props */
function Written({ w }) {
  const changes = /** @type {Change[]} */ (w.changes ?? []);
  const verb = /** @type {'create'|'update'|'delete'} */ (w.verb);
  return html`<details class="write" open=${changes.length <= 12}><summary><${Badge} text=${verb} as=${tones[verb]} /> <${Name} object=${w.object} absent=${true} />${w.subresource ? html` <span class="quiet">${w.subresource}</span>` : null}
      <span class="quiet"> ${changes.length ? count(changes.length, 'field') : ''}</span></summary>
    ${verb === 'create' ? null : html`<div class="followed"><span class="quiet">current object:</span> <${Name} object=${w.object} /></div>`}
    <${Changes} changes=${changes} />
    ${(w.webhooks ?? []).map((/** @type {string} */ h) => html`<div class="quiet">webhook ${h} was not called; it could change or refuse this</div>`)}
    ${w.effects?.length ? html`<div class="followed"><span class="quiet">Kubernetes then:</span> ${w.effects.map((/** @type {any} */ l, /** @type {number} */ i) => html`${i ? ', ' : ''}${l.verb} <${Name} object=${l.object} absent=${l.verb === 'create'} />`)}</div>` : null}</details>`;
}

/** @param {{changes: Change[]}} props */
const Changes = ({ changes }) => (changes.length ? html`<dl class="fields">${changes.map((c) => html`<${Field} path=${c.path} from=${c.from} to=${c.to} />`)}</dl>` : null);

/** @param {{path: string, from?: string, to?: string}} props */
const Field = ({ path, from, to }) => html`<dt>${path || 'the object'}</dt><dd>${from ? html`<del>${cut(from)}</del>` : null}${from && to ? ' → ' : null}${to ? html`<ins>${cut(to)}</ins>` : from ? html` <span class="quiet">removed</span>` : null}</dd>`;

/** @param {string} text */
const cut = (text) => (text.length > 1000 ? text.slice(0, 1000) + `… (${text.length.toLocaleString()} characters)` : text);

/** @param {{plan: any}} props */
const Compared = ({ plan: p }) => (p.differences?.length ? html`<p class="summary" role="status"><strong>${count(p.differences.length, 'object')} would end differently</strong> than with ${p.compared}.</p>
  <ul class="steplist">${p.differences.map((/** @type {any} */ d) => html`<li class="step"><h2><${Name} object=${d.object} absent=${true} />${d.only ? html` <${Badge} text=${d.only === 'new' ? 'only with this version' : 'only with ' + p.compared} as="wait" />` : null}</h2>
    <${Changes} changes=${d.changes ?? []} />${d.steps?.length ? html`<div class="quiet">written in ${d.steps.map((/** @type {number} */ n, /** @type {number} */ i) => html`${i ? ', ' : ''}<${StepLink} number=${n} />`)}</div>` : null}</li>`)}</ul>`
  : html`<div class="calm" role="status">The operator would leave the cluster as ${p.compared} does.</div>`);
