// @ts-check
/** Talks to the admin listener that served this page, and to nobody else. */

/** The longest wait for an answer of `/live`, in milliseconds. */
const PATIENCE = 4000;
/** What a page of another site cannot send. */
export const OURS = { 'x-portcullis-admin': '1' };

/** An answer that is not 2xx, in the words of the gateway; or, with the status 0, why nothing was asked. */
export class Refused extends Error {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(text.trim() || `the gateway answered ${status}`);
    this.status = status;
  }
}

/** @param {Record<string, string | number | null | undefined>} query */
export function queryOf(query) {
  const some = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return new URLSearchParams(some.map(([name, value]) => [name, String(value)])).toString();
}

/** Asks for JSON. @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, query = {}, signal) {
  const text = queryOf(query);
  const late = AbortSignal.timeout(path === '/live' ? PATIENCE : 15_000);
  const answer = await fetch(text ? `${path}?${text}` : path, { signal: signal ? AbortSignal.any([late, signal]) : late });
  return read(answer);
}

/** Sends something. @param {string} path @param {any} [body] @returns {Promise<any>} */
export async function post(path, body) {
  /** @type {Record<string, string>} */
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  return read(await fetch(path, { method: 'POST', headers: { ...OURS, ...json }, body: body === undefined ? undefined : JSON.stringify(body) }));
}

/** @param {Response} answer */
async function read(answer) {
  if (!answer.ok) throw new Refused(answer.status, await answer.text());
  return answer.headers.get('content-type')?.startsWith('application/json') ? answer.json() : answer.text();
}

/** An error in words. @param {unknown} why */
export function sayError(why) {
  if (why instanceof Refused) return why.status ? `${why.message} (${why.status})` : why.message;
  if (why instanceof DOMException && why.name === 'TimeoutError') return 'the gateway did not answer in time';
  return why instanceof TypeError ? 'the gateway cannot be reached' : String(why);
}
