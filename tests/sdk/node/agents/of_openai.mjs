// OpenAI's client for Node, with its Responses.

import { apiKey, description, load, main, questions, schema } from './common.mjs';

const { default: OpenAI } = await load('openai');

await main(async (baseUrl, stream, seen) => {
  const client = new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey });
  const input = [];
  const ask = () => {
    const tools = [{ type: 'function', name: 'weather', description, parameters: schema, strict: true }];
    const asked = { model: 'gpt-5', input, tools, reasoning: { effort: 'low', summary: 'auto' } };
    return stream ? client.responses.stream(asked).finalResponse() : client.responses.create(asked);
  };
  for (const question of questions) {
    input.push({ role: 'user', content: question });
    for (let calls; calls?.length !== 0;) {
      const { output, output_text: text, usage } = await ask();
      seen.used(usage.input_tokens, usage.output_tokens);
      const reasoning = output.filter((item) => item.type === 'reasoning');
      seen.thoughts.push(...reasoning.flatMap((item) => item.summary.map((part) => part.text)));
      if (text) seen.texts.push(text);
      input.push(...output);
      calls = output.filter((item) => item.type === 'function_call');
      for (const { call_id, arguments: given } of calls) {
        input.push({ type: 'function_call_output', call_id, output: seen.weather(JSON.parse(given)) });
      }
    }
  }
});
