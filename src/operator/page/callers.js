// @ts-check
/** Callers with their use, money and tightest limit; and spend by caller, model and day. */
import { h, byId, field, show, tall } from './dom.js';
import { get, queryOf, sayError } from './api.js';
import { at, go } from './place.js';
import { pager } from './models.js';
import { gauge } from './shapes.js';
import { ago, count, percent, plain, some, until, usd, UNKNOWN } from './words.js';
import { commands } from './configuration.js';

/** The answers about opened callers. @type {Map<string, {of: number, said: any}>} */
const opened = new Map();
/** How often an opened caller is asked for, in milliseconds. */
const EVERY = 5000;
/** The most lines of spend that are shown; the CSV has all. */
const LINES = 200;

/** @param {any} live @param {number} now */
export function render(live, now) {
  if (!live.callers) return;
  const { rows, more, total } = live.callers;
  const from = Number(at('callers_from') || 0);
  show('callers-count', rows.length < total ? `${from + 1} to ${from + rows.length} of ${total}` : `${total}`);
  if (!rows.length) return show('callers-body', h('p', { class: 'calm' }, at('callers') ? 'No caller has this in its name.' : 'The catalog has no callers.'));
  const heads = ['Caller', 'Requests today', 'Tokens today', 'Cost today', 'Cost this month', 'Tightest limit', 'Limited today', 'Last used'];
  show(
    'callers-body',
    tall(
      'Callers',
      h(
        'table', { class: 'list callers' }, h('caption', { class: 'quiet' }, 'Callers'),
        h('thead', null, h('tr', null, heads.map((name, at) => h('th', { scope: 'col', class: at && at !== 5 ? 'right' : null }, name)))),
        h('tbody', null, rows.flatMap((/** @type {any} */ caller) => row(caller, live, now))),
      ),
    ),
    pager('callers_from', from, rows.length, more),
  );
}

/** @param {any} caller @param {any} live @param {number} now */
function row(caller, live, now) {
  const open = at('caller') === caller.id;
  const { today, month, limit } = caller;
  const cells = [
    ['Requests today', count(today.requests)],
    ['Tokens today', count(today.tokens)],
    ['Cost today', usd(today.usd, today.usd_known)],
    ['Cost this month', usd(month.usd, month.usd_known)],
  ];
  const line = h(
    'tr', { key: caller.id },
    h('th', { scope: 'row' }, h('button', { type: 'button', class: 'name', 'aria-expanded': String(open), onclick: () => go({ caller: open ? '' : caller.id }) }, caller.id)),
    cells.map(([label, value]) => h('td', { class: 'right', 'data-label': label }, value)),
    h('td', { 'data-label': 'Tightest limit' }, limit ? tight(limit, now) : h('span', { class: 'faint' }, 'none')),
    h('td', { class: `right${caller.limited ? ' hot' : ''}`, 'data-label': 'Limited today' }, count(caller.limited)),
    h('td', { class: 'right', 'data-label': 'Last used' }, ago(caller.last_used, now)),
  );
  return open ? [line, h('tr', { key: `${caller.id} opened`, class: 'opened' }, h('td', { colspan: 8 }, detail(caller.id, live, now)))] : [line];
}

/** @param {any} limit @param {number} now */
function tight(limit, now) {
  const amount = (/** @type {any} */ value) => (limit.kind.startsWith('usd') ? usd(value) : count(Number(value)));
  const text = `${plain(limit.kind)}: ${amount(limit.used)} of ${amount(limit.limit)}`;
  const whose = limit.level === 'caller' ? '' : `${plain(limit.level)} ${limit.name}, `;
  return h('div', { class: 'limit' }, gauge(limit.ratio, `${percent(limit.ratio)} of ${plain(limit.kind)} used`), h('span', null, `${percent(limit.ratio)} `, h('span', { class: 'faint' }, `${whose}${text}${limit.resets_at ? `, new ${until(limit.resets_at, now)}` : ''}`)));
}

