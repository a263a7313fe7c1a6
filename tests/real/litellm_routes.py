"""Says where LiteLLM's own router sends requests, for each configuration file of its package.

Reads names of files. Prints one line of JSON for each model of each file: the name that is asked
for, and all places that the router may choose: provider, model, address, region, location. A model
that LiteLLM itself cannot place has no places.
"""

import json
import os
import sys

import yaml

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import litellm  # noqa: E402
from litellm import Router  # noqa: E402
from litellm.litellm_core_utils.get_llm_provider_logic import get_llm_provider  # noqa: E402

litellm.suppress_debug_info = True
TRIES = 40


def resolved(value):
    if isinstance(value, str) and value.startswith("os.environ/"):
        return os.environ.get(value.removeprefix("os.environ/"))
    return value


def main(path):
    with open(path) as file:
        config = yaml.safe_load(file)
    entries = [entry for entry in config.get("model_list") or [] if entry.get("litellm_params")]
    for entry in entries:
        entry["litellm_params"] = {key: resolved(value) for key, value in entry["litellm_params"].items()}
    for name in dict.fromkeys(entry["model_name"] for entry in entries):
        asked = name.replace("*", "some-model")
        own = [entry for entry in entries if entry["model_name"] == name]
        print(json.dumps({"file": path, "model": name, "asked": asked, "places": sorted(places(asked, own))}), flush=True)


def places(asked, entries):
    try:
        router = Router(model_list=[dict(entry) for entry in entries])
    except Exception:
        return set()
    found = set()
    for _ in range(TRIES):
        try:
            chosen = router.get_available_deployment(model=asked, messages=[{"role": "user", "content": "x"}])
            params = chosen["litellm_params"]
            model, provider, _, base = get_llm_provider(
                model=params["model"],
                custom_llm_provider=params.get("custom_llm_provider"),
                api_base=params.get("api_base"),
            )
        except Exception:
            continue
        region, location = params.get("aws_region_name") or "", params.get("vertex_location") or ""
        found.add((provider, model, base or "", region, location))
    return found


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(each)
