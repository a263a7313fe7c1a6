// @ts-check
/** Numbers, times and money as people read them. A value that is not known is never shown as 0. */

export const UNKNOWN = '–';

/** @param {number | null | undefined} value */
export function count(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 10 && !Number.isInteger(value)) return value < 0.05 && value > 0 ? '<0.1' : value.toFixed(1);
  if (value < 10_000) return Math.round(value).toLocaleString('en-US');
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e9, 'G'], [1e6, 'M'], [1e3, 'k']])) {
    if (value >= size) return `${(value / size).toFixed(value < 10 * size ? 2 : value < 100 * size ? 1 : 0)}${unit}`;
  }
  return UNKNOWN;
}

/** @param {number | null | undefined} value */
export function ms(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)} s`;
  return span(value);
}

/** A time in its largest unit. @param {number} value milliseconds */
export function span(value) {
  const seconds = Math.max(0, Math.round(value / 1000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 100 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** @param {number | null | undefined} part @param {number | null | undefined} whole */
export function share(part, whole) {
  if (!whole || part === null || part === undefined) return UNKNOWN;
  return percent(part / whole);
}

/** @param {number | null | undefined} ratio */
export function percent(ratio) {
  if (ratio === null || ratio === undefined) return UNKNOWN;
  const value = ratio * 100;
  if (value === 0 || value === 100) return `${value} %`;
  if (value < 0.1) return '<0.1 %';
  return `${value < 10 ? value.toFixed(1) : value < 99.5 || value > 100 ? Math.round(value) : value.toFixed(1)} %`;
}

/** @param {string | number | null | undefined} value dollars @param {string} [known] how much of the sum is known */
export function usd(value, known = 'all') {
  if (known === 'none' || value === null || value === undefined) return 'unknown';
  const dollars = Number(value);
  const text = dollars === 0 ? '0' : dollars < 0.01 ? dollars.toPrecision(2) : dollars.toFixed(dollars < 1000 ? 2 : 0);
  return `${known === 'part' ? '≥ ' : ''}$${Number(text) < 1e-4 && Number(text) > 0 ? Number(text).toFixed(8).replace(/0+$/, '') : text}`;
}

/** @param {string | null | undefined} time RFC 3339 @param {number} now milliseconds */
export function ago(time, now) {
  if (!time) return UNKNOWN;
  return `${span(now - Date.parse(time))} ago`;
}

/** @param {string | null | undefined} time @param {number} now */
export function until(time, now) {
  if (!time) return UNKNOWN;
  const left = Date.parse(time) - now;
  return left < 0 ? 'now' : `in ${span(left)}`;
}

/** The time of day in UTC, as the access log writes it. @param {string} time */
export const clock = (time) => time.slice(11, 19);

/** A word of the program as people read it. @param {string} word */
export const plain = (word) => word.replaceAll('_', ' ');

/** A number of things. @param {number} number @param {string} thing */
export const some = (number, thing) => `${count(number)} ${thing}${number === 1 ? '' : 's'}`;
