"""Google's own package, on what is said to Gemini and Vertex and what they say."""

import json
import re
import warnings

import httpx2
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from told import Told
from typed import Wrong

# An enum's word that the package does not know is a warning of its.
warnings.simplefilter("error", UserWarning)

LENGTHS = {"MAX_TOKENS", "CONTINUATION"}
FILTERED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "LANGUAGE", "ESCALATION"}
FILTERED |= {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "PUP_LIMITED_DISABLED"}
# Of the body, what the package has in its `config` under the same name; `generationConfig` it has there member by member.
CONFIG = {"systemInstruction", "tools", "toolConfig", "safetySettings", "labels", "cachedContent", "serviceTier", "store"}
VERTEX = "/v1/projects/acme/locations/europe-west1/publishers/google/models/"


def request(path, body, fail):
    if extra := set(body) - CONFIG - {"contents", "generationConfig"}:
        raise Wrong(f"$: there is no {sorted(extra)}")
    if names := sorted(snakes(body)):
        raise Wrong(f"not in camel case: {names}")
    config = {**body.get("generationConfig", {}), **{key: body[key] for key in CONFIG if key in body}}
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    config = types.GenerateContentConfig.model_validate(config)
    contents = [types.Content.model_validate(content) for content in body["contents"]]
    model = path.partition("/models/")[2].partition(":")[0]
    sent = []

    def answer(request):
        sent.append((request.url.raw_path.decode(), json.loads(request.content)))
        return httpx2.Response(200, json={})

    client = client_for(path, answer)
    if ":streamGenerateContent" in path:
        list(client.models.generate_content_stream(model=model, contents=contents, config=config))
    else:
        client.models.generate_content(model=model, contents=contents, config=config)
    [(sent_path, sent_body)] = sent
    # It always writes this member, and writes keys in both cases and bytes in both alphabets, as the API reads them.
    sent_body = camels(sent_body)
    if "generationConfig" not in body and not sent_body["generationConfig"]:
        del sent_body["generationConfig"]
    if (sent_path, sent_body) != (path, camels(body)):
        fail(f"the package would send {sent_path} {json.dumps(sent_body)}")
    for rule in rules(body):
        fail(rule)


def client_for(path, answer):
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    options = types.HttpOptions(base_url="http://x", httpx_client=http, api_version=path.split("/")[1])
    if not path.startswith(VERTEX):
        return genai.Client(api_key="k", http_options=options)
    credentials = Credentials(token="t")
    return genai.Client(vertexai=True, project="acme", location="europe-west1", credentials=credentials, http_options=options)


# What is inside these is the caller's: a schema, a call's arguments, what it gave.
CALLERS = ("args", "response", "labels", "responseJsonSchema", "parametersJsonSchema")


def snakes(value):
    """Google's keys that have an underscore."""
    if isinstance(value, list):
        for element in value:
            yield from snakes(element)
    elif isinstance(value, dict):
        for key, member in value.items():
            if "_" in key:
                yield key
            if key not in CALLERS:
                yield from snakes(member)


def camels(value):
    if isinstance(value, list):
        return [camels(element) for element in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub("_(.)", lambda letter: letter[1].upper(), key): member for key, member in value.items()}
    of_bytes = {key: named[key].replace("-", "+").replace("_", "/") for key in ("data", "thoughtSignature") if key in named}
    return {key: member if key in CALLERS else camels(member) for key, member in {**named, **of_bytes}.items()}


