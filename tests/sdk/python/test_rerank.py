"""The official Cohere client for Python, at the gateway BASE_URL with the key API_KEY.

tests/integration/sdk_other_endpoints.rs scripts the upstreams of the models `openai` and `cohere`.
"""

import os

import cohere

SETTINGS = dict(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
DOCUMENTS = ["a river", "a boat on a river"]


def refused(kind, status, call):
    try:
        call()
    except cohere.core.ApiError as error:
        assert type(error) is kind and error.status_code == status and error.body["error"]["message"], error
    else:
        raise AssertionError(f"no {kind.__name__}")


# The older one asks `/v1/rerank`, and the newer one `/v2/rerank`.
for client in [cohere.Client(**SETTINGS), cohere.ClientV2(**SETTINGS)]:
    for model in ["openai", "cohere"]:
        answer = client.rerank(model=model, query="a boat", documents=DOCUMENTS, top_n=2)
        assert [(one.index, one.relevance_score) for one in answer.results] == [(1, 0.75), (0, 0.125)], answer
        if model == "cohere":
            assert answer.meta.billed_units.search_units == 1, answer
    refused(cohere.NotFoundError, 404, lambda: client.rerank(model="none", query="q", documents=DOCUMENTS))
    refused(cohere.BadRequestError, 400, lambda: client.rerank(model="azure", query="q", documents=DOCUMENTS))
    wrong = type(client)(**{**SETTINGS, "api_key": "sk-wrong"})
    refused(cohere.UnauthorizedError, 401, lambda: wrong.rerank(model="cohere", query="q", documents=DOCUMENTS))
    print(f"cohere {cohere.__version__}: {type(client).__name__} ok", flush=True)

# Vectors are asked for in OpenAI's format, or in Google's.
embed = lambda: cohere.ClientV2(**SETTINGS).embed(model="cohere", input_type="search_query", texts=["x"])
refused(cohere.NotFoundError, 404, embed)
