// @ts-check
// The objects that are not ready, and why. The view is green and empty when all objects are ready.
import { useAnnouncement } from '../page/lib/announce.js';
import { address, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { Age, Header, Loading, ObjectLink, Problem, Unreadable, clock, duration, useClock } from '../page/lib/ui.js';

/** @param {{namespace: string}} props */
export function Now({ namespace }) {
  const [state, error] = useStates(address('now', { namespace }));
  const bad = state?.bad ?? 0;
  const quiet = !state?.total;
  const progressing = (state?.total ?? 0) - bad;
  const attention = bad ? `${bad.toLocaleString()} ${bad === 1 ? 'object needs' : 'objects need'} attention` : '';
  // the state of resources that can't be read is unknown
  const settled = state?.failures?.length ? 'Everything that could be read has settled.' : 'Everything has settled.';
  useAnnouncement(!state?.synced || error ? '' : quiet ? settled : [attention, progressing ? progressing.toLocaleString() + ' in progress' : ''].filter(Boolean).join(', '));
  if (!state) return html`<${Header} title="Now" /><${Problem} error=${error} />${error ? null : html`<${Loading} text="Reading the cluster…" />`}`;
  return html`
    <${Header} title="Now" actions=${html`<a class="button" href=${'/history?minutes=15' + (namespace ? '&namespace=' + encodeURIComponent(namespace) : '')}>What changed in the last 15 minutes?</a>`} note=${state.synced ? `${state.objects.toLocaleString()} objects` : 'reading the cluster…'} />
    <${Problem} error=${error} />
    ${quiet && error ? null : quiet
      ? html`<div class=${'calm' + (state.synced && !state.failures?.length ? '' : ' quiet')}>${!state.synced ? 'Reading the cluster…' : state.failures?.length ? settled : html`<span class="tick" aria-hidden="true">✓</span> ${settled}`}</div>`
      : html`<p class="summary">${bad ? html`<strong class="bad">${attention}</strong>` : null}${bad && progressing ? ', ' : ''}
          ${progressing ? `${progressing.toLocaleString()} in progress` : null}</p>
        <ul class="items">${state.items.map((/** @type {any} */ i) => html`<${ItemView} key=${i.kind + '/' + i.namespace + '/' + i.name} item=${i} />`)}</ul>
      `}
    ${state.wakes?.length ? html`<section><h2>Next scheduled reconciles</h2><${Wakes} wakes=${state.wakes} /></section>` : null}
    ${!state.traced ? html`<p class="hint quiet">No operator’s trace is connected: failed reconciles and hot loops are unknown. <code>kelson dev</code> connects that of its operator; for others, start <code>kelson console --trace FILE</code>.</p>` : null}
    <${Unreadable} failures=${state.failures} />
  `;
}

/** @param {{item: any}} props */
function ItemView({ item }) {
  const tone = item.problems.some((/** @type {any} */ p) => p.tone === 'bad') ? 'bad' : 'wait';
  return html`<li class=${'item ' + tone}>
    <div class="itemhead"><span class="dot" aria-hidden="true"></span><${ObjectLink} ...${item} tab="why" /></div>
    <dl>${item.problems.map((/** @type {any} */ p) => html`<dt class=${p.tone}>${p.what}</dt><dd>${p.object ? html`<span class="quiet">${p.objects > 1 ? `${p.objects.toLocaleString()} objects like ` : ''}<${ObjectLink} ...${p.object} tab="why" />: </span>` : null}${p.text}
      ${p.time ? html` <span class="quiet"><${Age} time=${p.time} /> ago</span>` : null}
      ${p.id ? html` <a href=${'/reconcile/' + encodeURIComponent(p.run || '-') + '/' + p.id}>reconcile ${p.id}</a>` : null}
      ${p.log ? html`<code class="logline">${p.log}</code>` : null}</dd>`)}</dl>
    ${item.more ? html`<p class="quiet more">and ${item.more.toLocaleString()} more ${item.more === 1 ? 'object' : 'objects'} with the same problem; choose a namespace to see fewer</p>` : null}
  </li>`;
}

/** @param {{wakes: any[]}} props */
function Wakes({ wakes }) {
  const now = useClock();
  return html`<table class="plain"><thead><tr><th>In</th><th>At</th><th>Object</th><th>Controller</th></tr></thead>
    <tbody>${wakes.map((w) => html`<tr><td class="number">${duration(Date.parse(w.at) - now)}</td><td class="mono quiet">${clock(w.at)}</td><td><${ObjectLink} ...${w} /></td>
      <td>${w.controller}${w.retry ? html` <span class="quiet">backoff after an error</span>` : null}</td></tr>`)}</tbody></table>`;
}