/** What is known of an opened caller: its keys and all its limits. @param {string} id @param {any} live @param {number} now */
function detail(id, live, now) {
  const known = opened.get(id);
  if (!known || now - known.of > EVERY) {
    opened.set(id, { of: now, said: known?.said });
    get('/live/caller', { id }).then((said) => said, (why) => ({ error: sayError(why) })).then((said) => {
      opened.set(id, { of: now, said });
      render(live, now);
    });
  }
  const said = known?.said;
  if (!said) return h('p', { class: 'faint' }, 'Asking…');
  if (said.error) return h('p', { class: 'failure' }, said.error);
  const keys = said.keys ?? [];
  return h(
    'div', { class: 'detail' },
    h('table', null, h('caption', null, `Keys of ${id}`), h('thead', null, h('tr', null, ['Key', 'Expires', 'Last used', 'Models', 'To paste'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', null, keys.map((/** @type {any} */ key) => h('tr', { key: key.id }, h('th', { scope: 'row' }, key.id, key.enabled === false ? ' (disabled)' : null), h('td', null, key.expires ? `${key.expires.slice(0, 10)}, ${until(key.expires, now)}` : 'never'), h('td', null, ago(key.last_used, now)), h('td', null, Array.isArray(key.models) ? key.models.join(', ') || 'none' : key.models ?? 'all'), h('td', null, commands(key.id, live)))))),
    limits(said.limits ?? []),
    h('p', null, h('button', { type: 'button', onclick: () => { go({ find: id }); byId('requests').scrollIntoView(); } }, `Requests of ${id}`)),
  );
}

/** Every limit, as `/limits` shows it. @param {any[]} limits */
function limits(limits) {
  const rows = limits.flatMap((scope) => Object.entries(scope.limits ?? {}).map(([kind, limit]) => ({ scope, kind, limit, used: scope.used?.[kind] ?? 0 })));
  if (!rows.length) return h('p', { class: 'faint' }, 'No limits.');
  return h('table', null, h('caption', null, 'Limits'), h('thead', null, h('tr', null, ['Of', 'Limit', 'Used', 'Share'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', null, rows.map(({ scope, kind, limit, used }) => {
      const amount = (/** @type {any} */ value) => (kind.startsWith('usd') ? usd(value) : count(Number(value)));
      const ratio = Number(limit) ? Number(used) / Number(limit) : 1;
      return h('tr', { key: `${scope.level} ${scope.name} ${kind}` }, h('th', { scope: 'row' }, `${plain(scope.level)} ${scope.name}`), h('td', null, `${amount(limit)} ${plain(kind)}`), h('td', null, amount(used)), h('td', { class: 'limit' }, gauge(ratio, `${percent(ratio)} used`), percent(ratio)));
    })));
}

const spendQuery = () => {
  const days = field('spend-since').value;
  const now = new Date();
  const first = days === 'month' ? Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1) : now.getTime() - Number(days) * 86_400_000;
  return { by: field('spend-by').value, since: new Date(first).toISOString().slice(0, 10) };
};

/** Asks the ledger. @returns {Promise<void>} */
async function spend() {
  show('spend-count', 'Asking the ledger…');
  try {
    const said = await get('/usage', spendQuery());
    const by = /** @type {string[]} */ (said.by);
    const cost = (/** @type {any} */ line) => Number(line.cost_usd ?? 0);
    const lines = [...said.usage].sort((one, two) => cost(two) - cost(one) || two.total_tokens - one.total_tokens);
    const total = cost(said.total);
    const heads = ['Requests', 'Failed', 'Prompt', 'Cached', 'Completion', 'Cost', 'Share'];
    const cells = (/** @type {any} */ line) => [count(line.requests), count(line.failed), count(line.prompt_tokens), count(line.cached_tokens), count(line.completion_tokens), usd(line.cost_usd, line.cost_known)];
    show('spend-count', `${lines.length > LINES ? `${LINES} of ` : ''}${some(lines.length, 'line')}, the dearest first; in whole days of UTC`, said.notes.map((/** @type {string} */ note) => ` · ${note}`));
    show(
      'spend-body',
      tall('Spend', h('table', { class: 'list' }, h('caption', { class: 'quiet' }, 'Spend'), h('thead', null, h('tr', null, by.map((name) => h('th', { scope: 'col' }, plain(name))), heads.map((name) => h('th', { scope: 'col', class: name === 'Share' ? null : 'right' }, name)))),
        h('tbody', null,
          h('tr', { key: 'total', class: 'total' }, h('th', { scope: 'row', colspan: by.length }, 'all'), cells(said.total).map((value, at) => h('td', { class: 'right', 'data-label': heads[at] }, value)), h('td', null)),
          lines.slice(0, LINES).map((line) => {
            const [first, ...names] = by.map((name) => line[name] ?? UNKNOWN);
            return h('tr', { key: by.map((name) => line[name]).join(' ') }, h('th', { scope: 'row' }, first), names.map((name, at) => h('td', { 'data-label': plain(by[at + 1] ?? '') }, name)), cells(line).map((value, at) => h('td', { class: 'right', 'data-label': heads[at] }, value)), h('td', { 'data-label': 'Share' }, gauge(total ? cost(line) / total : 0, `${percent(total ? cost(line) / total : null)} of the cost`, 'calm')));
          })))),
    );
  } catch (why) {
    show('spend-count', '');
    show('spend-body', h('p', { class: 'failure' }, sayError(why)));
  }
}

export function start() {
  const link = () => byId('spend-csv').setAttribute('href', `/usage?${queryOf({ ...spendQuery(), format: 'csv' })}`);
  const chosen = () => (link(), void spend());
  for (const id of ['spend-since', 'spend-by']) field(id).onchange = chosen;
  byId('spend-load').onclick = chosen;
  link();
  // The ledger is asked for when the region is looked at, not before.
  const seen = new IntersectionObserver(([entry]) => {
    if (!entry?.isIntersecting) return;
    seen.disconnect();
    void spend();
  });
  seen.observe(byId('spend-body'));
  show('spend-body', h('p', { class: 'faint' }, 'Not asked yet.'));
}
