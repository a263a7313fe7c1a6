"""Clients that ask for vectors, as they do by default. BASE_URL is a gateway, MODELS are its models, API_KEY is a key.

Each prints the vectors of the same texts. tests/integration/sdk_vectors.rs scripts the upstreams, and knows the vectors.
"""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
import openai  # noqa: E402
from google import genai  # noqa: E402
from google.genai import types  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402
from langchain_google_genai import GoogleGenerativeAIEmbeddings  # noqa: E402
from langchain_openai import OpenAIEmbeddings  # noqa: E402
from llama_index.core import Document, VectorStoreIndex  # noqa: E402
from llama_index.core.node_parser import TokenTextSplitter  # noqa: E402
from llama_index.embeddings.openai import OpenAIEmbedding  # noqa: E402

BASE_URL, API_KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
TEXTS = ["a river", "trees, bees and eels"]
OPENAI = dict(base_url=f"{BASE_URL}/v1", api_key=API_KEY)


def of_openai(model):
    client = openai.OpenAI(**OPENAI, max_retries=0)
    floats = client.embeddings.create(model=model, input=TEXTS, encoding_format="float")
    assert floats.usage.total_tokens == 7, floats.usage
    # It asks for base64, and decodes it.
    answer = client.embeddings.create(model=model, input=TEXTS)
    assert answer.model == model and [one.index for one in answer.data] == [0, 1], answer
    assert [one.embedding for one in answer.data] == [one.embedding for one in floats.data]
    try:
        client.embeddings.create(model=model, input="")
    except openai.BadRequestError as error:
        assert error.param == "input", error
    else:
        raise AssertionError("an empty text has a vector")
    return [one.embedding for one in answer.data]


def of_langchain(model):
    # Otherwise it sends tokens, which only servers of OpenAI's format take.
    embeddings = OpenAIEmbeddings(model=model, check_embedding_ctx_length=False, **OPENAI)
    store = InMemoryVectorStore.from_texts(TEXTS, embeddings)
    [found] = store.similarity_search("trees, bees and eels", k=1)
    assert found.page_content == TEXTS[1], found
    return embeddings.embed_documents(TEXTS)


def of_langchain_google(model):
    embeddings = GoogleGenerativeAIEmbeddings(model=f"models/{model}", google_api_key=API_KEY, base_url=BASE_URL)
    return embeddings.embed_documents(TEXTS)


def of_llama_index(model):
    embeddings = OpenAIEmbedding(model_name=model, api_base=OPENAI["base_url"], api_key=API_KEY, max_retries=0)
    splitter = TokenTextSplitter(chunk_size=100, chunk_overlap=0, tokenizer=str.split)
    documents = [Document(text=text) for text in TEXTS]
    index = VectorStoreIndex.from_documents(documents, embed_model=embeddings, transformations=[splitter])
    [found] = index.as_retriever(similarity_top_k=1).retrieve("a river")
    assert found.text == TEXTS[0], found
    return embeddings.get_text_embedding_batch(TEXTS)


def of_genai(model):
    client = genai.Client(api_key=API_KEY, http_options=types.HttpOptions(base_url=BASE_URL))
    config = types.EmbedContentConfig(task_type="RETRIEVAL_DOCUMENT")
    return [one.values for one in client.models.embed_content(model=model, contents=TEXTS, config=config).embeddings]


def of_litellm(model):
    answer = litellm.embedding(model=f"openai/{model}", input=TEXTS, api_base=OPENAI["base_url"], api_key=API_KEY)
    return [one["embedding"] for one in answer.data]


for model in os.environ["MODELS"].split():
    for ask in [of_openai, of_langchain, of_langchain_google, of_llama_index, of_genai, of_litellm]:
        print(json.dumps({"client": ask.__name__, "model": model, "vectors": ask(model)}), flush=True)
