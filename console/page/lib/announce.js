// @ts-check
// Announcements for screen readers. They announce changes of a region only if the region is part of
// the page before its text changes, so all announcements share the one of index.html.
import { useEffect } from 'preact/hooks';

let timer = 0;

/** Announces a text after what a screen reader is reading. A text that follows quickly replaces it. @param {string} text */
export function announce(text) {
  const region = document.getElementById('announcements');
  if (!region) return;
  clearTimeout(timer);
  region.textContent = ''; // so that equal texts are announced again
  timer = window.setTimeout(() => (region.textContent = text), 150);
}

/**
 * Announces a text when it changes; with a key, only when the key changes, once there is a text.
 * @param {string} text empty announces nothing @param {string} [key]
 */
export function useAnnouncement(text, key) {
  useEffect(() => {
    if (text) announce(text);
  }, key === undefined ? [text] : [key, Boolean(text)]);
}
