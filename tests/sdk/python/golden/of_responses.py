"""OpenAI's own package, on what callers of Responses get, and on what is said to OpenAI's Responses."""

import json

import httpx2
import openresponses_types
from openai import Omit, OpenAI
from openai._models import construct_type, validate_type
from openai._streaming import SSEDecoder
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming, ResponseCreateParamsStreaming

from told import Told
from typed import Wrong, check

# The types of Open Responses' events. What it does not know, such as calls with free text, only OpenAI's package judges.
EVENTS = {
    next(iter(kind.model_fields["type"].annotation)).value: kind
    for name, kind in vars(openresponses_types).items()
    if name.endswith("StreamingEvent")
}
KNOWN = {"message", "function_call", "reasoning"}

FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def answer(text):
    if text.startswith(b"!"):
        return None
    return told(Response.model_validate(json.loads(text), strict=True))


def stream(data):
    """A stream; or the beginning of one, and a line that says how it failed."""
    if data.rstrip(b"\n").rpartition(b"\n")[2].startswith(b"!"):
        return None
    state, last = ResponseStreamState(input_tools=Omit(), text_format=Omit()), None
    for event in SSEDecoder().iter_bytes(iter([data])):
        value = event.json()
        if event.event != value["type"]:
            raise Wrong(f"event {event.event} holds {value['type']}")
        validate_type(type_=ResponseStreamEvent, value=value)
        pieces = state._ResponseStreamState__current_snapshot
        last = construct_type(type_=ResponseStreamEvent, value=value)
        state.handle_event(last)
    if last.type not in ("response.completed", "response.incomplete"):
        raise Wrong(f"it ends with {last.type}")
    # Of the pieces the package gathers texts and arguments.
    gathered, repeated = list(said(pieces)), list(said(last.response))
    if gathered != repeated:
        raise Wrong(f"the pieces tell\n  {gathered}\nand the end\n  {repeated}")
    return told(last.response)


def composed_answer(kind, data):
    """Finds fault, by the types of Open Responses, with an answer that the gateway composed."""
    if kind == "answer":
        return composed_response(json.loads(data))
    for event in SSEDecoder().iter_bytes(iter([data])):
        value = event.json()
        if "response" in value:
            composed_response(value["response"])
        elif value["type"] in EVENTS and value.get("item", {}).get("type", "message") in KNOWN:
            EVENTS[value["type"]].model_validate(value)


def composed_response(response):
    tools = all(tool["type"] == "function" for tool in response["tools"])
    if tools and all(item["type"] in KNOWN for item in response["output"]):
        openresponses_types.ResponseResource.model_validate(response)


def said(response):
    for item in response.output:
        parts = item.content if item.type == "message" else []
        texts = [part.text for part in parts if part.type == "output_text"]
        yield item.id, item.type, texts, item.arguments if item.type == "function_call" else None


def told(response):
    told = Told(prompt=response.usage.input_tokens, completion=response.usage.output_tokens)
    for item in response.output:
        if item.type == "message":
            told.text += "".join(part.text for part in item.content if part.type == "output_text")
        elif item.type == "reasoning":
            told.reasoning += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            told.call(item.name, item.arguments)
        elif item.type != "image_generation_call":
            raise Wrong(f"an item {item.type}")
    told.finish = FINISH[response.incomplete_details.reason] if response.status == "incomplete" else "stop"
    if told.finish == "stop" and told.calls:
        told.finish = "tool_calls"
    return told


def composed(body):
    """Finds fault with a member of a request that the package could not have sent."""
    check(body, ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming)


def request(path, body, fail):
    """Where bodies pass as their callers wrote them, only the way is the package's to judge."""
    sent = []

    def answer(request):
        sent.append(request.url.raw_path.decode())
        return httpx2.Response(200, json={})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = OpenAI(api_key="k", base_url="http://x/v1", http_client=http, max_retries=0)
    client.responses.with_raw_response.create(model=body["model"], input=body["input"])
    if sent != [path]:
        fail(f"the package would send to {sent}")


GOOD_PATH = "/v1/responses"
GOOD = {"model": "m", "input": "hi"}
BAD = [("/responses", GOOD), ("/v1/chat/completions", GOOD)]
