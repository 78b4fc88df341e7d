// @ts-check
// The kinds that the cluster serves. They are read once and again every few seconds.
import { useEffect, useState } from 'preact/hooks';
import { request } from './api.js';

/**
 * @typedef {{group?: string, version: string, resource: string, kind: string, namespaced: boolean, short?: string[], verbs: string[], name: string}} Kind
 */

/** @type {Kind[]} */
let kinds = [];
/** @type {Map<string, Kind>} */
let byKind = new Map();
const listeners = new Set();
let reading = false;

async function read() {
  try {
    const got = (await request('kinds')).kinds;
    const text = JSON.stringify(got);
    if (text === last) return;
    last = text;
    kinds = got.map((/** @type {any} */ k) => ({ ...k, name: k.group ? k.resource + '.' + k.group : k.resource }));
    byKind = new Map();
    for (const k of kinds) if (!byKind.has(k.kind)) byKind.set(k.kind, k);
    listeners.forEach((f) => f(kinds));
  } catch {
    // the views report that the server is unreachable
  }
}
let last = '';

/** Returns the kind with a name such as Pod. @param {string} kind */
export const kindOf = (kind) => byKind.get(kind);

/** Returns the kind with the name of a resource. @param {string} name */
export const resourceOf = (name) => kinds.find((k) => k.name === name);

/** @returns {Kind[]} */
export function useKinds() {
  const [value, setValue] = useState(kinds);
  useEffect(() => {
    listeners.add(setValue);
    if (!reading) {
      reading = true;
      read();
      setInterval(() => document.hidden || read(), 5000);
    }
    setValue(kinds);
    return () => void listeners.delete(setValue);
  }, []);
  return value;
}
