// @ts-check
/** Explain asks what the gateway would do with a request. Try sends one, with a secret that stays in this page's memory. */
import { h, byId, field, patch, prose, show, wide } from './dom.js';
import { get, OURS, post, sayError, Refused } from './api.js';
import { at, go } from './place.js';
import { detail, trail } from './requests.js';
import { quoted } from './configuration.js';
import { told } from './shapes.js';
import { count, ms, plain, usd } from './words.js';

/** @type {any} */
let last = null;
/** @type {AbortController | null} */
let running = null;
/** How many results were begun. Of several at once, the one that was begun last is shown. */
let begun = 0;
const isTry = () => at('ask') === 'try';

/** @param {any} live */
export function render(live) {
  last = live;
  const can = live.can ?? {};
  const allowed = isTry() ? can.try : can.explain;
  /** @type {HTMLButtonElement} */ (byId('ask-send')).disabled = allowed === false;
  show(
    'ask-says',
    allowed === false
      ? 'not allowed: the admin listener is open to others and has no key (`admin.key` in server.yaml)'
      : isTry() ? 'sends one request under the key whose secret you type; its limits apply, and it costs what it costs' : 'sends nothing, and reserves nothing',
  );
  const keys = new Set(requestsOf(live).map((line) => line.key).filter(Boolean));
  patch(byId('ask-keys'), [...keys].sort().map((key) => h('option', { key, value: key })));
  patch(byId('ask-models'), (live.models?.rows ?? []).filter((/** @type {any} */ model) => !model.pattern).map((/** @type {any} */ { id }) => h('option', { key: id, value: id })));
}

/** Keys that were seen, for the list below the field. @type {any[]} */
const seen = [];

/** @param {any} live @returns {any[]} */
function requestsOf(live) {
  for (const line of live.requests?.rows ?? []) if (!seen.some(({ key }) => key === line.key)) seen.push({ key: line.key });
  return seen.slice(0, 200);
}

export function fromFragment() {
  const trying = isTry();
  byId('ask-explain').setAttribute('aria-pressed', String(!trying));
  byId('ask-try').setAttribute('aria-pressed', String(trying));
  byId('ask-form').classList.toggle('trying', trying);
  byId('ask-send').textContent = trying ? 'Try' : 'Explain';
  byId('ask-curl').hidden = !trying;
  for (const [id, name] of [['ask-key', 'key'], ['ask-model', 'about'], ['ask-session', 'session']]) {
    if (id && name && at(name) && document.activeElement !== byId(id)) field(id).value = at(name);
  }
  if (last) render(last);
}

/** The body that the form describes, or words if it is not JSON. */
function body() {
  const text = field('ask-text').value.trim();
  const model = field('ask-model').value.trim();
  if (!text.startsWith('{')) return { model, messages: [{ role: 'user', content: text }] };
  const whole = JSON.parse(text);
  return model ? { ...whole, model } : whole;
}

/** The headers that the form describes. @returns {Record<string, string>} */
function headers() {
  const some = [['x-portcullis-session', field('ask-session').value.trim()], ['x-portcullis-timeout', field('ask-timeout').value.trim()]];
  return Object.fromEntries(some.filter(([, value]) => value));
}

/** @param {Show} put */
async function explain(put) {
  const [text, model, door] = [field('ask-text').value.trim(), field('ask-model').value.trim(), field('ask-door').value];
  const named = { key: field('ask-key').value.trim(), door, path_model: door === 'gemini' ? model : null, headers: headers() };
  put(h('p', { class: 'faint' }, 'Asking…'));
  const report = await post('/explain', text.startsWith('{') ? { ...named, body: body() } : { ...named, text, model });
  put(reportOf(report));
}

