"""The providers' own packages judge the golden files.

    python tests/sdk/python/golden GOLDEN FRAMES

Every request must be one that the provider's package could have sent, path and all; every recorded answer one that it reads; and the
standard answer beside it must be one that OpenAI's package reads, and tell the same; and so must what callers of the other doors get of
it, by the package of each. FRAMES holds Bedrock's streams as they are on the wire. `odd` in GOLDEN names the files that a package finds fault with though they are right, and why; each of them must be odd.
Before that, each validator must find fault with what is wrong: requests that are almost good, and an answer that tells something else.
"""

import json
import ssl
import sys
from pathlib import Path

import of_anthropic
import of_bedrock
import of_cohere
import of_gemini
import of_ollama
import of_openai
import of_responses

# Nothing goes over a network, and every client that is made would read the system's certificates: half of the time.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None

PACKAGES = {
    "anthropic": of_anthropic,
    "azure": of_openai,
    "bedrock": of_bedrock,
    "cohere": of_cohere,
    "gemini": of_gemini,
    "ollama": of_ollama,
    "openai": of_openai,
    "responses": of_responses,
    "vertex": of_gemini,
}
# What the gateway composes for them is judged by each member. Other bodies pass as their callers wrote them.
COMPOSED = (of_openai, of_responses)


# Who reads what callers of a door get.
DOORS = {"messages": of_anthropic, "responses": of_responses, "gemini": of_gemini}


def main(golden, frames):
    found = list(self_test(golden, frames))
    judged = 0
    odd = dict(line.split(maxsplit=1) for line in (golden / "odd").read_text().splitlines() if line)
    for file in sorted(golden.glob("*/*.*")):
        for part, whys in judge(file, frames):
            name = f"{file.parent.name}/{file.name}{part}"
            judged += 1
            if name in odd:
                whys = [] if whys else ["it is among the odd ones, and nothing is odd"]
            found += [f"{name}: {why}" for why in whys]
    for name in odd:
        if not (golden / name.partition(":")[0]).exists():
            found.append(f"odd: there is no {name}")
    print(f"{judged} golden files judged")
    for why in found:
        print(why)
    return 1 if found else 0


def judge(file, frames):
    """What is wrong with each part of a golden file."""
    if file.suffix == ".written":
        yield from written(file.read_text(), file.stem)
        return
    package = PACKAGES.get(file.name.partition(".")[0])
    if package is None:
        return
    if file.suffix == ".request":
        yield "", request(package, *read_request(file.read_text()), is_composed=package is of_responses)
    if file.name.endswith((".answer.out", ".stream.out")):
        yield "", answers(package, file, frames, file.with_suffix(""), of_openai)
    for door, callers in DOORS.items():
        if file.name.endswith((f".answer.{door}.out", f".stream.{door}.out")):
            yield "", answers(package, file, frames, file.with_suffix("").with_suffix(""), callers)


def written(text, door):
    """What is wrong with what was written of a door's request, for each dialect that has its own."""
    for section in text.removeprefix("== ").split("\n== "):
        dialect, _, sent = section.partition("\n")
        package = PACKAGES.get(dialect)
        if package is not None and sent.startswith("POST "):
            yield f":{dialect}", request(package, *read_request(sent), is_composed=package in COMPOSED and dialect != door)


def read_request(text):
    head, _, body = text.partition("\n\n")
    return head.splitlines()[0].removeprefix("POST "), json.loads(body)


def request(package, path, body, is_composed=False):
    """What is wrong with a request. One that the gateway composed is judged by each member, even where others pass as they came."""
    found = []
    try:
        if is_composed:
            package.composed(body)
        package.request(path, body, found.append)
    except Exception as why:
        found.append(f"{type(why).__name__}: {why}")
    return found


def answers(package, out, frames, recorded, callers):
    kind = recorded.suffix.removeprefix(".")
    # Answers of OpenAI's servers are read as they were put right.
    data = (out.parent / f"{recorded.name}.out" if package is of_openai else recorded).read_bytes()
    if package is of_bedrock and kind == "stream":
        data = (frames / f"{out.parent.name}.{recorded.name}").read_bytes()
    return tell(package, kind, data, out.read_bytes(), callers)


