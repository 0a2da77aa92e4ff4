"""A LangGraph agent that speaks AG-UI, with one tool of its own and a checkpointer. Nothing in it knows Headwater.

Without a key its model is a class that says what it was sent. With MODEL=openai:gpt-4.1-mini (and OPENAI_API_KEY) it is a real one; that needs
`pip install langchain-openai`.
"""

import os
import sys

import uvicorn
from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver


@tool
def weather(place: str) -> str:
    """The weather at a place."""
    return f"sunny in {place}"


class Offline(BaseChatModel):
    """Calls the tool when it is asked for the weather; else says what it was sent."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools, **kwargs):
        return self

    def _answer(self, messages) -> AIMessage:
        last = messages[-1]
        if isinstance(last, HumanMessage) and "weather" in last.text:
            return AIMessage("", tool_calls=[{"name": "weather", "args": {"place": "Bern"}, "id": f"call-{len(messages)}"}])
        if isinstance(last, ToolMessage):
            return AIMessage(f"It is {last.text}.")
        names = {"human": "user", "ai": "assistant", "tool": "result", "system": "system"}
        read = []
        for message in messages:
            read += [f"{names[message.type]}: {message.text}"] if message.text else []
            read += [f"call: {call['name']}" for call in getattr(message, "tool_calls", [])]
        # Its own words aren't repeated whole, or they would grow with each turn.
        return AIMessage("I was sent " + " | ".join(said[:40] for said in read))

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        answer = self._answer(messages)
        if answer.text:
            yield ChatGenerationChunk(message=AIMessageChunk(answer.text))
        for call in answer.tool_calls:
            begin = {"name": call["name"], "args": "", "id": call["id"], "index": 0}
            rest = {"name": None, "args": '{"place": "Bern"}', "id": None, "index": 0}
            for chunk in (begin, rest):
                yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[chunk]))


def model() -> BaseChatModel:
    return init_chat_model(os.environ["MODEL"]) if os.environ.get("MODEL") else Offline()


graph = create_agent(model(), [weather], checkpointer=InMemorySaver())
app = FastAPI()
add_langgraph_fastapi_endpoint(app, LangGraphAgent(name="weather", graph=graph), "/")

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8200, log_level="warning")
