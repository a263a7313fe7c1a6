// @ts-check
/** Asks `/live` once a second while the page can be seen, and shows what it says. */
import { byId, field, show } from './dom.js';
import { get, sayError } from './api.js';
import { at, go, onChange } from './place.js';
import * as verdict from './verdict.js';
import * as models from './models.js';
import * as callers from './callers.js';
import * as requests from './requests.js';
import * as ask from './ask.js';
import * as configuration from './configuration.js';

const EVERY = 1000;
/** After this time without an answer, what is shown is no longer true. */
const STALE = 5000;
/** The longest pause between two tries, so that the page comes back soon. */
const LONGEST = 5000;

/** @type {any} the last good answer */
let live = null;
let answered = 0;
/** When the page was shown again. What is older than that is not late: nobody asked. */
let shown = 0;
let failures = 0;
let why = '';
let paused = false;
/** What was asked for last; after a change everything is asked for anew. */
let asked = '';
/** @type {number | undefined} */
let timer;
/** @type {AbortController | null} */
let asking = null;

/** The questions to `/live` that follow from the fragment. */
const question = () => ({
  models: at('models'),
  callers: at('callers'),
  models_from: at('models_from'),
  callers_from: at('callers_from'),
  find: at('find'),
  failures: at('failures'),
});

async function poll() {
  clearTimeout(timer);
  asking?.abort();
  if (paused || document.hidden) return;
  const mine = new AbortController();
  asking = mine;
  try {
    const query = question();
    const same = asked === JSON.stringify(query);
    const answer = await get('/live', { ...query, after: same ? requests.newest() : '' }, mine.signal);
    if (asking !== mine) return;
    // A gateway that was started anew counts its lines anew.
    const other = live && (answer.seq < live.seq || answer.uptime_seconds < live.uptime_seconds || answer.instance !== live.instance);
    const anew = !same || other;
    asked = anew && same ? '' : JSON.stringify(query);
    requests.take(answer, anew);
    [live, answered, failures] = [answer, Date.now(), 0];
    render();
  } catch (error) {
    if (asking !== mine) return;
    failures += 1;
    why = sayError(error);
    renderVerdict();
  }
  asking = null;
  if (!paused && !document.hidden) timer = setTimeout(poll, Math.min(EVERY * 2 ** Math.max(0, failures - 1), LONGEST));
}

function render() {
  if (!live) return;
  renderVerdict();
  const now = Date.parse(live.time);
  verdict.render(live, now);
  models.render(live, now);
  callers.render(live, now);
  requests.render(live);
  ask.render(live);
  configuration.render(live, now);
}

function renderVerdict() {
  const age = answered ? Date.now() - answered : 0;
  const stale = !paused && (answered ? Date.now() - Math.max(answered, shown) > STALE : failures > 1);
  document.body.classList.toggle('stale', stale);
  document.body.classList.toggle('paused', paused);
  verdict.bar(live, { stale, paused, age, why });
}

/** The age of the last answer grows also when no answer comes. */
setInterval(() => {
  if (!document.hidden) renderVerdict();
}, 1000);

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) {
    shown = Date.now();
    return void poll();
  }
  clearTimeout(timer);
  asking?.abort();
  asking = null;
});

function pause() {
  paused = !paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  byId('pause').textContent = paused ? 'Go on' : 'Pause';
  if (paused) {
    clearTimeout(timer);
    asking?.abort();
    asking = null;
  } else {
    answered = live ? Date.now() : 0;
  }
  renderVerdict();
  void poll();
}

/** The fields whose values are in the fragment: the field, its name there, and what begins anew when it changes.
 * @type {[string, string, string][]} */
const FILTERS = [['models-filter', 'models', 'models_from'], ['callers-filter', 'callers', 'callers_from'], ['requests-filter', 'find', '']];

function fromFragment() {
  for (const [id, name] of FILTERS) if (document.activeElement !== byId(id)) field(id).value = at(name);
  byId('failures').setAttribute('aria-pressed', String(at('failures') === '1'));
  byId('turn').setAttribute('aria-pressed', String(at('by') === 'accounts'));
  ask.fromFragment();
  if (live && asked !== JSON.stringify(question())) void poll();
  render();
}

for (const [id, name, from] of FILTERS) {
  /** @type {number | undefined} */
  let wait;
  field(id).oninput = () => {
    clearTimeout(wait);
    wait = setTimeout(() => go({ [name]: field(id).value.trim(), ...(from ? { [from]: '' } : {}) }, false), 200);
  };
}
const toggle = (/** @type {string} */ name, /** @type {string} */ value) => go({ [name]: at(name) === value ? '' : value });
byId('failures').onclick = () => toggle('failures', '1');
byId('turn').onclick = () => toggle('by', 'accounts');
byId('pause').onclick = pause;
const help = /** @type {HTMLDialogElement} */ (byId('help'));
byId('help-open').onclick = () => help.showModal();

/** Links to regions move there without a change of the fragment, which holds what is looked at. */
document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
  const region = link && document.getElementById(link.getAttribute('href')?.slice(1) ?? '');
  if (!region) return;
  event.preventDefault();
  region.scrollIntoView();
  region.focus({ preventScroll: true });
});

document.addEventListener('keydown', (event) => {
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (target.matches('input, textarea, select')) {
    if (event.key === 'Escape' && target instanceof HTMLElement) target.blur();
    return;
  }
  if (event.key === '/') {
    const near = target.closest('section')?.querySelector('input[type=search]') ?? byId('requests-filter');
    if (near instanceof HTMLInputElement) near.select(), near.focus();
  } else if (event.key === 'p') pause();
  else if (event.key === 'f') byId('failures').click();
  else if (event.key === '?') help.showModal();
  else if (event.key === 'Escape') return go({ open: '', caller: '', model: '' });
  else return;
  event.preventDefault();
});

/** The header's height differs with its texts, and regions that are jumped to must not hide below it. */
new ResizeObserver(([bar]) => {
  document.documentElement.style.setProperty('scroll-padding-top', `${Math.ceil(bar?.borderBoxSize[0]?.blockSize ?? 60) + 8}px`);
}).observe(byId('bar'));

onChange(fromFragment);
callers.start();
requests.start(render);
ask.start();
fromFragment();
show('problems-body', 'Nothing is known yet.');
void poll();
