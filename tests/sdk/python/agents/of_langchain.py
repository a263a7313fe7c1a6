"""LangChain's models of OpenAI, Anthropic and Google. ChatOpenAI asks for chat completions, or for Responses if it shall reason."""

from common import API_KEY, QUESTIONS, main
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI


def model_of(kind, base_url):
    openai = dict(model="gpt-5", base_url=f"{base_url}/v1", api_key=API_KEY)
    match kind:
        case "chat":
            # At an address of one's own, it does not ask for the tokens of a stream by itself.
            return ChatOpenAI(**openai, stream_usage=True)
        case "responses":
            return ChatOpenAI(**openai, reasoning={"effort": "low", "summary": "auto"})
        case "messages":
            thinking = {"type": "enabled", "budget_tokens": 2000}
            return ChatAnthropic(
                model="claude-sonnet-4-5", base_url=base_url, api_key=API_KEY, max_tokens=4000, thinking=thinking
            )
        case "gemini":
            return ChatGoogleGenerativeAI(
                model="gemini-2.5-flash", base_url=base_url, api_key=API_KEY, include_thoughts=True, thinking_budget=2000
            )


def talk(base_url, stream, seen, kind):
    @tool
    def weather(city: str) -> str:
        """Tells the weather in a city."""
        return seen.weather(city=city)

    model = model_of(kind, base_url).bind_tools([weather])
    messages = []

    def ask():
        if not stream:
            return model.invoke(messages)
        first, *more = model.stream(messages)
        for chunk in more:
            first += chunk
        return first

    for question in QUESTIONS:
        messages.append(HumanMessage(question))
        answer = None
        while answer is None or answer.tool_calls:
            answer = ask()
            messages.append(answer)
            seen.used(answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"])
            blocks = answer.content_blocks
            seen.thoughts += [block["reasoning"] for block in blocks if block["type"] == "reasoning" and block.get("reasoning")]
            seen.texts += [answer.text] if answer.text else []
            for call in answer.tool_calls:
                messages.append(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]))


main(talk, "chat", "responses", "messages", "gemini")
