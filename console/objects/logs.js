// @ts-check
// The log of a container of a pod, or of all pods of a workload.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useAnnouncement } from '../page/lib/announce.js';
import { address, useStream } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { Problem, clock } from '../page/lib/ui.js';

const maxLines = 5000;

/** Removes the escape sequences that color text on terminals. @param {string} s */
const clean = (s) => s.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '');

/** Shows the time of a line in the time zone of the page. @param {string} line */
const local = (line) => line.replace(/(^|│ )(\d{4}-\d\d-\d\dT\S+) /, (_, before, time) => before + clock(time) + ' ');

/** Returns a label selector as text, or undefined. @param {any} selector */
function selectorText(selector) {
  if (!selector) return undefined;
  const terms = Object.entries(selector.matchLabels ?? {}).map(([k, v]) => k + '=' + v);
  for (const e of selector.matchExpressions ?? []) {
    const values = '(' + (e.values ?? []).join(',') + ')';
    terms.push({ In: e.key + ' in ' + values, NotIn: e.key + ' notin ' + values, Exists: e.key, DoesNotExist: '!' + e.key }[/** @type {string} */ (e.operator)] ?? e.key);
  }
  return terms.join(',') || undefined;
}

/** Reports whether an object has pods whose logs can be shown. @param {any} object */
export const hasLogs = (object) => object?.kind === 'Pod' || Boolean(object?.spec?.template?.spec?.containers && selectorText(object.spec.selector));

/** @param {{object: any, query: URLSearchParams}} props */
export function Logs({ object, query }) {
  const pod = object.kind === 'Pod';
  const spec = pod ? object.spec : object.spec.template.spec;
  const containers = [...(spec.initContainers ?? []), ...(spec.containers ?? [])].map((c) => c.name);
  const container = query.get('container') ?? spec.containers?.[0]?.name;
  const previous = query.get('previous') ?? '';
  const timestamps = query.get('timestamps') ?? '';
  const search = (query.get('find') ?? '').toLowerCase();
  const params = { namespace: object.metadata.namespace, name: pod ? object.metadata.name : undefined, selector: pod ? undefined : selectorText(object.spec.selector), container, previous, timestamps };
  const url = address('logs', params);
  const [state, setState] = useState({ url: '', lines: /** @type {string[]} */ ([]), ended: false, pods: 0, more: 0 });
  const empty = { url, lines: /** @type {string[]} */ ([]), ended: false, pods: 0, more: 0 };
  const error = useStream(
    url,
    (event, data) => {
      setState((s) => {
        const before = s.url === url ? s : empty;
        if (event === 'pods') return { ...before, pods: data.pods?.length ?? 0, more: data.more };
        if (event === 'lines') return { ...before, ended: false, lines: before.lines.concat(data).slice(-maxLines) };
        return event === 'end' ? { ...before, ended: true } : before;
      });
    },
    () => setState(empty),
  );
  const box = useRef(/** @type {HTMLPreElement|null} */ (null));
  const [follow, setFollow] = useState(true);
  const all = state.url === url ? state.lines.map((l) => (timestamps ? local(clean(l)) : clean(l))) : [];
  const shown = search ? all.filter((l) => l.toLowerCase().includes(search)) : all;
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [state, follow, search]);
  useAnnouncement(search ? `${shown.length.toLocaleString()} lines match` : '', search);
  const ended = state.url === url && state.ended;
  const status = [
    !pod && state.url === url ? `${state.pods} ${state.pods === 1 ? 'pod' : 'pods'}${state.more ? ` of ${state.pods + state.more}` : ''}` : '',
    search ? `${shown.length.toLocaleString()} of ${all.length.toLocaleString()} lines` : '',
    ended ? 'The log has ended.' : all.length ? '' : 'No output yet.',
  ].filter(Boolean).join(' · ');
  const toggle = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ label) => html`<button aria-pressed=${value === 'true'} onClick=${() => setQuery({ [name]: value ? null : 'true' })}>${label}</button>`;
  return html`<div class="bar">
      <label>Container <select value=${container} onChange=${(/** @type {any} */ e) => setQuery({ container: e.target.value })}>
        ${containers.map((c) => html`<option value=${c}>${c}</option>`)}</select></label>
      ${toggle('previous', previous, 'Previous run')}
      ${toggle('timestamps', timestamps, 'Times')}
      <button aria-pressed=${follow} onClick=${() => setFollow(!follow)}>Follow</button>
      <input class="filter" type="search" placeholder="Find lines" aria-label="Find lines" value=${query.get('find') ?? ''} onInput=${(/** @type {any} */ e) => setQuery({ find: e.target.value }, { replace: true })} />
      <a class="button" href=${address('logs/file', params)} download>Download</a>
      <span class="quiet" role="status">${status}</span>
    </div>
    <${Problem} error=${error} />
    <pre role="log" class="logs" ref=${box} tabIndex=${0} aria-label="Log" onScroll=${(/** @type {any} */ e) => {
      const el = e.target;
      setFollow(el.scrollHeight - el.scrollTop - el.clientHeight < 40);
    }}>${shown.map((l) => l + '\n')}</pre>`;
}
