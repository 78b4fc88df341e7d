// @ts-check
import { h } from 'preact';
import htm from 'htm';

/** Builds virtual nodes from templates. Values become text or properties, never HTML. */
export const html = htm.bind(h);
