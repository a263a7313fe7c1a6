// @ts-check
/** Requests, newest first; one that is opened has a time bar and all fields of its access line. */
import { h, byId, show, tall, wide } from './dom.js';
import { get, sayError } from './api.js';
import { at, go } from './place.js';
import { outcome, toneOf } from './shapes.js';
import { clock, count, ms, plain, usd, UNKNOWN } from './words.js';

/** How many rows are kept, unless older ones are asked for. */
const KEPT = 100;
/** @type {any[]} newest first */
let rows = [];
/** Newer rows that wait while a request is open, so that nothing moves under the reader's eyes. @type {any[]} */
let newer = [];
let kept = KEPT;
let newestSeq = 0;
/** A request that was asked for by its id. @type {{id: string, line?: any, error?: string} | null} */
let single = null;
/** Why there are no older rows. */
let older = '';
/** @type {() => void} */
let again = () => {};

/** The newest line that the page has, after which it asks. */
export const newest = () => newestSeq;

/** Takes the new lines of an answer. @param {any} answer @param {boolean} anew */
export function take(answer, anew) {
  const { rows: fresh = [], more = 0 } = answer.requests ?? {};
  if (anew) kept = KEPT;
  // If lines between are missing, the older ones are left out rather than shown with a gap.
  if (anew || more) [rows, newer, older] = [fresh, [], ''];
  else newer = [...fresh, ...newer].slice(0, KEPT);
  if (!at('open')) merge();
  newestSeq = answer.seq;
}

function merge() {
  rows = [...newer, ...rows].slice(0, kept);
  newer = [];
}

/** @param {any} _live */
export function render(_live) {
  if (!at('open')) merge();
  const filters = [at('find') ? `with “${at('find')}”` : '', at('failures') ? 'failed' : ''].filter(Boolean).join(', ');
  show('requests-count', `${count(rows.length)} shown${filters ? `, ${filters}` : ''}, newest first, times in UTC`, newer.length ? [' · ', h('button', { type: 'button', onclick: () => { merge(); again(); } }, `Show ${newer.length} newer`)] : null);
  const open = at('open');
  const alone = open && !rows.some((line) => line.request_id === open) ? asked(open) : null;
  const heads = ['Time', 'Key', 'Model → account', 'Outcome', 'First byte', 'Total', 'Tokens in', 'out', 'Cost', 'Attempts'];
  const lines = rows.flatMap((line) => row(line, line.request_id === open));
  show(
    'requests-body',
    alone,
    rows.length
      ? tall('Requests', h('table', { class: 'list requests' }, h('caption', { class: 'quiet' }, 'Requests'), h('thead', null, h('tr', null, heads.map((name, at) => h('th', { scope: 'col', class: at > 3 && at < 9 ? 'right' : null }, name)))), h('tbody', null, lines)))
      : h('p', { class: 'calm' }, filters ? 'No request that is kept matches.' : 'No requests yet.'),
    rows.length ? h('p', { class: 'pager' }, older ? null : h('button', { type: 'button', onclick: before }, 'Older'), older ? h('span', { class: 'faint' }, older) : null) : null,
  );
}

/** Asks for the lines before the oldest one. */
async function before() {
  const last = rows[rows.length - 1];
  try {
    const { requests } = await get('/live', { show: 'requests', requests_before: last?.seq, find: at('find'), failures: at('failures') });
    older = requests.rows.length ? '' : 'no older requests are kept: see the access log';
    rows = [...rows, ...requests.rows];
    kept = Math.max(rows.length, KEPT);
  } catch (why) {
    older = sayError(why);
  }
  again();
}

/** @param {any} line @param {boolean} open */
function row(line, open) {
  const name = line.model ?? UNKNOWN;
  const shown = h(
    'tr', { key: line.seq ?? line.request_id, class: open ? 'is-open' : null },
    h('th', { scope: 'row' }, h('button', { type: 'button', class: 'name', 'aria-expanded': String(open), 'aria-label': `request of ${clock(line.time)}`, onclick: () => go({ open: open ? '' : line.request_id }) }, clock(line.time))),
    h('td', { 'data-label': 'Key' }, line.key ?? UNKNOWN),
    h('td', { 'data-label': 'Model' }, h('b', null, name), line.account ? ` → ${line.account}` : null),
    h('td', { 'data-label': 'Outcome' }, outcome(line.outcome, h('span', { class: 'faint' }, ` ${line.status}`))),
    h('td', { class: 'right', 'data-label': 'First byte' }, ms(line.first_byte_ms)),
    h('td', { class: 'right', 'data-label': 'Total' }, ms(line.total_ms)),
    h('td', { class: 'right', 'data-label': 'Tokens in' }, count(line.prompt_tokens)),
    h('td', { class: 'right', 'data-label': 'Tokens out' }, count(line.completion_tokens)),
    h('td', { class: 'right', 'data-label': 'Cost' }, cost(line)),
    h('td', { 'data-label': 'Attempts' }, trail(line)),
  );
  return open ? [shown, h('tr', { key: `${line.seq ?? line.request_id} opened`, class: 'opened' }, h('td', { colspan: 10 }, detail(line)))] : [shown];
}

/** A request that was not admitted cost nothing. @param {any} line */
const cost = (line) => (line.cost_usd === null && line.usage === 'none' ? UNKNOWN : usd(line.cost_usd));

