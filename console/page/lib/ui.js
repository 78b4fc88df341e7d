// @ts-check
// Parts that several views use.
import { useEffect, useState } from 'preact/hooks';
import { announce } from './announce.js';
import { html } from './html.js';
import { kindOf } from './kinds.js';
import { objectHref } from './route.js';

const listeners = new Set();
setInterval(() => {
  if (!document.hidden) listeners.forEach((f) => f());
}, 1000);

/** Renders the component every second. */
export function useClock() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const tick = () => setNow(Date.now());
    listeners.add(tick);
    return () => void listeners.delete(tick);
  }, []);
  return now;
}

/** Returns a duration as kubectl prints ages. @param {number} ms */
export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return s + 's';
  const m = Math.floor(s / 60);
  if (m < 10) return m + 'm' + (s % 60 ? (s % 60) + 's' : '');
  if (m < 180) return m + 'm';
  const h = Math.floor(m / 60);
  if (h < 8) return h + 'h' + (m % 60 ? (m % 60) + 'm' : '');
  if (h < 48) return h + 'h';
  const d = Math.floor(h / 24);
  if (d < 8) return d + 'd' + (h % 24 ? (h % 24) + 'h' : '');
  if (d < 730) return d + 'd';
  return Math.floor(d / 365) + 'y';
}

/** Returns a short duration with its unit. @param {number} us microseconds */
export function span(us) {
  if (us < 1000) return us + ' µs';
  if (us < 100000) return (us / 1000).toFixed(us < 10000 ? 1 : 0) + ' ms';
  if (us < 60e6) return (us / 1e6).toFixed(us < 10e6 ? 2 : 1) + ' s';
  return duration(us / 1000);
}

/** Returns a time of day with milliseconds. @param {string|number} time */
export function clock(time) {
  const t = new Date(time);
  return t.toTimeString().slice(0, 8) + '.' + String(t.getMilliseconds()).padStart(3, '0');
}

/** Returns a date and time of day. @param {string|number} time */
export function moment(time) {
  const t = new Date(time);
  return [t.getFullYear(), String(t.getMonth() + 1).padStart(2, '0'), String(t.getDate()).padStart(2, '0')].join('-') + ' ' + clock(time).replace(/\.000$/, '');
}

/** Returns the name of the time zone in which the page shows all times: "UTC+02:00". */
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  if (!minutes) return 'UTC';
  const text = (/** @type {number} */ n) => String(Math.abs(n)).padStart(2, '0');
  return 'UTC' + (minutes < 0 ? '−' : '+') + text(Math.trunc(minutes / 60)) + ':' + text(minutes % 60);
}

/** @param {{time: string}} props */
export function Age({ time }) {
  const now = useClock();
  return html`<time dateTime=${time} title=${moment(time) + ' ' + zone()}>${duration(now - Date.parse(time))}</time>`;
}

/** @param {{error: import('./api.js').Failure|null}} props */
export function Problem({ error }) {
  if (!error) return null;
  return html`<div class=${'problem' + (error.since ? ' old' : '')} role="alert">
    <strong>${error.reason || error.code || 'Error'}</strong> <span>${error.message}</span>
    ${error.since ? html`<div>Below is what was known at ${new Date(error.since).toTimeString().slice(0, 8)}.</div>` : null}
    ${error.causes?.length ? html`<ul>${error.causes.map((c) => html`<li><code>${c.field}</code> ${c.message}</li>`)}</ul>` : null}
  </div>`;
}

/** What can't be read, and the reasons. @param {{failures: {what: string, why: string}[]|null|undefined}} props */
export const Unreadable = ({ failures }) => failures?.length
  ? html`<section><h2>Not readable</h2><dl class="pairs">${failures.map((f) => html`<dt class="mono">${f.what}</dt><dd>${f.why}</dd>`)}</dl></section>`
  : null;

/**
 * Shortens a long list, because browsers need seconds to show tens of thousands of elements. It
 * returns the items to show, and a part with a button that shows all, or null.
 * @template T @param {T[]} items @param {number} most @param {string} what the items: "lines"
 * @returns {[T[], any]}
 */
export function useSome(items, most, what) {
  const [all, setAll] = useState(false);
  if (all || items.length <= most) return [items, null];
  return [items.slice(0, most), html`<p class="quiet">${(items.length - most).toLocaleString()} more ${what} <button onClick=${() => setAll(true)}>Show all</button></p>`];
}

/** A button that copies a text. @param {{text: () => string}} props */
export function Copy({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text());
    setCopied(true);
    announce('Copied');
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<button onClick=${copy}>${copied ? 'Copied' : 'Copy'}</button>`;
}

/** @param {{text?: string}} props */
export const Loading = ({ text = 'Loading…' }) => html`<p class="quiet loading" role="status">${text}</p>`;

/** @param {{title: any, children?: any, actions?: any, note?: any}} props */
export const Header = ({ title, actions, note }) => html`<header class="head">
  <h1 tabIndex=${-1}>${title}</h1>${note ? html`<span class="quiet">${note}</span>` : null}
  <span class="spring"></span>${actions}
</header>`;

/**
 * A link to an object, if its kind is served.
 * @param {{kind: string, namespace?: string, name: string, resource?: string, cluster?: string, tab?: string}} props
 */
export function ObjectLink({ kind, namespace, name, resource, cluster, tab }) {
  const label = html`<span class="kind">${kind}</span> ${cluster ? cluster + ':' : ''}${namespace ? html`<span class="ns">${namespace}/</span>` : null}${name}`;
  const found = resource || (cluster ? undefined : kindOf(kind)?.name);
  if (!found || !name) return html`<span class="object">${label}</span>`;
  return html`<a class="object" href=${objectHref(found, namespace, name, tab)}>${label}</a>`;
}

/** Returns the tone of a count of ready parts such as "0/20"; '' for other texts. @param {string} text */
export function readiness(text) {
  const found = /^(\d+)\/(\d+)$/.exec(text);
  if (!found) return '';
  const [ready, wanted] = [Number(found[1]), Number(found[2])];
  return ready >= wanted ? (wanted ? 'good' : '') : ready ? 'wait' : 'bad';
}

/** Returns the tone in which a state is shown. @param {unknown} text */
export function tone(text) {
  const s = String(text);
  if (/^(Running|Ready|True|Active|Bound|Completed|Succeeded|Complete|Available|Healthy|Synced|DONE|Established|Approved)/.test(s)) return 'good';
  if (/(Error|Fail|BackOff|Unhealthy|Evicted|OOMKilled|Invalid|Lost|NotReady|Unknown|Denied)/i.test(s)) return 'bad';
  if (/(Pending|Creating|Terminating|Waiting|Progress|Released|Init|Unschedulable)/i.test(s)) return 'wait';
  return '';
}

/** @param {{text: string, as?: string}} props */
export const Badge = ({ text, as }) => html`<span class=${'badge ' + (as ?? tone(text))}>${text}</span>`;

/**
 * Tabs are links, so that each has an address.
 * @param {{tabs: [string, string][], current: string, href: (tab: string) => string}} props
 */
export const Tabs = ({ tabs, current, href }) => html`<nav class="tabs" aria-label="Parts">
  ${tabs.map(([id, label]) => html`<a href=${href(id)} aria-current=${id === current ? 'page' : undefined}>${label}</a>`)}
</nav>`;
