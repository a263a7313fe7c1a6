// @ts-check
/** The verdict bar, the problems and the six figures. */
import { h, prose, show } from './dom.js';
import { go } from './place.js';
import { bars, lines, mark, told, top } from './shapes.js';
import { ago, count, ms, plain, share, some, span, usd } from './words.js';

/** For each word: its shape and its tone. @type {Record<string, [string, string]>} */
const WORDS = { ok: ['disc', 'good'], empty: ['ring', 'idle'], degraded: ['up', 'warn'], failing: ['square', 'bad'], draining: ['half', 'warn'] };

/** What was said aloud last. */
let announced = '';

/** @param {any} live @param {{stale: boolean, paused: boolean, age: number, why: string}} link */
export function bar(live, { stale, paused, age, why }) {
  const [shape, tone] = stale ? ['ring', 'idle'] : WORDS[live?.verdict.word] ?? ['ring', 'idle'];
  const word = stale ? 'not connected' : live?.verdict.word;
  const said = stale
    ? `${live ? 'What is shown is old. ' : ''}Reason: ${why || 'the gateway does not answer'}. The page goes on asking.`
    : live?.verdict.says ?? 'Asking the gateway…';
  show('verdict', word ? h('strong', { class: `word ${tone}` }, mark(shape), word.toUpperCase()) : null, h('span', { class: 'says' }, prose(said)));
  // How long something lasts changes all the time, and is not said aloud each time.
  const news = `${word ?? ''}: ${said}`;
  if (news.replace(/\d+ (s|min|h|d)\b/g, '') !== announced) {
    announced = news.replace(/\d+ (s|min|h|d)\b/g, '');
    show('announced', news.replaceAll('`', ''));
  }
  if (!live) {
    if (stale) document.title = 'not connected · Portcullis';
    return;
  }
  const number = live.problems.length + live.more_problems;
  document.title = `${stale ? '(not connected) ' : number ? `(${number}) ` : ''}${live.instance} · Portcullis`;
  const { generation, loaded } = live.configuration ?? {};
  show(
    'instance',
    h('span', null, live.instance),
    h('span', null, `v${live.version}`),
    h('span', null, `up ${span(live.uptime_seconds * 1000)}`),
    loaded ? h('span', null, `catalog ${generation}, ${ago(loaded, Date.parse(live.time))}`) : null,
    h('span', { class: 'fresh' }, paused ? 'paused' : stale ? `last answer ${span(age)} ago` : 'live'),
  );
}

/** @param {any} live @param {number} now */
export function render(live, now) {
  problems(live, now);
  if (live.figures) figures(live.figures);
}

/** @param {any} live @param {number} now */
function problems(live, now) {
  const { problems, more_problems: more } = live;
  const next = live.verdict.next?.map((/** @type {string} */ step) => h('li', { key: step }, prose(step)));
  const steps = next?.length ? [h('p', { class: 'calm' }, 'Next steps:'), h('ol', null, next)] : null;
  if (!problems.length && steps) return show('problems-body', steps);
  if (!problems.length) return show('problems-body', h('p', { class: 'calm' }, told('disc', 'good', 'No problems.')));
  const rows = problems.map((/** @type {any} */ problem) => {
    const critical = problem.severity === 'critical';
    return h(
      'li',
      { key: `${problem.rule} ${problem.subject.kind} ${problem.subject.name} ${problem.part ?? ''} ${problem.do}`, class: problem.severity },
      h('span', { class: 'severity' }, told(critical ? 'square' : 'up', critical ? 'bad' : 'warn', problem.severity)),
      h('span', { class: 'since' }, ago(problem.since, now).replace(' ago', '')),
      h('span', { class: 'what' }, h('b', null, prose(problem.what)), problem.requests ? ` ${some(problem.requests, 'request')} in 5 min.` : null, h('span', { class: 'do' }, ' ', prose(problem.do))),
      h('span', { class: 'links' }, subject(problem.subject), h('span', { class: 'faint' }, `rule ${problem.rule}`)),
    );
  });
  show('problems-body', steps, h('ul', { class: 'problems' }, rows), more ? h('p', { class: 'faint' }, `and ${more} more: see /status`) : null);
}

