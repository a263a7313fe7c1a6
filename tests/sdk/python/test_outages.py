"""The official OpenAI client for Python through outages; BASE_URL and API_KEY say which gateway, CASES is a file with what must be seen.

The cases are those of tests/integration/sdk_outages.rs: a model, the way to ask for it, and an answer, a status or an error event.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0, timeout=20)
retrying = client.with_options(max_retries=openai.DEFAULT_MAX_RETRIES)
HELLO = [{"role": "user", "content": "hello"}]
CLASSES = {
    400: openai.BadRequestError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
}


def class_of(status):
    return openai.InternalServerError if status >= 500 else CLASSES.get(status, openai.APIStatusError)


def ask(case, got):
    """The answer's text; what came of a stream is in `got` also when it raises."""
    completions = (retrying if case["retries"] else client).chat.completions
    if case["way"] == "buffered":
        choice = completions.create(model=case["model"], messages=HELLO).choices[0]
        assert choice.finish_reason == "stop", choice
        return choice.message.content
    if case["way"] == "helper":
        with completions.stream(model=case["model"], messages=HELLO) as stream:
            for event in stream:
                if event.type == "content.delta":
                    got.append(event.delta)
            choice = stream.get_final_completion().choices[0]
            assert choice.finish_reason == "stop" and choice.message.content == "".join(got), choice
            return choice.message.content
    finish = None
    for chunk in completions.create(model=case["model"], messages=HELLO, stream=True):
        got.append(chunk.choices[0].delta.content or "")
        finish = chunk.choices[0].finish_reason or finish
    assert finish == "stop", "the stream ended without an error and without a finish"
    return "".join(got)


def check(case):
    sees, got = case["sees"], []
    try:
        content = ask(case, got)
    except openai.APIError as error:
        is_expected(error, sees, "".join(got))
        return
    assert sees["kind"] == "answer", f"it looks like an answer: {content!r}"
    assert content == sees["content"], content


def is_expected(error, sees, got):
    shown = f"{type(error).__name__}: {error}"
    assert sees["kind"] != "answer", shown
    assert error.code == sees["code"], f"code {error.code}, {shown}"
    assert isinstance(error.body, dict) and error.body["message"] and error.body["type"], error.body
    if sees["kind"] == "event":
        assert type(error) is openai.APIError, shown
        assert got == sees["content"], f"{got!r} before {shown}"
        return
    assert got == "", f"{got!r} before {shown}"
    assert type(error) is class_of(sees["status"]) and error.status_code == sees["status"], shown
    assert error.request_id, "no request id"
    if sees["status"] in (429, 503):
        is_worth_a_wait(error.response.headers)


def is_worth_a_wait(headers):
    """When to come back; or that nothing changes by itself."""
    wait = headers.get("retry-after")
    assert 1 <= int(wait) <= 60 if wait else headers["x-should-retry"] == "false", headers


def failure(case):
    try:
        check(case)
    except Exception as error:
        return f"{case['model']}: {type(error).__name__}: {error}"


with open(os.environ["CASES"]) as file:
    cases = json.load(file)
with ThreadPoolExecutor(8) as pool:
    failures = [why for why in pool.map(failure, cases) if why]
for why in failures:
    print(why, file=sys.stderr)
if failures:
    sys.exit(f"{len(failures)} of {len(cases)} failed")
print(f"openai-python {openai.__version__}: {len(cases)} outages ok")
