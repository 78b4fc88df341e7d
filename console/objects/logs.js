// @ts-check
// The log of a container of a pod.
import { useEffect, useRef, useState } from 'preact/hooks';
import { address, useStream } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { Problem } from '../page/lib/ui.js';

const maxLines = 5000;

/** Removes the escape sequences that color text on terminals. @param {string} s */
const clean = (s) => s.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '');

/** @param {{pod: any, query: URLSearchParams}} props */
export function Logs({ pod, query }) {
  const containers = [...(pod.spec.initContainers ?? []), ...(pod.spec.containers ?? [])].map((c) => c.name);
  const container = query.get('container') ?? pod.spec.containers?.[0]?.name;
  const previous = query.get('previous') ?? '';
  const url = address('logs', { namespace: pod.metadata.namespace, name: pod.metadata.name, container, previous });
  const [state, setState] = useState({ url: '', lines: /** @type {string[]} */ ([]), ended: false });
  const error = useStream(
    url,
    (event, data) => {
      if (event === 'lines') setState((s) => ({ url, ended: false, lines: (s.url === url ? s.lines : []).concat(data).slice(-maxLines) }));
      else if (event === 'end') setState((s) => ({ url, ended: true, lines: s.url === url ? s.lines : [] }));
    },
    () => setState({ url, lines: [], ended: false }),
  );
  const box = useRef(/** @type {HTMLPreElement|null} */ (null));
  const follow = useRef(true);
  const shown = state.url === url ? state.lines : [];
  useEffect(() => {
    if (follow.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [state]);
  return html`<div class="bar">
      <label>Container <select value=${container} onChange=${(/** @type {any} */ e) => setQuery({ container: e.target.value })}>
        ${containers.map((c) => html`<option value=${c}>${c}</option>`)}</select></label>
      <button aria-pressed=${previous === 'true'} onClick=${() => setQuery({ previous: previous ? null : 'true' })}>Previous run</button>
      <span class="quiet" role="status">${state.ended ? 'The log has ended.' : shown.length ? '' : 'No output yet.'}</span>
    </div>
    <${Problem} error=${error} />
    <pre role="log" class="logs" ref=${box} tabIndex=${0} aria-label="Log" onScroll=${(/** @type {any} */ e) => {
      const el = e.target;
      follow.current = el.scrollHeight - el.scrollTop - el.clientHeight < 40;
    }}>${shown.map((l) => clean(l) + '\n')}</pre>`;
}
