// Drives the operator's page in Chromium. `tests/integration/page.rs` starts a gateway, runs one scenario of this file beside
// it, and acts when the scenario prints a line: what is to happen, or what was seen.
import { createRequire } from 'node:module';
import { scenarios } from './scenarios.mjs';

const require = createRequire(`${process.env.MODULES}/`);
const { chromium } = require('playwright-core');
const { AxeBuilder } = require('@axe-core/playwright');

const [, , name] = process.argv;
const scenario = scenarios[name];
if (!scenario) throw new Error(`no scenario ${name}`);
// Another site may ask this machine here, so that it is the gateway that refuses, and not the browser.
const local = '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests';
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--host-resolver-rules=MAP *.example 127.0.0.1', local] });
/** Errors on the console and violations of the content security policy. There must be none. */
const faults = [];
/** What a scenario expects of the console, such as refused connections. */
const expected = [];

/** Opens the page in a window of its own. */
async function open({ fragment = '', url = process.env.PAGE, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce', ...options });
  await context.addInitScript(() => addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
  const page = await context.newPage();
  page.setDefaultTimeout(90_000);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => faults.push(error.stack ?? String(error)));
  page.on('dialog', (dialog) => faults.push(`a dialog: ${dialog.message()}`));
  const answer = await page.goto(url + fragment);
  return Object.assign(page, { first: answer });
}

/** Says what was seen, or what is to happen now. */
const say = (line) => console.log(line);

/** Fails if a condition does not hold. */
function check(holds, what) {
  if (!holds) throw new Error(what);
}

/** Checks that the page has no fault that axe finds. */
async function accessible(page, what) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const told = violations.map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.slice(0, 4).map(({ html, failureSummary }) => `  ${html.slice(0, 200)}\n  ${failureSummary}`).join('\n')}`);
  check(!told.length, `${what}:\n${told.join('\n')}`);
}

try {
  await scenario({ open, say, check, accessible, expect: (text) => expected.push(text) });
  const left = faults.filter((fault) => !expected.some((text) => fault.includes(text)));
  check(!left.length, `the console has:\n${left.join('\n')}`);
  say('done');
} catch (why) {
  const page = browser.contexts().at(-1)?.pages().at(-1);
  if (page && process.env.SHOT) await page.screenshot({ path: process.env.SHOT, fullPage: true }).catch(() => {});
  console.error(why, faults);
  process.exitCode = 1;
} finally {
  // What the scenario has held up may be under way.
  await Promise.all(browser.contexts().flatMap((context) => context.pages()).map((page) => page.unrouteAll({ behavior: 'ignoreErrors' })));
  await browser.close();
}
