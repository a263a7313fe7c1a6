"""How long the official OpenAI client for Python keeps its caller waiting: OpenAI() as it is, once for each of MODELS, side by side.

One line of JSON for each: the model, the status that was seen in the end, and the seconds until then.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import openai

client = openai.OpenAI()


def ask(model):
    began = time.monotonic()
    try:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
        status = 200
    except openai.APIStatusError as error:
        status = error.status_code
    return {"model": model, "status": status, "seconds": time.monotonic() - began}


models = os.environ["MODELS"].split()
with ThreadPoolExecutor(len(models)) as pool:
    for told in pool.map(ask, models):
        print(json.dumps(told))
