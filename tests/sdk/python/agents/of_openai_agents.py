"""OpenAI's Agents SDK."""

import asyncio

from agents import Agent, ModelSettings, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from agents.items import MessageOutputItem, ReasoningItem
from common import API_KEY, QUESTIONS, main
from openai import AsyncOpenAI
from openai.types.shared import Reasoning


async def ask(base_url, stream, seen):
    set_default_openai_client(AsyncOpenAI(base_url=f"{base_url}/v1", api_key=API_KEY), use_for_tracing=False)

    @function_tool
    def weather(city: str) -> str:
        """Tells the weather in a city."""
        return seen.weather(city=city)

    settings = ModelSettings(reasoning=Reasoning(effort="low", summary="auto"))
    agent = Agent(name="weather", model="gpt-5", tools=[weather], model_settings=settings)
    items = []
    for question in QUESTIONS:
        items.append({"role": "user", "content": question})
        result = Runner.run_streamed(agent, items) if stream else await Runner.run(agent, items)
        if stream:
            async for _ in result.stream_events():
                pass
        for answer in result.raw_responses:
            seen.used(answer.usage.input_tokens, answer.usage.output_tokens)
        for item in result.new_items:
            if isinstance(item, ReasoningItem):
                seen.thoughts += [part.text for part in item.raw_item.summary]
            if isinstance(item, MessageOutputItem):
                seen.texts += [part.text for part in item.raw_item.content]
        items = result.to_input_list()


set_tracing_disabled(True)
main(lambda base_url, stream, seen, _: asyncio.run(ask(base_url, stream, seen)))
