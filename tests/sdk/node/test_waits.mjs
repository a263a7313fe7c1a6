// How long the official OpenAI client for Node keeps its caller waiting: new OpenAI() as it is, once for each of MODELS, side by side.
// One line of JSON for each: the model, the status that was seen in the end, and the seconds until then.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { OpenAI } = createRequire(pathToFileURL(`${process.env.SDK}/`))('openai');
const client = new OpenAI();
const messages = [{ role: 'user', content: 'hello' }];

async function ask(model) {
  const began = performance.now();
  let status = 200;
  try {
    await client.chat.completions.create({ model, messages });
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    status = error.status;
  }
  console.log(JSON.stringify({ model, status, seconds: (performance.now() - began) / 1000 }));
}

await Promise.all(process.env.MODELS.split(' ').map(ask));
