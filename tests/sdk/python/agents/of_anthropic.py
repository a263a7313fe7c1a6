"""Anthropic's client for Python."""

import anthropic
from common import API_KEY, DESCRIPTION, QUESTIONS, SCHEMA, main

TOOL = {"name": "weather", "description": DESCRIPTION, "input_schema": SCHEMA}


def talk(base_url, stream, seen, _):
    client = anthropic.Anthropic(base_url=base_url, api_key=API_KEY)
    messages = []

    def ask():
        thinking = {"type": "enabled", "budget_tokens": 2000}
        asked = dict(model="claude-sonnet-4-5", max_tokens=4000, messages=messages, tools=[TOOL], thinking=thinking)
        if not stream:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as events:
            return events.get_final_message()

    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        while True:
            answer = ask()
            seen.used(answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0), answer.usage.output_tokens)
            seen.thoughts += [block.thinking for block in answer.content if block.type == "thinking"]
            seen.texts += [block.text for block in answer.content if block.type == "text"]
            messages.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if answer.stop_reason != "tool_use":
                break
            results = [{"type": "tool_result", "tool_use_id": c.id, "content": seen.weather(**c.input)} for c in calls]
            messages.append({"role": "user", "content": results})


main(talk)
