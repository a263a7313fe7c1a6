"""Google's client for Python. It calls the tool by itself."""

from common import API_KEY, QUESTIONS, main
from google import genai
from google.genai import types


def talk(base_url, stream, seen, _):
    def weather(city: str) -> str:
        """Tells the weather in a city."""
        return seen.weather(city=city)

    client = genai.Client(api_key=API_KEY, http_options=types.HttpOptions(base_url=base_url))
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_budget=2000)
    chat = client.chats.create(
        model="gemini-2.5-flash", config=types.GenerateContentConfig(tools=[weather], thinking_config=thinking)
    )
    for question in QUESTIONS:
        chunks = list(chat.send_message_stream(question)) if stream else [chat.send_message(question)]
        for usage in filter(None, (chunk.usage_metadata for chunk in chunks)):
            seen.used(usage.prompt_token_count, usage.candidates_token_count + (usage.thoughts_token_count or 0))
    # The history has the answers with calls too.
    texts = {False: seen.texts, True: seen.thoughts}
    for content in chat.get_history():
        if content.role == "model":
            for thought in [False, True]:
                text = "".join(part.text or "" for part in content.parts if bool(part.thought) == thought)
                texts[thought] += [text] if text else []


main(talk)
