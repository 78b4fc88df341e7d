// @ts-check
// A question that users must answer before they can use the page again.
import { html } from './html.js';
import { Modal } from './modal.js';

/**
 * Asks a question. The first button, which cancels, has the focus.
 * @param {{question: string, action: string, act: () => void, close: () => void}} props
 */
export const Confirm = ({ question, action, act, close }) => html`<${Modal} class="confirm" aria-labelledby="question" close=${close}>
  <p id="question">${question}</p>
  <div class="bar"><button onClick=${close}>Cancel</button><button class="danger" onClick=${() => {
    close();
    act();
  }}>${action}</button></div>
</${Modal}>`;
