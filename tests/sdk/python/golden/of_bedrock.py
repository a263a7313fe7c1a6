"""AWS's own package, on what is said to Bedrock and what it says."""

import base64
import io
import json
import re

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import EventStreamError

import of_anthropic
from told import Told
from typed import Wrong

FINISH = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}


class Raw(io.BytesIO):
    def stream(self, **_):
        yield from (self.getvalue()[at : at + 7] for at in range(0, len(self.getvalue()), 7))


class Wire:
    """A client whose requests go nowhere, and are answered with what was recorded."""

    def __init__(self):
        self.sent, self.data, self.kind = None, b"{}", "application/json"
        self.client = botocore.session.Session().create_client(
            "bedrock-runtime",
            region_name="us-east-1",
            aws_access_key_id="k",
            aws_secret_access_key="s",
            config=Config(retries={"total_max_attempts": 1}),
        )
        self.client.meta.events.register("before-send.bedrock-runtime.*", self.send)

    def send(self, request, **_):
        self.sent = (re.sub("^https://[^/]*", "", request.url), request.body)
        return AWSResponse(request.url, 200, {"content-type": self.kind}, Raw(self.data))


WIRE = Wire()
SHAPES = WIRE.client.meta.service_model
NOWHERE = {"modelId": "m", "messages": []}


def request(path, body, fail):
    model, _, way = path.removeprefix("/model/").rpartition("/")
    if way.startswith("invoke"):
        return invoke(way, body, fail)
    operation = {"converse": "Converse", "converse-stream": "ConverseStream"}[way]
    shape = SHAPES.operation_model(operation).input_shape
    arguments = python(body, shape, "$")
    WIRE.data, WIRE.kind = b'{"output":{"message":{"role":"assistant","content":[]}}}', "application/json"
    call = WIRE.client.converse if way == "converse" else WIRE.client.converse_stream
    call(modelId=re.sub("%(..)", lambda hex: chr(int(hex[1], 16)), model), **arguments)
    sent_path, sent_body = WIRE.sent
    if (sent_path, json.loads(sent_body)) != (path, body):
        fail(f"the package would send {sent_path} {sent_body}")
    for rule in rules(body):
        fail(rule)


def invoke(way, body, fail):
    """The body is Anthropic's, but for what the path says."""
    if body.pop("anthropic_version", None) != "bedrock-2023-05-31" or {"model", "stream"} & set(body):
        fail("it is not as `invoke` takes it")
    stream = {"stream": True} if way == "invoke-with-response-stream" else {}
    of_anthropic.request("/v1/messages", {"model": "m", **body, **stream}, fail)


def python(value, shape, at):
    """The package's arguments for a JSON body. Words and patterns are checked here, since the package leaves that to the server."""
    if shape.type_name == "structure" and not shape.is_document_type:
        if not isinstance(value, dict):
            raise Wrong(f"{at}: {shape.name} is an object")
        if extra := set(value) - set(shape.members):
            raise Wrong(f"{at}: {shape.name} has no {sorted(extra)}")
        return {key: python(member, shape.members[key], f"{at}.{key}") for key, member in value.items()}
    if shape.type_name == "list":
        return [python(element, shape.member, f"{at}[{index}]") for index, element in enumerate(value)]
    if shape.type_name == "map":
        return {key: python(member, shape.value, f"{at}.{key}") for key, member in value.items()}
    if shape.type_name == "blob":
        return base64.b64decode(value, validate=True)
    if shape.type_name == "string" and isinstance(value, str):
        if shape.enum and value not in shape.enum:
            raise Wrong(f"{at}: {value!r} is none of {shape.enum}")
        pattern, longest = shape.metadata.get("pattern"), shape.metadata.get("max")
        if pattern and not re.fullmatch(pattern, value) or longest and len(value) > longest:
            raise Wrong(f"{at}: {value!r} is no {shape.name}")
    if shape.type_name in ("float", "integer") and value > shape.metadata.get("max", value):
        raise Wrong(f"{at}: {value} is too much for {shape.name}")
    return value


