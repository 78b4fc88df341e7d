// @ts-check
// Edits the YAML of an object. The server validates it while the user types, without storing it.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { request } from '../page/lib/api.js';
import { Confirm } from '../page/lib/confirm.js';
import { html } from '../page/lib/html.js';
import { navigate, objectHref } from '../page/lib/route.js';
import { Problem } from '../page/lib/ui.js';
import { pathAt, text } from '../page/lib/yaml.js';
import { diff } from './diff.js';
import { FieldDoc } from './field.js';
import { withoutManagedFields } from './yaml.js';

/** @param {{object: any, resource: string}} props */
export function Edit({ object, resource }) {
  const [base] = useState(object); // the version that is edited; newer ones do not replace it
  const original = useMemo(() => text(withoutManagedFields(base)), [base]);
  const [draft, setDraft] = useState(original);
  const [result, setResult] = useState(/** @type {{draft: string, error?: any, changes?: ReturnType<typeof diff>, warnings?: string[]}|null} */ (null));
  const [busy, setBusy] = useState(false);
  const [documented, setDocumented] = useState(/** @type {string[]|null} */ (null)); // the field at the cursor
  const [asking, setAsking] = useState(false); // whether the question about the deletion is open
  const { namespace, name, uid } = base.metadata;
  const params = { resource, namespace, name };

  useEffect(() => {
    if (draft === original) {
      setResult(null);
      return;
    }
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const got = await request('object', { ...params, dryRun: 'true' }, { method: 'PUT', body: draft, signal: control.signal });
        setResult({ draft, changes: diff(original, text(withoutManagedFields(got.object))), warnings: got.warnings ?? [] });
      } catch (error) {
        if (!control.signal.aborted) setResult({ draft, error });
      }
    }, 300);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [draft]);

  const act = async (/** @type {() => Promise<any>} */ f) => {
    setBusy(true);
    try {
      await f();
      navigate(objectHref(resource, namespace, name));
    } catch (error) {
      setResult({ draft, error });
    } finally {
      setBusy(false);
    }
  };
  const follow = (/** @type {any} */ e) => documented && setDocumented(pathAt(draft, draft.slice(0, e.target.selectionStart).split('\n').length - 1));
  const current = result?.draft === draft ? result : null;
  const blocked = busy || !current?.changes;
  const stale = object.metadata.resourceVersion !== base.metadata.resourceVersion;
  return html`<div class="bar">
      <button class="primary" aria-disabled=${blocked} onClick=${() => blocked || act(() => request('object', params, { method: 'PUT', body: draft }))}>Save</button>
      <button aria-disabled=${draft === original} onClick=${() => setDraft(original)}>Reset</button>
      <button aria-pressed=${Boolean(documented)} onClick=${() => setDocumented(documented ? null : [])}>Documentation</button>
      <span class="quiet" role="status">${draft === original ? 'No changes' : current ? (current.error ? '' : 'The server accepts this.') : 'Checking…'}</span>
      ${stale ? html`<span class="badge wait">The object in the cluster has changed</span>` : null}
      <span class="spring"></span>
      <button class="danger" aria-disabled=${busy} onClick=${() => setAsking(!busy)}>Delete</button>
      ${asking ? html`<${Confirm} question=${`Delete ${base.kind} ${name}?`} action="Delete" close=${() => setAsking(false)}
        act=${() => act(() => request('object', { ...params, uid }, { method: 'DELETE' }))} />` : null}
    </div>
    <${Problem} error=${current?.error ?? null} />
    ${current?.warnings?.map((w) => html`<p class="problem warn">${w}</p>`)}
    <div class="edit">
      <textarea aria-label="YAML" spellcheck=${false} value=${draft} onInput=${(/** @type {any} */ e) => setDraft(e.target.value)}
        onSelect=${follow} onKeyUp=${follow} onClick=${follow}></textarea>
      ${documented ? html`<${FieldDoc} resource=${resource} path=${documented} select=${setDocumented} />` : null}
      ${current?.changes ? html`<pre role="region" class="diff" aria-label="What the server would store" tabIndex=${0}>${current.changes.map((c) => html`<span class=${'line ' + c.kind}>${c.mark} ${c.text}${'\n'}</span>`)}</pre>` : null}
    </div>`;
}