/** @param {any} report */
function reportOf(report) {
  const { verdict, facts = [], candidates = [] } = report;
  return h(
    'div', { class: 'report' },
    h('p', { class: 'verdict' }, told(verdict.tried ? 'disc' : 'square', verdict.tried ? 'good' : 'bad', prose(verdict.says))),
    h('table', null, h('caption', null, 'Facts'), h('tbody', null, facts.map((/** @type {any} */ fact) => h('tr', { class: fact.fault ? 'fault' : null }, h('th', { scope: 'row' }, fact.about), h('td', null, fact.fault ? told('square', 'bad', prose(fact.says)) : prose(fact.says)))))),
    candidates.length
      ? wide('Candidates', h('table', null, h('caption', null, 'Candidates, in the order in which they are tried'),
          h('thead', null, h('tr', null, ['Attempt', 'Model', 'Account', 'State', 'Why', 'It does now', 'Price of a million tokens'].map((name) => h('th', { scope: 'col' }, name)))),
          h('tbody', null, candidates.map((/** @type {any} */ one) => h('tr', null, h('td', null, one.attempt ?? ''), h('th', { scope: 'row' }, one.model), h('td', null, one.account ?? '', one.upstream_model ? h('span', { class: 'faint' }, ` ${one.upstream_model}`) : null), h('td', null, plain(one.state), one.first_for !== null && one.first_for !== undefined ? ` (first for ${Math.round(one.first_for * 100)} %)` : null), h('td', null, prose(one.why)), h('td', null, one.does ?? ''), h('td', null, one.price ? one.price.costs.map((/** @type {string[]} */ [name, value]) => `${plain(name ?? '')} ${value}`).join(', ') : 'unknown'))))))
      : null,
    candidates.filter((/** @type {any} */ one) => one.request).map((/** @type {any} */ one) => h('details', null, h('summary', null, `The request to ${one.account}`), h('pre', { tabindex: 0 }, [`${one.request.method} ${one.request.url ?? '(a demo answers itself)'}`, ...one.request.headers.map((/** @type {string[]} */ [name, value]) => `${name}: ${value}`), '', one.request.body].join('\n')), one.request.dropped?.length ? h('p', null, `Left out: ${one.request.dropped.join(', ')}`) : null)),
  );
}

/** @param {Show} put */
async function tryIt(put) {
  const secret = field('ask-secret').value.trim();
  const asked = { max_tokens: Number(field('ask-tokens').value) || undefined, ...body(), stream: true, stream_options: { include_usage: true } };
  const mine = (running = new AbortController());
  const began = performance.now();
  /** @type {{text: string, thought: string, first: number | null, usage: any, error: string, head: [string, string][], status: number, line: any, ended: number | null}} */
  const state = { text: '', thought: '', first: null, usage: null, error: '', head: [], status: 0, line: null, ended: null };
  const draw = () => put(tried(state, performance.now() - began));
  byId('ask-stop').hidden = false;
  draw();
  try {
    // The browser refuses some of these characters without a word, and no key has any of them.
    const wrong = /[^!-~]/u.exec(secret);
    if (wrong) throw new Refused(0, `the secret is not a key: character ${wrong.index + 1} is a space, a line break, or a character that no header can hold; copy it again`);
    const answer = await fetch('/try', { method: 'POST', signal: mine.signal, headers: { ...OURS, ...headers(), 'content-type': 'application/json', 'x-portcullis-key': secret }, body: JSON.stringify(asked) });
    state.status = answer.status;
    state.head = [...answer.headers].filter(([name]) => name.startsWith('x-') && !name.startsWith('x-content-type') || name === 'server-timing' || name === 'retry-after');
    if (!answer.ok) throw new Refused(answer.status, messageOf(await answer.text()));
    for await (const event of events(answer)) {
      const delta = event.choices?.[0]?.delta ?? {};
      const calls = (delta.tool_calls ?? []).map((/** @type {any} */ call) => call.function?.arguments ?? '').join('');
      const text = (delta.content ?? '') + calls;
      const thought = delta.reasoning_content ?? delta.reasoning ?? '';
      if ((text || thought) && state.first === null) state.first = performance.now() - began;
      state.text += text;
      state.thought += typeof thought === 'string' ? thought : '';
      state.usage = event.usage ?? state.usage;
      if (event.error) state.error = event.error.message ?? 'the answer ends with an error';
      draw();
    }
  } catch (why) {
    state.error = mine.signal.aborted ? 'stopped' : sayError(why);
  }
  state.ended = performance.now() - began;
  byId('ask-stop').hidden = true;
  running = null;
  draw();
  const id = state.head.find(([name]) => name === 'x-request-id')?.[1];
  // The access line comes a moment after the answer.
  for (let turn = 0; id && turn < 50 && !state.line; turn += 1) {
    await new Promise((done) => setTimeout(done, 200));
    state.line = await get('/live/request', { id }).catch(() => null);
  }
  draw();
}

