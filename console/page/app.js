// @ts-check
// The frame of the page: navigation, the namespace, search and keys.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Detail } from '../objects/detail.js';
import { List } from '../objects/list.js';
import { announce } from './lib/announce.js';
import { request } from './lib/api.js';
import { keepFocus, useFocus } from './lib/focus.js';
import { html } from './lib/html.js';
import { useKinds } from './lib/kinds.js';
import { labelCells } from './lib/labels.js';
import { listHref, setQuery, useRoute } from './lib/route.js';
import { isShortcut } from './lib/shortcuts.js';
import { Header, Problem, moment as at, zone } from './lib/ui.js';
import { Search } from './search.js';
import { objectViews, views } from './views.js';

/** The kinds at the top of the navigation; others are grouped below. */
const common = ['pods', 'deployments.apps', 'statefulsets.apps', 'jobs.batch', 'services', 'configmaps', 'secrets', 'namespaces', 'nodes', 'events'];

function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem('theme') ?? '');
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem('theme', theme);
  }, [theme]);
  const next = { '': 'light', light: 'dark', dark: '' }[theme] ?? '';
  return /** @type {[string, () => void]} */ ([theme || 'auto', () => {
    setTheme(next);
    announce('theme: ' + (next || 'auto'));
  }]);
}

function App() {
  const route = useRoute();
  const kinds = useKinds();
  const [session, setSession] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [searching, setSearching] = useState(false);
  const [open, setOpen] = useState(false); // the navigation, on narrow screens
  const [theme, nextTheme] = useTheme();
  const namespace = route.query.get('namespace') ?? '';

  useEffect(() => {
    request('session').then(setSession, setProblem);
    const key = (/** @type {KeyboardEvent} */ e) => {
      if (isShortcut(e, '/') || (e.key === 'k' && (e.metaKey || e.ctrlKey))) {
        e.preventDefault();
        setSearching(true);
      } else if (e.key === 'Escape') {
        // closes the navigation of narrow screens
        const menu = /** @type {HTMLElement|null} */ (document.querySelector('.menu[aria-expanded="true"]'));
        menu?.focus();
        setOpen(false);
      }
      else if (isShortcut(e, 't')) nextThemeRef.current();
    };
    document.addEventListener('keydown', key);
    return () => document.removeEventListener('keydown', key);
  }, []);
  const nextThemeRef = useRefTo(nextTheme);

  useEffect(() => {
    setOpen(false);
    setSearching(false);
  }, [route]);
  useEffect(() => {
    const title = route.parts.slice(route.parts[0] === 'object' ? 2 : 0).filter((p) => p !== '-').join('/');
    document.title = (title || (route.parts[0] ?? 'now')) + ' · ' + (session?.cluster ?? 'Kelson');
  }, [route, session]);

  useFocus(route);
  useEffect(() => labelCells(/** @type {Element} */ (document.getElementById('main'))), []);

  const [first, ...rest] = route.parts;
  const view = views.find((v) => v.id === (first ?? 'now'));
  let body;
  if (first === 'objects' && rest.length === 1) body = html`<${List} key=${rest[0]} resource=${rest[0]} query=${route.query} namespace=${namespace} />`;
  else if (first === 'object' && rest.length === 3)
    body = html`<${Detail} key=${route.path} resource=${rest[0]} namespace=${rest[1] === '-' ? '' : rest[1]} name=${rest[2]} query=${route.query} session=${session} views=${objectViews} />`;
  else if (view) body = html`<${view.show} key=${view.id} query=${route.query} parts=${rest} session=${session} namespace=${namespace} />`;
  else body = html`<${Header} title="Page not found" /><p class="empty">The console has no page with this address.</p>`;

  return html`
    <a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <button class="menu" aria-label="Navigation" aria-expanded=${open} onClick=${() => setOpen(!open)}>☰</button>
      <a class="brand" href="/"><svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path
        d="M3 2v12M3 8.5h4.5L13 2.5M7.5 8.5 13 14" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" /></svg>Kelson</a>
      <span class="cluster" title=${session?.server}>${session?.cluster}${session?.version ? html`<span class="quiet"> ${session.version}</span>` : null}</span>
      <span class="spring"></span>
      <span class="zone quiet" title="The time zone of all times on this page">${zone()}</span>
      <${Namespaces} current=${namespace} />
      <button class="search" aria-keyshortcuts="/ Control+K" onClick=${() => setSearching(true)}>Search <kbd>/</kbd></button>
      <button class="theme" onClick=${nextTheme} aria-keyshortcuts="t" title="Switch the theme (t)"><span aria-hidden="true">${{ auto: '◐', light: '☼', dark: '☾' }[theme]}</span><span class="hidden">Theme: ${theme}</span></button>
    </header>
    <nav class=${'side' + (open ? ' open' : '')} aria-label="Views and kinds">
      <ul>${views.map((v) => html`<li><a href=${v.id === 'now' ? '/' : '/' + v.id} aria-current=${view === v ? 'page' : undefined}>${v.label}</a></li>`)}</ul>
      <${Kinds} kinds=${kinds} current=${first === 'objects' || first === 'object' ? rest[0] : ''} namespace=${namespace} />
    </nav>
    <main id="main" tabIndex=${-1}><${Problem} error=${problem ?? session?.error} />${session?.moment ? html`<${Moment} moment=${session.moment} />` : null}${body}</main>
    ${searching ? html`<${Search} kinds=${kinds} close=${() => setSearching(false)} />` : null}
  `;
}

