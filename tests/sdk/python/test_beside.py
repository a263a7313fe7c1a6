"""The official OpenAI client for Python, and its client for Azure, at the endpoints beside chat.

BASE_URL is a gateway, API_KEY is a key. tests/integration/sdk_other_endpoints.rs scripts the upstreams of the models `openai` and `azure`.
"""

import os

import openai

BASE_URL, API_KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
AZURE = dict(azure_endpoint=BASE_URL, api_version="2024-10-21", api_key=API_KEY, max_retries=0, timeout=20)
SOUND = ("a.wav", b"RIFF" * 100_000)
PICTURE = ("a.png", b"\x89PNG", "image/png")
usual = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0, timeout=20)


def refused(kind, code, call):
    try:
        call()
    except openai.APIStatusError as error:
        assert type(error) is kind and error.request_id and error.code == code, error
    else:
        raise AssertionError(f"no {kind.__name__}")


def no_such_model(client, call):
    # A path may name another model.
    named = "/deployments/" in str(client.base_url)
    kind, code = (openai.BadRequestError, "invalid_value") if named else (openai.NotFoundError, "model_not_found")
    refused(kind, code, call)


def completions(client, model):
    create = client.completions.create
    answer = create(model=model, prompt=["one", "two"], suffix="three", echo=True, logprobs=1, max_tokens=9)
    assert (answer.model, answer.object) == (model, "text_completion"), answer
    assert [(c.index, c.text, c.finish_reason) for c in answer.choices] == [(0, "one", "stop"), (1, "two", "length")]
    assert answer.choices[0].logprobs.tokens == ["one"] and answer.usage.total_tokens == 5
    chunks = list(create(model=model, prompt="one", stream=True))
    assert [c.choices[0].text for c in chunks] == [" a", " b"] and {c.model for c in chunks} == {model}, chunks
    assert chunks[-1].choices[0].finish_reason == "stop" and all(c.usage is None for c in chunks)
    chunks = list(create(model=model, prompt="one", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 4, chunks[-1]
    no_such_model(client, lambda: create(model="none", prompt="x"))


def embeddings(client, model):
    # It asks for base64, and decodes it.
    answer = client.embeddings.create(model=model, input="one")
    assert answer.model == model and answer.data[0].embedding == [0.5, -0.25], answer


def images(client, model):
    answer = client.images.generate(model=model, prompt="a cat", n=2, size="1024x1024")
    assert [one.b64_json for one in answer.data] == ["AAAA", "BBBB"], answer
    answer = client.images.edit(model=model, image=[PICTURE, PICTURE], mask=PICTURE, prompt="a hat")
    assert answer.data[0].b64_json == "CCCC", answer
    if hasattr(openai.types, "ImageGenStreamEvent"):
        events = list(client.images.generate(model=model, prompt="a cat", stream=True, partial_images=1))
        assert [e.type for e in events] == ["image_generation.partial_image", "image_generation.completed"], events


def sound(client, model):
    spoken = client.audio.speech.create(model=model, voice="alloy", input="hello")
    assert spoken.read() == b"ID3sound" and spoken.response.headers["content-type"] == "audio/mpeg"
    with client.audio.speech.with_streaming_response.create(model=model, voice="alloy", input="hello") as spoken:
        assert b"".join(spoken.iter_bytes()) == b"ID3sound"
    hear = client.audio.transcriptions.create
    heard = hear(model=model, file=SOUND, language="en")
    assert heard.text == "100000 times" and heard._request_id, heard
    assert hear(model=model, file=SOUND, response_format="text").strip() == "100000 times"
    events = list(hear(model=model, file=SOUND, stream=True))
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"], events
    assert client.audio.translations.create(model=model, file=SOUND).text == "100000 times"
    no_such_model(client, lambda: hear(model="none", file=SOUND))


def moderations(client, model):
    if model == "azure":
        # Azure has none, and nobody is asked.
        return refused(openai.BadRequestError, "unsupported_endpoint", lambda: client.moderations.create(model=model, input="x"))
    answer = client.moderations.create(model=model, input=["one", "two"])
    assert answer.model == model and [one.flagged for one in answer.results] == [True, False], answer


CLIENTS = {
    "OpenAI": lambda model: usual,
    "OpenAI at /openai/v1": lambda model: usual.with_options(base_url=f"{BASE_URL}/openai/v1"),
    "AzureOpenAI": lambda model: openai.AzureOpenAI(**AZURE),
    "AzureOpenAI of a deployment": lambda model: openai.AzureOpenAI(azure_deployment=model, **AZURE),
}

for name, client in CLIENTS.items():
    # The other one has no path for it.
    tests = [completions, embeddings, images, sound] + [moderations] * (not name.endswith("deployment"))
    for model in ["openai", "azure"]:
        for test in tests:
            test(client(model), model)
        print(f"openai-python {openai.__version__}: {name}, {model} ok", flush=True)
