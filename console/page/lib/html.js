// @ts-check
// Templates for Preact.
import { h } from 'preact';
import htm from 'htm';

/**
 * Replaces empty strings, also in arrays, so that the page has no empty text nodes. Beside one,
 * Chromium omits spaces from the text for screen readers.
 * @param {any} child @returns {any}
 */
const filled = (child) => (child === '' ? null : Array.isArray(child) ? child.map(filled) : child);

const build = htm.bind((/** @type {any} */ type, /** @type {any} */ props, /** @type {any[]} */ ...children) => h(type, props, ...children.map(filled)));

/**
 * Builds virtual nodes from templates. Values become text or properties, never HTML.
 * @type {typeof build}
 */
export const html = (strings, ...values) => filled(build(strings, ...values));
