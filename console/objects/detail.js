// @ts-check
// One object: its overview, YAML, Events and logs.
import { useState } from 'preact/hooks';
import { useAnnouncement } from '../page/lib/announce.js';
import { address, useStream } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { kindOf, resourceOf } from '../page/lib/kinds.js';
import { listHref, objectHref } from '../page/lib/route.js';
import { Age, Badge, Header, Loading, ObjectLink, Problem, Tabs, moment, useSome } from '../page/lib/ui.js';
import { Exec } from '../exec/exec.js';
import { Edit } from './edit.js';
import { Logs, hasLogs } from './logs.js';
import { Yaml } from './yaml.js';

/** The tab that an address without one shows. */
const first = 'why';

/**
 * @param {{resource: string, namespace: string, name: string, query: URLSearchParams, session: any, views: Record<string, {label: string, show: any}>}} props
 */
export function Detail({ resource, namespace, name, query, session, views }) {
  const url = address('object', { resource, namespace, name });
  const [state, setState] = useState(/** @type {{url: string, object: any, gone: boolean}} */ ({ url: '', object: null, gone: false }));
  const error = useStream(url, (event, object) => {
    if (event === 'object') setState({ url, object, gone: false });
    else if (event === 'gone') setState((s) => ({ url, object: s.url === url ? s.object : null, gone: true }));
  });
  const kind = resourceOf(resource);
  const object = state.url === url ? state.object : null;
  const gone = state.url === url && state.gone;
  // an address may be from a console that may write, or name a tab of another kind
  const offered = /** @type {Record<string, boolean|undefined>} */ ({ logs: resource === 'pods' || hasLogs(object), exec: resource === 'pods' && session?.write, edit: session?.write });
  const asked = query.get('tab') ?? first;
  const tab = offered[asked] ?? true ? asked : first;
  useAnnouncement(gone ? `${name}: ${object ? 'deleted' : 'not found'}` : object?.metadata.deletionTimestamp ? name + ': deleting' : '');
  /** @type {[string, string][]} */
  const tabs = [['overview', 'Overview'], ['yaml', 'YAML']];
  for (const [id, v] of Object.entries(views)) tabs[id === first ? 'unshift' : 'push']([id, v.label]);
  tabs.push(['events', 'Events']);
  if (offered.logs) tabs.push(['logs', 'Logs']);
  if (offered.exec && object && !gone) tabs.push(['exec', 'Exec']);
  if (offered.edit && object && !gone) tabs.push(['edit', 'Edit']);
  const View = views[tab]?.show;
  return html`
    <${Header}
      title=${html`<a class="crumb" href=${listHref(resource, namespace)}>${kind?.kind ?? resource}</a> ${namespace ? html`<span class="ns">${namespace}/</span>` : null}${name}`}
      note=${html`${object?.metadata.deletionTimestamp && !gone ? html`<${Badge} text="Deleting" as="wait" />` : null}
        ${gone ? html`<${Badge} text=${object ? 'Deleted' : 'Not found'} as="bad" />` : null}`}
    />
    <${Tabs} tabs=${tabs} current=${tab} href=${(/** @type {string} */ t) => objectHref(resource, namespace, name, t === first ? undefined : t)} />
    <${Problem} error=${error} />
    ${View
      ? html`<${View} kind=${kind?.kind ?? object?.kind} resource=${resource} namespace=${namespace} name=${name} object=${object} failed=${Boolean(error)} gone=${gone} query=${query} />`
      : !object
        ? error || gone ? (gone ? html`<p class="empty">The object does not exist. Its causes and history may still be recorded.</p>` : null) : html`<${Loading} />`
        : tab === 'yaml' ? html`<${Yaml} object=${object} resource=${resource} query=${query} />`
        : tab === 'events' ? html`<${Events} namespace=${namespace} uid=${object.metadata.uid} />`
        : tab === 'logs' ? html`<${Logs} object=${object} query=${query} />`
        : tab === 'exec' ? html`<${Exec} pod=${object} query=${query} />`
        : tab === 'edit' ? html`<${Edit} object=${object} resource=${resource} />`
        : html`<${Overview} object=${object} />`}
  `;
}

