// @ts-check
// Keeps the keyboard's focus in the page when elements appear and disappear.
import { useEffect, useRef } from 'preact/hooks';

/**
 * Moves the focus to the heading when the page shows another view or object. Screen readers then
 * read the heading, and the next Tab moves into the view.
 * @param {import('./route.js').Route} route
 */
export function useFocus(route) {
  const shown = useRef(route.path);
  useEffect(() => {
    if (shown.current === route.path) return;
    shown.current = route.path;
    focusHeading();
  }, [route]);
}

/** Moves the focus to the heading of the view, if there is one. */
export const focusHeading = () => heading()?.focus();

const heading = () => /** @type {HTMLElement|null} */ (document.querySelector('main h1'));

/** The element that last had the focus, and its ancestors. @type {Element[]} */
let last = [];

/** Moves the focus to an element nearby when the one that has it is removed. */
export function keepFocus() {
  document.addEventListener('focusin', (e) => {
    last = [];
    for (let el = /** @type {Element|null} */ (e.target); el; el = el.parentElement) last.push(el);
  });
  new MutationObserver(() => {
    if (!last.length || last[0].isConnected || document.activeElement !== document.body) return;
    const near = last.find((el) => el.isConnected);
    last = [];
    const main = document.querySelector('main');
    const target = near && near !== main && main?.contains(near) ? /** @type {HTMLElement|null} */ (near.querySelector('a[href], button, input, select, textarea, [tabindex="0"]')) : null;
    (target ?? heading())?.focus();
  }).observe(document.body, { childList: true, subtree: true });
}
