// @ts-check
// Search over views, kinds and objects.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { request } from './lib/api.js';
import { html } from './lib/html.js';
import { Modal } from './lib/modal.js';
import { listHref, navigate, objectHref } from './lib/route.js';
import { setShortcuts, shortcutsOn } from './lib/shortcuts.js';
import { views } from './views.js';

/** @param {{kinds: import('./lib/kinds.js').Kind[], close: () => void}} props */
export function Search({ kinds, close }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState({ text: '', objects: /** @type {any[]} */ ([]), more: 0, synced: true });
  const [active, setActive] = useState(0);
  // A screen reader reads the input first, and a result when the user selects it.
  const [moved, setMoved] = useState(false);
  useEffect(() => {
    setActive(0);
    const control = new AbortController();
    /** @type {number|undefined} */
    let timer;
    const ask = async () => {
      try {
        const got = await request('search', { q: text.trim() }, { signal: control.signal });
        setFound({ text, ...got });
        if (!got.synced) timer = window.setTimeout(ask, 300);
      } catch {
        // the views report that the server is unreachable
      }
    };
    if (text.trim()) timer = window.setTimeout(ask, 80);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);

  const results = useMemo(() => {
    const q = text.trim().toLowerCase();
    /** @type {{group: string, label: any, href: string}[]} */
    const all = [];
    for (const v of views) if (v.label.toLowerCase().includes(q)) all.push({ group: 'View', label: v.label, href: v.id === 'now' ? '/' : '/' + v.id });
    const score = (/** @type {any} */ k) => (k.short?.includes(q) ? 0 : k.kind.toLowerCase().startsWith(q) ? 1 : 2);
    const matching = kinds.filter((k) => q && (k.name.includes(q) || k.kind.toLowerCase().includes(q) || k.short?.includes(q)));
    for (const k of matching.sort((a, b) => score(a) - score(b)).slice(0, 6)) all.push({ group: 'Kind', label: html`${k.kind} <span class="quiet">${k.name}</span>`, href: listHref(k.name) });
    if (q) for (const o of found.objects) all.push({ group: o.kind, label: html`${o.namespace ? html`<span class="ns">${o.namespace}/</span>` : null}${o.name}`, href: objectHref(o.resource, o.namespace, o.name) });
    return all;
  }, [text, found, kinds]);

  const [shortcuts, setOn] = useState(shortcutsOn);
  const go = (/** @type {number} */ i) => {
    const r = results[i];
    if (!r) return;
    close();
    navigate(r.href);
  };
  const key = (/** @type {KeyboardEvent} */ e) => {
    if (e.key.startsWith('Arrow')) setMoved(true);
    if (e.key === 'ArrowDown') setActive(Math.min(results.length - 1, active + 1));
    else if (e.key === 'ArrowUp') setActive(Math.max(0, active - 1));
    else if (e.key === 'Enter') go(active);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  useEffect(() => document.getElementById('result-' + active)?.scrollIntoView({ block: 'nearest' }), [active]);
  const status = !text.trim() ? '' : !found.synced ? 'Reading the cluster…' : !results.length ? 'Nothing found.' : found.more > 0 ? found.more.toLocaleString() + ' more objects match.' : '';
  return html`<${Modal} class="palette" aria-label="Search" close=${close} outside><div>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="results" aria-activedescendant=${moved && results.length ? 'result-' + active : undefined}
        aria-label="Search for views, kinds and objects" placeholder="Search for a view, a kind or an object" value=${text} spellcheck=${false} autocomplete="off"
        onInput=${(/** @type {any} */ e) => {
          setText(e.target.value);
          setMoved(true);
        }} onKeyDown=${key} />
      <div id="results" role="listbox" aria-label="Results" tabIndex=${-1}>${results.map((r, i) => html`<div id=${'result-' + i} role="option" aria-selected=${i === active}
        onMouseMove=${() => active === i || setActive(i)} onClick=${() => go(i)}><span class="group">${r.group}</span><span>${r.label}</span></div>`)}</div>
      <p class="quiet" role="status">${status}</p>
      <label class="quiet"><input type="checkbox" checked=${shortcuts} onChange=${() => {
        setShortcuts(!shortcuts);
        setOn(!shortcuts);
      }} /> Shortcuts of one key: <kbd>/</kbd> searches, <kbd>t</kbd> switches the theme</label>
    </div>
  </${Modal}>`;
}
