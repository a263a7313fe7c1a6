"""LiteLLM, as a library."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
from common import API_KEY, DESCRIPTION, QUESTIONS, SCHEMA, main  # noqa: E402

TOOL = {"type": "function", "function": {"name": "weather", "description": DESCRIPTION, "parameters": SCHEMA}}
MODELS = {
    "chat": lambda base_url: dict(model="openai/gpt-5", api_base=f"{base_url}/v1"),
    "messages": lambda base_url: dict(model="anthropic/claude-sonnet-4-5", api_base=base_url),
    "gemini": lambda base_url: dict(model="gemini/gemini-2.5-flash", api_base=f"{base_url}/v1beta"),
}


def talk(base_url, stream, seen, kind):
    messages = []

    def ask():
        asked = dict(messages=messages, tools=[TOOL], reasoning_effort="low", api_key=API_KEY, **MODELS[kind](base_url))
        if not stream:
            return litellm.completion(**asked)
        chunks = list(litellm.completion(**asked, stream=True, stream_options={"include_usage": True}))
        return litellm.stream_chunk_builder(chunks, messages=messages)

    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        calls = True
        while calls:
            answer = ask()
            message = answer.choices[0].message
            seen.used(answer.usage.prompt_tokens, answer.usage.completion_tokens)
            seen.thoughts += [message.reasoning_content] if getattr(message, "reasoning_content", None) else []
            seen.texts += [message.content] if message.content else []
            messages.append(message.model_dump(exclude_none=True))
            calls = message.tool_calls
            for call in calls or []:
                content = seen.weather(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


main(talk, *MODELS)
