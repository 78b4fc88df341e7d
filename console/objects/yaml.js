// @ts-check
// An object as YAML, with the documentation of its fields.
import { useMemo, useRef, useState } from 'preact/hooks';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { Copy, useSome } from '../page/lib/ui.js';
import { keyText, lines, prefix, text } from '../page/lib/yaml.js';
import { FieldDoc } from './field.js';

/** Returns the object without managedFields. @param {any} object */
export function withoutManagedFields(object) {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

/** @param {{object: any, resource: string, query: URLSearchParams}} props */
export function Yaml({ object, resource, query }) {
  const [managed, setManaged] = useState(false);
  const shown = managed ? object : withoutManagedFields(object);
  const [rendered, more] = useSome(useMemo(() => lines(shown), [object, managed]), 5000, 'lines');
  // the field whose documentation is shown is part of the address
  const field = query.get('field');
  const path = useMemo(() => names(field), [field]);
  const select = (/** @type {string[]} */ p) => setQuery({ field: JSON.stringify(p) }, { replace: true });
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const close = () => {
    setQuery({ field: null }, { replace: true });
    box.current?.focus();
  };
  const key = (/** @type {KeyboardEvent} */ e) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
    if (e.key === 'Escape') setQuery({ field: null }, { replace: true });
    if (!step || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    const at = path ? rendered.findIndex((l) => JSON.stringify(l.path) === field) : -1;
    for (let i = at + step; i >= 0 && i < rendered.length; i += step) {
      if (rendered[i].key === undefined || JSON.stringify(rendered[i].path) === field) continue;
      select(rendered[i].path);
      document.getElementById('line-' + i)?.scrollIntoView({ block: 'nearest' });
      return;
    }
  };
  return html`<div class="bar">
      <button aria-pressed=${managed} onClick=${() => setManaged(!managed)}>managedFields</button>
      <${Copy} text=${() => text(shown)} />
      <button aria-pressed=${Boolean(path)} onClick=${() => setQuery({ field: path ? null : '[]' }, { replace: true })}>Documentation</button>
      <span class="quiet">Select a field, or move with the arrow keys, to see its documentation.</span>
    </div>
    <div class=${path ? 'documented' : 'undocumented'}>
    <pre role="region" class="yaml" ref=${box} tabIndex=${0} aria-label="YAML" onKeyDown=${key}>${rendered.map((l, i) => html`<span id=${'line-' + i} class=${'line' + (l.key !== undefined && JSON.stringify(l.path) === field ? ' active' : '')}>${prefix(l)}${l.key === undefined ? null
      : html`<span class="key" onClick=${() => select(l.path)}>${keyText(l.key)}</span>:`}${
      l.value === undefined ? '' : html`${l.key === undefined ? '' : ' '}<span class=${'v-' + (l.type ?? '')}>${l.value}</span>`}${'\n'}</span>`)}</pre>
    ${path ? html`<${FieldDoc} resource=${resource} path=${path} select=${select} close=${close} />` : null}</div>${more}`;
}

/**
 * Returns the names in the parameter of an address; null if there are none.
 * @param {string|null} text @returns {string[]|null}
 */
function names(text) {
  try {
    const list = JSON.parse(text ?? 'null');
    return Array.isArray(list) ? list.map(String) : null;
  } catch {
    return null;
  }
}
