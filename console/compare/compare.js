// @ts-check
// Two runs side by side, with the first reconcile in which they differ, and the curve of a failure.
import { useEffect, useState } from 'preact/hooks';
import { address, request, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { Badge, Header, Loading, ObjectLink, Problem, clock, span } from '../page/lib/ui.js';
import { result } from '../reconcile/reconcile.js';
import { ReconcileLink, Untraced } from '../why/why.js';

/** @param {{query: URLSearchParams, session: any}} props */
export function Compare({ query, session }) {
  const a = query.get('a') ?? '', b = query.get('b') ?? '', all = query.get('all') ?? '';
  const [state, error] = useStates(address('compare', { a, b, all }));
  const began = (/** @type {string} */ id) => Date.parse(state.runs.find((/** @type {any} */ r) => r.id === id)?.began);
  return html`<${Header} title="Compare" note=${state?.a ? `${state.equal.toLocaleString()} reconciles are equal, ${state.different.toLocaleString()} differ` : ''}
      actions=${state?.a || session?.failure ? html`<button aria-pressed=${all === 'true'} onClick=${() => setQuery({ all: all ? null : 'true' }, { replace: true })}>Show equal rows</button>` : null} />
    <${Problem} error=${error} />
    <${Failure} all=${all} />
    ${!state ? (error ? null : html`<${Loading} />`) : !state.a ? (session?.failure ? null : state.runs.length ? html`<p class="empty">The traces have one run. Compare two of them with <code>kelson console --trace FILE --trace FILE</code>.</p>`
      : html`<${Untraced} traced=${state.traced} errors=${state.errors} />`) : html`
      <div class="bar"><${Runs} runs=${state.runs} current=${state.a} name="a" label="Run A" /><${Runs} runs=${state.runs} current=${state.b} name="b" label="Run B" />
        <button onClick=${() => setQuery({ a: state.b, b: state.a }, { replace: true })}>Swap</button></div>
      ${state.first < 0 ? html`<div class="calm" role="status">Each object’s reconciles write the same and have the same results in both runs.</div>`
        : html`<div class="problem warn"><strong>First difference</strong> ${first(state.rows[state.first], began(state.a), began(state.b))}</div>`}
      <table class="plain compare"><thead><tr><th>After</th><th>Run A</th><th>After</th><th>Run B</th></tr></thead><tbody>
        ${state.rows.map((/** @type {any} */ r, /** @type {number} */ i) => r.equal && r.times > 1
          ? html`<tr key=${i}><td colspan="4" class="quiet">${r.times.toLocaleString()} equal reconciles</td></tr>`
          : html`<tr key=${i} class=${r.equal ? 'quiet' : 'differs'} id=${i === state.first ? 'first' : undefined} tabIndex=${i === state.first ? -1 : undefined}>
            <${Side} r=${r.a} began=${began(state.a)} /><${Side} r=${r.b} began=${began(state.b)} /></tr>`)}</tbody></table>
      ${state.more ? html`<p class="quiet">${state.more.toLocaleString()} later rows are not shown.</p>` : null}`}`;
}

/** @param {any} row @param {number} a @param {number} b */
function first(row, a, b) {
  const r = row.a ?? row.b;
  const after = Math.round((Date.parse(r.time) - (row.a ? a : b)) * 1000);
  return html`after ${span(Math.max(0, after))}, controller ${r.controller} of <${ObjectLink} ...${r} tab="why" />: ${!row.a ? 'only run B has this reconcile' : !row.b ? 'only run A has this reconcile' : 'the results differ'}.
    <a href="#first" onClick=${(/** @type {Event} */ e) => {
      e.preventDefault();
      const row = document.getElementById('first');
      row?.scrollIntoView({ block: 'center' });
      row?.focus({ preventScroll: true });
    }}>Show it</a>`;
}

/** @param {{r: any, began: number}} props */
function Side({ r, began }) {
  if (!r) return html`<td></td><td class="quiet">–</td>`;
  return html`<td class="mono quiet">${span(Math.max(0, Math.round((Date.parse(r.time) - began) * 1000)))}</td>
    <td class="wrap"><${ReconcileLink} r=${r} /> <${ObjectLink} ...${r} tab="why" /><div>${result(r)}</div></td>`;
}

/** @param {{runs: any[], current: string, name: string, label: string}} props */
const Runs = ({ runs, current, name, label }) => html`<label>${label} <select value=${current} onChange=${(/** @type {any} */ e) => setQuery({ [name]: e.target.value }, { replace: true })}>
  ${runs.map((r) => html`<option value=${r.id}>${clock(r.began)} ${r.controllers.join(', ')}: ${r.reconciles} reconciles${r.errors ? `, ${r.errors} failed` : ''} (${r.id})</option>`)}</select></label>`;

/** The failure of --failure, if there is one. @param {{all: string}} props */
function Failure({ all }) {
  const [state, setState] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const control = new AbortController();
    request('failure', { all }, { signal: control.signal }).then(setState, (e) => control.signal.aborted || setError(e));
    return () => control.abort();
  }, [all]);
  const f = state?.failure;
  if (!f) return html`<${Problem} error=${error} />`;
  const both = f.first >= 0 || f.rows.some((/** @type {any} */ r) => r.equal);
  const timed = f.rows.some((/** @type {any} */ r) => r.afterB !== undefined || r.afterA !== undefined);
  return html`<section class="failure"><h2>Failure</h2><p>${f.oracle ? html`<${Badge} text=${f.oracle} as="bad" /> ` : null}<strong>${f.what}</strong></p>
    ${f.detail ? html`<p class="pre">${f.detail}</p>` : null}
    ${f.plan ? html`<p><span class="quiet">Faults</span> <code>${f.plan}</code>${f.runs ? html` <span class="quiet">failed in ${f.seen} of ${f.runs} runs</span>` : null}</p>` : null}
    ${f.curve?.length ? html`<${Curve} points=${f.curve} />` : null}
    ${f.different?.length ? html`<h2>How the runs end differently</h2><table class="plain ends"><thead><tr><th>Object</th><th>Field</th><th>Without faults</th><th>Failing run</th></tr></thead><tbody>
      ${f.different.map((/** @type {any} */ d) => html`<tr><td class="wrap">${d.object}</td><td class="wrap mono">${d.path}</td><td class="wrap mono">${d.a || html`<span class="quiet">absent</span>`}</td><td class="wrap mono">${d.b || html`<span class="quiet">absent</span>`}</td></tr>`)}</tbody></table>` : null}
    ${f.rows.length ? html`<h2>${both ? 'The runs side by side' : 'The failing run'}</h2>
      ${f.first >= 0 ? html`<div class="problem warn"><strong>First difference</strong> ${f.rows[f.first].textB ? html`step ${f.rows[f.first].b} of the failing run: ${f.rows[f.first].textB}` : html`the failing run lacks step ${f.rows[f.first].a}: ${f.rows[f.first].textA}`}</div>` : null}
      <table class="plain steps2"><thead><tr>${both ? html`<th class="number">Step</th>${timed ? html`<th class="number">After</th>` : null}<th>Without faults</th>` : null}<th class="number">Step</th>${timed ? html`<th class="number">After</th>` : null}<th>${both ? 'Failing run' : 'What happened'}</th></tr></thead><tbody>
      ${f.rows.map((/** @type {any} */ r) => r.equal && r.times > 1 ? html`<tr><td colspan=${timed ? 6 : 4} class="quiet">${r.times.toLocaleString()} equal steps</td></tr>`
        : html`<tr class=${r.equal ? 'quiet' : both ? 'differs' : ''}>${both ? html`<td class="number quiet">${r.a}</td>${timed ? html`<${After} seconds=${r.afterA} />` : null}<td class="wrap"><${StepText} text=${r.textA} /></td>` : null}
          <td class="number quiet">${r.b}</td>${timed ? html`<${After} seconds=${r.afterB} />` : null}<td class="wrap"><${StepText} text=${r.textB} /></td></tr>`)}</tbody></table>
      ${f.more ? html`<p class="quiet">${f.more.toLocaleString()} later rows are not shown.</p>` : null}` : null}</section>`;
}

