// The terminal of the view Exec, a file of its own because it is larger than the rest of the page.
export { FitAddon } from './vendor/addon-fit.js';
export { Terminal } from './vendor/xterm.js';
