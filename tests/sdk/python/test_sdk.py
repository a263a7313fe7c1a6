"""The official OpenAI client for Python against a gateway; BASE_URL and API_KEY say which.

The models are those of tests/integration/sdk.rs, where each one's upstream is scripted.
"""

import os
import threading
import time

import openai

BASE_URL, API_KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=10)
HELLO = [{"role": "user", "content": "hello"}]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def create(model, **more):
    return client.chat.completions.create(model=model, messages=HELLO, **more)


def raises(kind, status, call):
    try:
        call()
    except openai.APIStatusError as error:
        assert type(error) is kind, f"{type(error)} is not {kind}: {error}"
        assert error.status_code == status, error.status_code
        assert error.request_id, "no request id"
        assert isinstance(error.body, dict) and error.body["message"], error.body
        return error
    raise AssertionError(f"no {kind.__name__}")


def lists_models():
    models = list(client.models.list())
    ids = [model.id for model in models]
    assert ids == sorted(ids) and {"chat", "org/chat", "alias"} <= set(ids), ids
    assert all(m.object == "model" and isinstance(m.created, int) and isinstance(m.owned_by, str) for m in models)


def retrieves_a_model():
    assert client.models.retrieve("chat").id == "chat"
    assert client.models.retrieve("org/chat").id == "org/chat"
    assert raises(openai.NotFoundError, 404, lambda: client.models.retrieve("none")).code == "model_not_found"


def chats():
    for model in ["chat", "org/chat", "alias"]:
        answer = create(model, temperature=0.5, max_tokens=20)
        assert answer.model == model and answer.object == "chat.completion" and answer.id
        choice = answer.choices[0]
        assert choice.index == 0 and choice.finish_reason == "stop"
        assert choice.message.role == "assistant" and choice.message.content == "Hello from the mock."
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
        assert answer._request_id


