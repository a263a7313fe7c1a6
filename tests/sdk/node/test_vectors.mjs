// Clients that ask for vectors, as they do by default. BASE_URL is a gateway, MODELS are its models, API_KEY is a key, SDK says
// where the clients are installed. Each prints the vectors of the same texts. tests/integration/sdk_vectors.rs scripts the
// upstreams, and knows the vectors.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { API_KEY: apiKey, BASE_URL: baseUrl, MODELS, SDK } = process.env;
const installed = createRequire(pathToFileURL(`${SDK}/`));
const load = (name) => import(pathToFileURL(installed.resolve(name)));
const { OpenAI } = await load('openai');
const { GoogleGenAI } = await load('@google/genai');
const { embedMany } = await load('ai');
const { createOpenAI } = await load('@ai-sdk/openai');

const texts = ['a river', 'trees, bees and eels'];
const baseURL = `${baseUrl}/v1`;

const clients = {
  // It asks for base64, and decodes it.
  async of_openai(model) {
    const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
    const answer = await client.embeddings.create({ model, input: texts });
    return answer.data.map((one) => one.embedding);
  },

  async of_genai(model) {
    const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl } });
    const answer = await client.models.embedContent({ model, contents: texts });
    return answer.embeddings.map((one) => one.values);
  },

  async of_vercel(model) {
    const { embeddings } = await embedMany({ model: createOpenAI({ baseURL, apiKey }).embedding(model), values: texts });
    return embeddings;
  },
};

for (const model of MODELS.split(' ')) {
  for (const [client, ask] of Object.entries(clients)) {
    console.log(JSON.stringify({ client, model, vectors: await ask(model) }));
  }
}
