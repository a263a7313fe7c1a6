"""What the programs of this folder share: two questions, a tool, and what is told of both answers.

BASE_URLS names gateways, API_KEY is a key of all of them. The answers are scripted in tests/integration/agents.rs. A program
asks each gateway whole and as a stream, and prints one line for each conversation.
"""

import json
import os

BASE_URLS, API_KEY = os.environ["BASE_URLS"].split(), os.environ["API_KEY"]
QUESTIONS = ["What is the weather in Rome?", "And in Oslo?"]
DESCRIPTION = "Tells the weather in a city."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


class Seen:
    """What a program saw in one conversation: texts, thoughts, calls, and the tokens of each answer."""

    def __init__(self):
        self.texts, self.thoughts, self.calls, self.usage = [], [], [], []

    def weather(self, **given):
        """Tells the weather: it is the tool."""
        self.calls.append(given)
        return {"Rome": "measured 18 degrees", "Oslo": "measured 7 degrees"}[given["city"]]

    def used(self, prompt, completion):
        self.usage.append([prompt, completion])


def main(talk, *kinds):
    """Calls `talk(base_url, stream, seen, kind)` for each gateway, whole and as a stream, and for each kind."""
    for kind in kinds or [None]:
        for base_url in BASE_URLS:
            for stream in [False, True]:
                seen = Seen()
                talk(base_url, stream, seen, kind)
                print(json.dumps({"what": f"{kind}, {base_url}, stream {stream}", **vars(seen)}), flush=True)
