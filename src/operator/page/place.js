// @ts-check
/** What is looked at, in the fragment of the URL: it can be shared, and "back" works. No secret is ever in it. */

/** @type {Set<() => void>} */
const CHANGED = new Set();

const read = () => new URLSearchParams(location.hash.slice(1));

/** @param {string} name @returns {string} */
export const at = (name) => read().get(name) ?? '';

/** Changes some values; an empty one is removed. A step that "back" should undo makes an entry of its own.
 * @param {Record<string, string | null | undefined>} values @param {boolean} [step] */
export function go(values, step = true) {
  const all = read();
  for (const [name, value] of Object.entries(values)) value ? all.set(name, value) : all.delete(name);
  const next = `#${all}`;
  if (next === (location.hash || '#')) return;
  history[step ? 'pushState' : 'replaceState'](null, '', next);
  changed();
}

/** @param {() => void} call is called after each change */
export const onChange = (call) => CHANGED.add(call);

function changed() {
  for (const call of CHANGED) call();
}

addEventListener('popstate', changed);
