"""Anthropic's own package, on what is said to Anthropic and what it says."""

import itertools

import anthropic
import httpx
from anthropic._models import construct_type, validate_type
from anthropic._streaming import SSEDecoder
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming

from told import Told
from typed import Wrong, check

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}
ANSWER["usage"] = {"input_tokens": 1, "output_tokens": 1}


def request(path, body, fail):
    check(body, MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming)
    sent = []

    def answer(request):
        sent.append((request.url.raw_path.decode(), httpx.Response(200, content=request.content).json()))
        return httpx.Response(200, json=ANSWER)

    http = httpx.Client(transport=httpx.MockTransport(answer))
    client = anthropic.Anthropic(api_key="k", base_url="http://x", http_client=http, max_retries=0)
    client.messages.create(**body, timeout=600)
    if sent != [(path, body)]:
        fail(f"the package would send {sent}")
    for rule in rules(body):
        fail(rule)


def rules(body):
    """What the types cannot say."""
    messages = body["messages"]
    blocks = [[{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"] for m in messages]
    if not messages or messages[0]["role"] != "user":
        yield "the first message is not the user's"
    for before, after in itertools.pairwise(messages):
        if before["role"] == after["role"]:
            yield f"two messages of {after['role']} in a row"
    system = body.get("system", [])
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    if any(block["type"] == "text" and not block["text"].strip() for block in itertools.chain(system, *blocks)):
        yield "a text is blank"
    if [] in blocks:
        yield "a message is empty"
    asked = []
    for said in [*blocks, []]:
        results = [block["tool_use_id"] for block in said if block["type"] == "tool_result"]
        if sorted(results) != sorted(asked):
            yield f"calls {asked} are answered by {results}"
        if any(block["type"] == "tool_result" for block in said[len(results) :]):
            yield "a result does not stand in front"
        asked = [block["id"] for block in said if block["type"] == "tool_use"]
        if said is blocks[-1] and asked:
            break
    if body["messages"][-1]["role"] == "assistant" and blocks[-1][-1].get("text", "x")[-1:].isspace():
        yield "the last words end with a space"
    if any(block["type"] == "tool_use" for said in blocks for block in said) and not body.get("tools"):
        yield "there were calls, but there are no tools"
    choice = body.get("tool_choice")
    if choice and not body.get("tools"):
        yield "tool_choice without tools"
    thinks = body.get("thinking", {}).get("type", "disabled") != "disabled"
    if thinks and (choice or {}).get("type") in ("any", "tool"):
        yield "thinking with a forced tool"
    if thinks and ("temperature" in body or "top_k" in body):
        yield "thinking with temperature or top_k"
    if thinks and body["thinking"].get("budget_tokens", 0) >= body["max_tokens"]:
        yield "the budget is not less than max_tokens"
    if "budget_tokens" in body.get("thinking", {}) and body["thinking"]["budget_tokens"] < 1024:
        yield "the budget is under 1024"
    if not 0 <= body.get("temperature", 0) <= 1:
        yield "the temperature is out of range"
    if "temperature" in body and "top_p" in body:
        yield "temperature and top_p together"
    if str(body).count("'cache_control'") > 4:
        yield "more than four cache breakpoints"


def answer(text):
    if text.startswith(b"!"):
        return None
    return told(Message.model_validate_json(text, strict=True))


def stream(data):
    """A stream; or the beginning of one, and a line that says how it failed."""
    if data.rstrip(b"\n").rpartition(b"\n")[2].startswith(b"!"):
        return None
    message = None
    for event in SSEDecoder().iter_bytes(iter([data])):
        value = event.json()
        if event.event != value["type"]:
            raise Wrong(f"event {event.event} holds {value['type']}")
        if value["type"] == "error":
            return None
        if value["type"] == "ping":
            continue
        validate_type(type_=RawMessageStreamEvent, value=value)
        message = accumulate_event(event=construct_type(type_=RawMessageStreamEvent, value=value), current_snapshot=message)
    return told(message)


def told(message):
    told = Told(finish=FINISH.get(message.stop_reason, "stop"))
    for block in message.content:
        if block.type == "text":
            told.text += block.text
        elif block.type == "thinking":
            told.reasoning += block.thinking
        elif block.type == "tool_use":
            told.call(block.name, block.input)
    usage = message.usage
    told.prompt = usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    told.completion = usage.output_tokens
    return told


GOOD = {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "1"}
TEXT = {"type": "text", "text": "and"}
BAD = [
    ("/v1/messages/", GOOD),
    ("/v1/messages", {**GOOD, "n": 2}),
    ("/v1/messages", {key: value for key, value in GOOD.items() if key != "max_tokens"}),
    ("/v1/messages", {**GOOD, "max_tokens": "4096"}),
    ("/v1/messages", {**GOOD, "tools": [{"name": "f"}]}),
    ("/v1/messages", {**GOOD, "tools": [TOOL], "tool_choice": {"type": "required"}}),
    ("/v1/messages", {**GOOD, "tool_choice": {"type": "auto"}}),
    ("/v1/messages", {**GOOD, "temperature": 2}),
    ("/v1/messages", {**GOOD, "system": [{"type": "text", "text": "", "ttl": "5m"}]}),
    ("/v1/messages", {**GOOD, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
    ("/v1/messages", {**GOOD, "messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}),
    ("/v1/messages", {**GOOD, "messages": GOOD["messages"] * 2}),
    ("/v1/messages", {**GOOD, "tools": [TOOL], "messages": [*GOOD["messages"], CALL, *GOOD["messages"]]}),
    ("/v1/messages", {**GOOD, "tools": [TOOL], "messages": [*GOOD["messages"], CALL, {"role": "user", "content": [TEXT, RESULT]}]}),
    ("/v1/messages", {**GOOD, "tools": [TOOL], "messages": [{"role": "user", "content": [RESULT]}]}),
    ("/v1/messages", {**GOOD, "messages": [*GOOD["messages"], CALL, {"role": "user", "content": [RESULT]}]}),
    ("/v1/messages", {**GOOD, "thinking": {"type": "enabled", "budget_tokens": 4096}}),
    ("/v1/messages", {**GOOD, "thinking": {"type": "enabled", "budget_tokens": 2048}, "temperature": 1}),
    ("/v1/messages", {**GOOD, "output_config": {"effort": "minimal"}}),
]
GOOD_PATH = "/v1/messages"
