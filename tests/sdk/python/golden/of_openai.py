"""OpenAI's own package, on what our callers get, and on what is said to OpenAI and Azure."""

import json
import re

import httpx2
import openai
from openai._models import construct_type, validate_type
from openai._streaming import SSEDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming

from told import Told
from typed import Wrong, check

# What may stand in an answer though the package does not know it: what the model thought, Google's signatures and pictures, our own marks,
# and what Azure adds.
MORE = {"reasoning_content", "annotations", "extra_content", "images", "files", "x_portcullis", "native_finish_reason"}
MORE |= {"content_filter_results", "prompt_filter_results"}


def answer(text):
    if text.startswith(b"!"):
        return None
    value = json.loads(text)
    answer = ChatCompletion.model_validate(value, strict=True)
    unknown(answer)
    whole(value["usage"])
    [choice, *_] = answer.choices
    told = Told(finish=choice.finish_reason, prompt=answer.usage.prompt_tokens, completion=answer.usage.completion_tokens)
    message = choice.message
    told.text = message.content or ""
    told.reasoning = getattr(message, "reasoning_content", None) or ""
    for call in message.tool_calls or []:
        told.call(call.function.name, call.function.arguments)
    if message.content is None and not message.tool_calls and not message.refusal:
        raise Wrong("the message has neither content nor calls")
    if bool(message.tool_calls) != (choice.finish_reason == "tool_calls") and choice.finish_reason not in ("length", "content_filter"):
        raise Wrong(f"{len(message.tool_calls or [])} calls, and the finish reason is {choice.finish_reason}")
    return told


def stream(data):
    """A stream; or the beginning of one, and a line that says how it failed, which the gateway tells in an event of its own."""
    events, fault = re.subn(rb"^!.*\n\Z", b"", data, flags=re.M)
    state, done, last = ChatCompletionStreamState(), False, None
    for event in SSEDecoder().iter_bytes(iter([events])):
        if done:
            raise Wrong("something stands after [DONE]")
        if event.event is not None:
            raise Wrong(f"the event has a name: {event.event}")
        if event.data == "[DONE]":
            done = True
            continue
        value = event.json()
        validate_type(type_=ChatCompletionChunk, value=value)
        last = ChatCompletionChunk.model_validate(value, strict=True)
        unknown(last)
        if last.choices:
            state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=value))
    if fault:
        if done:
            raise Wrong("a [DONE] before the fault")
        return None
    if not done:
        raise Wrong("there is no [DONE]")
    if last.choices or not last.usage:
        raise Wrong("the last chunk does not count")
    whole(last.usage.model_dump(exclude_none=True))
    [choice, *_] = state.current_completion_snapshot.choices
    message = choice.message
    if message.role != "assistant":
        raise Wrong(f"the role is {message.role}")
    told = Told(text=message.content or "", finish=choice.finish_reason)
    told.reasoning = getattr(message, "reasoning_content", None) or ""
    told.prompt, told.completion = last.usage.prompt_tokens, last.usage.completion_tokens
    for call in message.tool_calls or []:
        if call.type != "function" or not call.id:
            raise Wrong(f"a call of type {call.type} with the id {call.id!r}")
        told.call(call.function.name, call.function.arguments)
    return told


def whole(usage):
    if usage["prompt_tokens"] + usage["completion_tokens"] != usage["total_tokens"]:
        raise Wrong(f"the total is not the sum: {usage}")


def unknown(model, at="$"):
    """Members that the package does not know, and that are not ours."""
    for key in model.model_extra or {}:
        if key not in MORE:
            raise Wrong(f"{at}.{key} is not known")
    for key, value in model:
        for index, inner in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(inner, openai.BaseModel):
                unknown(inner, f"{at}.{key}" + (f"[{index}]" if isinstance(value, list) else ""))


def composed(body):
    """Finds fault with a member of a request that the package could not have sent."""
    check(body, CompletionCreateParamsStreaming if body.get("stream") else CompletionCreateParamsNonStreaming)


def request(path, body, fail):
    """Bodies pass as their callers wrote them, so only the way is the package's to judge."""
    sent = []

    def answer(request):
        sent.append(request.url.raw_path.decode())
        return httpx2.Response(200, json={})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    if "/deployments/" in path:
        client = openai.AzureOpenAI(
            api_key="k",
            azure_endpoint="http://x",
            api_version=path.partition("api-version=")[2],
            azure_deployment=body["model"],
            http_client=http,
        )
    else:
        base = "http://x/openai/v1" if path.startswith("/openai/v1") else "http://x/v1"
        client = openai.OpenAI(api_key="k", base_url=base, http_client=http, max_retries=0)
    client.chat.completions.with_raw_response.create(model=body["model"], messages=body["messages"])
    if sent != [path]:
        fail(f"the package would send to {sent}")


GOOD_PATH = "/v1/chat/completions"
GOOD = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
BAD = [("/chat/completions", GOOD), ("/openai/deployments/d/chat/completions?api-version=2024-10-21", GOOD)]
