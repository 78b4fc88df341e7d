// @ts-check
// A dialog that users must close before they can use the page again.
import { render } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clearAnnouncement } from './announce.js';
import { focusHeading } from './focus.js';

/** The time after which a closed dialog leaves the page, in milliseconds. */
const leaveTime = 1000;

/**
 * Makes screen readers ignore live regions. While a dialog is open, the rest of the page is not part
 * of the accessibility tree. When the dialog closes, it comes back, and Orca would read all of its
 * regions as if their texts were new. Announcements have their own region, which is empty then.
 * @returns {() => void} ends that
 */
function mute() {
  const regions = [...document.querySelectorAll('#app :is([role=status], [role=alert], [role=log]):not([aria-live])')];
  for (const r of regions) r.setAttribute('aria-live', 'off');
  return () => regions.forEach((r) => r.removeAttribute('aria-live'));
}

/** Removes the dialog that was closed last, if it is still in the page. */
let removeClosed = () => {};

/**
 * A dialog that is modal while the component is mounted. The first element that can have the focus
 * gets it. When the dialog closes, the focus returns to the element that had it, or moves to the
 * heading if that element is gone.
 *
 * The screen reader Orca says which element gets the focus only if the accessibility tree still has
 * the element that loses it, below the same parent. So the closed dialog stays in the page until
 * Orca has read the focus: invisible and disabled, but not inert, because inert elements are not in
 * the tree. The dialog is a child of the body, outside of the elements that are not in the tree
 * while it is open.
 * @param {{close: () => void, outside?: boolean, children?: any, [attribute: string]: any}} props
 *   outside: whether a click outside of the dialog closes it
 */
export function Modal({ close, outside = false, children, ...attributes }) {
  const [dialog] = useState(() => document.createElement('dialog'));
  const latest = useRef(close);
  latest.current = close;
  // An effect that runs after the next frame would be too late: until then, keys would still go to
  // the page.
  useLayoutEffect(() => render(children, dialog));
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    removeClosed();
    for (const [name, value] of Object.entries(attributes)) dialog.setAttribute(name, value);
    dialog.addEventListener('cancel', (e) => {
      e.preventDefault();
      latest.current();
    });
    dialog.addEventListener('click', (e) => outside && e.target === dialog && latest.current());
    document.body.append(dialog);
    clearAnnouncement();
    const unmute = mute();
    dialog.showModal();
    return () => {
      dialog.className = 'closed hidden';
      dialog.close(); // the rest of the page can have the focus again
      before?.focus();
      if (dialog.contains(document.activeElement)) focusHeading();
      for (const control of /** @type {NodeListOf<HTMLButtonElement|HTMLInputElement>} */ (dialog.querySelectorAll('button, input'))) control.disabled = true;
      const timer = setTimeout(() => removeClosed(), leaveTime);
      removeClosed = () => {
        removeClosed = () => {};
        clearTimeout(timer);
        unmute();
        render(null, dialog);
        dialog.remove();
      };
    };
  }, []);
  return null;
}
