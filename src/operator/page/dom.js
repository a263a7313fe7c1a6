// @ts-check
/**
 * A view is described by plain values, and `patch` changes the document to match them. Texts are
 * only ever set as text. Nothing here can make markup out of a text.
 *
 * @typedef {{tag: string, props: Record<string, any>, children: View[]}} Element_
 * @typedef {Element_ | string} View
 */

const SVG = new Set(['svg', 'g', 'path', 'rect', 'circle', 'line', 'polygon']);
/** What each element was made from.
 * @type {WeakMap<Node, Record<string, any>>} */
const MADE = new WeakMap();

/** Describes an element. A child that is null or false is left out.
 * @param {string} tag @param {Record<string, any> | null} [props] @param {...any} children
 * @returns {Element_} */
export function h(tag, props, ...children) {
  const some = children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== '');
  return { tag, props: props ?? {}, children: some.map((child) => (typeof child === 'object' ? child : String(child))) };
}

/** Writes what stands between backticks as code. @param {string} text @returns {View[]} */
export const prose = (text) => text.split('`').map((part, at) => (at % 2 ? h('code', null, part) : part)).filter((part) => part !== '');

/** A box for a table that may be wider than the page. It has a place in the order of the Tab key, so that the keys can scroll it.
 * @param {string} label @param {View} table @param {string} [more] */
export const wide = (label, table, more = '') => h('div', { class: `wide-table${more}`, role: 'group', 'aria-label': label, tabindex: 0 }, table);

/** A box for a table that may also be long. @param {string} label @param {View} table */
export const tall = (label, table) => wide(label, table, ' tall');

/** Makes the children of an element match a description. Elements with the same `key` are kept,
 * also if they move.
 * @param {Element} parent @param {View[]} wanted */
export function patch(parent, wanted) {
  const keys = new Set(wanted.map((view) => (typeof view === 'string' ? undefined : view.props.key)));
  /** @type {Map<any, ChildNode>} */
  const kept = new Map();
  for (const node of [...parent.childNodes]) {
    const key = MADE.get(node)?.key;
    if (key === undefined) continue;
    if (keys.has(key)) kept.set(key, node);
    else node.remove();
  }
  /** @type {ChildNode | null} */
  let at = parent.firstChild;
  for (const view of wanted) {
    const key = typeof view === 'string' ? undefined : view.props.key;
    let node = key === undefined ? at : kept.get(key) ?? null;
    kept.delete(key);
    if (!node || !matches(node, view, key)) node = make(view);
    if (node === at) at = at?.nextSibling ?? null;
    else parent.insertBefore(node, at);
    if (typeof view === 'string') {
      if (node.nodeValue !== view) node.nodeValue = view;
    } else {
      dress(/** @type {Element} */ (node), view.props);
      patch(/** @type {Element} */ (node), view.children);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Patches an element, and gives the focus back if the focused element was moved.
 * @param {string} id @param {...any} views */
export function show(id, ...views) {
  const focused = document.activeElement;
  patch(byId(id), h('div', null, ...views).children);
  if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found;
}

/** @param {string} id */
export const field = (id) => /** @type {HTMLInputElement} */ (byId(id));

/** @param {Node} node @param {View} view @param {any} key */
function matches(node, view, key) {
  if (typeof view === 'string') return node.nodeType === Node.TEXT_NODE;
  return node instanceof Element && node.localName === view.tag && MADE.has(node) && MADE.get(node)?.key === key;
}

/** @param {View} view @returns {ChildNode} */
function make(view) {
  if (typeof view === 'string') return document.createTextNode(view);
  const { tag } = view;
  const node = SVG.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  MADE.set(node, {});
  return node;
}

/** Sets the attributes and the handlers of an element.
 * @param {Element} node @param {Record<string, any>} props */
function dress(node, props) {
  const old = MADE.get(node) ?? {};
  for (const name of Object.keys(old)) if (!(name in props)) set(node, name, null);
  for (const [name, value] of Object.entries(props)) if (old[name] !== value) set(node, name, value);
  MADE.set(node, props);
}

/** @param {Element} node @param {string} name @param {any} value */
function set(node, name, value) {
  if (name === 'key') return;
  // A handler is a function, never a text.
  if (name.startsWith('on')) /** @type {any} */ (node)[name] = value;
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : String(value));
}
