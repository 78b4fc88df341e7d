// @ts-check
// The versions of objects: scrub through them, and compare any two.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { diff } from '../objects/diff.js';
import { useAnnouncement } from '../page/lib/announce.js';
import { address, request, useStates } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { objectHref, setQuery } from '../page/lib/route.js';
import { Badge, Header, Loading, ObjectLink, Problem, clock, moment, useSome } from '../page/lib/ui.js';
import { text } from '../page/lib/yaml.js';

/**
 * Sends a request, and sends it again when the parameters or the version change. While the result
 * for a new version loads, the previous one stays.
 * @param {string|null} path @param {Record<string, string|undefined>} params @param {string} [version] @returns {[any, any]}
 */
function useRequest(path, params, version) {
  const key = path + JSON.stringify(params);
  const [state, setState] = useState(/** @type {{key: string, value: any, error: any}} */ ({ key: '', value: null, error: null }));
  useEffect(() => {
    if (!path) return;
    const control = new AbortController();
    request(path, params, { signal: control.signal }).then(
      (value) => setState({ key, value, error: null }),
      (error) => control.signal.aborted || setState({ key, value: null, error }),
    );
    return () => control.abort();
  }, [key, version]);
  return state.key === key ? [state.value, state.error] : [null, null];
}

const Unconnected = () => html`<p class="empty">No history is connected, so earlier versions are unknown. <code>kelson serve --console --history 24h</code> keeps one and shows it here.
  For any other cluster, record one with <code>kelson record --out FILE</code>, and start <code>kelson console --history FILE</code>.</p>`;

/** The spans to choose from, in minutes. @type {[string, string][]} */
const spans = [['5', '5 minutes'], ['15', '15 minutes'], ['60', 'hour'], ['1440', '24 hours'], ['10080', '7 days']];

/** The tone of what happened to an object. @type {Record<string, string>} */
const tones = { created: 'good', deleted: 'bad', deleting: 'wait' };

/**
 * What changed in the last minutes, and beside it what failed.
 * @param {{query: URLSearchParams, namespace: string}} props
 */
function Recent({ query, namespace }) {
  const minutes = query.get('minutes') ?? '15';
  const [state, error] = useStates(address('history/recent', { minutes, namespace }));
  const [now] = useStates(address('now', { namespace }));
  const since = Date.now() - Number(minutes) * 60000;
  const failed = (now?.items ?? []).flatMap((/** @type {any} */ i) => i.problems.filter((/** @type {any} */ p) => p.time && Date.parse(p.time) >= since).slice(0, 1).map((/** @type {any} */ p) => ({ item: i, problem: p })));
  return html`<section class="recent"><h2>What changed in the last <select aria-label="Span" value=${minutes} onChange=${(/** @type {any} */ e) => setQuery({ minutes: e.target.value })}>
      ${spans.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></h2>
    <${Problem} error=${error} />
    <div class="beside"><div>
      ${!state ? (error ? null : html`<${Loading} />`) : !state.synced ? html`<${Loading} text="Reading the cluster…" />` : state.changes.length ? html`<ol class="effects">${state.changes.map((/** @type {any} */ c) => html`<li key=${c.resource + '/' + c.namespace + '/' + c.name}>
          <span class="mono quiet">${clock(c.time).slice(0, 8)}</span> <${Badge} text=${c.what} as=${tones[c.what] ?? ''} />
          <span class="kind"> ${c.resource}</span> <a href=${objectHref(c.resource, c.namespace, c.name, state.connected ? 'history' : undefined)}>${c.namespace ? html`<span class="ns">${c.namespace}/</span>` : null}${c.name}</a>
          ${c.by?.length ? html` <span class="quiet">by</span> ${c.by.join(', ')}` : null}
          ${c.changes?.length ? html`<dl class="delta">${c.changes.map((/** @type {any} */ d) => html`<dt class="mono">${d.path}</dt><dd class="mono"><del>${d.from || '(absent)'}</del> → <ins>${d.to || '(absent)'}</ins></dd>`)}</dl>` : null}
          ${c.more ? html`<span class="quiet">and ${c.more.toLocaleString()} more fields</span>` : null}</li>`)}</ol>
          ${state.total > state.changes.length ? html`<p class="quiet">${(state.total - state.changes.length).toLocaleString()} earlier changes; choose a shorter span or a namespace.</p>` : null}`
        : html`<p class="quiet">Nothing changed.</p>`}
    </div><div><h3>Failed since</h3>${failed.length ? html`<ul class="effects">${failed.slice(0, 50).map((/** @type {any} */ f) => html`<li><span class="mono quiet">${clock(f.problem.time).slice(0, 8)}</span> <${ObjectLink} ...${f.item} tab="why" />
        <div><strong class=${f.problem.tone}>${f.problem.what}</strong> ${f.problem.text}</div></li>`)}</ul>` : html`<p class="quiet">${now?.synced ? 'Nothing began to fail.' : 'Reading the cluster…'}</p>`}</div></div>
    ${state && !state.connected ? html`<p class="hint quiet">No history is connected: each object has its last write, from managedFields; deletions and the changed fields are unknown. <code>kelson serve --console --history 24h</code> keeps every version; for any other cluster,
      <code>kelson record --out FILE</code> and <code>kelson console --history FILE</code>.</p>` : null}</section>`;
}

