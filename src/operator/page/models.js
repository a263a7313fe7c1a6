// @ts-check
/** Models and their targets: a row a model and a cell a target, or turned round: a row an account. */
import { h, byId, show } from './dom.js';
import { post, sayError } from './api.js';
import { at, go } from './place.js';
import { bars, standing, told } from './shapes.js';
import { ago, count, ms, percent, plain, share, span, UNKNOWN } from './words.js';

/** States that Reset can end. */
const OUT = ['open', 'half_open', 'resting'];
/** The account whose reset waits for a yes, in the row where it was asked for. */
let sure = '';
/** What became of the last reset. */
let said = '';
/** @type {string[]} */
let order = [];
/** @type {() => void} */
let again = () => {};

/** @param {any} live @param {number} now */
export function render(live, now) {
  again = () => render(live, now);
  if (!live.models) return;
  const { rows, more, total } = live.models;
  const from = Number(at('models_from') || 0);
  show('models-count', rows.length < total ? `${from + 1} to ${from + rows.length} of ${total}, the worst first` : `${total}, the worst first`, said ? ` · ${said}` : null);
  const turned = at('by') === 'accounts';
  if (!rows.length) return show('models-body', h('p', { class: 'calm' }, at('models') ? 'No model has this in its name.' : 'The catalog has no models.'));
  const body = turned ? accounts(rows, live, now) : steady(rows).map((model) => row(model, live, now));
  const heads = turned ? ['Account', 'Requests', 'Failed', 'In flight', 'Models, with the state of each'] : ['Model', 'Requests', 'Failed', 'First token', 'Waiting', 'Targets, in the order in which they are tried now'];
  show(
    'models-body',
    h('table', { class: 'matrix list' }, h('caption', { class: 'quiet' }, turned ? 'Accounts and their models' : 'Models and their targets'), h('thead', null, h('tr', null, heads.map((name) => h('th', { scope: 'col' }, name)))), h('tbody', null, body)),
    pager('models_from', from, rows.length, more),
  );
}

/** Keeps the order of the rows while somebody points at them or has the focus there.
 * @param {any[]} rows */
function steady(rows) {
  if (byId('models-body').matches(':hover, :focus-within')) {
    const place = (/** @type {any} */ row) => (order.includes(row.id) ? order.indexOf(row.id) : order.length);
    return [...rows].sort((one, two) => place(one) - place(two));
  }
  order = rows.map(({ id }) => id);
  return rows;
}

/** @param {any} model @param {any} live @param {number} now */
function row(model, live, now) {
  const failed = model.failed_caller + model.failed_upstream + model.failed_ours + model.given_up;
  const ofUs = model.failed_upstream + model.failed_ours + model.given_up;
  const tiers = new Set(model.targets.map((/** @type {any} */ target) => target.tier));
  const open = at('model') === model.id;
  const good = model.series.map((/** @type {number} */ value, /** @type {number} */ step) => value - (model.failed_series[step] ?? 0));
  const first = model.first_token_ms;
  return h(
    'tr',
    { key: model.id },
    h(
      'th', { scope: 'row' },
      h('button', { type: 'button', class: 'name', 'aria-expanded': String(open), onclick: () => go({ model: open ? '' : model.id }) }, model.id),
      h('span', { class: 'faint' }, plain(model.strategy), model.pattern ? ' · pattern' : null),
    ),
    h('td', { 'data-label': 'Requests' }, h('span', { class: 'num' }, `${count(model.per_second)} /s`), bars(`requests to ${model.id} in 5 seconds`, [{ tone: 'bad', values: model.failed_series }, { tone: 'calm', values: good }])),
    h('td', { 'data-label': 'Failed' }, h('span', { class: `num${ofUs ? ' hot' : ''}` }, share(failed, model.requests)), failed ? h('span', { class: 'faint' }, blame(model)) : null),
    h('td', { 'data-label': 'First token' }, typeof first === 'number' || !first ? ms(first) : [h('span', { class: 'num' }, ms(first.p50)), h('span', { class: 'faint' }, `p99 ${ms(first.p99)}`)]),
    h(
      'td', { 'data-label': 'Waiting' },
      h('span', { class: `num${model.waiting ? ' hot' : ''}` }, model.queue === null ? count(model.waiting) : `${count(model.waiting)} of ${count(model.queue)}`),
      model.retry_budget_spent ? h('span', { class: 'faint' }, `retries ${percent(model.retry_budget_spent)} spent`) : null,
    ),
    h(
      'td', { class: 'cells', 'data-label': 'Targets' },
      h('ol', null, model.targets.map((/** @type {any} */ target) => cell(target, target.account, tiers.size > 1 ? `tier ${target.tier}` : '', live, now, model.id, open))),
    ),
  );
}

/** Whose fault failures were. @param {any} model */
function blame(model) {
  const some = /** @type {[string, number][]} */ ([['upstreams', model.failed_upstream], ['callers', model.failed_caller], ['ours', model.failed_ours], ['given up', model.given_up]]);
  return some.filter(([, number]) => number).map(([whose, number]) => `${whose} ${count(number)}`).join(', ');
}

