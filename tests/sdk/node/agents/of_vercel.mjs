// Vercel's AI SDK. Its models of OpenAI ask for Responses.

import { apiKey, description, load, main, questions, schema } from './common.mjs';

const { generateText, jsonSchema, stepCountIs, streamText, tool } = await load('ai');
const { createOpenAI } = await load('@ai-sdk/openai');
const { createAnthropic } = await load('@ai-sdk/anthropic');
const { createGoogleGenerativeAI } = await load('@ai-sdk/google');

const openai = (baseUrl) => createOpenAI({ baseURL: `${baseUrl}/v1`, apiKey })('gpt-5');
const kinds = {
  openai,
  openai_thinks: openai,
  anthropic: (baseUrl) => createAnthropic({ baseURL: `${baseUrl}/v1`, apiKey })('claude-sonnet-4-5'),
  google: (baseUrl) => createGoogleGenerativeAI({ baseURL: `${baseUrl}/v1beta`, apiKey })('gemini-2.5-flash'),
};
const providerOptions = {
  // Without `store`, it would send only the ids of thoughts.
  openai: { reasoningEffort: 'low', reasoningSummary: 'auto', store: false },
  anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } },
  google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 2000 } },
};

await main(async (baseUrl, stream, seen, kind) => {
  const weather = tool({ description, inputSchema: jsonSchema(schema), execute: (given) => seen.weather(given) });
  const messages = [];
  for (const question of questions) {
    messages.push({ role: 'user', content: question });
    const asked = { model: kinds[kind](baseUrl), messages, tools: { weather }, stopWhen: stepCountIs(5) };
    if (kind !== 'openai') asked.providerOptions = providerOptions;
    let result;
    if (stream) {
      result = streamText({ ...asked, onError: ({ error }) => { throw error; } });
      await result.consumeStream();
    } else {
      result = await generateText(asked);
    }
    for (const { reasoningText, text, usage } of await result.steps) {
      if (reasoningText) seen.thoughts.push(reasoningText);
      if (text) seen.texts.push(text);
      seen.used(usage.inputTokens, usage.outputTokens);
    }
    messages.push(...(await result.responseMessages));
  }
}, ...Object.keys(kinds));