def is_azures_client_too():
    # The client writes the model into the path, and sends the key as `api-key`.
    end = BASE_URL.removesuffix("/v1")
    azure = openai.AzureOpenAI(azure_endpoint=end, api_key=API_KEY, api_version="2024-10-21", max_retries=0, timeout=10)
    for model in ["chat", "org/chat", "alias"]:
        answer = azure.chat.completions.create(model=model, messages=HELLO)
        assert answer.model == model and answer.choices[0].message.content == "Hello from the mock."
    assert "chat" in [model.id for model in azure.models.list()]
    chunks = list(azure.chat.completions.create(model="chat", messages=HELLO, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "w0 w1 w2 "
    one = openai.AzureOpenAI(
        azure_endpoint=end, azure_deployment="chat", api_key=API_KEY, api_version="2024-10-21", max_retries=0, timeout=10
    )
    assert one.chat.completions.create(model="chat", messages=HELLO).model == "chat"
    error = raises(openai.BadRequestError, 400, lambda: one.chat.completions.create(model="alias", messages=HELLO))
    assert (error.param, error.code) == ("model", "invalid_value")


def streams():
    chunks = list(create("chat", stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "w0 w1 w2 "
    assert [c.choices[0].delta.role for c in chunks].count("assistant") == 1
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert {c.model for c in chunks} == {"chat"} and len({c.id for c in chunks}) == 1
    assert all(c.usage is None for c in chunks)


def counts_in_a_stream():
    chunks = list(create("chat", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 12
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "w0 w1 w2 "
    assert all(c.usage is None for c in chunks[:-1])


def calls_tools():
    answer = create("tools", tools=[WEATHER])
    assert answer.choices[0].finish_reason == "tool_calls"
    call = answer.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "weather", '{"city":"Rome"}')


def calls_tools_in_a_stream():
    with client.chat.completions.stream(model="tools", messages=HELLO, tools=[WEATHER]) as stream:
        answer = stream.get_final_completion()
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].message.role == "assistant"
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "weather", '{"city":"Rome"}')


def helper_gathers_text():
    with client.chat.completions.stream(model="chat", messages=HELLO) as stream:
        assert stream.get_final_completion().choices[0].message.content == "w0 w1 w2 "


def raises_the_right_class():
    raises(openai.BadRequestError, 400, lambda: create("bad"))
    raises(openai.BadRequestError, 400, lambda: client.chat.completions.create(model="chat", messages="no list"))
    wrong = client.with_options(api_key="sk-wrong")
    error = raises(openai.AuthenticationError, 401, lambda: wrong.chat.completions.create(model="chat", messages=HELLO))
    assert error.code == "invalid_api_key"
    assert raises(openai.NotFoundError, 404, lambda: create("none")).code == "model_not_found"
    limited = raises(openai.RateLimitError, 429, lambda: create("limited"))
    assert int(limited.response.headers["retry-after"]) >= 1
    raises(openai.InternalServerError, 502, lambda: create("broken"))
    raises(openai.InternalServerError, 502, lambda: create("broken", stream=True))


def meets_limits():
    tight = openai.OpenAI(base_url=BASE_URL, api_key=os.environ["TIGHT_KEY"], max_retries=0, timeout=10)
    ask = lambda client=tight, **more: client.chat.completions.create(model="chat", messages=HELLO, **more)
    raw = tight.chat.completions.with_raw_response.create(model="chat", messages=HELLO, max_tokens=20)
    assert int(raw.headers["x-ratelimit-limit-tokens"]) == 5000 > int(raw.headers["x-ratelimit-remaining-tokens"])
    # What never fits is not tried again, whatever the client's retries.
    start = time.monotonic()
    error = raises(openai.RateLimitError, 429, lambda: ask(tight.with_options(max_retries=5), max_tokens=100_000))
    assert error.code == "rate_limit_exceeded" and error.response.headers["x-should-retry"] == "false"
    poor = openai.OpenAI(base_url=BASE_URL, api_key=os.environ["POOR_KEY"], max_retries=5, timeout=10)
    error = raises(openai.RateLimitError, 429, lambda: ask(poor))
    assert error.code == "insufficient_quota" == error.type, error.body
    assert time.monotonic() - start < 2
    # One at a time; the wait that is told is kept, and then there is room.
    stream = tight.chat.completions.create(model="endless", messages=HELLO, stream=True)
    next(iter(stream))
    assert raises(openai.RateLimitError, 429, ask).response.headers["retry-after"] == "1"
    threading.Timer(0.3, stream.close).start()
    start = time.monotonic()
    assert ask(tight.with_options(max_retries=3)).choices[0].finish_reason == "stop"
    assert 0.8 < time.monotonic() - start < 5, time.monotonic() - start


def times_out():
    for stream in [False, True]:
        start = time.monotonic()
        try:
            client.with_options(timeout=0.5).chat.completions.create(model="silent", messages=HELLO, stream=stream)
        except openai.APITimeoutError:
            assert time.monotonic() - start < 5
            continue
        raise AssertionError("no timeout")


def sees_a_stream_that_was_cut():
    got = []
    try:
        for chunk in create("cut", stream=True):
            got.append(chunk.choices[0].delta.content or "")
    except openai.APIError as error:
        assert "".join(got) == "w0 w1 ", got
        assert error.message
        return
    raise AssertionError("a cut stream looked whole")


def cancels():
    stream = create("endless", stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    deadline = time.monotonic() + 5
    while create("was-it-left").choices[0].message.content != "yes":
        assert time.monotonic() < deadline, "the upstream was not closed"
        time.sleep(0.02)


for test in [
    lists_models,
    retrieves_a_model,
    chats,
    streams,
    counts_in_a_stream,
    calls_tools,
    calls_tools_in_a_stream,
    helper_gathers_text,
    raises_the_right_class,
    meets_limits,
    times_out,
    sees_a_stream_that_was_cut,
    cancels,
]:
    test()
    print(f"openai-python {openai.__version__}: {test.__name__} ok", flush=True)