/** @param {{query: URLSearchParams, namespace: string}} props */
export function History({ query, namespace }) {
  const [state, error] = useStates(address('history'));
  const resource = query.get('resource') ?? state?.resources?.[0]?.name ?? '';
  const [list, listError] = useRequest(state?.connected && resource ? 'history/objects' : null, { resource, namespace }, state?.newest);
  if (!state) return html`<${Header} title="History" /><${Problem} error=${error} />${error ? null : html`<${Loading} />`}`;
  if (!state.connected) return html`<${Header} title="History" /><${Recent} query=${query} namespace=${namespace} />`;
  return html`<${Header} title="History" note=${`${state.versions.toLocaleString()} versions, ${moment(state.from)} to ${moment(state.to)}`} actions=${html`
      <label>Kind <select value=${resource} onChange=${(/** @type {any} */ e) => setQuery({ resource: e.target.value })}>${state.resources.map((/** @type {any} */ r) => html`<option value=${r.name}>${r.kind} (${r.objects})</option>`)}</select></label>`} />
    <${Problem} error=${error ?? listError} />
    <${Recent} query=${query} namespace=${namespace} />
    <h2>Objects</h2>
    <${Moments} query=${query} newest=${state.newest} />
    ${!list ? (listError ? null : html`<${Loading} />`) : html`<table class="plain"><thead><tr><th>Object</th><th>Versions</th><th>Last change</th><th>State</th></tr></thead><tbody>
      ${list.objects.map((/** @type {any} */ o) => html`<tr key=${o.namespace + '/' + o.name}><td><a href=${objectHref(resource, o.namespace, o.name, 'history')}>${o.namespace ? html`<span class="ns">${o.namespace}/</span>` : null}${o.name}</a></td>
        <td class="number">${o.versions}</td><td>${moment(o.time)}</td><td>${o.deleted ? html`<${Badge} text="deleted" as="bad" />` : null}</td></tr>`)}</tbody></table>
      ${list.more ? html`<p class="quiet">${list.more.toLocaleString()} more objects; choose a namespace.</p>` : null}`}`;
}

/**
 * Compares the cluster at two revisions.
 * @param {{query: URLSearchParams, newest: string}} props
 */
function Moments({ query, newest }) {
  const from = query.get('from') ?? '', to = query.get('to') ?? '';
  const [got, error] = useRequest(from ? 'history/changes' : null, { from, to }, newest);
  return html`<form class="bar" onSubmit=${(/** @type {any} */ e) => {
      e.preventDefault();
      setQuery({ from: e.target.elements.from.value, to: e.target.elements.to.value });
    }}>What changed from revision <input name="from" type="search" class="revision" aria-label="From revision" value=${from} inputMode="numeric" /> to
      <input name="to" type="search" class="revision" aria-label="To revision" value=${to} placeholder=${newest} inputMode="numeric" /> <button>Compare</button></form>
    <${Problem} error=${error} />
    ${got ? (got.changes.length ? html`<ul class="effects changed">${got.changes.map((/** @type {any} */ c) => html`<li><${Badge} text=${c.what} as=${{ created: 'good', deleted: 'bad' }[/** @type {string} */ (c.what)] ?? ''} />
        <span class="kind"> ${c.resource}</span> <a href=${objectHref(c.resource, c.namespace, c.name, 'history')}>${c.namespace ? html`<span class="ns">${c.namespace}/</span>` : null}${c.name}</a> <span class="quiet">${c.versions} ${c.versions === 1 ? 'version' : 'versions'}</span></li>`)}</ul>
        ${got.more ? html`<p class="quiet">There are more changes; choose revisions that are closer together.</p>` : null}` : html`<p class="quiet">Nothing changed.</p>`) : null}`;
}

/**
 * The tab of an object.
 * @param {{resource: string, namespace: string, name: string, query: URLSearchParams}} props
 */
