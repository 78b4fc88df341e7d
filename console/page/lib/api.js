// @ts-check
// Requests to the console's server.
import { useEffect, useState } from 'preact/hooks';
import { parse } from './json.js';

/**
 * @typedef {{code: number, reason?: string, message: string, causes?: {field?: string, message?: string}[], since?: number}} Failure
 *   since: when the last data arrived, which the page still shows
 */

/**
 * Returns the address of a request.
 * @param {string} path @param {Record<string, string|undefined>} [params]
 */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
  const text = query.toString();
  return '/api/' + path + (text ? '?' + text : '');
}

/** @param {Response} response @returns {Promise<Failure>} */
async function failure(response) {
  try {
    return (await response.json()).error;
  } catch {
    return { code: response.status, message: response.statusText || 'request failed' };
  }
}

const unreachable = { code: 0, reason: 'Unreachable', message: 'The console’s server does not answer. Is kelson still running?' };

/**
 * Sends a request and returns its result; it throws a Failure.
 * @param {string} path @param {Record<string, string|undefined>} [params] @param {RequestInit} [init]
 */
export async function request(path, params, init) {
  let response;
  try {
    response = await fetch(address(path, params), init);
  } catch (e) {
    if (init?.signal?.aborted) throw e;
    throw unreachable;
  }
  if (!response.ok) throw await failure(response);
  return parse(await response.text());
}

/**
 * Reads a stream of events until the signal aborts. It returns when the server ends the stream. It
 * uses a WebSocket, because browsers open only six other connections for all windows together.
 * @param {string} url @param {AbortSignal} signal @param {(event: string, data: any) => void} receive
 * @returns {Promise<void>}
 */
function read(url, signal, receive) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + url, 'kelson-stream');
    let opened = false;
    signal.addEventListener('abort', () => socket.close());
    socket.onopen = () => (opened = true);
    socket.onmessage = (message) => {
      if (signal.aborted) return;
      try {
        for (const text of message.data.split('\n\n')) {
          let event = 'message', data = '';
          for (const line of text.split('\n')) {
            if (line.startsWith('event: ')) event = line.slice(7);
            else if (line.startsWith('data: ')) data += line.slice(6);
          }
          if (event === 'refused') throw parse(data).error;
          if (data) receive(event, parse(data));
        }
      } catch (e) {
        reject(e);
        socket.close();
      }
    };
    // Browsers hide why a WebSocket was refused; a request shows the reason.
    socket.onclose = () => (opened || signal.aborted ? resolve() : request('session').then(() => reject(unreachable), reject));
  });
}

/**
 * Follows a stream while the component is shown and the page is visible; a hidden page reads
 * nothing. After an error or the end of the stream, it connects again.
 * @param {string|null} url null follows nothing
 * @param {(event: string, data: any) => void} receive must not depend on state of the component
 * @param {() => void} [reset] called before each connection
 * @returns {Failure|null} the error that interrupts the stream
 */
export function useStream(url, receive, reset) {
  const [error, setError] = useState(/** @type {Failure|null} */ (null));
  useEffect(() => {
    setError(null);
    if (!url) return;
    /** @type {AbortController|null} */
    let current = null;
    /** @type {number|undefined} */
    let timer;
    const connect = async () => {
      const control = (current = new AbortController());
      let pause = 1000;
      let begun = false;
      try {
        await read(url, control.signal, (event, data) => {
          if (control.signal.aborted) return;
          if (!begun) {
            begun = true;
            reset?.();
          }
          if (event === 'failure') {
            setError(data);
            pause = 3000;
          } else {
            setError(null);
            receive(event, data);
            if (event === 'end') pause = Infinity;
          }
        });
      } catch (e) {
        if (control.signal.aborted) return;
        setError(/** @type {Failure} */ (e));
        pause = 3000;
      }
      if (!control.signal.aborted && pause !== Infinity) timer = window.setTimeout(connect, pause);
    };
    const change = () => {
      current?.abort();
      clearTimeout(timer);
      if (!document.hidden) connect();
    };
    change();
    document.addEventListener('visibilitychange', change);
    return () => {
      document.removeEventListener('visibilitychange', change);
      current?.abort();
      clearTimeout(timer);
    };
  }, [url]);
  return error;
}

/**
 * Follows a stream of states. If it is interrupted, or a state says that the cluster is unreachable,
 * the state is old, and the failure says since when.
 * @param {string|null} url
 * @returns {[any, Failure|null]} the newest state, null before the first
 */
export function useStates(url) {
  const [state, setState] = useState(/** @type {{url: string|null, value: any, at: number}} */ ({ url: null, value: null, at: 0 }));
  const error = useStream(url, (event, value) => {
    // the time from the server is right also after a reload of the page
    if (event === 'state') setState((before) => ({ url, value, at: !value?.unreachable ? Date.now() : Date.parse(value.known) || (before.url === url ? before.at : 0) }));
  });
  if (state.url !== url) return [null, error];
  const failure = error ?? (state.value?.unreachable ? { code: 0, reason: 'Unavailable', message: state.value.unreachable } : null);
  return [state.value, failure && state.at ? { ...failure, since: state.at } : failure];
}