/** @param {{seconds?: number}} props */
const After = ({ seconds }) => html`<td class="number quiet mono">${seconds === undefined ? '' : span(Math.round(seconds * 1e6))}</td>`;

/** @param {{text?: string}} props */
const StepText = ({ text }) => (!text ? null : /^(FAULT|ALARM)/.test(text) ? html`<strong class="bad">${text}</strong>` : text);

/** @param {{points: {step: number, text?: string, failures: number, runs: number}[]}} props */
function Curve({ points }) {
  const share = (/** @type {{failures: number, runs: number}} */ p) => (p.runs ? p.failures / p.runs : 0);
  const inevitable = points.findIndex((_, i) => points.slice(i).every((p) => p.runs && p.failures === p.runs));
  const width = 640, height = 120, x = (/** @type {number} */ i) => (points.length < 2 ? width / 2 : (i * width) / (points.length - 1));
  return html`<h2>When the failure became inevitable</h2>
    <p>${inevitable < 0 ? 'No step makes every continuation fail.' : html`From step <b>${points[inevitable].step + 1}</b> on, every run that continues from there fails${points[inevitable].text ? html`: ${points[inevitable].text}` : '.'}`}</p>
    <p class="quiet">The curve shows, for each step, the share of the runs continuing from there that fail.</p>
    <svg class="curve" viewBox=${`-6 -6 ${width + 12} ${height + 12}`} role="img" aria-label="Share of the runs from each step that fail; the table has the numbers">
      <path class="axis" d=${`M0 0V${height}H${width}`} />
      ${inevitable < 0 ? null : html`<path class="edge" d=${`M${x(inevitable)} 0V${height}`} />`}
      <polyline points=${points.map((p, i) => `${x(i)},${height - share(p) * height}`).join(' ')} />
      ${points.map((p, i) => html`<circle cx=${x(i)} cy=${height - share(p) * height} r="3"><title>${`Step ${p.step + 1}: ${p.failures} of ${p.runs} fail`}</title></circle>`)}</svg>
    <details><summary>Numbers</summary><table class="plain"><thead><tr><th class="number">Step</th><th>What happens</th><th class="number">Failures</th><th class="number">Runs</th></tr></thead><tbody>
      ${points.map((p) => html`<tr><td class="number">${p.step + 1}</td><td class="wrap">${p.text}</td><td class="number">${p.failures}</td><td class="number">${p.runs}</td></tr>`)}</tbody></table></details>`;
}
