// @ts-check
import { useMemo, useState } from 'preact/hooks';
import { html } from '../page/lib/html.js';
import { keyText, lines, prefix, text } from '../page/lib/yaml.js';

/** Returns the object without managedFields. @param {any} object */
export function withoutManagedFields(object) {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

/** @param {{object: any}} props */
export function Yaml({ object }) {
  const [managed, setManaged] = useState(false);
  const [copied, setCopied] = useState(false);
  const shown = managed ? object : withoutManagedFields(object);
  const rendered = useMemo(() => lines(shown), [object, managed]);
  const copy = async () => {
    await navigator.clipboard.writeText(text(shown));
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<div class="bar">
      <button aria-pressed=${managed} onClick=${() => setManaged(!managed)}>managedFields</button>
      <button onClick=${copy}>${copied ? 'Copied' : 'Copy'}</button>
    </div>
    <pre class="yaml" tabIndex=${0} aria-label="YAML">${rendered.map((l) => html`<span class="line">${prefix(l)}${l.key === undefined ? null : html`<span class="key">${keyText(l.key)}</span>:`}${
      l.value === undefined ? '' : html`${l.key === undefined ? '' : ' '}<span class=${'v-' + (l.type ?? '')}>${l.value}</span>`}${'\n'}</span>`)}</pre>`;
}