/** The attempts as chips. @param {any} line */
export function trail(line) {
  const chips = (line.attempts ?? []).map((/** @type {any} */ tried, /** @type {number} */ at) => [
    at ? h('span', { class: 'then', 'aria-hidden': 'true' }, '→') : null,
    h('li', { class: `chip ${toneOf(tried.outcome)}` }, h('b', null, tried.account), ` ${plain(tried.outcome)} ${ms(tried.ms)}`, tried.times > 1 ? ` ×${tried.times}` : null),
  ]);
  if (!chips.length) return h('span', { class: 'faint' }, line.limited_by ? `limit: ${plain(line.limited_by)}` : line.error ? line.error : UNKNOWN);
  return h('ol', { class: 'trail' }, chips.flat().filter(Boolean).map((/** @type {any} */ chip) => (chip.tag === 'li' ? chip : h('li', { class: 'then', 'aria-hidden': 'true' }, '→'))));
}

/** @param {any} line */
export function detail(line) {
  const { attempts = [], seq: _seq, ...fields } = line;
  const columns = ['account', 'model', 'endpoint', 'outcome', 'status', 'at_ms', 'connect_ms', 'first_ms', 'ms', 'times', 'prompt_tokens', 'completion_tokens', 'cost_usd', 'detail'];
  const some = columns.filter((name) => attempts.some((/** @type {any} */ tried) => tried[name] !== undefined && tried[name] !== null));
  return h(
    'div', { class: 'detail' },
    timeBar(line),
    attempts.length ? wide('Attempts', h('table', null, h('caption', null, 'Attempts'), h('thead', null, h('tr', null, some.map((name) => h('th', { scope: 'col' }, plain(name))))), h('tbody', null, attempts.map((/** @type {any} */ tried) => h('tr', null, some.map((name, at) => h(at ? 'td' : 'th', at ? {} : { scope: 'row' }, name === 'outcome' ? outcome(tried.outcome) : tried[name] ?? '')))))) ) : null,
    h('dl', { class: 'fields' }, Object.entries(fields).map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value === null ? h('span', { class: 'faint' }, 'null') : typeof value === 'object' ? JSON.stringify(value) : String(value))))),
    h(
      'p', { class: 'buttons' },
      line.key && line.model ? h('button', { type: 'button', onclick: () => { go({ ask: 'explain', key: line.key, about: line.model, session: line.session }); byId('ask').scrollIntoView(); } }, 'Explain with this key and model') : null,
      [['session', line.session], ['key', line.key], ['account', line.account]].map(([what, value]) => (value ? h('button', { type: 'button', onclick: () => go({ find: value, open: '' }) }, `Requests of this ${what}`) : null)),
    ),
  );
}

/** Draws when the request waited, when each attempt ran, and when the answer flowed. @param {any} line */
export function timeBar(line) {
  const attempts = line.attempts ?? [];
  const whole = Math.max(line.total_ms, ...attempts.map((/** @type {any} */ tried) => (tried.at_ms ?? 0) + tried.ms), 1);
  /** @type {{label: string, says: string, tone: string, from: number, to: number, first?: number}[]} */
  const lanes = [];
  if (line.queued_ms) lanes.push({ label: 'queue', says: ms(line.queued_ms), tone: 'caller', from: 0, to: line.queued_ms });
  let next = line.queued_ms ?? 0;
  for (const tried of attempts) {
    const from = tried.at_ms ?? next;
    next = from + tried.ms;
    lanes.push({ label: tried.account, says: `${plain(tried.outcome)} ${ms(tried.ms)}`, tone: toneOf(tried.outcome), from, to: next, first: tried.first_ms === undefined ? undefined : from + tried.first_ms });
  }
  if (line.first_byte_ms !== null && line.first_byte_ms !== undefined && line.total_ms > line.first_byte_ms) {
    lanes.push({ label: line.stream ? 'stream to the caller' : 'answer to the caller', says: ms(line.total_ms - line.first_byte_ms), tone: 'calm', from: line.first_byte_ms, to: line.total_ms });
  }
  const part = (/** @type {number} */ value) => `${((value / whole) * 100).toFixed(2)}%`;
  return h(
    'div', { class: 'time', role: 'img', 'aria-label': `Time bar: ${lanes.map(({ label, says, from }) => `${label} from ${ms(from)}, ${says}`).join('; ') || 'nothing was tried'}` },
    lanes.map(({ label, says, tone, from, to, first }) => h(
      'div', { class: 'lane' },
      h('span', { class: 'label' }, label),
      h('svg', { class: 'bar', 'aria-hidden': 'true' }, h('rect', { class: 'ground', width: '100%', height: '100%' }), h('rect', { class: `fill ${tone}`, x: part(from), width: part(Math.max(to - from, whole / 250)), height: '100%' }), first === undefined ? null : h('rect', { class: 'tick', x: part(first), width: 2, height: '100%' })),
      h('span', { class: 'says' }, says),
    )),
    h('div', { class: 'lane axis' }, h('span', { class: 'label' }), h('span', { class: 'ends' }, h('span', null, '0'), h('span', null, ms(whole)))),
  );
}

/** Shows a request that is not among the rows, by its id. @param {string} id */
function asked(id) {
  if (single?.id !== id) {
    const mine = (single = { id });
    get('/live/request', { id }).then((line) => Object.assign(mine, { line }), (why) => Object.assign(mine, { error: sayError(why) })).then(() => again());
  }
  if (single?.error) return h('p', { class: 'failure' }, `The request ${id} is not kept: ${single.error}`);
  return h('div', { class: 'alone' }, h('h3', null, `Request ${id}`), single?.line ? detail(single.line) : h('p', { class: 'faint' }, 'Asking…'), h('button', { type: 'button', onclick: () => go({ open: '' }) }, 'Close'));
}

/** @param {() => void} render is called when something has come */
export function start(render) {
  again = render;
}
