// @ts-check
// A terminal in a container of a pod.
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../page/lib/html.js';
import { setQuery } from '../page/lib/route.js';
import { enlarged } from '../page/lib/size.js';
import { Problem } from '../page/lib/ui.js';

/**
 * Returns a document for the terminal. The page's policy does not permit style elements, so this
 * document replaces those of the terminal by style sheets, which it adds to sheets.
 * @param {CSSStyleSheet[]} sheets
 */
function styled(sheets) {
  const create = (/** @type {string} */ name) => {
    if (name !== 'style') return document.createElement(name);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const place = document.createElement('span');
    place.hidden = true;
    Object.defineProperty(place, 'textContent', { set: (/** @type {string} */ text) => sheet.replaceSync(text) });
    return place;
  };
  return new Proxy(document, {
    get(target, name) {
      if (name === 'createElement') return create;
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** @param {{pod: any, query: URLSearchParams}} props */
export function Exec({ pod, query }) {
  const containers = (pod.spec.containers ?? []).map((/** @type {any} */ c) => c.name);
  const container = query.get('container') ?? containers[0] ?? '';
  const command = query.get('command') ?? 'sh';
  const [draft, setDraft] = useState(command);
  const [run, setRun] = useState(0); // counts the starts
  const [state, setState] = useState(/** @type {{text: string, error?: any}} */ ({ text: '' }));
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const { namespace, name, uid } = pod.metadata;

  useEffect(() => {
    if (!run) return;
    let closed = false;
    /** @type {(() => void)[]} */
    const undo = [];
    (async () => {
      setState({ text: 'Connecting…' });
      // @ts-ignore a file of its own
      const { Terminal, FitAddon } = await import('/terminal.js');
      if (closed || !box.current) return;
      /** @type {CSSStyleSheet[]} */
      const sheets = [];
      const css = getComputedStyle(document.documentElement);
      const color = (/** @type {string} */ v) => css.getPropertyValue(v).trim();
      const terminal = new Terminal({
        documentOverride: styled(sheets), screenReaderMode: true, fontSize: 13 * enlarged, fontFamily: color('--mono'), minimumContrastRatio: 4.5,
        theme: { background: color('--panel'), foreground: color('--text'), cursor: color('--accent'), selectionBackground: color('--select') },
      });
      const fit = new FitAddon();
      terminal.loadAddon(fit);
      terminal.open(box.current);
      undo.push(() => {
        terminal.dispose();
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !sheets.includes(s));
      });
      const params = new URLSearchParams({ namespace, name, container });
      for (const word of draft.split(/\s+/).filter(Boolean)) params.append('command', word);
      const socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/exec?${params}`);
      socket.binaryType = 'arraybuffer';
      undo.push(() => socket.close());
      const resize = () => {
        fit.fit();
        if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ columns: terminal.cols, rows: terminal.rows }));
      };
      const observer = new ResizeObserver(resize);
      observer.observe(box.current);
      undo.push(() => observer.disconnect());
      terminal.onData((/** @type {string} */ text) => socket.readyState === WebSocket.OPEN && socket.send(new TextEncoder().encode(text)));
      // Ctrl+Shift+Q leaves the terminal, which takes all other keys
      terminal.attachCustomKeyEventHandler((/** @type {KeyboardEvent} */ e) => {
        if (!(e.ctrlKey && e.shiftKey && e.code === 'KeyQ')) return true;
        document.getElementById('exec-command')?.focus();
        return false;
      });
      let ended = false;
      socket.onopen = () => {
        setState({ text: 'Connected. Ctrl+Shift+Q leaves the terminal.' });
        resize();
        terminal.focus();
      };
      socket.onmessage = (e) => {
        if (typeof e.data !== 'string') return terminal.write(new Uint8Array(e.data));
        const end = JSON.parse(e.data);
        ended = true;
        setState(end.error ? { text: '', error: end.error } : { text: `The command has ended with exit code ${end.code}.` });
      };
      socket.onclose = () => {
        if (!closed && !ended) setState({ text: '', error: { code: 0, reason: 'Disconnected', message: 'The connection to the container has ended.' } });
      };
    })();
    return () => {
      closed = true;
      undo.reverse().forEach((f) => f());
    };
  }, [run, uid]);

  return html`<form class="bar" onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      setQuery({ command: draft === 'sh' ? null : draft }, { replace: true });
      setRun(run + 1);
    }}>
      <label>Container <select value=${container} onChange=${(/** @type {any} */ e) => setQuery({ container: e.target.value })}>
        ${containers.map((/** @type {string} */ c) => html`<option value=${c}>${c}</option>`)}</select></label>
      <label>Command <input id="exec-command" type="text" value=${draft} spellcheck=${false} autocomplete="off" onInput=${(/** @type {any} */ e) => setDraft(e.target.value)} /></label>
      <button class="primary" disabled=${!draft.trim()}>${run ? 'Run again' : 'Run'}</button>
      <span class="quiet" role="status">${state.text}</span>
    </form>
    <${Problem} error=${state.error ?? null} />
    <div class="shell" ref=${box}></div>`;
}
