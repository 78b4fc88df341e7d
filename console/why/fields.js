// @ts-check
// The managers of the fields of an object.
import { stringify } from '../page/lib/json.js';

/** Returns a property of an object itself, not of its prototype. @param {any} object @param {string} name */
const own = (object, name) => (object && typeof object === 'object' && Object.hasOwn(object, name) ? object[name] : undefined);

/** @typedef {{path: string, value: string, manager: string, operation: string, subresource?: string, time?: string}} Field */

/**
 * Returns the fields of an object with their managers, from managedFields.
 * @param {any} object @returns {Field[]}
 */
export function fields(object) {
  /** @type {Map<string, Field>} */
  const all = new Map();
  for (const m of object?.metadata?.managedFields ?? []) {
    const walk = (/** @type {any} */ node, /** @type {any} */ value, /** @type {string} */ path) => {
      const keys = Object.keys(node).filter((k) => k !== '.');
      if (!keys.length) {
        const old = all.get(path);
        if (old && (old.time ?? '') > (m.time ?? '')) return;
        all.set(path, { path, value: value === undefined ? '' : typeof value === 'string' ? value : stringify(value), manager: m.manager, operation: m.operation, subresource: m.subresource, time: m.time });
        return;
      }
      for (const key of keys) {
        const rest = key.slice(2);
        if (key.startsWith('f:')) walk(node[key], own(value, rest), path + (/^[\w-]+$/.test(rest) ? '.' + rest : '["' + rest + '"]'));
        else if (key.startsWith('k:')) {
          const match = JSON.parse(rest);
          const item = Array.isArray(value) ? value.find((v) => Object.entries(match).every(([k, x]) => v?.[k] === x)) : undefined;
          walk(node[key], item, path + '[' + Object.values(match).join(', ') + ']');
        } else if (key.startsWith('v:')) walk(node[key], JSON.parse(rest), path + '[=' + rest + ']');
        else if (key.startsWith('i:')) walk(node[key], value?.[Number(rest)], path + '[' + rest + ']');
      }
    };
    if (m.fieldsV1) walk(m.fieldsV1, object, '');
  }
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}
