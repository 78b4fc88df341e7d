// @ts-check
// The rules of a user: used, unused and missing ones.
import { address, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { Badge, Copy, Header, Loading, ObjectLink, Problem } from '../page/lib/ui.js';

/** @param {{query: URLSearchParams}} props */
export function Rights({ query }) {
  const [state, error] = useStates(address('rights', { user: query.get('user') ?? '' }));
  if (!state) return html`<${Header} title="Rights" /><${Problem} error=${error} />${error ? null : html`<${Loading} />`}`;
  if (!state.log)
    return html`<${Header} title="Rights" /><p class="empty">No audit log is connected. An API server writes one with <code>--audit-log-path FILE</code> and <code>--audit-policy-file</code>, a policy of level Metadata.
      <code>kelson serve --console</code> with these two flags shows it here; <code>kelson console</code> needs <code>--audit-log FILE</code>.</p>`;
  const missing = state.requests.filter((/** @type {any} */ r) => r.missing).length;
  const unused = state.rules.filter((/** @type {any} */ r) => r.unused?.length).length;
  return html`<${Header} title="Rights" note=${`${state.events.toLocaleString()} requests in ${state.log}`} />
    <${Problem} error=${error} /><${Problem} error=${state.error ?? null} />
    <div class="bar"><label>User <select value=${state.user} onChange=${(/** @type {any} */ e) => setQuery({ user: e.target.value }, { replace: true })}>
      ${state.users.some((/** @type {any} */ u) => u.name === state.user) ? null : html`<option value=${state.user}>${state.user}</option>`}
      ${state.users.map((/** @type {any} */ u) => html`<option value=${u.name}>${u.name} (${u.events.toLocaleString()})</option>`)}</select></label></div>
    ${state.error || !state.events ? null : html`<p class="summary" role="status">${missing ? html`<strong class="bad">${missing} ${missing === 1 ? 'rule is' : 'rules are'} missing</strong>` : 'No rule is missing'},
      ${unused ? html` ${unused} ${unused === 1 ? 'rule has' : 'rules have'} verbs that no request needed` : ' all rules were used'}.</p>`}
    ${state.rules.length ? html`<h2>Rules</h2><table class="plain"><thead><tr><th>Role</th><th>Resources</th><th>Used</th><th>Unused</th></tr></thead><tbody>
      ${state.rules.map((/** @type {any} */ r) => html`<tr><td><${ObjectLink} kind=${r.kind} name=${r.role} namespace=${r.kind === 'Role' ? r.namespace : ''} />${r.namespace ? html`<div class="quiet">in ${r.namespace}</div>` : null}${r.group ? html`<div class="quiet">of group ${r.group}</div>` : null}</td>
        <td class="wrap mono">${r.resources.join(', ')}${r.names?.length ? html` <span class="quiet">named ${r.names.join(', ')}</span>` : null}</td>
        <td class="wrap">${r.used?.join(', ') ?? ''}</td><td class="wrap">${r.unused?.length ? html`<${Badge} text=${r.unused.join(', ')} as="wait" />` : null}${r.unusedNames?.length && r.used?.length ? html`<div class="quiet">unused names: ${r.unusedNames.join(', ')}</div>` : null}</td></tr>`)}</tbody></table>
      <p class="quiet">Requests that were not made while the log was written are unknown. Cover error paths before you remove a rule.</p>` : null}
    <h2>Requests</h2>${state.requests.length ? html`<table class="plain"><thead><tr><th>Request</th><th>Rule</th></tr></thead><tbody>${state.requests.map((/** @type {any} */ r) => html`<tr class=${r.missing ? 'failed' : ''}><td class="mono wrap">${r.what}</td>
      <td>${r.missing ? html`<${Badge} text="missing" as="bad" />` : null}</td></tr>`)}</tbody></table>` : html`<p class="quiet">The log has no requests of this user that need a rule.</p>`}
    ${state.least ? html`<h2>Least role</h2><p class="quiet">The smallest role that allows these requests.</p><div class="bar"><${Copy} text=${() => state.least} /></div><pre role="region" class="yaml least" tabIndex=${0} aria-label="Least role">${state.least}</pre>` : null}`;
}
