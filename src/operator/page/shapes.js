// @ts-check
/** Shapes and lines in SVG: each state has a shape of its own, so that its colour is never needed. */
import { h } from './dom.js';
import { count, plain } from './words.js';

/** @type {Record<string, [string, Record<string, any>][]>} */
const SHAPES = {
  disc: [['circle', { cx: 6, cy: 6, r: 4.5 }]],
  square: [['rect', { x: 1.5, y: 1.5, width: 9, height: 9 }]],
  half: [['circle', { cx: 6, cy: 6, r: 4, class: 'hollow' }], ['path', { d: 'M6 2a4 4 0 0 1 0 8z' }]],
  up: [['polygon', { points: '6,1 11.3,10.5 .7,10.5' }]],
  diamond: [['polygon', { points: '6,.5 11.5,6 6,11.5 .5,6' }]],
  ring: [['circle', { cx: 6, cy: 6, r: 4, class: 'hollow' }]],
  bars: [['rect', { x: 1, y: 1.5, width: 10, height: 3.5 }], ['rect', { x: 1, y: 7, width: 10, height: 3.5 }]],
};

/** For each state of a target and of an account: its shape and its tone.
 * @type {Record<string, [string, string]>} */
const STATES = {
  ok: ['disc', 'good'],
  open: ['square', 'bad'],
  half_open: ['half', 'bad'],
  resting: ['up', 'bad'],
  partly: ['half', 'warn'],
  out: ['square', 'bad'],
  off: ['ring', 'idle'],
};

/** The shape, the tone and the words for a state: with the reason if the state alone does not say it.
 * @param {{state: string, reason?: string | null, probing?: boolean, full?: boolean}} of
 * @returns {[string, string, string]} */
export function standing({ state, reason, probing, full }) {
  if (full && state === 'ok') return ['bars', 'warn', 'ok, full'];
  const [shape, tone] = STATES[state] ?? ['ring', 'idle'];
  const why = reason && reason !== state && !(reason === 'breaker' && ['open', 'half_open'].includes(state)) ? ` (${plain(reason)})` : '';
  const word = `${plain(state)}${why}${probing ? ', probing' : ''}`;
  if (reason === 'credential') return ['diamond', tone, word];
  return [shape, probing || (state === 'resting' && reason === 'rate') ? 'warn' : tone, word];
}

/** @param {string} shape */
export const mark = (shape) =>
  h('svg', { class: 'mark', viewBox: '0 0 12 12', 'aria-hidden': 'true' }, (SHAPES[shape] ?? SHAPES.ring ?? []).map(([tag, props]) => h(tag, props)));

/** A word with its shape and its tone. @param {string} shape @param {string} tone @param {...any} word */
export const told = (shape, tone, ...word) => h('span', { class: `told ${tone}` }, mark(shape), h('span', null, ...word));

/** Whether an attempt or a request went well, failed, or neither. @param {string} outcome */
export function toneOf(outcome) {
  if (outcome === 'ok') return 'good';
  if (['client_left', 'slower', 'not_needed', 'shutdown', 'declined'].includes(outcome)) return 'idle';
  if (['refused', 'unauthorized', 'limited', 'no_capacity', 'unsupported', 'callers_fault', 'rate_limited'].includes(outcome)) return 'warn';
  return 'bad';
}

/** @param {string} outcome @param {...any} more */
export function outcome(outcome, ...more) {
  const tone = toneOf(outcome);
  const shape = { good: 'disc', idle: 'ring', warn: 'up', bad: 'square' }[tone];
  return told(shape ?? 'ring', tone, outcome.replaceAll('_', ' '), ...more);
}

const HIGH = 24;

/** The highest value of some series. @param {(number | null)[][]} series */
export const top = (series) => Math.max(0, ...series.flat().map((value) => value ?? 0));

/** Draws series as stacked bars, one bar a step. The last step still fills, so it is paler.
 * @param {string} label @param {{tone: string, values: number[]}[]} stack @param {number} [highest] */
export function bars(label, stack, highest) {
  const steps = stack[0]?.values.length ?? 0;
  const sums = Array.from({ length: steps }, (_, at) => stack.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
  const most = Math.max(highest ?? 0, ...sums, 1e-12);
  const below = new Array(steps).fill(0);
  const drawn = stack.map(({ tone, values }) => {
    let path = '';
    values.forEach((value, at) => {
      if (!value) return;
      const from = HIGH - (below[at] / most) * HIGH;
      const height = Math.max((value / most) * HIGH, 0.8);
      below[at] += value;
      path += `M${at + 0.08} ${from.toFixed(2)}h.84v${(-height).toFixed(2)}h-.84z`;
    });
    return h('path', { class: `fill ${tone}`, d: path });
  });
  return frame(label, steps, sums, drawn);
}

/** Draws series as lines. Where a value is not known, the line has a gap.
 * @param {string} label @param {{tone: string, values: (number | null)[]}[]} series */
export function lines(label, series) {
  const steps = series[0]?.values.length ?? 0;
  const most = Math.max(top(series.map(({ values }) => values)), 1e-12);
  const drawn = series.map(({ tone, values }) => {
    let path = '';
    let pen = false;
    values.forEach((value, at) => {
      if (value !== null) path += `${pen ? 'L' : 'M'}${at + 0.5} ${(HIGH - 1 - (value / most) * (HIGH - 2)).toFixed(2)}${pen ? '' : 'h.01'}`;
      pen = value !== null;
    });
    return h('path', { class: `line ${tone}`, d: path });
  });
  return frame(label, steps, series.flatMap(({ values }) => values.filter((value) => value !== null)), drawn);
}

/** @param {string} label @param {number} steps @param {(number | null)[]} values @param {any[]} drawn */
function frame(label, steps, values, drawn) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== null));
  const says = known.length ? `${label}, over 5 minutes: from ${count(Math.min(...known))} to ${count(Math.max(...known))}` : `${label}: nothing yet`;
  return h('svg', { class: 'spark', viewBox: `0 0 ${steps || 1} ${HIGH}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': says }, drawn);
}

/** Draws how much of something is used. @param {number} ratio @param {string} label @param {string} [calm] the tone, if much is no warning */
export function gauge(ratio, label, calm) {
  const tone = calm ?? (ratio >= 1 ? 'bad' : ratio >= 0.9 ? 'warn' : 'calm');
  const width = `${Math.min(100, Math.max(0, ratio * 100)).toFixed(1)}%`;
  return h('svg', { class: 'gauge', role: 'img', 'aria-label': label }, h('rect', { class: 'ground', width: '100%', height: '100%' }), h('rect', { class: `fill ${tone}`, width, height: '100%' }));
}
