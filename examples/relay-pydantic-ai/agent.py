"""A Pydantic AI agent that speaks AG-UI, with one tool of its own. Nothing in it knows Headwater.

Without a key its model is a function that says what it was sent. With MODEL=openai:gpt-4.1-mini (and OPENAI_API_KEY) it is a real one; that
needs `pip install "pydantic-ai-slim[openai]"`.
"""

import os
import sys

import uvicorn
from pydantic_ai import Agent
from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def line(part) -> str | None:
    """A part of what the model is sent, as a word or two."""
    if isinstance(part, UserPromptPart):
        return f"user: {part.content}"
    if isinstance(part, TextPart):
        return f"assistant: {part.content}"
    if isinstance(part, ToolCallPart):
        return f"call: {part.tool_name}"
    if isinstance(part, ToolReturnPart):
        return f"result: {part.content}"
    return None


async def offline(messages, info):
    """Calls the tool when it is asked for the weather; else says what it was sent."""
    last = messages[-1].parts[-1]
    if isinstance(last, UserPromptPart) and "weather" in str(last.content):
        yield {0: DeltaToolCall(name="weather", json_args='{"place": "Bern"}', tool_call_id=f"call-{len(messages)}")}
        return
    if isinstance(last, ToolReturnPart):
        yield f"It is {last.content}."
        return
    read = [line(part) for message in messages for part in message.parts]
    # Its own words aren't repeated whole, or they would grow with each turn.
    yield "I was sent " + " | ".join(said[:40] for said in read if said)


agent = Agent(os.environ.get("MODEL") or FunctionModel(stream_function=offline))


@agent.tool_plain
def weather(place: str) -> str:
    """The weather at a place."""
    return f"sunny in {place}"


async def run(request: Request) -> Response:
    return await AGUIAdapter.dispatch_request(request, agent=agent)


app = Starlette(routes=[Route("/", run, methods=["POST"])])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8200, log_level="warning")