/** @param {{object: any}} props */
function Overview({ object }) {
  const m = object.metadata;
  const conditions = Array.isArray(object.status?.conditions) ? object.status.conditions : [];
  const containers = object.kind === 'Pod' ? (object.spec?.containers ?? []) : [];
  const statuses = object.status?.containerStatuses ?? [];
  return html`<div class="overview">
    <dl class="facts">
      <dt>API version</dt><dd>${object.apiVersion}</dd>
      <dt>Created</dt><dd>${m.creationTimestamp ? html`<${Age} time=${m.creationTimestamp} /> ago <span class="quiet">${moment(m.creationTimestamp)}</span>` : '–'}</dd>
      ${m.deletionTimestamp ? html`<dt>Deletion</dt><dd class="bad">requested <${Age} time=${m.deletionTimestamp} /> ago</dd>` : null}
      ${m.finalizers?.length ? html`<dt>Finalizers</dt><dd>${m.finalizers.map((/** @type {string} */ f) => html`<code class="chip">${f}</code> `)}</dd>` : null}
      ${m.ownerReferences?.length ? html`<dt>Owned by</dt><dd>${m.ownerReferences.map((/** @type {any} */ o) => html`<div><${ObjectLink} kind=${o.kind}
        namespace=${kindOf(o.kind)?.namespaced ? m.namespace : ''} name=${o.name} /></div>`)}</dd>` : null}
      ${object.status?.phase ? html`<dt>Phase</dt><dd><${Badge} text=${String(object.status.phase)} as=${object.status.phase === 'Running' ? '' : undefined} /></dd>` : null}
      ${object.status?.observedGeneration !== undefined ? html`<dt>Generation</dt><dd>${m.generation}${object.status.observedGeneration !== m.generation
        ? html` <${Badge} text=${'controller has seen ' + object.status.observedGeneration} as="wait" />` : html` <span class="quiet">seen by its controller</span>`}</dd>` : null}
      <dt>Version</dt><dd class="mono quiet">${m.resourceVersion}</dd>
      <dt>UID</dt><dd class="mono quiet">${m.uid}</dd>
    </dl>
    ${conditions.length ? html`<section><h2>Conditions</h2><table class="plain">
      <thead><tr><th>Type</th><th>Status</th><th>Reason</th><th>Message</th><th>Since</th></tr></thead>
      <tbody>${conditions.map((/** @type {any} */ c) => html`<tr><td>${c.type}</td><td><${Badge} text=${String(c.status)} as=${conditionTone(c)} /></td><td>${c.reason}</td>
        <td class="wrap">${c.message}</td><td>${c.lastTransitionTime ? html`<${Age} time=${c.lastTransitionTime} />` : ''}</td></tr>`)}</tbody></table></section>` : null}
    ${containers.length ? html`<section><h2>Containers</h2><table class="plain"><thead><tr><th>Name</th><th>Image</th><th>State</th><th>Restarts</th></tr></thead>
      <tbody>${containers.map((/** @type {any} */ c) => {
        const s = statuses.find((/** @type {any} */ x) => x.name === c.name);
        const state = s ? Object.keys(s.state ?? {})[0] : '';
        const detail = s?.state?.[state]?.reason;
        return html`<tr><td>${c.name}</td><td class="mono">${c.image}</td><td>${state ? html`<${Badge} text=${detail || state} as=${state === 'running' ? 'good' : undefined} />` : ''}</td>
          <td>${s?.restartCount}</td></tr>`;
      })}</tbody></table></section>` : null}
    <${Pairs} title="Labels" pairs=${m.labels} />
    <${Pairs} title="Annotations" pairs=${m.annotations} />
    ${object.data && object.kind === 'ConfigMap' ? html`<${Pairs} title="Data" pairs=${object.data} />` : null}
  </div>`;
}

/** @param {any} c */
function conditionTone(c) {
  if (c.status === 'Unknown') return 'wait';
  const negative = /Pressure|Unavailable|Failed|Failure|Stalled|Degraded|Dangling|Violat|Deletion/i.test(c.type);
  return (c.status === 'True') !== negative ? 'good' : c.status === 'True' || c.status === 'False' ? 'bad' : '';
}

/** @param {{title: string, pairs: Record<string, any>|undefined}} props */
function Pairs({ title, pairs }) {
  const entries = Object.entries(pairs ?? {});
  const [shown, more] = useSome(entries, 500, 'entries');
  if (!entries.length) return null;
  return html`<section><h2>${title}</h2><dl class="pairs">${shown.map(([k, v]) => html`<dt class="mono">${k}</dt><dd class="mono">${String(v)}</dd>`)}</dl>${more}</section>`;
}

/** @param {{namespace: string, uid: string}} props */
function Events({ namespace, uid }) {
  const url = address('events', { namespace, uid });
  const [state, setState] = useState(/** @type {{url: string, events: Map<string, any>}} */ ({ url: '', events: new Map() }));
  const error = useStream(url, (event, list) => {
    if (event !== 'events') return;
    setState((s) => {
      const events = new Map(s.url === url ? s.events : []);
      for (const e of list) events.set(e.uid, e);
      return { url, events };
    });
  });
  if (state.url !== url) return error ? html`<${Problem} error=${error} />` : html`<${Loading} />`;
  const all = [...state.events.values()].sort((a, b) => (a.time < b.time ? 1 : -1));
  return html`<${Problem} error=${error} />
    ${all.length ? html`<table class="plain events"><thead><tr><th>Last seen</th><th>Type</th><th>Reason</th><th>Message</th><th>From</th></tr></thead>
      <tbody>${all.map((e) => html`<tr key=${e.uid}><td><${Age} time=${e.time} />${e.count > 1 ? html` <span class="quiet">×${e.count}</span>` : null}</td>
        <td><${Badge} text=${e.type} as=${e.type === 'Warning' ? 'bad' : ''} /></td><td>${e.reason}</td><td class="wrap">${e.message}</td><td class="quiet">${e.from}</td></tr>`)}</tbody></table>`
    : html`<p class="empty">No Event about this object is recorded.</p>`}`;
}
