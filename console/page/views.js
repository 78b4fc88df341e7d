// @ts-check
// The views in the order of the navigation, and those that are tabs of an object.

/** @type {{id: string, label: string, show: any}[]} */
export const views = [];

/** @type {Record<string, {label: string, show: any}>} */
export const objectViews = {};
