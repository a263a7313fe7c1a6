// What the programs of this folder share: two questions, a tool, and what is told of both answers. BASE_URLS names gateways,
// API_KEY is a key of all of them, SDK says where the clients are installed. The answers are scripted in
// tests/integration/agents.rs. A program asks each gateway whole and as a stream, and prints one line for each conversation.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const installed = createRequire(pathToFileURL(`${process.env.SDK}/`));
export const load = (name) => import(pathToFileURL(installed.resolve(name)));
export const apiKey = process.env.API_KEY;
export const questions = ['What is the weather in Rome?', 'And in Oslo?'];
export const description = 'Tells the weather in a city.';
export const schema = {
  type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false,
};

class Seen {
  texts = [];
  thoughts = [];
  calls = [];
  usage = [];

  // The tool.
  weather(given) {
    this.calls.push(given);
    return { Rome: 'measured 18 degrees', Oslo: 'measured 7 degrees' }[given.city];
  }

  used(prompt, completion) {
    this.usage.push([prompt, completion]);
  }
}

// Calls `talk(baseUrl, stream, seen, kind)` for each gateway, whole and as a stream, and for each kind.
export async function main(talk, ...kinds) {
  for (const kind of kinds.length ? kinds : [null]) {
    for (const baseUrl of process.env.BASE_URLS.split(' ')) {
      for (const stream of [false, true]) {
        const seen = new Seen();
        await talk(baseUrl, stream, seen, kind);
        console.log(JSON.stringify({ what: `${kind}, ${baseUrl}, stream ${stream}`, ...seen }));
      }
    }
  }
}
