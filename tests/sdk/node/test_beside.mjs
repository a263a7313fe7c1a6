// The official OpenAI client for Node, and its client for Azure, at the endpoints beside chat. BASE_URL is a gateway, API_KEY is a
// key, SDK says where the client is installed. tests/integration/sdk_other_endpoints.rs scripts the upstreams of the models `openai` and
// `azure`.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { API_KEY: apiKey, BASE_URL: baseUrl, SDK } = process.env;
const installed = createRequire(pathToFileURL(`${SDK}/`));
const { AzureOpenAI, OpenAI, toFile } = installed('openai');
const { version } = installed(`${SDK}/node_modules/openai/package.json`);

const settings = { apiKey, maxRetries: 0, timeout: 20_000 };
const azure = { ...settings, endpoint: baseUrl, apiVersion: '2024-10-21' };
const sound = await toFile(Buffer.alloc(400_000, 'RIFF'), 'a.wav');
const picture = await toFile(Buffer.from('PNG'), 'a.png', { type: 'image/png' });

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

async function refused(status, code, promise) {
  const error = await promise.then(() => assert.fail(`no ${code}`), (error) => error);
  assert.deepEqual([error.status, error.code, typeof error.requestID], [status, code, 'string'], String(error));
}

const tests = {
  async completions(client, model) {
    const answer = await client.completions.create({ model, prompt: ['one', 'two'], suffix: 'three', echo: true, max_tokens: 9 });
    assert.deepEqual([answer.model, answer.object, answer.usage.total_tokens], [model, 'text_completion', 5]);
    assert.deepEqual(answer.choices.map((c) => [c.index, c.text, c.finish_reason]), [[0, 'one', 'stop'], [1, 'two', 'length']]);
    const chunks = await all(await client.completions.create({ model, prompt: 'one', stream: true }));
    assert.deepEqual(chunks.map((c) => c.choices[0].text), [' a', ' b']);
    assert.ok(chunks.every((c) => c.model === model && !c.usage));
    const stream = await client.completions.create({ model, prompt: 'x', stream: true, stream_options: { include_usage: true } });
    assert.equal((await all(stream)).at(-1).usage.total_tokens, 4);
  },

  async embeddings(client, model) {
    // It asks for base64, and decodes it.
    const answer = await client.embeddings.create({ model, input: 'one' });
    assert.deepEqual([answer.model, answer.data[0].embedding], [model, [0.5, -0.25]]);
  },

  async images(client, model) {
    const made = await client.images.generate({ model, prompt: 'a cat', n: 2, size: '1024x1024' });
    assert.deepEqual(made.data.map((one) => one.b64_json), ['AAAA', 'BBBB']);
    const changed = await client.images.edit({ model, image: [picture, picture], mask: picture, prompt: 'a hat' });
    assert.equal(changed.data[0].b64_json, 'CCCC');
    const events = await all(await client.images.generate({ model, prompt: 'a cat', stream: true, partial_images: 1 }));
    assert.deepEqual(events.map((e) => e.type), ['image_generation.partial_image', 'image_generation.completed']);
  },

  async sound(client, model) {
    const spoken = await client.audio.speech.create({ model, voice: 'alloy', input: 'hello' });
    assert.equal(Buffer.from(await spoken.arrayBuffer()).toString(), 'ID3sound');
    assert.equal(spoken.headers.get('content-type'), 'audio/mpeg');
    const hear = (more) => client.audio.transcriptions.create({ model, file: sound, ...more });
    assert.equal((await hear({ language: 'en' })).text, '100000 times');
    assert.equal((await hear({ response_format: 'text' })).trim(), '100000 times');
    const events = await all(await hear({ stream: true }));
    assert.deepEqual(events.map((e) => e.type), ['transcript.text.delta', 'transcript.text.done']);
    assert.equal((await client.audio.translations.create({ model, file: sound })).text, '100000 times');
  },

  async moderations(client, model) {
    const asked = client.moderations.create({ model, input: ['one', 'two'] });
    // Azure has none, and nobody is asked.
    if (model === 'azure') return refused(400, 'unsupported_endpoint', asked);
    const answer = await asked;
    assert.deepEqual([answer.model, ...answer.results.map((one) => one.flagged)], [model, true, false]);
  },
};

for (const model of ['openai', 'azure']) {
  const usual = new OpenAI({ ...settings, baseURL: `${baseUrl}/v1` });
  const several = new AzureOpenAI(azure);
  for (const client of [usual, several]) {
    for (const test of Object.values(tests)) await test(client, model);
    await refused(404, 'model_not_found', client.audio.transcriptions.create({ model: 'none', file: sound }));
  }
  const one = new AzureOpenAI({ ...azure, deployment: model });
  for (const name of ['completions', 'embeddings', 'images', 'sound']) await tests[name](one, model);
  await refused(400, 'invalid_value', one.audio.transcriptions.create({ model: 'none', file: sound }));
  console.log(`openai-node ${version}: ${model} ok`);
}
