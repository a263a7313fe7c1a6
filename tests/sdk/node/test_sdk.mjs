// The official OpenAI client for Node against a gateway; BASE_URL and API_KEY say which, SDK where it is installed.
// The models are those of tests/integration/sdk.rs, where each one's upstream is scripted.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const installed = createRequire(pathToFileURL(`${process.env.SDK}/`));
const { AzureOpenAI, OpenAI } = installed('openai');
const { version } = JSON.parse(readFileSync(`${process.env.SDK}/node_modules/openai/package.json`));

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 10_000 });
const messages = [{ role: 'user', content: 'hello' }];
const tools = [{
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}];
const create = (model, more = {}, options = {}) => client.chat.completions.create({ model, messages, ...more }, options);

async function all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function raises(kind, status, promise) {
  const error = await promise.then(() => assert.fail(`no ${kind.name}`), (error) => error);
  assert.equal(error.constructor, kind, String(error));
  assert.equal(error.status, status);
  assert.ok(error.requestID, 'no request id');
  assert.ok(error.error.message);
  return error;
}

const tests = {
  async lists_models() {
    const ids = (await all(client.models.list())).map((model) => model.id);
    assert.deepEqual(ids, [...ids].sort());
    for (const id of ['chat', 'org/chat', 'alias']) assert.ok(ids.includes(id), ids.join());
  },

  async retrieves_a_model() {
    assert.equal((await client.models.retrieve('chat')).id, 'chat');
    assert.equal((await client.models.retrieve('org/chat')).id, 'org/chat');
    const error = await raises(OpenAI.NotFoundError, 404, client.models.retrieve('none'));
    assert.equal(error.code, 'model_not_found');
  },

  async chats() {
    for (const model of ['chat', 'org/chat', 'alias']) {
      const answer = await create(model, { temperature: 0.5, max_tokens: 20 });
      assert.equal(answer.model, model);
      assert.equal(answer.object, 'chat.completion');
      const [choice] = answer.choices;
      assert.deepEqual([choice.index, choice.finish_reason, choice.message.role], [0, 'stop', 'assistant']);
      assert.equal(choice.message.content, 'Hello from the mock.');
      assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
      assert.ok(answer._request_id);
    }
  },

  async is_azures_client_too() {
    // The client writes the model into the path, and sends the key as `api-key`.
    const options = {
      endpoint: process.env.BASE_URL.replace(/\/v1$/, ''), apiKey: process.env.API_KEY, apiVersion: '2024-10-21',
      maxRetries: 0, timeout: 10_000,
    };
    const azure = new AzureOpenAI(options);
    for (const model of ['chat', 'org/chat', 'alias']) {
      const answer = await azure.chat.completions.create({ model, messages });
      assert.deepEqual([answer.model, answer.choices[0].message.content], [model, 'Hello from the mock.']);
    }
    const chunks = await all(await azure.chat.completions.create({ model: 'chat', messages, stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].delta.content ?? '').join(''), 'w0 w1 w2 ');
    const one = new AzureOpenAI({ ...options, deployment: 'chat' });
    assert.equal((await one.chat.completions.create({ model: 'chat', messages })).model, 'chat');
    const error = await raises(OpenAI.BadRequestError, 400, one.chat.completions.create({ model: 'alias', messages }));
    assert.deepEqual([error.param, error.code], ['model', 'invalid_value']);
  },

  async streams() {
    const chunks = await all(await create('chat', { stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].delta.content ?? '').join(''), 'w0 w1 w2 ');
    assert.equal(chunks.filter((c) => c.choices[0].delta.role).length, 1);
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'stop');
    assert.ok(chunks.every((c) => c.model === 'chat' && c.id === chunks[0].id && !('usage' in c)));
  },

  async counts_in_a_stream() {
    const chunks = await all(await create('chat', { stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.total_tokens, 12);
    assert.equal(chunks.slice(0, -1).map((c) => c.choices[0].delta.content ?? '').join(''), 'w0 w1 w2 ');
  },

  async calls_tools() {
    const { choices: [choice] } = await create('tools', { tools });
    assert.equal(choice.finish_reason, 'tool_calls');
    const [call] = choice.message.tool_calls;
    assert.deepEqual([call.id, call.function.name, call.function.arguments], ['call_1', 'weather', '{"city":"Rome"}']);
  },

  async calls_tools_in_a_stream() {
    const answer = await client.chat.completions.stream({ model: 'tools', messages, tools }).finalChatCompletion();
    const { message } = answer.choices[0];
    const [call] = message.tool_calls;
    assert.equal(message.role, 'assistant');
    assert.deepEqual([call.id, call.function.name, call.function.arguments], ['call_1', 'weather', '{"city":"Rome"}']);
  },

  async helper_gathers_text() {
    assert.equal(await client.chat.completions.stream({ model: 'chat', messages }).finalContent(), 'w0 w1 w2 ');
  },

  async raises_the_right_class() {
    await raises(OpenAI.BadRequestError, 400, create('bad'));
    await raises(OpenAI.BadRequestError, 400, create('chat', { messages: 'no list' }));
    const wrong = client.withOptions({ apiKey: 'sk-wrong' });
    const error = await raises(OpenAI.AuthenticationError, 401, wrong.chat.completions.create({ model: 'chat', messages }));
    assert.equal(error.code, 'invalid_api_key');
    assert.equal((await raises(OpenAI.NotFoundError, 404, create('none'))).code, 'model_not_found');
    const limited = await raises(OpenAI.RateLimitError, 429, create('limited'));
    assert.ok(Number(limited.headers.get('retry-after')) >= 1);
    await raises(OpenAI.InternalServerError, 502, create('broken'));
    await raises(OpenAI.InternalServerError, 502, create('broken', { stream: true }));
  },

  async meets_limits() {
    const tight = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.TIGHT_KEY, maxRetries: 0, timeout: 10_000 });
    const ask = (more = {}, options = {}, client = tight) =>
      client.chat.completions.create({ model: 'chat', messages, ...more }, options);
    // What never fits is not tried again, whatever the client's retries.
    let start = Date.now();
    const large = await raises(OpenAI.RateLimitError, 429, ask({ max_tokens: 100_000 }, { maxRetries: 5 }));
    assert.equal(large.code, 'rate_limit_exceeded');
    assert.equal(large.headers.get('x-should-retry'), 'false');
    const poor = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.POOR_KEY, maxRetries: 5, timeout: 10_000 });
    assert.equal((await raises(OpenAI.RateLimitError, 429, ask({}, {}, poor))).code, 'insufficient_quota');
    assert.ok(Date.now() - start < 2_000);
    // One at a time; the wait that is told is kept, and then there is room.
    const stream = await ask({ model: 'endless', stream: true });
    await stream[Symbol.asyncIterator]().next();
    assert.equal((await raises(OpenAI.RateLimitError, 429, ask())).headers.get('retry-after'), '1');
    setTimeout(() => stream.controller.abort(), 300);
    start = Date.now();
    assert.equal((await ask({}, { maxRetries: 3 })).choices[0].finish_reason, 'stop');
    assert.ok(Date.now() - start > 800 && Date.now() - start < 5_000, `${Date.now() - start}`);
  },

  async times_out() {
    // The timer covers the time until the head; a stream's head may be sent before its first event.
    const error = await create('silent', {}, { timeout: 500 }).then(() => assert.fail('no timeout'), (error) => error);
    assert.equal(error.constructor, OpenAI.APIConnectionTimeoutError, String(error));
  },

  async sees_a_stream_that_was_cut() {
    const got = [];
    const read = async () => {
      for await (const chunk of await create('cut', { stream: true })) got.push(chunk.choices[0].delta.content ?? '');
    };
    const error = await read().then(() => assert.fail('a cut stream looked whole'), (error) => error);
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(got.join(''), 'w0 w1 ');
  },

  async cancels() {
    const stream = await create('endless', { stream: true });
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
    stream.controller.abort();
    const deadline = Date.now() + 5_000;
    while ((await create('was-it-left')).choices[0].message.content !== 'yes') {
      assert.ok(Date.now() < deadline, 'the upstream was not closed');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  },
};

for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log(`openai-node ${version}: ${name} ok`);
}