/** A button that shows what a problem is about. @param {{kind: string, name: string}} subject */
function subject({ kind, name }) {
  const [account = name] = name.replace(/ \(\w+\)$/, '').split('/');
  /** @type {Record<string, [Record<string, string>, string]>} */
  const places = {
    model: [{ models: name.replace(/ \(\w+\)$/, '') }, 'models'],
    target: [{ find: account, failures: '1' }, 'requests'],
    accounts: [{ by: 'accounts' }, 'models'],
    account: [{ find: name, failures: '1' }, 'requests'],
    caller: [{ callers: name }, 'callers'],
    key: [{ callers: account }, 'callers'],
  };
  const [values, region] = places[kind] ?? [{}, 'configuration'];
  return h('button', { type: 'button', onclick: () => { go(values); document.getElementById(region)?.scrollIntoView(); } }, `${plain(kind)} ${name}`);
}

/** @param {any} figures */
function figures({ now, series, step_seconds: step }) {
  const rate = series.requests.map((/** @type {number} */ value) => value / step);
  const failed = [
    { tone: 'caller', values: series.failed_caller },
    { tone: 'bad', values: series.failed_upstream },
    { tone: 'ours', values: series.failed_ours },
    { tone: 'left', values: series.given_up },
  ];
  const all = now.failed_caller + now.failed_upstream + now.failed_ours + now.given_up;
  const usdOfStep = series.usd.map(Number);
  const minute = (/** @type {number} */ value) => value * (60 / step);
  show(
    'figures-body',
    tile('Requests', [count(now.requests_per_second), ' /s'], `${count(now.requests)} in 5 min`, bars('requests a second', [{ tone: 'calm', values: rate }]), `top ${count(top([rate]))} /s`),
    tile(
      'Failed', [share(all, now.requests)],
      [h('span', { class: 'key caller' }, `callers ${share(now.failed_caller, now.requests)}`), h('span', { class: 'key bad' }, `upstreams ${share(now.failed_upstream, now.requests)}`), h('span', { class: 'key ours' }, `ours ${share(now.failed_ours, now.requests)}`), now.given_up ? h('span', { class: 'key left' }, `given up ${share(now.given_up, now.requests)}`) : null],
      bars('failed requests in 5 seconds', failed), `top ${count(top([failed[0]?.values.map((/** @type {number} */ _, /** @type {number} */ i) => failed.reduce((sum, { values }) => sum + values[i], 0)) ?? []]))} in ${step} s`,
    ),
    tile(
      'First token', [ms(now.first_token_ms?.p50)],
      [h('span', { class: 'key calm' }, 'p50'), h('span', { class: 'key second' }, `p99 ${ms(now.first_token_ms?.p99)}`)],
      lines('milliseconds to the first token', [{ tone: 'second', values: series.first_token_p99_ms }, { tone: 'calm', values: series.first_token_p50_ms }]),
      `top ${ms(top([series.first_token_p99_ms]))}`,
    ),
    tile('Output tokens', [count(now.output_tokens_per_second), ' /s'], null, bars('output tokens a second', [{ tone: 'calm', values: series.output_tokens.map((/** @type {number} */ value) => value / step) }]), `top ${count(top([series.output_tokens]) / step)} /s`),
    tile(
      'In flight', [count(now.in_flight)],
      [h('span', { class: 'key calm' }, 'in flight'), h('span', { class: 'key caller' }, `waiting ${count(now.waiting)}`)],
      bars('requests in flight and waiting', [{ tone: 'calm', values: series.in_flight }, { tone: 'caller', values: series.waiting }]), `top ${count(top([series.in_flight]))}`,
    ),
    tile('Cost', [usd(now.usd_per_minute, now.usd_per_minute_known), ' /min'], `today ${usd(now.usd_today, now.usd_known)}`, bars('dollars a minute', [{ tone: 'calm', values: usdOfStep.map(minute) }]), now.usd_per_minute_known === 'none' ? '' : `top ${usd(minute(top([usdOfStep])))} /min`),
  );
}

/** @param {string} name @param {any[]} value @param {any} more @param {any} drawing @param {string} highest */
function tile(name, value, more, drawing, highest) {
  return h('div', { class: 'tile' }, h('div', { class: 'name' }, h('h3', null, name), h('span', null, highest)), h('p', { class: 'value' }, h('b', null, value[0]), value[1] ?? null), h('p', { class: 'more' }, more), drawing);
}
