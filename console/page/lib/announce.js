// @ts-check
// Announcements for screen readers. They announce changes of a region only if the region was in the
// page before its text changes. So all announcements use the region of index.html.
import { useEffect } from 'preact/hooks';

let timer = 0;

/**
 * Announces a text after what a screen reader is reading. A text that follows quickly replaces it.
 * @param {string} text
 */
export function announce(text) {
  const region = document.getElementById('announcements');
  if (!region) return;
  clearTimeout(timer);
  region.textContent = ''; // so that screen readers announce an equal text again
  timer = window.setTimeout(() => (region.textContent = text), 150);
}

/**
 * Removes the last text. Otherwise screen readers announce it again when a dialog closes, because
 * the region is not part of the page while the dialog is open.
 */
export function clearAnnouncement() {
  const region = document.getElementById('announcements');
  if (region) region.textContent = '';
}

/**
 * Announces a text when it changes. With a key, it announces the text only when the key changes, as
 * soon as the text is not empty.
 * @param {string} text if empty, nothing is announced @param {string} [key]
 */
export function useAnnouncement(text, key) {
  useEffect(() => {
    if (text) announce(text);
  }, key === undefined ? [text] : [key, Boolean(text)]);
}
