// @ts-check
/** The catalog that is served: its last reload, what was refused and why, and commands for keys. */
import { h, show } from './dom.js';
import { ago, some, span } from './words.js';

/** @param {any} live @param {number} now */
export function render(live, now) {
  const known = live.configuration;
  if (!known) return;
  const { refusal, waiting, warnings = [], more_warnings: more } = known;
  const facts = [
    ['catalog', `${known.generation}, loaded ${ago(known.loaded, now)}`],
    ['folder', known.folder ?? 'none'],
    ['holds', [some(known.accounts, 'account'), some(known.models, 'model'), some(known.callers, 'caller'), some(known.keys, 'key') + (known.secrets > known.keys ? ` with ${known.secrets} secrets` : '')].join(', ')],
    ['hash', String(known.hash ?? '').slice(0, 12)],
  ];
  show(
    'configuration-body',
    h('dl', { class: 'fields' }, facts.map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value)))),
    refusal
      ? h('div', { class: `refusal ${refusal.standing ? 'bad' : 'idle'}` },
          h('h3', null, refusal.standing ? `The files are refused since ${ago(refusal.time, now).replace(' ago', '')}: the old catalog stays in use` : `The last refusal was ${ago(refusal.time, now)}, and is mended`),
          h('ul', null, (refusal.reasons ?? []).map((/** @type {string} */ reason) => h('li', null, h('code', null, reason)))),
          refusal.withheld?.length ? h('p', null, `Held back: ${refusal.withheld.join(', ')}`) : null)
      : h('p', { class: 'calm' }, 'No change was refused since the start.'),
    known.held ? h('p', { class: 'failure' }, typeof known.held === 'string' ? known.held : `A change is held: ${JSON.stringify(known.held)}`) : null,
    waiting ? h('p', { class: 'failure' }, `A change waits for ${span(waiting.for_ms)}: ${(waiting.files ?? []).join(', ')}`) : null,
    warnings.length ? h('div', null, h('h3', null, `Warnings (${warnings.length + (more ?? 0)})`), h('ul', null, warnings.map((/** @type {string} */ warning) => h('li', null, h('code', null, warning))), more ? h('li', { class: 'faint' }, `and ${more} more: see portcullis check`) : null)) : null,
    h('h3', null, 'Commands to paste'),
    h('p', { class: 'faint' }, 'This page changes no file. Keys are made and changed on the machine of the gateway:'),
    h('ul', { class: 'commands' }, [`portcullis check${conf(live)}`, `portcullis key new${conf(live)} --caller CALLER --name NAME`, `portcullis key list${conf(live)}`].map((text) => h('li', { key: text }, paste(text)))),
  );
}

/** @param {any} live */
const conf = (live) => (live.configuration?.folder ? ` --conf ${quoted(live.configuration.folder)}` : '');

/** Quotes a text for a shell, if it must be. @param {string} text */
export const quoted = (text) => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The commands for one key. @param {string} key @param {any} live */
export const commands = (key, live) =>
  h('ul', { class: 'commands' }, ['show', 'rotate', 'disable'].map((verb) => h('li', { key: verb }, paste(`portcullis key ${verb}${conf(live)} ${quoted(key)}`, verb))));

/** A command with a button that copies it. @param {string} text @param {string} [name] */
export function paste(text, name) {
  /** @param {MouseEvent} event */
  const copy = async (event) => {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      // Without a secure address there is no clipboard: the text is selected, to be copied by hand.
      if (code) getSelection()?.selectAllChildren(code);
    }
  };
  return h('span', { class: 'paste' }, h('code', null, text), h('button', { type: 'button', 'aria-label': `Copy the command ${name ?? text}`, onclick: copy }, 'Copy'));
}
