// @ts-check
// A question that users must answer before they can use the page again.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { clearAnnouncement } from './announce.js';
import { html } from './html.js';

/**
 * Asks a question. The first button, which cancels, has the focus. When the dialog closes, the
 * focus returns to the element that had it.
 * @param {{question: string, action: string, act: () => void, close: () => void}} props
 */
export function Confirm({ question, action, act, close }) {
  const dialog = useModal();
  return html`<dialog class="confirm" ref=${dialog} aria-labelledby="question" onCancel=${(/** @type {Event} */ e) => {
      e.preventDefault();
      close();
    }}><p id="question">${question}</p>
    <div class="bar"><button onClick=${close}>Cancel</button><button class="danger" onClick=${() => {
      close();
      act();
    }}>${action}</button></div></dialog>`;
}

/** Returns a reference to a dialog that is modal while the component is shown. */
export function useModal() {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  // An effect that runs after the next frame would be too late: until then, keys would still go to
  // the page.
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    const shown = dialog.current;
    clearAnnouncement();
    shown?.showModal();
    return () => {
      shown?.close(); // the rest of the page can have the focus again
      before?.focus();
    };
  }, []);
  return dialog;
}
