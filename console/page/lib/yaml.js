// @ts-check
// Writes objects as YAML, as text and as lines with parts for display.
import { stringify } from './json.js';

/** @typedef {{indent: number, dash: number, key?: string, value?: string, type?: string, path: string[]}} Line */

const plain = /^[A-Za-z_/.][A-Za-z0-9_./@+() -]*$/;
const reserved = /^(true|false|null|yes|no|on|off|y|n|~|\.inf|\.nan|\.|-?\.?\d.*)$/i;

/** @param {string} s */
function quote(s) {
  if (plain.test(s) && !reserved.test(s) && !s.endsWith(' ')) return s;
  if (/^[A-Za-z0-9][A-Za-z0-9_./@+-]*(:[A-Za-z0-9_./@+-]+)+$/.test(s) && !/^[\d.:_-]+$/.test(s)) return s; // images
  return JSON.stringify(s).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

/** @param {any} v */
function scalar(v) {
  if (typeof v === 'string') return quote(v);
  return v === undefined ? 'null' : stringify(v);
}

/** Returns whether a string can be a literal block. @param {string} s */
const block = (s) => s.includes('\n') && /^[^\s]/.test(s) && !/[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]/.test(s) && !/[ \t]\n/.test(s) && !/\n\n$/.test(s) && !/ $/.test(s);

/**
 * Returns the entries of an object in the order in which kubectl prints them, which may differ from
 * the server's order.
 * @param {any} v @returns {[string, any][]}
 */
const sorted = (v) => Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1));

/**
 * Returns the lines of an object.
 * @param {any} value
 * @returns {Line[]}
 */
export function lines(value) {
  /** @type {Line[]} */
  const out = [];
  /** @param {any} v @param {number} indent @param {number} dash @param {string|undefined} key @param {string[]} path */
  const put = (v, indent, dash, key, path) => {
    if (typeof v === 'string' && block(v)) {
      out.push({ indent, dash, key, value: v.endsWith('\n') ? '|' : '|-', type: 'mark', path });
      const inner = indent + dash * 2 + (key === undefined ? 0 : 2);
      for (const text of v.replace(/\n$/, '').split('\n')) out.push({ indent: text ? inner : 0, dash: 0, value: text, type: 'string', path });
    } else if (v && typeof v === 'object') {
      const list = Array.isArray(v);
      const items = list ? v.map((item, i) => /** @type {[any, any]} */ ([i, item])) : sorted(v);
      if (!items.length) {
        out.push({ indent, dash, key, value: list ? '[]' : '{}', type: 'mark', path });
        return;
      }
      let at = indent + dash * 2;
      let first = dash;
      if (key !== undefined) {
        out.push({ indent, dash, key, path });
        at += list ? 0 : 2;
        first = 0;
      }
      for (const [name, item] of items) {
        const where = [...path, String(name)];
        if (list) put(item, first ? indent : at, first + 1, undefined, where);
        else put(item, first ? indent : at, first, name, where);
        if (first) {
          first = 0;
        }
      }
    } else {
      out.push({ indent, dash, key, value: scalar(v), type: v === null || v === undefined ? 'mark' : typeof v === 'bigint' ? 'number' : typeof v, path });
    }
  };
  if (value && typeof value === 'object' && !Array.isArray(value)) {
    for (const [name, item] of sorted(value)) put(item, 0, 0, name, [name]);
  } else {
    put(value, 0, 0, undefined, []);
  }
  return out;
}

/** @param {Line} l */
export const prefix = (l) => ' '.repeat(l.indent) + '- '.repeat(l.dash);

/** @param {string} key */
export const keyText = (key) => quote(key);

/** @param {any} value */
export const text = (value) =>
  lines(value)
    .map((l) => prefix(l) + (l.key === undefined ? '' : quote(l.key) + ':' + (l.value === undefined ? '' : ' ')) + (l.value ?? ''))
    .join('\n') + '\n';

/**
 * Returns the names that lead to the field on a line of YAML in block style. Lists have indexes.
 * @param {string} source @param {number} line counted from 0
 * @returns {string[]}
 */
export function pathAt(source, line) {
  /** @type {{indent: number, name?: string, index?: number}[]} the open collections, the innermost last */
  const stack = [];
  /** @param {number} indent @param {boolean} list */
  const close = (indent, list) => {
    for (let top = stack.at(-1); top && (top.indent > indent || (top.indent === indent && !(list && top.name !== undefined) && !(list && top.index !== undefined))); top = stack.at(-1)) stack.pop();
  };
  let literal = -1; // the indentation of the key of a literal block
  source.split('\n').slice(0, line + 1).forEach((text) => {
    let rest = text.trimStart();
    let indent = text.length - rest.length;
    if (!rest || rest.startsWith('#')) return;
    if (literal >= 0 && indent > literal) return;
    literal = -1;
    while (rest === '-' || rest.startsWith('- ')) {
      close(indent, true);
      const top = stack.at(-1);
      if (top && top.index !== undefined && top.indent === indent) top.index++;
      else stack.push({ indent, index: 0 });
      const inner = rest.slice(1).trimStart();
      indent += rest.length - inner.length;
      rest = inner;
    }
    const key = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'][^:]*?(?::[^\s:][^:]*?)*)\s*:(?:\s|$)/.exec(rest);
    if (!key) return;
    close(indent, false);
    stack.push({ indent, name: unquote(key[1]) });
    if (/:\s+[|>][-+\d]*\s*$/.test(rest)) literal = indent;
  });
  return stack.map((s) => s.name ?? String(s.index));
}

/** @param {string} key */
function unquote(key) {
  if (key.startsWith("'")) return key.slice(1, -1).replaceAll("''", "'");
  if (!key.startsWith('"')) return key;
  try {
    return JSON.parse(key);
  } catch {
    return key;
  }
}
