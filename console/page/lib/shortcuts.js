// @ts-check
// Shortcuts of one character. People who speak to their computer, or press keys by accident, can
// turn them off (WCAG 2.2, success criterion 2.1.4).

const stored = 'shortcuts';

export const shortcutsOn = () => localStorage.getItem(stored) !== 'off';

/** @param {boolean} on */
export const setShortcuts = (on) => (on ? localStorage.removeItem(stored) : localStorage.setItem(stored, 'off'));

/**
 * Whether an event is that of a shortcut of one character.
 * @param {KeyboardEvent} e @param {string} key
 */
export const isShortcut = (e, key) => e.key === key && !typing(e) && !e.metaKey && !e.ctrlKey && !e.altKey && shortcutsOn();

/** @param {KeyboardEvent} e */
const typing = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(/** @type {HTMLElement} */ (e.target).tagName);
