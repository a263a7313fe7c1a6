"""OpenAI's client for Python, with its Responses."""

import json

import openai
from common import API_KEY, DESCRIPTION, QUESTIONS, SCHEMA, main

TOOL = {"type": "function", "name": "weather", "description": DESCRIPTION, "parameters": SCHEMA, "strict": True}


def talk(base_url, stream, seen, _):
    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=API_KEY)
    items = []

    def ask():
        asked = dict(model="gpt-5", input=items, tools=[TOOL], reasoning={"effort": "low", "summary": "auto"})
        if not stream:
            return client.responses.create(**asked)
        with client.responses.stream(**asked) as events:
            return events.get_final_response()

    for question in QUESTIONS:
        items.append({"role": "user", "content": question})
        calls = True
        while calls:
            answer = ask()
            assert answer.status == "completed", answer
            seen.used(answer.usage.input_tokens, answer.usage.output_tokens)
            seen.thoughts += [part.text for item in answer.output if item.type == "reasoning" for part in item.summary]
            seen.texts += [answer.output_text] if answer.output_text else []
            items += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            for call in calls:
                output = seen.weather(**json.loads(call.arguments))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


main(talk)
