// Anthropic's client for Node.

import { apiKey, description, load, main, questions, schema } from './common.mjs';

const { default: Anthropic } = await load('@anthropic-ai/sdk');

await main(async (baseURL, stream, seen) => {
  const client = new Anthropic({ baseURL, apiKey });
  const messages = [];
  const ask = () => {
    const asked = {
      model: 'claude-sonnet-4-5', max_tokens: 4000, messages, tools: [{ name: 'weather', description, input_schema: schema }],
      thinking: { type: 'enabled', budget_tokens: 2000 },
    };
    return stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked);
  };
  for (const question of questions) {
    messages.push({ role: 'user', content: question });
    for (let answer; answer?.stop_reason !== 'end_turn';) {
      answer = await ask();
      const { content, usage } = answer;
      seen.used(usage.input_tokens + (usage.cache_read_input_tokens ?? 0), usage.output_tokens);
      seen.thoughts.push(...content.filter((block) => block.type === 'thinking').map((block) => block.thinking));
      seen.texts.push(...content.filter((block) => block.type === 'text').map((block) => block.text));
      messages.push({ role: 'assistant', content });
      const calls = content.filter((block) => block.type === 'tool_use');
      const result = ({ id, input }) => ({ type: 'tool_result', tool_use_id: id, content: seen.weather(input) });
      if (calls.length) messages.push({ role: 'user', content: calls.map(result) });
    }
  }
});