def tell(package, kind, data, out, callers=of_openai):
    """What is wrong with an answer or a stream: by itself, as the callers' package reads it, or as what became of the recorded one."""
    try:
        ours = getattr(callers, kind)(out)
        if ours is not None and callers is of_responses is not package:
            of_responses.composed_answer(kind, out)
    except Exception as why:
        return [f"{type(why).__name__}: {why}"]
    if package is callers or ours is None:
        return []
    try:
        theirs = getattr(package, kind)(data)
    except Exception as why:
        return [f"the package cannot read what was recorded: {type(why).__name__}: {why}"]
    return [] if theirs and same(ours, theirs) else [f"it tells\n  {ours}\nwhere the package reads\n  {theirs}"]


def same(ours, theirs):
    """Thinking may be hidden, tokens that nobody counted are estimated, and of arguments that were cut no package makes anything."""
    if ours.finish == "length":
        ours.calls, theirs.calls = ([name for name, _ in told.calls] for told in (ours, theirs))
    for name in ("prompt", "completion"):
        if getattr(theirs, name) == 0:
            setattr(theirs, name, getattr(ours, name))
    theirs.reasoning = ours.reasoning and theirs.reasoning
    return ours == theirs


# What could become of an answer by mistake, and must not pass: for callers of chat completions.
SLIPS = [
    (".answer", "Rome", "Oslo"),
    (".answer", '"name":"time"', '"name":"tide"'),
    (".answer", "I look", "I took"),
    (".answer", '"finish_reason":"tool_calls"', '"finish_reason":"stop"'),
    (".answer", '"finish_reason":"tool_calls"', '"finish_reason":"tool_use"'),
    (".answer", '"prompt_tokens":50', '"prompt_tokens":51'),
    (".answer", '"prompt_tokens":50,"completion_tokens":30', '"prompt_tokens":51,"completion_tokens":29'),
    (".answer", '"object":"chat.completion"', '"object":"message"'),
    (".answer", '"role":"assistant"', '"role":"model"'),
    (".answer", '"type":"function"', '"type":"tool_use"'),
    (".answer", '"index":0', '"index":"0"'),
    (".answer", '"usage"', '"stop_reason":"tool_use","usage"'),
    (".stream", "Ro", "No"),
    (".stream", '"name":"time"', '"name":"tide"'),
    (".stream", '"finish_reason":"tool_calls"', '"finish_reason":"length"'),
    (".stream", '"finish_reason":"tool_calls"', '"finish_reason":"tool_use"'),
    (".stream", '"completion_tokens":30', '"completion_tokens":31'),
    (".stream", "data: [DONE]\n\n", ""),
    (".stream", "data: [DONE]\n\n", "data: [DONE]\n\n: more\n\ndata: {}\n\n"),
    (".stream", "data: ", "event: message\ndata: "),
    (".stream", '"index":1,"id"', '"index":2,"id"'),
    (".stream", '"object":"chat.completion.chunk"', '"object":"chat.completion"'),
    (".stream", '"delta":{"tool_calls"', '"delta":{"role":"assistant","tool_calls"'),
    (".stream", '"logprobs":null', '"stop_reason":null'),
]


