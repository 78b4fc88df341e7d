// @ts-check
// The address contains everything that selects the page's content, so that users can share it.
import { useEffect, useState } from 'preact/hooks';

/** @typedef {{path: string, parts: string[], query: URLSearchParams}} Route */

/** Decodes a part of a path. @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not UTF-8: no object has this name
  }
}

/** @returns {Route} */
function current() {
  return {
    path: location.pathname,
    parts: location.pathname.split('/').filter(Boolean).map(decode),
    query: new URLSearchParams(location.search),
  };
}

const listeners = new Set();
const notify = () => listeners.forEach((f) => f());

/** @param {string} href @param {{replace?: boolean}} [options] */
export function navigate(href, { replace = false } = {}) {
  if (href === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', href);
  notify();
  if (!replace) document.querySelector('main')?.scrollTo(0, 0);
}

/**
 * Changes parameters of the address.
 * @param {Record<string, string|undefined|null>} changes @param {{replace?: boolean}} [options]
 */
export function setQuery(changes, options) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? '?' + text : ''), options);
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const change = () => setRoute(current());
    listeners.add(change);
    window.addEventListener('popstate', change);
    const click = (/** @type {MouseEvent} */ e) => {
      const link = /** @type {Element} */ (e.target).closest?.('a[href^="/"]');
      if (!link || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
      if (link.hasAttribute('download') || link.getAttribute('target')) return;
      e.preventDefault();
      navigate(/** @type {string} */ (link.getAttribute('href')));
    };
    document.addEventListener('click', click);
    return () => {
      listeners.delete(change);
      window.removeEventListener('popstate', change);
      document.removeEventListener('click', click);
    };
  }, []);
  return route;
}

/** @param {string} resource @param {string|undefined} namespace @param {string} name @param {string} [tab] */
export function objectHref(resource, namespace, name, tab) {
  const path = ['/object', resource, namespace || '-', name].map((p, i) => (i ? encodeURIComponent(p) : p)).join('/');
  return path + (tab ? '?tab=' + tab : '');
}

/** @param {string} resource @param {string} [namespace] */
export function listHref(resource, namespace) {
  return '/objects/' + encodeURIComponent(resource) + (namespace ? '?namespace=' + encodeURIComponent(namespace) : '');
}
