"""Cohere's own package, on what is said to Cohere and what it says."""

import json
import logging

import cohere
import httpx
from cohere.core.unchecked_base_model import construct_type
from cohere.v2.raw_client import RawV2Client
from cohere.v2.types.v2chat_response import V2ChatResponse
from cohere.v2.types.v2chat_stream_response import V2ChatStreamResponse

from told import Told
from typed import arguments, check

logging.getLogger("cohere").setLevel(logging.ERROR)
FINISH = {"COMPLETE": "stop", "STOP_SEQUENCE": "stop", "TOOL_CALL": "tool_calls", "MAX_TOKENS": "length"}
ANSWER = {"id": "1", "finish_reason": "COMPLETE", "message": {"role": "assistant"}}


def request(path, body, fail):
    body = dict(body)
    streams = body.pop("stream", False)
    arguments(body, RawV2Client.chat_stream if streams else RawV2Client.chat)
    sent = []

    def answer(request):
        sent.append((request.url.raw_path.decode(), json.loads(request.content)))
        if streams:
            return httpx.Response(200, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, json=ANSWER)

    client = cohere.ClientV2("k", base_url="http://x", httpx_client=httpx.Client(transport=httpx.MockTransport(answer)))
    if streams:
        list(client.chat_stream(**body))
    else:
        client.chat(**body)
    # It says `stream` even if it is false.
    if sent != [(path, {**body, "stream": streams})]:
        fail(f"the package would send {sent}")
    for rule in rules(body):
        fail(rule)


def rules(body):
    """What the types cannot say."""
    for name, least, most in [("p", 0.01, 0.99), ("k", 0, 500), ("frequency_penalty", 0, 1), ("presence_penalty", 0, 1)]:
        if name in body and not least <= body[name] <= most:
            yield f"{name} is out of range"
    if len(body.get("stop_sequences", [])) > 5:
        yield "more than five stop sequences"
    if body.get("tool_choice", "NONE") not in ("NONE", "REQUIRED") or "tool_choice" in body and not body.get("tools"):
        yield "a choice that there is not"
    if body.get("response_format", {}).get("type") == "json_object" and body.get("tools"):
        yield "a format and tools"
    asked = set()
    for message in body["messages"]:
        asked |= {call["id"] for call in message.get("tool_calls", [])}
        if message["role"] == "tool" and message["tool_call_id"] not in asked:
            yield f"nobody asked for {message['tool_call_id']}"
        if any(not isinstance(json.loads(call["function"]["arguments"]), dict) for call in message.get("tool_calls", [])):
            yield "arguments are no object"


def answer(text):
    value = json.loads(text)
    check(value, V2ChatResponse)
    answer = construct_type(type_=V2ChatResponse, object_=value)
    told = Told(finish=FINISH.get(answer.finish_reason))
    for part in answer.message.content or []:
        told.text += getattr(part, "text", None) or ""
        told.reasoning += getattr(part, "thinking", None) or ""
    for call in answer.message.tool_calls or []:
        told.call(call.function.name, called(call.function.arguments))
    told.reasoning += answer.message.tool_plan or ""
    return counted(told, answer.usage)


def stream(data):
    """Reads with the package's client."""
    for line in data.decode().splitlines():
        # Of a start, the service says more than the package knows.
        if line.startswith("data: {") and json.loads(line[6:])["type"] != "message-start":
            check(json.loads(line[6:]), V2ChatStreamResponse)
    answer = httpx.Response(200, content=data, headers={"content-type": "text/event-stream"})
    client = cohere.ClientV2("k", base_url="http://x", httpx_client=httpx.Client(transport=httpx.MockTransport(lambda _: answer)))
    told, calls = Told(), {}
    for event in client.chat_stream(model="m", messages=[{"role": "user", "content": "hi"}]):
        message = getattr(getattr(event, "delta", None), "message", None)
        if event.type == "content-delta":
            told.text += message.content.text or ""
            told.reasoning += message.content.thinking or ""
        elif event.type == "tool-plan-delta":
            told.reasoning += message.tool_plan
        elif event.type == "tool-call-start":
            call = message.tool_calls.function
            calls[event.index] = [call.name, call.arguments or ""]
        elif event.type == "tool-call-delta":
            calls[event.index][1] += message.tool_calls.function.arguments
        elif event.type == "message-end":
            if event.delta.error or event.delta.finish_reason not in FINISH:
                return None
            told.finish = FINISH[event.delta.finish_reason]
            counted(told, event.delta.usage)
    for name, text in calls.values():
        told.call(name, called(text))
    return told


def called(text):
    """A tool without parameters is called with `null`."""
    return "{}" if text == "null" else text


def counted(told, usage):
    if usage and usage.tokens:
        told.prompt, told.completion = round(usage.tokens.input_tokens or 0), round(usage.tokens.output_tokens or 0)
    return told


GOOD_PATH = "/v2/chat"
GOOD = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
BAD = [
    ("/v1/chat", GOOD),
    (GOOD_PATH, {**GOOD, "top_p": 0.5}),
    (GOOD_PATH, {**GOOD, "p": 1}),
    (GOOD_PATH, {**GOOD, "k": 0.5}),
    (GOOD_PATH, {**GOOD, "frequency_penalty": -0.5}),
    (GOOD_PATH, {**GOOD, "tool_choice": "auto", "tools": [TOOL]}),
    (GOOD_PATH, {**GOOD, "tool_choice": "REQUIRED"}),
    (GOOD_PATH, {**GOOD, "tools": [{"type": "function", "function": {"name": "f"}}]}),
    (GOOD_PATH, {**GOOD, "response_format": {"type": "json_schema", "json_schema": {}}}),
    (GOOD_PATH, {**GOOD, "thinking": {"type": "maybe"}}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "developer", "content": "hi"}]}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "user", "content": "hi", "name": "n"}]}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "tool", "content": "hi", "tool_call_id": "c"}]}),
]