# The same for callers of the other doors.
DOOR_SLIPS = {}
DOOR_SLIPS["messages"] = [
    (".answer", "Rome", "Oslo"),
    (".answer", '"name":"time"', '"name":"tide"'),
    (".answer", '"stop_reason":"tool_use"', '"stop_reason":"end_turn"'),
    (".answer", '"input_tokens":50', '"input_tokens":51'),
    (".answer", '"output_tokens":30', '"output_tokens":"30"'),
    (".answer", '"role":"assistant"', '"role":"model"'),
    (".answer", '"type":"message"', '"type":"chat.completion"'),
    (".answer", '"type":"tool_use"', '"type":"function"'),
    (".stream", '"name":"time"', '"name":"tide"'),
    (".stream", '"stop_reason":"tool_use"', '"stop_reason":"max_tokens"'),
    (".stream", '"output_tokens":30', '"output_tokens":31'),
    (".stream", "event: content_block_start", "event: content_block_begin"),
    (".stream", "event: message_delta", "event: message_stop"),
    (".stream", '"type":"input_json_delta"', '"type":"text_delta"'),
    (".stream", '"type":"message_stop"', '"type":"done"'),
]
DOOR_SLIPS["responses"] = [
    (".answer", "Rome", "Oslo"),
    (".answer", '"name":"time"', '"name":"tide"'),
    (".answer", '"status":"completed","model"', '"status":"incomplete","model"'),
    (".answer", '"input_tokens":50', '"input_tokens":51'),
    (".answer", '"output_tokens":30', '"output_tokens":"30"'),
    (".answer", '"type":"function_call"', '"type":"tool_use"'),
    (".answer", '"object":"response"', '"object":"message"'),
    (".answer", '"service_tier"', '"tier"'),
    (".stream", '"completed_at"', '"ended_at"'),
    (".stream", '"name":"time"', '"name":"tide"'),
    (".stream", '"output_tokens":30', '"output_tokens":31'),
    (".stream", "event: response.output_item.added", "event: response.output_item.begun"),
    (".stream", "event: response.completed", "event: response.incomplete"),
    (".stream", '"delta":"', '"delta":"x'),
    (".stream", '"type":"response.function_call_arguments.delta"', '"type":"response.output_text.delta"'),
]
DOOR_SLIPS["gemini"] = [
    (".answer", "Rome", "Oslo"),
    (".answer", '"name":"time"', '"name":"tide"'),
    (".answer", '"finishReason":"STOP"', '"finishReason":"MAX_TOKENS"'),
    (".answer", '"promptTokenCount":50', '"promptTokenCount":51'),
    (".answer", '"candidatesTokenCount":30', '"candidatesTokenCount":"many"'),
    (".answer", '"functionCall"', '"function_call_"'),
    (".answer", '"args":{', '"args":[{'),
    (".stream", '"name":"time"', '"name":"tide"'),
    (".stream", '"finishReason":"STOP"', '"finishReason":"SAFETY"'),
    (".stream", '"candidatesTokenCount":30', '"candidatesTokenCount":31'),
    (".stream", '"functionCall"', '"toolUse"'),
]


def self_test(golden, frames):
    """Each validator takes what is good, and finds fault with each thing that is not."""
    paths = {"vertex": of_gemini.VERTEX + "gemini-2.5-flash:generateContent"}
    paths["azure"] = "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    for name, package in PACKAGES.items():
        for why in request(package, paths.get(name, package.GOOD_PATH), package.GOOD):
            yield f"self test: {name} finds fault with what is good: {why}"
        for path, body in package.BAD:
            if not request(package, path, body):
                yield f"self test: {name} finds no fault with {path} {json.dumps(body)}"
        if package is of_openai or name == "vertex":
            continue
        for kind, right, wrong in SLIPS:
            out = golden / "parallel-calls" / f"{name}{kind}.out"
            data = (frames / f"parallel-calls.{name}{kind}" if (name, kind) == ("bedrock", ".stream") else out.with_suffix("")).read_bytes()
            text = out.read_text()
            # Cohere's model plans what others say.
            if right not in text and name != "cohere":
                yield f"self test: {name} has no {right}"
            if right in text and not tell(package, kind[1:], data, text.replace(right, wrong).encode()):
                yield f"self test: {name} finds no fault with {kind} if {right} becomes {wrong}"
        for door, callers in DOORS.items():
            for kind, right, wrong in DOOR_SLIPS[door] if callers is not package else []:
                out = golden / "parallel-calls" / f"{name}{kind}.{door}.out"
                recorded = out.with_suffix("").with_suffix("")
                data = (frames / f"parallel-calls.{name}{kind}" if (name, kind) == ("bedrock", ".stream") else recorded).read_bytes()
                text = out.read_text()
                # Cohere's model plans what others say.
                if right not in text and name != "cohere":
                    yield f"self test: {name} has no {right} for callers of {door}"
                if right in text and not tell(package, kind[1:], data, text.replace(right, wrong).encode(), callers):
                    yield f"self test: {name} finds no fault with {kind} for callers of {door} if {right} becomes {wrong}"
    stream, out = frames / "parallel-calls.bedrock.stream", golden / "parallel-calls/bedrock.stream.out"
    for at in range(0, len(stream.read_bytes()), 11):
        flipped = bytearray(stream.read_bytes())
        flipped[at] ^= 1
        if not tell(of_bedrock, "stream", bytes(flipped), out.read_bytes()):
            yield f"self test: bedrock finds no fault with a stream whose byte {at} is another"


sys.exit(main(*map(Path, sys.argv[1:])))
