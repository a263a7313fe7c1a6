// The official OpenAI client for Node through outages; BASE_URL and API_KEY say which gateway, SDK where the client is installed,
// CASES is a file with what must be seen. The cases are those of tests/integration/sdk_outages.rs: a model, the way to ask for it, and
// an answer, a status or an error event.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const installed = createRequire(pathToFileURL(`${process.env.SDK}/`));
const { OpenAI } = installed('openai');
const { version } = JSON.parse(readFileSync(`${process.env.SDK}/node_modules/openai/package.json`));

const options = { baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, timeout: 20_000 };
const retrying = new OpenAI(options);
const client = new OpenAI({ ...options, maxRetries: 0 });
const messages = [{ role: 'user', content: 'hello' }];
const classes = { 400: OpenAI.BadRequestError, 422: OpenAI.UnprocessableEntityError, 429: OpenAI.RateLimitError };
const classOf = (status) => (status >= 500 ? OpenAI.InternalServerError : classes[status] ?? OpenAI.APIError);

// The answer's text; what came of a stream is in `got` also when it throws.
async function ask({ model, way, retries }, got) {
  const { completions } = (retries ? retrying : client).chat;
  if (way === 'buffered') {
    const { choices: [choice] } = await completions.create({ model, messages });
    assert.equal(choice.finish_reason, 'stop');
    return choice.message.content;
  }
  if (way === 'helper') {
    const stream = completions.stream({ model, messages });
    stream.on('content', (delta) => got.push(delta));
    const { choices: [choice] } = await stream.finalChatCompletion();
    assert.equal(choice.finish_reason, 'stop');
    assert.equal(choice.message.content, got.join(''));
    return choice.message.content;
  }
  let finish;
  for await (const { choices: [choice] } of await completions.create({ model, messages, stream: true })) {
    got.push(choice.delta.content ?? '');
    finish = choice.finish_reason ?? finish;
  }
  assert.equal(finish, 'stop', 'the stream ended without an error and without a finish');
  return got.join('');
}

async function check(testCase) {
  const { sees } = testCase;
  const got = [];
  let content;
  try {
    content = await ask(testCase, got);
  } catch (error) {
    if (!(error instanceof OpenAI.OpenAIError)) throw error;
    return isExpected(error, sees, got.join(''));
  }
  assert.equal(sees.kind, 'answer', `it looks like an answer: ${content}`);
  assert.equal(content, sees.content);
}

function isExpected(error, sees, got) {
  const shown = `${error.constructor.name}: ${error}`;
  assert.notEqual(sees.kind, 'answer', shown);
  assert.equal(error.code ?? null, sees.code, shown);
  assert.ok(error.error.message && error.error.type, shown);
  if (sees.kind === 'event') {
    assert.equal(error.constructor, OpenAI.APIError, shown);
    assert.equal(got, sees.content, shown);
    return;
  }
  assert.equal(got, '', shown);
  assert.equal(error.constructor, classOf(sees.status), shown);
  assert.equal(error.status, sees.status, shown);
  assert.ok(error.requestID, 'no request id');
  if (sees.status === 429 || sees.status === 503) {
    // When to come back; or that nothing changes by itself.
    const seconds = error.headers.get('retry-after');
    const inVain = error.headers.get('x-should-retry') === 'false';
    assert.ok(seconds ? Number(seconds) >= 1 && Number(seconds) <= 60 : inVain, `retry-after ${seconds}`);
  }
}

const cases = JSON.parse(readFileSync(process.env.CASES));
const failures = [];
const waiting = [...cases];
async function work() {
  for (let next; (next = waiting.shift()) !== undefined; ) {
    await check(next).catch((error) => failures.push(`${next.model}: ${error.name}: ${error.message}`));
  }
}
await Promise.all(Array.from({ length: 8 }, work));
for (const why of failures) console.error(why);
assert.equal(failures.length, 0, `${failures.length} of ${cases.length} failed`);
console.log(`openai-node ${version}: ${cases.length} outages ok`);