def rules(body):
    """What the types cannot say."""
    contents = body["contents"]
    if not any(content["role"] == "user" for content in contents):
        yield "no content is the user's"
    for before, after in zip(contents, contents[1:]):
        if before["role"] == after["role"]:
            yield f"two contents of {after['role']} in a row"
    for content in contents:
        if content["role"] not in ("user", "model"):
            yield f"the role {content['role']}"
        if not content["parts"]:
            yield "a content without parts"
        for part in content["parts"]:
            payloads = set(part) - {"thought", "thoughtSignature", "videoMetadata", "mediaResolution"}
            if len(payloads) != 1:
                yield f"a part with {sorted(payloads)}"
            if part.get("text") == "":
                yield "an empty text"
    for asked, given in zip(contents, [*contents[1:], {"parts": []}]):
        calls = [part["functionCall"]["name"] for part in asked["parts"] if "functionCall" in part]
        results = [part["functionResponse"]["name"] for part in given["parts"] if "functionResponse" in part]
        if calls != results and not (calls and asked is contents[-1]):
            yield f"calls {calls} are answered by {results}"
    thinking = body.get("generationConfig", {}).get("thinkingConfig", {})
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield "both a budget and a level of thinking"
    if len(body.get("generationConfig", {}).get("stopSequences", [])) > 5:
        yield "more than five stop sequences"
    generation = body.get("generationConfig", {})
    if generation.get("responseJsonSchema") and generation.get("responseMimeType") != "application/json":
        yield "a schema without the media type of JSON"
    choice = body.get("toolConfig", {}).get("functionCallingConfig", {})
    if choice and not body.get("tools"):
        yield "toolConfig without tools"
    if choice.get("allowedFunctionNames") and choice["mode"] not in ("ANY", "VALIDATED"):
        yield f"allowed names in the mode {choice['mode']}"


def answer(text):
    return told([types.GenerateContentResponse.model_validate_json(text)])


def stream(data):
    chunks = []
    # Its own reading of events is bound to its client, so the client reads.
    client = client_for("/v1beta", lambda _: httpx2.Response(200, content=data, headers={"content-type": "text/event-stream"}))
    try:
        chunks.extend(client.models.generate_content_stream(model="m", contents="hi"))
    except genai.errors.APIError:
        return None
    return told(chunks)


def told(chunks):
    told = Told()
    for chunk in chunks:
        for candidate in (chunk.candidates or [])[:1]:
            for part in (candidate.content and candidate.content.parts) or []:
                if part.function_call:
                    told.call(part.function_call.name, part.function_call.args)
                elif part.text and part.thought:
                    told.reasoning += part.text
                elif part.text:
                    told.text += part.text
            if candidate.finish_reason:
                reason = candidate.finish_reason.value
                told.finish = "length" if reason in LENGTHS else "content_filter" if reason in FILTERED else "stop"
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            told.finish = "content_filter"
        if usage := chunk.usage_metadata:
            told.prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
            told.completion = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    if told.finish == "stop" and told.calls:
        told.finish = "tool_calls"
    return told


GOOD_PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
GOOD = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
MODEL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "g", "response": {}}}]}
TOOLS = [{"functionDeclarations": [{"name": "f"}]}]
BAD = [
    ("/v1beta/models/gemini-2.5-flash", GOOD),
    (GOOD_PATH, {**GOOD, "model": "m"}),
    (GOOD_PATH, {**GOOD, "system_instruction": {"parts": [{"text": "hi"}]}}),
    (GOOD_PATH, {**GOOD, "generationConfig": {"max_output_tokens": 1}}),
    (GOOD_PATH, {**GOOD, "generationConfig": {"maxTokens": 1}}),
    (GOOD_PATH, {**GOOD, "generationConfig": {"topK": "many"}}),
    (GOOD_PATH, {**GOOD, "generationConfig": {"thinkingConfig": {"thinkingLevel": "ENORMOUS"}}}),
    (GOOD_PATH, {**GOOD, "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}}),
    (GOOD_PATH, {**GOOD, "generationConfig": {"responseJsonSchema": {"type": "object"}}}),
    (GOOD_PATH, {**GOOD, "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}),
    (GOOD_PATH, {**GOOD, "tools": TOOLS, "toolConfig": {"functionCallingConfig": {"mode": "SOMETIMES"}}}),
    (GOOD_PATH, {**GOOD, "tools": [{"functionDeclarations": [{"name": "f", "strict": True}]}]}),
    (GOOD_PATH, {"contents": [{"role": "assistant", "parts": [{"text": "hi"}]}]}),
    (GOOD_PATH, {"contents": GOOD["contents"] * 2}),
    (GOOD_PATH, {"contents": [{"role": "user", "parts": []}]}),
    (GOOD_PATH, {"contents": [{"role": "user", "parts": [{"text": "hi", "inlineData": {"mimeType": "image/png", "data": "QQ=="}}]}]}),
    (GOOD_PATH, {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}]}]}),
    (GOOD_PATH, {"contents": [*GOOD["contents"], MODEL, RESULT]}),
    (GOOD_PATH, {"contents": [*GOOD["contents"], MODEL, *GOOD["contents"]]}),
]