/** The message of an error in any form. @param {string} text */
function messageOf(text) {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text.slice(0, 500);
  }
}

/** Reads the events of a stream. @param {Response} answer @returns {AsyncGenerator<any>} */
async function* events(answer) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    const lines = (rest + part.value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const data = line.startsWith('data:') ? line.slice(5).trim() : '';
      if (data && data !== '[DONE]') yield JSON.parse(data);
    }
  }
}

/** @param {any} state @param {number} now */
function tried({ text, thought, first, usage, error, head, status, line, ended }, now) {
  const tokens = usage?.completion_tokens;
  const flow = first !== null && ended !== null && ended > first && tokens > 1 ? (tokens - 1) / ((ended - first) / 1000) : null;
  const facts = [
    ['first token', first === null ? (ended === null ? `${ms(now)}…` : 'none') : ms(first)],
    ['total', ended === null ? `${ms(now)}…` : ms(ended)],
    ['tokens/s', count(flow)],
    ['tokens in, out', usage ? `${count(usage.prompt_tokens)}, ${count(tokens)}` : '–'],
    ['cost', line ? usd(line.cost_usd) : '–'],
    ['status', status || '–'],
  ];
  return h(
    'div', { class: 'report' },
    h('dl', { class: 'facts' }, facts.map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value)))),
    error ? h('p', { class: 'failure' }, error) : null,
    thought ? h('pre', { class: 'faint', tabindex: 0, 'aria-label': 'thoughts' }, thought) : null,
    h('pre', { class: 'answer', tabindex: 0, 'aria-label': 'the answer' }, text || (ended === null ? '…' : '')),
    line ? h('div', null, trail(line), h('details', null, h('summary', null, 'The access line'), detail(line))) : null,
    head.length ? h('details', null, h('summary', null, 'Headers of the answer'), h('dl', { class: 'fields' }, head.map((/** @type {[string, string]} */ [name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value))))) : null,
  );
}

/** The same request for a shell. The secret and the address come from its environment. @param {Show} put */
function curl(put) {
  const extra = Object.entries(headers()).map(([name, value]) => ` \\\n  -H ${quoted(`${name}: ${value}`)}`).join('');
  const asked = { max_tokens: Number(field('ask-tokens').value) || undefined, ...body(), stream: true };
  const text = `# KEY is the secret, GATEWAY the address for callers, such as http://127.0.0.1:8080\ncurl -N "$GATEWAY/v1/chat/completions" \\\n  -H "Authorization: Bearer $KEY" \\\n  -H 'Content-Type: application/json'${extra} \\\n  -d ${quoted(JSON.stringify(asked))}`;
  put(h('pre', { tabindex: 0 }, text));
}

/** Shows a result, if none was begun after it. @typedef {(view: any) => void} Show */

/** Runs what a button asks for, and shows why it failed. @param {(put: Show) => any} call */
const safely = async (call) => {
  const mine = (begun += 1);
  const put = (/** @type {any} */ view) => {
    if (mine === begun) show('ask-body', view);
  };
  try {
    await call(put);
  } catch (why) {
    put(h('p', { class: 'failure' }, why instanceof SyntaxError ? `The body is not JSON: ${why.message}` : sayError(why)));
  }
};

export function start() {
  byId('ask-explain').onclick = () => go({ ask: '' });
  byId('ask-try').onclick = () => go({ ask: 'try' });
  byId('ask-stop').onclick = () => running?.abort();
  byId('ask-curl').onclick = () => void safely(curl);
  byId('ask-form').onsubmit = (event) => {
    event.preventDefault();
    if (!running) void safely(isTry() ? tryIt : explain);
  };
}