export function HistoryObject({ resource, namespace, name, query }) {
  const object = { resource, namespace, name };
  const [connected, connectedError] = useStates(address('history'));
  const [state, error] = useRequest(connected?.connected ? 'history/versions' : null, object, connected?.newest);
  const versions = /** @type {any[]} */ (state?.versions ?? []);
  // by default the newest version; for a past state, the newest one at that moment
  const present = connected?.moment ?? '';
  const then = present ? versions.findLast((v) => BigInt(v.revision) <= BigInt(present)) : undefined;
  const at = query.get('at') ?? (then ?? versions.at(-1))?.revision ?? '';
  const base = query.get('base') ?? '';
  const index = versions.findIndex((v) => v.revision === at);
  const [shown, shownError] = useRequest(index >= 0 && !versions[index].deleted ? 'history/version' : null, { ...object, revision: at });
  const [compared] = useRequest(base ? 'history/version' : null, { ...object, revision: base });
  const [blame, blameError] = useRequest(index >= 0 && !versions[index].deleted ? 'history/blame' : null, { ...object, revision: at });
  useAnnouncement(index < 0 ? '' : `version ${index + 1} of ${versions.length}${versions[index].deleted ? ', deleted' : ''}`);
  const [fields, moreFields] = useSome(blame?.fields ?? [], 500, 'fields');
  const body = useMemo(() => (shown ? text(strip(shown.object)) : ''), [shown]);
  if (connected && !connected.connected) return html`<${Unconnected} />`;
  if (!state) return error || connectedError ? html`<${Problem} error=${error ?? connectedError} />` : html`<${Loading} />`;
  if (!versions.length) return html`<p class="empty">The history has no version of this object.</p>`;
  const go = (/** @type {number} */ i) => versions[i] && setQuery({ at: versions[i].revision }, { replace: true });
  return html`<div class="history">
    <div class="bar"><button aria-label="Previous version" aria-disabled=${index <= 0} onClick=${() => go(index - 1)}>←</button>
      <input type="range" min="0" max=${versions.length - 1} value=${index} aria-label="Version" aria-valuetext=${'revision ' + at} onInput=${(/** @type {any} */ e) => go(Number(e.target.value))} />
      <button aria-label="Next version" aria-disabled=${index >= versions.length - 1} onClick=${() => go(index + 1)}>→</button>
      <span>version ${index + 1} of ${versions.length}</span> <span class="quiet">revision ${at}, ${versions[index] ? moment(versions[index].time) : ''}</span>
      ${present ? html`<span class="quiet">${BigInt(at || 0) > BigInt(present) ? 'after the moment that is shown' : versions[index] === then ? 'the version of the moment that is shown' : ''}</span>` : null}
      <span class="spring"></span><label>Compare with <select value=${base} onChange=${(/** @type {any} */ e) => setQuery({ base: e.target.value }, { replace: true })}><option value="">–</option>
        ${versions.filter((v) => !v.deleted).map((v) => html`<option value=${v.revision}>${v.revision}</option>`)}</select></label></div>
    <${Problem} error=${error ?? shownError ?? blameError} />
    <div class="split">
      <ol class="versions" reversed>${versions.slice().reverse().map((v) => html`<li key=${v.revision} class=${v.revision === at ? 'active' : ''}>
        <button class="plainbutton" aria-current=${v.revision === at ? 'true' : undefined} onClick=${() => setQuery({ at: v.revision }, { replace: true })}><b>${v.revision}</b> <span class="quiet">${clock(v.time)}</span>
          ${v.by?.length ? html` <span class="quiet">by</span> ${v.by.join(', ')}` : null}
          ${v.deleted ? html` <${Badge} text="deleted" as="bad" />` : v.created ? html` <${Badge} text="first version" as="good" />` : null}</button>
        ${v.changes?.length ? html`<dl>${v.changes.map((/** @type {any} */ c) => html`<dt class="mono">${c.path}</dt><dd class="mono"><del>${c.from || '(absent)'}</del> → <ins>${c.to || '(absent)'}</ins></dd>`)}</dl>` : null}
        ${v.more ? html`<span class="quiet">and ${v.more} more changes</span>` : null}</li>`)}</ol>
      ${versions[index]?.deleted ? html`<p class="empty">The object was deleted.</p>`
        : compared && shown ? html`<pre role="region" class="diff" tabIndex=${0} aria-label="Differences">${diff(text(strip(compared.object, true)), text(strip(shown.object, true))).map((c) => html`<span class=${'line ' + c.kind}>${c.mark} ${c.text}${'\n'}</span>`)}</pre>`
        : html`<pre role="region" class="yaml" tabIndex=${0} aria-label="YAML of the version">${body}</pre>`}
    </div>
    ${blame?.fields.length ? html`<section><h2>Who set each field, and when</h2><table class="plain"><thead><tr><th>Field</th><th>Value</th><th>Set by</th><th>Revision</th><th>Time</th></tr></thead><tbody>${fields.map((/** @type {any} */ f) => html`<tr key=${f.path}><td class="mono wrap">${f.path}</td>
      <td class="mono wrap">${f.value}</td><td class="wrap">${f.managers?.join(', ') ?? html`<span class="quiet">no manager</span>`}</td>
      <td class="mono">${f.revision === '0' ? '' : f.first ? html`<span title="the first recorded version; the value may be older">≤ ${f.revision}</span>` : f.revision}</td><td class="mono quiet">${f.revision === '0' ? '' : moment(f.time)}</td></tr>`)}</tbody></table>${moreFields}</section>` : null}
  </div>`;
}

/**
 * Returns an object without managedFields, and for comparisons without fields whose value differs
 * in every version.
 * @param {any} object @param {boolean} [compared]
 */
function strip(object, compared) {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  if (compared) delete metadata.resourceVersion;
  return { ...object, metadata };
}
