// @ts-check
// JSON with all digits of integers.

/**
 * Parses JSON. An integer that a number can't represent becomes a BigInt, so that an edited object
 * has the same value.
 * @param {string} text
 */
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text); // without calls for each value
  /** @type {any} the types lack the third parameter */
  const exact = (/** @type {string} */ _, /** @type {any} */ value, /** @type {{source?: string}} */ context) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '') ? BigInt(/** @type {string} */ (context.source)) : value;
  return JSON.parse(text, exact);
}

/** Writes JSON of a value that parse returned. @param {any} value @returns {string} */
export const stringify = (value) => JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? /** @type {any} */ (JSON).rawJSON(String(v)) : v));
