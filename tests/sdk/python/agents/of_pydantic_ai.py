"""Pydantic AI. Its models of OpenAI ask for Responses."""

import os

from common import API_KEY, QUESTIONS, main
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.run import AgentRunResultEvent

NAMES = {"openai": "openai:gpt-5", "anthropic": "anthropic:claude-sonnet-4-5", "google": "google:gemini-2.5-flash"}
SETTINGS = {
    "openai": {"openai_reasoning_effort": "low", "openai_reasoning_summary": "auto"},
    "anthropic": {"anthropic_thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000},
    "google": {"google_thinking_config": {"include_thoughts": True, "thinking_budget": 2000}},
}


def talk(base_url, stream, seen, kind):
    os.environ |= {
        "OPENAI_BASE_URL": f"{base_url}/v1", "OPENAI_API_KEY": API_KEY,
        "ANTHROPIC_BASE_URL": base_url, "ANTHROPIC_API_KEY": API_KEY,
        "GOOGLE_GEMINI_BASE_URL": base_url, "GOOGLE_API_KEY": API_KEY,
    }
    agent = Agent(NAMES[kind], model_settings=SETTINGS[kind])

    @agent.tool_plain
    def weather(city: str) -> str:
        """Tells the weather in a city."""
        return seen.weather(city=city)

    history = []
    for question in QUESTIONS:
        result = agent.run_stream_sync(question, message_history=history) if stream else agent.run_sync(question, message_history=history)
        if stream:
            list(result.stream_text(delta=True))
        history = result.all_messages()
    for answer in history:
        if isinstance(answer, ModelResponse):
            seen.used(answer.usage.input_tokens, answer.usage.output_tokens)
            seen.thoughts += [part.content for part in answer.parts if isinstance(part, ThinkingPart) and part.content]
            seen.texts += [part.content for part in answer.parts if isinstance(part, TextPart) and part.content]


main(talk, *NAMES)
