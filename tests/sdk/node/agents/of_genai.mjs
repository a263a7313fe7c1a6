// Google's client for Node.

import { apiKey, description, load, main, questions, schema } from './common.mjs';

const { GoogleGenAI } = await load('@google/genai');

await main(async (baseUrl, stream, seen) => {
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl } });
  const tools = [{ functionDeclarations: [{ name: 'weather', description, parametersJsonSchema: schema }] }];
  const config = { tools, thinkingConfig: { includeThoughts: true, thinkingBudget: 2000 } };
  const chat = client.chats.create({ model: 'gemini-2.5-flash', config });
  for (const question of questions) {
    for (let message = question; message;) {
      const chunks = [];
      if (stream) for await (const chunk of await chat.sendMessageStream({ message })) chunks.push(chunk);
      else chunks.push(await chat.sendMessage({ message }));
      const parts = chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []);
      const said = (thought) => parts.filter((part) => part.text && !!part.thought === thought).map((part) => part.text).join('');
      if (said(true)) seen.thoughts.push(said(true));
      if (said(false)) seen.texts.push(said(false));
      const usage = chunks.at(-1).usageMetadata;
      seen.used(usage.promptTokenCount, usage.candidatesTokenCount + (usage.thoughtsTokenCount ?? 0));
      const calls = parts.flatMap((part) => part.functionCall ?? []);
      const result = ({ id, name, args }) => ({ functionResponse: { id, name, response: { output: seen.weather(args) } } });
      message = calls.length ? calls.map(result) : null;
    }
  }
});