/** One target. @param {any} target @param {string} name @param {string} tier @param {any} live @param {number} now @param {string} row @param {boolean} open */
function cell(target, name, tier, live, now, row, open) {
  const [shape, tone, word] = standing({ ...target, full: target.concurrency !== null && target.in_flight >= target.concurrency });
  const times = target.for_ms !== null && target.for_ms !== undefined ? ` ${span(target.for_ms)}` : '';
  const { last_failure: failure } = target;
  const pairs = [
    ['in flight', target.concurrency === null ? count(target.in_flight) : `${count(target.in_flight)}/${count(target.concurrency)}`],
    ['p50', ms(target.first_token_ms?.p50)],
    ['failed', share(target.failed, target.requests)],
    ['share', percent(target.share)],
    ['p99', ms(target.first_token_ms?.p99)],
    ['quota', percent(target.headroom)],
  ];
  const more = [
    ['its model', target.model],
    ['requests', count(target.requests)],
    ['tokens/s', count(target.tokens_per_second)],
    ['since', target.since ? ago(target.since, now) : UNKNOWN],
    ['endpoint', target.endpoint],
    ['tier', count(target.tier)],
    ['asked last for', target.behind_for_ms ? span(target.behind_for_ms) : UNKNOWN],
  ];
  const list = (/** @type {string[][]} */ pairs) => pairs.map(([what, value]) => h('div', null, h('dt', null, what), h('dd', null, value)));
  const id = `${row} ${target.account} ${target.model} ${target.endpoint}`;
  return h(
    'li', { key: id, class: `cell ${tone}` },
    h('p', { class: 'title' }, told(shape, tone, `${word}${times}`), h('b', null, name), tier ? h('span', { class: 'faint' }, tier) : null, OUT.includes(target.state) && live.can?.reset ? reset(target.account, id) : null),
    h('dl', null, list(pairs)),
    open ? h('dl', { class: 'more' }, list(more)) : null,
    failure ? h('p', { class: 'failure' }, h('b', null, plain(failure.outcome)), ` ${ago(failure.time, now)}`, failure.detail ? `: ${failure.detail}` : null) : null,
  );
}

/** The button Reset, and its question in place. @param {string} account @param {string} id */
function reset(account, id) {
  if (sure !== id) return h('button', { type: 'button', key: 'reset', onclick: () => { sure = id; again(); } }, 'Reset');
  const yes = async () => {
    sure = '';
    try {
      // All characters of a name may stand in a path.
      await post(`/accounts/${account}/reset`);
      said = `${account} was reset: its rests have ended, and its breakers are closed`;
    } catch (why) {
      said = `${account} was not reset: ${sayError(why)}`;
    }
    again();
  };
  return h('span', { class: 'sure', key: 'sure' }, `Close the breakers of ${account}, and end its rests?`, h('button', { type: 'button', onclick: yes }, 'Yes, reset'), h('button', { type: 'button', onclick: () => { sure = ''; again(); } }, 'No'));
}

/** Rows of accounts, from the targets of the models that are shown. @param {any[]} rows @param {any} live @param {number} now */
function accounts(rows, live, now) {
  /** @type {Map<string, {model: string, target: any}[]>} */
  const found = new Map();
  for (const model of rows) for (const target of model.targets) found.set(target.account, [...(found.get(target.account) ?? []), { model: model.id, target }]);
  const trouble = (/** @type {{target: any}[]} */ cells) => cells.filter(({ target }) => target.state !== 'ok').length;
  return [...found].sort(([, one], [, two]) => trouble(two) - trouble(one)).map(([account, cells]) => {
    // Several models may share a target, which has counted each request once.
    const targets = [...new Map(cells.map(({ target }) => [`${target.model} ${target.endpoint}`, target])).values()];
    const { account_state: state, account_reason: reason } = cells[0]?.target ?? {};
    const sum = (/** @type {string} */ field) => targets.reduce((sum, target) => sum + (target[field] ?? 0), 0);
    return h(
      'tr', { key: account },
      h('th', { scope: 'row' }, h('span', { class: 'name' }, account), told(...standing({ state, reason }))),
      h('td', { 'data-label': 'Requests' }, h('span', { class: 'num' }, count(sum('requests')))),
      h('td', { 'data-label': 'Failed' }, h('span', { class: `num${sum('failed') ? ' hot' : ''}` }, share(sum('failed'), sum('requests')))),
      h('td', { 'data-label': 'In flight' }, h('span', { class: 'num' }, `${count(Math.max(...cells.map(({ target }) => target.in_flight)))}`, cells[0]?.target.concurrency ? ` of ${count(cells[0].target.concurrency)}` : null)),
      h('td', { class: 'cells', 'data-label': 'Models' }, h('ol', null, cells.map(({ model, target }) => cell(target, model, '', live, now, account + model, false)))),
    );
  });
}

/** Buttons for the rows before and after. @param {string} name @param {number} from @param {number} shown @param {number} more */
export function pager(name, from, shown, more) {
  if (!from && !more) return null;
  const step = (/** @type {number} */ to) => () => go({ [name]: to > 0 ? String(to) : '' });
  return h('p', { class: 'pager' }, from ? h('button', { type: 'button', onclick: step(from - shown) }, 'Before') : null, more ? h('button', { type: 'button', onclick: step(from + shown) }, `Next (${more} more)`) : null);
}
