"""Ollama's own package, on what is said to Ollama and what it says."""

import base64
import copy
import json

import httpx
import ollama
from ollama._types import ChatRequest, ChatResponse

from told import Told
from typed import check

FINISH = {"stop": "stop", "length": "length"}


def request(path, body, fail):
    known = knows(body)
    check({key: value for key, value in known.items() if key not in ("messages", "format", "tools")}, ChatRequest)
    for index, message in enumerate(known["messages"]):
        check({key: value for key, value in message.items() if key != "images"}, ollama.Message, f"$.messages[{index}]")
        for image in message.get("images", []):
            base64.b64decode(image, validate=True)
        if message["role"] not in ("system", "user", "assistant", "tool"):
            fail(f"the role {message['role']}")
    for index, tool in enumerate(known.get("tools", [])):
        # Of a schema, the package's type has the commonest words only, so that is left to it to pass on.
        check({**tool, "function": {**tool["function"], "parameters": None}}, ollama.Tool, f"$.tools[{index}]")
    check(known.get("options", {}), ollama.Options, "$.options")
    sent = []

    def answer(request):
        sent.append((request.url.raw_path.decode(), json.loads(request.content)))
        return httpx.Response(200, json={"message": {"role": "assistant"}, "done": True})

    client = ollama.Client(host="http://x", transport=httpx.MockTransport(answer))
    answered = client.chat(**known)
    if known.get("stream"):
        list(answered)
    # It says these two even if nobody asked for them, and leaves an empty content out.
    wanted = {"stream": False, "tools": [], **known}
    wanted["messages"] = [{key: value for key, value in message.items() if value != ""} for message in wanted["messages"]]
    wanted["tools"] = [shapeless(tool) for tool in wanted["tools"]]
    sent = [(at, {**said, "tools": [shapeless(tool) for tool in said["tools"]]}) for at, said in sent]
    if sent != [(path, wanted)]:
        fail(f"the package would send {sent}")
    for rule in rules(body):
        fail(rule)


def knows(body):
    """The body without what the server knows and the package does not yet: ids of calls and their order."""
    body = copy.deepcopy(body)
    for message in body["messages"]:
        message.pop("tool_call_id", None)
        for call in message.get("tool_calls", []):
            call.pop("id", None)
            call.pop("type", None)
            call["function"].pop("index", None)
    return body


def shapeless(tool):
    return {**tool, "function": {key: value for key, value in tool["function"].items() if key != "parameters"}}


def rules(body):
    """What the types cannot say: the server streams unless it is told not to."""
    if "stream" not in body:
        yield "stream is not said"
    for message in body["messages"]:
        if message["role"] == "tool" and not message.get("tool_name") and not message.get("tool_call_id"):
            yield "a result of no tool"


def answer(text):
    value = json.loads(text)
    check(knows({"messages": [value["message"]]})["messages"][0], ollama.Message)
    return told([value])


def stream(data):
    client = ollama.Client(host="http://x", transport=httpx.MockTransport(lambda _: httpx.Response(200, content=data)))
    try:
        lines = list(client.chat(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
    except ollama.ResponseError:
        return None
    return told([line.model_dump() for line in lines])


def told(lines):
    told = Told()
    for line in lines:
        ChatResponse.model_validate(line)
        message = line["message"]
        told.text += message.get("content") or ""
        told.reasoning += message.get("thinking") or ""
        for call in message.get("tool_calls") or []:
            told.call(call["function"]["name"], dict(call["function"]["arguments"] or {}))
        if line["done"]:
            told.finish = FINISH.get(line.get("done_reason"), "stop")
            told.prompt, told.completion = line.get("prompt_eval_count") or 0, line.get("eval_count") or 0
    if told.finish == "stop" and told.calls:
        told.finish = "tool_calls"
    return told


GOOD_PATH = "/api/chat"
GOOD = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}
CALL = {"function": {"name": "f", "arguments": "{}"}}
BAD = [
    ("/api/generate", GOOD),
    (GOOD_PATH, {key: value for key, value in GOOD.items() if key != "stream"}),
    (GOOD_PATH, {**GOOD, "temperature": 1}),
    (GOOD_PATH, {**GOOD, "options": {"max_tokens": 1}}),
    (GOOD_PATH, {**GOOD, "options": {"stop": "x"}}),
    (GOOD_PATH, {**GOOD, "format": "yaml"}),
    (GOOD_PATH, {**GOOD, "think": 3}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "developer", "content": "hi"}]}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "assistant", "tool_calls": [CALL]}]}),
    (GOOD_PATH, {**GOOD, "messages": [{"role": "tool", "content": "1"}]}),
]