/**
 * Says which moment of a history the page shows.
 * @param {{moment: {revision: string, time: string, fork?: boolean}}} props
 */
const Moment = ({ moment }) => html`<p class="problem warn moment"><strong>${moment.fork ? 'Fork' : 'Past'}</strong>${' '}
  ${moment.fork ? 'The cluster has continued from revision' : 'The state of the cluster at revision'} ${moment.revision}, <time dateTime=${moment.time}>${at(moment.time)}</time>${moment.fork ? '.' : '. It is read-only.'}</p>`;

/** @template T @param {T} value */
function useRefTo(value) {
  const [ref] = useState({ current: value });
  ref.current = value;
  return ref;
}

/** @param {{kinds: import('./lib/kinds.js').Kind[], current: string, namespace: string}} props */
function Kinds({ kinds, current, namespace }) {
  const link = (/** @type {import('./lib/kinds.js').Kind} */ k, /** @type {string} */ label) => html`<li key=${k.name}><a href=${listHref(k.name, k.namespaced ? namespace : '')}
    aria-current=${current === k.name ? 'page' : undefined} title=${k.name}>${label}</a></li>`;
  const top = common.flatMap((name) => kinds.find((k) => k.name === name) ?? []);
  /** @type {Map<string, import('./lib/kinds.js').Kind[]>} */
  const groups = new Map();
  for (const k of kinds) {
    if (common.includes(k.name) || k.name === 'events.events.k8s.io') continue;
    const group = k.group ?? '';
    groups.set(group, [...(groups.get(group) ?? []), k]);
  }
  // groups of custom resources come first, because users look for these most often
  const builtin = (/** @type {string} */ g) => !g.includes('.') || g.endsWith('.k8s.io');
  const sorted = [...groups].sort(([a], [b]) => Number(builtin(a)) - Number(builtin(b)) || a.localeCompare(b));
  return html`
    ${top.length ? html`<h2>Kinds</h2><ul>${top.map((k) => link(k, k.kind))}</ul>` : null}
    ${sorted.map(([group, list]) => html`<details key=${group} open=${!builtin(group) || list.some((k) => k.name === current) || undefined}>
      <summary title=${group}>${group.replace(/\.k8s\.io$/, '') || 'core'}</summary><ul>${list.map((k) => link(k, k.kind))}</ul></details>`)}
  `;
}

/** @param {{current: string}} props */
function Namespaces({ current }) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  const read = () => request('namespaces').then((n) => setNames(n.namespaces), () => setNames([]));
  useEffect(() => void read(), []);
  const all = current && !names.includes(current) ? [current, ...names] : names;
  return html`<label class="namespace"><span class="hidden">Namespace</span>
    <select value=${current} onFocus=${read} onChange=${(/** @type {any} */ e) => setQuery({ namespace: e.target.value })}>
      <option value="">All namespaces</option>
      ${all.map((n) => html`<option value=${n}>${n}</option>`)}
    </select></label>`;
}

keepFocus();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById('app')));
