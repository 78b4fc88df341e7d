// @ts-check
// The documentation of a field, from the server's OpenAPI documents.
import { useEffect, useRef, useState } from 'preact/hooks';
import { request } from '../page/lib/api.js';
import { html } from '../page/lib/html.js';
import { stringify } from '../page/lib/json.js';
import { Problem } from '../page/lib/ui.js';

/** @param {{resource: string, path: string[], select: (path: string[]) => void, close?: () => void}} props */
export function FieldDoc({ resource, path, select, close }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const go = (/** @type {string[]} */ p) => {
    select(p);
    box.current?.focus(); // the button may disappear
  };
  const key = JSON.stringify(path);
  const [state, setState] = useState(/** @type {{key: string, field?: any, error?: any}} */ ({ key: '' }));
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(() => request('field', { resource, path: key }, { signal: control.signal }).then(
      (field) => setState({ key, field }),
      (error) => control.signal.aborted || setState({ key, error }),
    ), 60);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [resource, key]);
  const f = state.field;
  return html`<aside class="field" ref=${box} tabIndex=${-1} aria-label="Documentation of the field">
    <header class="bar"><span class="mono">${['', ...path].map((name, i) => html`${i > 1 ? '.' : ''}<button class="plainbutton" onClick=${() => go(path.slice(0, i))}>${i ? name : resource}</button>${i === 0 && path.length ? ' › ' : ''}`)}</span>
      <span class="spring"></span>${close ? html`<button onClick=${close} aria-label="Close the documentation">×</button>` : null}</header>
    <div role="status"><span class="hidden">${path.join('.')}</span>${state.key !== key && !f ? html`<p class="quiet loading">Loading…</p>` : null}
    ${state.error ? html`<${Problem} error=${state.error} />` : null}
    ${f && !state.error ? html`<p><b class="mono">${f.type}</b>${f.required ? ' required' : ''}${f.default !== undefined ? html` <span class="quiet">default</span> <code>${stringify(f.default)}</code>` : null}</p>
      <p class="text">${f.description || html`<span class="quiet">The schema has no description.</span>`}</p>
      ${f.enum?.length ? html`<p>One of ${f.enum.map((/** @type {any} */ v) => html`<code class="chip">${String(v)}</code> `)}</p>` : null}
      ${f.rules?.length ? html`<ul>${f.rules.map((/** @type {string} */ r) => html`<li class="mono">${r}</li>`)}</ul>` : null}` : null}</div>
    ${f?.fields?.length && !state.error ? html`<ul class="subfields">${f.fields.map((/** @type {any} */ c) => html`<li><button class="plainbutton mono" onClick=${() => go([...path, ...(f.type.startsWith('[]') ? ['0'] : []), c.path])}>${c.path}</button>
      <span class="quiet">${c.type}${c.required ? ', required' : ''}</span></li>`)}</ul>` : null}
  </aside>`;
}