def rules(body):
    """What the shapes cannot say."""
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user":
        yield "the first message is not the user's"
    for before, after in zip(messages, messages[1:]):
        if before["role"] == after["role"]:
            yield f"two messages of {after['role']} in a row"
    asked = []
    for message in messages:
        if not message["content"]:
            yield "a message is empty"
        if any(not block["text"].strip() for block in message["content"] if "text" in block):
            yield "a text is blank"
        results = [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
        if sorted(results) != sorted(asked):
            yield f"calls {asked} are answered by {results}"
        asked = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
    if (
        any("toolUse" in block or "toolResult" in block for message in messages for block in message["content"])
        and "toolConfig" not in body
    ):
        yield "there were calls, but there are no tools"


def answer(text):
    WIRE.data, WIRE.kind = text, "application/json"
    answer = WIRE.client.converse(**NOWHERE)
    unknown(json.loads(text), SHAPES.operation_model("Converse").output_shape, "$")
    told = Told(finish=FINISH.get(answer["stopReason"], "stop"))
    for block in answer["output"]["message"]["content"]:
        if "text" in block:
            told.text += block["text"]
        elif "citationsContent" in block:
            told.text += "".join(piece["text"] for piece in block["citationsContent"]["content"])
        elif "toolUse" in block:
            told.call(block["toolUse"]["name"], block["toolUse"]["input"])
        elif "reasoningContent" in block:
            told.reasoning += block["reasoningContent"].get("reasoningText", {}).get("text", "")
    return counted(told, answer["usage"])


def unknown(value, shape, at):
    if shape.type_name == "list":
        for index, element in enumerate(value):
            unknown(element, shape.member, f"{at}[{index}]")
    elif shape.type_name == "structure" and not shape.is_document_type:
        for key, member in value.items():
            if key not in shape.members:
                raise Wrong(f"{at}.{key}: {shape.name} has no such member")
            unknown(member, shape.members[key], f"{at}.{key}")


def stream(data):
    """Takes frames, as they are on the wire."""
    WIRE.data, WIRE.kind = data, "application/vnd.amazon.eventstream"
    told, arguments = Told(), {}
    try:
        for event in WIRE.client.converse_stream(**NOWHERE)["stream"]:
            [(name, value)] = event.items()
            if name == "contentBlockStart" and "toolUse" in value["start"]:
                arguments[value["contentBlockIndex"]] = [value["start"]["toolUse"]["name"], ""]
            elif name == "contentBlockDelta":
                delta = value["delta"]
                told.text += delta.get("text", "")
                told.reasoning += delta.get("reasoningContent", {}).get("text", "")
                if "toolUse" in delta:
                    arguments[value["contentBlockIndex"]][1] += delta["toolUse"]["input"]
            elif name == "messageStop":
                told.finish = FINISH.get(value["stopReason"], "stop")
            elif name == "metadata":
                counted(told, value["usage"])
    except EventStreamError:
        return None
    for call in arguments.values():
        told.call(*call)
    return told


def counted(told, usage):
    told.prompt = usage["inputTokens"] + usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    told.completion = usage["outputTokens"]
    return told


GOOD_PATH = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
GOOD = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
CALL = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]}
RESULT = {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "1"}]}}]}
TOOLS = {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]}
BAD = [
    ("/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/converse", GOOD),
    (GOOD_PATH, {**GOOD, "modelId": "m"}),
    (GOOD_PATH, {**GOOD, "inferenceConfig": {"max_tokens": 1}}),
    (GOOD_PATH, {**GOOD, "inferenceConfig": {"maxTokens": "1"}}),
    (GOOD_PATH, {**GOOD, "inferenceConfig": {"temperature": 1.5}}),
    (GOOD_PATH, {**GOOD, "serviceTier": {"type": "auto"}}),
    (GOOD_PATH, {**GOOD, "toolConfig": {"tools": []}}),
    (GOOD_PATH, {**GOOD, "toolConfig": {**TOOLS, "toolChoice": {"none": {}}}}),
    (GOOD_PATH, {**GOOD, "toolConfig": {"tools": [{"toolSpec": {"name": "f.g", "inputSchema": {"json": {}}}}]}}),
    (GOOD_PATH, {"messages": [{"role": "user", "content": [{"text": "hi", "cachePoint": {"type": "default"}}]}]}),
    (GOOD_PATH, {"messages": [{"role": "user", "content": [{"image": {"format": "jpg", "source": {"bytes": "QQ=="}}}]}]}),
    (GOOD_PATH, {"messages": [{"role": "user", "content": [{"text": ""}]}]}),
    (GOOD_PATH, {"messages": GOOD["messages"] * 2}),
    (GOOD_PATH, {"messages": [*GOOD["messages"], CALL, RESULT]}),
    (GOOD_PATH, {"messages": [*GOOD["messages"], CALL, *GOOD["messages"]], "toolConfig": TOOLS}),
    (GOOD_PATH, {"messages": [CALL, RESULT], "toolConfig": TOOLS}),
]
