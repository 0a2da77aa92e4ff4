"""Write an agent for Headwater in Python: what its turns do next, and its tools.

One file; copy it beside your agent. Python 3.11 or later; nothing else is needed over HTTP, the package `websockets` over a socket.

    from headwater import Agent, Turn

    agent = Agent("bot")

    @agent.tool(idempotent=True)
    def weather(city: str) -> str:
        "Weather of a city."
        return f"It rains in {city}."

    agent.serve(port=9000)                                # Headwater asks over HTTP, or
    agent.connect("ws://127.0.0.1:8080/v1/worker")        # this program dials in

Whatever a handler says nothing about is done as Headwater proposes it. What is asked comes at least once: an attempt that comes again is
answered as before, and of one that still runs the answer is awaited.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import collections
import concurrent.futures
import copy
import dataclasses
import datetime
import enum
import functools
import hashlib
import hmac
import http.server
import inspect
import ipaddress
import json
import logging
import random
import re
import signal
import threading
import time
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NotRequired, TypedDict

__all__ = ["Agent", "BadSignature", "Call", "Refused", "Resumed", "ToolError", "ToolRun", "Turn", "verify"]

log = logging.getLogger("headwater")

Json = Any
"""What JSON can say."""

# ---- what is asked, and what may be answered -------------------------------------------------------------------------------------------


class Message(TypedDict):
    """A message, as a model reads it."""

    id: NotRequired[str]
    role: Literal["user", "assistant", "tool", "system", "developer", "activity"]
    content: NotRequired[Json]
    tool_calls: NotRequired[list[dict[str, Json]]]
    tool_call_id: NotRequired[str]
    error: NotRequired[str]


class Trigger(TypedDict, total=False):
    """What happened. Which fields are there depends on the type; a type that isn't listed here comes of a newer Headwater."""

    type: typing.Required[
        Literal[
            "client.messages", "client.action", "llm.finished", "tool.execute", "tool.finished", "context.limit", "interrupt.resumed", "turn.finished"
        ]
    ]
    new_from: int  # client.messages: from this one on the messages are new
    client: dict[str, Json]  # client.messages, client.action: tools, context, state, forwarded_props
    id: str  # llm.finished, tool.execute, tool.finished: of the call
    ok: bool  # llm.finished, tool.finished
    message: Message  # llm.finished: what the model said
    usage: Json  # llm.finished; turn.finished: a list
    truncated: bool  # llm.finished: the model reached its output limit
    hidden: bool  # llm.finished: nobody but the worker sees what it said
    held: dict[str, Json]  # llm.finished: the call that waits meanwhile
    error: Json  # llm.finished: {code, message}; tool.finished: a text
    name: str  # tool.execute, tool.finished, client.action
    args: Json  # client.action
    arguments: str  # tool.execute: as the model wrote them
    input: dict[str, Json]  # tool.execute: {valid}, {invalid: {value, errors}} or {malformed}
    attempt: int  # tool.execute
    key: str  # tool.execute: the same at each attempt
    result: Json  # tool.finished
    reason: str  # context.limit: idle, full or overflow
    strategy: str  # context.limit
    tokens: int  # context.limit
    window: int  # context.limit
    call: dict[str, Json]  # context.limit: the call that is held
    interrupts: list[dict[str, Json]]  # interrupt.resumed


class Answer(TypedDict, total=False):
    """What is done. An empty one does nothing."""

    messages: list[Message]
    actions: list[dict[str, Json]]
    state: Json
    state_patch: list[dict[str, Json]]
    agent: dict[str, Json]


@dataclasses.dataclass(frozen=True)
class Call:
    """A tool call of the last reply."""

    id: str
    name: str
    arguments: str
    """As the model wrote them."""
    pending: bool
    """Whether it has no result yet."""
    result: Message | None = None
    """Its result, once it has one."""

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.result is not None and not self.result.get("error")

    @property
    def input(self) -> dict[str, Json]:
        """The arguments; empty when they are no object."""
        try:
            value = json.loads(self.arguments or "{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclasses.dataclass(frozen=True)
class Resumed:
    """An interrupt that was answered."""

    id: str
    status: Literal["resolved", "cancelled"]
    payload: Json
    """With what it was answered."""
    interrupt: dict[str, Json]
    """As it was raised: reason, message, tool_call_id, payload, …"""

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that it was about."""
        return self.interrupt.get("tool_call_id")

    @property
    def approved(self) -> bool:
        """Whether somebody answered `true` or `{"approved": true}`."""
        said = self.payload.get("approved") if isinstance(self.payload, dict) else self.payload
        return self.status == "resolved" and said is True


@dataclasses.dataclass(frozen=True)
class ToolRun:
    """One attempt of a tool call. A tool gets it in a parameter that is annotated with this class."""

    id: str
    name: str
    attempt: int
    key: str
    """The same at each attempt of this call and at no other's: what was done under it needn't be done again."""
    deadline: float
    """In seconds since 1970; a result that comes later may be too late."""
    session_id: str
    turn_id: str
    state: Json
    """As it was when the call began. Changes of it are not kept."""
    request: dict[str, Json]


class ToolError(Exception):
    """A tool failed; the model reads why. `retryable` says that nothing was done, so that it may be tried again."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class Refused(Exception):
    """Headwater won't have this worker: the token is wrong, or the agent's worker isn't of kind `socket`."""


class BadSignature(Exception):
    """A request isn't from who has the secret, or isn't from now."""


# Actions beside which what is proposed is done nevertheless.
_NOTES = {"custom", "activity", "message.send"}


class Turn:
    """A turn at the moment when something happened: what is known, and what is done about it.

    A handler that adds no action leaves it at what is proposed. One that adds actions decides: they are done instead.
    """

    def __init__(self, request: dict[str, Json]) -> None:
        self.request = request
        self.session_id: str = request.get("session_id", "")
        self.turn_id: str = request.get("turn_id", "")
        self.agent_id: str = request.get("agent_id", "")
        self.decision_id: str = request.get("decision_id", "")
        self.attempt: int = request.get("attempt", 1)
        self.deadline: float = request.get("deadline", 0) / 1000
        self.trigger: Trigger = request["trigger"]
        self.proposed: Answer = request.get("proposed") or {}
        self.messages: list[Message] = request.get("messages") or []
        self.config: dict[str, Json] = request.get("agent") or {}
        pending = set(request.get("pending_calls") or ())
        results = {message.get("tool_call_id"): message for message in self.messages if message.get("role") == "tool"}
        self.calls = [_call(call, pending, results) for call in request.get("calls") or ()]
        self.state: Json = copy.deepcopy(request.get("state"))
        """The state of this branch. Change it, or put another in its place: what it is at the end is kept."""
        if self.state is None:
            self.state = {}
        self._says: list[Message] = []
        self._actions: list[dict[str, Json]] = []
        self._agent: dict[str, Json] = {}

    # -- reading

    @property
    def text(self) -> str:
        """What the person said last."""
        return next((_text(message) for message in reversed(self.messages) if message.get("role") == "user"), "")

    @property
    def new_messages(self) -> list[Message]:
        """What came with this turn (client.messages)."""
        return self.messages[self.trigger.get("new_from", len(self.messages)) :]

    @property
    def reply(self) -> Message | None:
        """What the model said (llm.finished)."""
        return self.trigger.get("message")

    @property
    def pending(self) -> list[Call]:
        """The tool calls of the last reply that have no result yet."""
        return [call for call in self.calls if call.pending]

    @property
    def resumed(self) -> list[Resumed]:
        """The interrupts that were answered (interrupt.resumed)."""
        found = self.trigger.get("interrupts") or []
        return [Resumed(one["interrupt_id"], one["status"], one.get("payload"), one.get("interrupt") or {}) for one in found]

    # -- doing

    def say(self, text: str | Message, *, id: str | None = None) -> Turn:
        """Puts a message of the assistant on the path."""
        message: Message = {"role": "assistant", "content": text} if isinstance(text, str) else text
        self._says.append({"id": id, **message} if id else message)
        return self

    def act(self, type: str, **fields: Json) -> Turn:
        """Adds an action of any type; fields that are None are left out."""
        self._actions.append({"type": type, **{name: value for name, value in fields.items() if value is not None}})
        return self

    def accept(self) -> Turn:
        """Adds the actions that are proposed: for handlers that add others beside them."""
        self._actions.extend(self.proposed.get("actions", ()))
        return self

    def call_model(
        self, *, id: str | None = None, llm: str | None = None, model: str | None = None, messages: list[Message] | None = None, stream: bool | None = None, **more: Json
    ) -> Turn:
        """Calls a model: with `messages` instead of the conversation; what isn't said is as configured."""
        return self.act("llm.call", id=id, llm=llm, model=model, messages=messages, stream=stream, **more)

    def call_tool(self, call: Call | str) -> Turn:
        """Has a call of the reply carried out, by whom it is for."""
        return self.act("tool.call", id=_id(call))

    def tool_result(self, call: Call | str, result: Json) -> Turn:
        """Gives the result of a call oneself."""
        return self.act("tool.result", id=_id(call), **_content(result))

    def tool_error(self, call: Call | str, error: str) -> Turn:
        """Lets a call fail; the model reads why."""
        return self.act("tool.error", id=_id(call), error=error)

    def interrupt(
        self,
        reason: str,
        message: str | None = None,
        *,
        call: Call | str | None = None,
        payload: Json = None,
        response_schema: Json = None,
        expires_at: str | None = None,
        metadata: Json = None,
        id: str | None = None,
    ) -> Turn:
        """Pauses the turn until a person, or somebody outside, has answered."""
        tool_call_id = None if call is None else _id(call)
        return self.act(
            "interrupt", id=id, reason=reason, message=message, tool_call_id=tool_call_id, payload=payload, response_schema=response_schema, expires_at=expires_at, metadata=metadata
        )

    def resolve(self, interrupt_id: str, payload: Json = None) -> Turn:
        """Answers an interrupt oneself."""
        return self.act("interrupt.resolve", interrupt_id=interrupt_id, payload=payload)

    def replace(self, *, summary: str | None = None, messages: list[Message] | None = None) -> Turn:
        """Gives the model another history; people go on seeing theirs."""
        return self.act("context.replace", summary=summary, messages=messages)

    def custom(self, name: str, value: Json) -> Turn:
        """Tells the application something; no model reads it, and what is proposed is done."""
        return self.act("custom", name=name, value=value)

    def activity(self, activity_type: str, content: dict[str, Json], *, id: str | None = None) -> Turn:
        """Puts an activity on the path; what is proposed is done."""
        return self.act("activity", id=id, activity_type=activity_type, content=content)

    def send(self, session_id: str, message: Message) -> Turn:
        """Says something in another session; what is proposed here is done."""
        return self.act("message.send", session_id=session_id, message=message)

    def spawn(self, agent_id: str, **fields: Json) -> Turn:
        """Has another agent do something."""
        return self.act("sub_agent.spawn", agent_id=agent_id, **fields)

    def done(self, data: Json = None) -> Turn:
        """Ends the turn."""
        return self.act("done", data=data)

    def configure(self, **fields: Json) -> Turn:
        """Sets system, llm, model or tools for this branch; None takes one back."""
        self._agent.update(fields)
        return self

    def answer(self, said: Json = None) -> Answer:
        """What comes of it, with what the handler gave back: nothing, a text (say it and end), or a whole answer."""
        if isinstance(said, str):
            self.say(said).done()
        answer: Answer = typing.cast(Answer, dict(said)) if isinstance(said, dict) else copy.copy(self.proposed)
        if self._says:
            answer["messages"] = [*answer.get("messages", ()), *self._says]
        if self._actions:
            decides = any(action["type"] not in _NOTES for action in self._actions)
            answer["actions"] = self._actions if decides else [*self._actions, *answer.get("actions", ())]
        if self._agent:
            answer["agent"] = {**answer.get("agent", {}), **self._agent}
        before = self.request.get("state")
        if self.state != (before if before is not None else {}):
            answer["state"] = {} if self.state is None else self.state
            answer.pop("state_patch", None)
        return answer


def _call(call: dict[str, Json], pending: set[str], results: dict[str | None, Message]) -> Call:
    function = call.get("function") or {}
    return Call(call["id"], function.get("name", ""), function.get("arguments", ""), call["id"] in pending, results.get(call["id"]))


def _id(call: Call | str) -> str:
    return call if isinstance(call, str) else call.id


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _content(result: Json) -> dict[str, Json]:
    """A result: a text as it is, anything else as JSON."""
    return {"content": result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, allow_nan=False, default=_plain)}


def _written(value: Json) -> str:
    """As JSON, which knows no NaN."""
    return json.dumps(value, allow_nan=False)


def _plain(value: Json) -> Json:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(f"a {type(value).__name__} can't be written as JSON")


# ---- tools -----------------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Tool:
    """A function that the model may call."""

    run: Callable[..., Json]
    declared: dict[str, Json]
    hints: dict[str, Json]
    wants: list[str]
    """Parameters that get the ToolRun."""

    def arguments(self, values: dict[str, Json], run: ToolRun) -> dict[str, Json]:
        """As the function takes them."""
        unknown = next((name for name in values if name not in self.hints), None)
        if unknown is not None:
            raise ValueError(f"there is no parameter {unknown!r}")
        missing = next((name for name in self.declared["parameters"].get("required", ()) if name not in values), None)
        if missing is not None:
            raise ValueError(f"{missing!r} is missing")
        return {**{name: _taken(self.hints[name], value) for name, value in values.items()}, **{name: run for name in self.wants}}


def _tool(function: Callable[..., Json], name: str | None, description: str | None, options: dict[str, Json]) -> Tool:
    hints = typing.get_type_hints(function, include_extras=True)
    told, about = _documented(function)
    properties: dict[str, Json] = {}
    required, wants = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: a model calls tools by the names of parameters; {parameter} has none")
        if ToolRun in (hints.get(parameter.name), *typing.get_args(hints.get(parameter.name))):
            wants.append(parameter.name)
            continue
        schema = _schema(hints.get(parameter.name, Any))
        if parameter.name in about:
            schema.setdefault("description", about[parameter.name])
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif isinstance(parameter.default, (str, int, float, bool)) and not isinstance(parameter.default, enum.Enum):
            schema.setdefault("default", parameter.default)
        properties[parameter.name] = schema
    parameters = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        parameters["required"] = required
    declared = {"name": name or function.__name__, "description": description or told, "parameters": parameters, **options}
    return Tool(function, declared, {name: hints.get(name, Any) for name in properties}, wants)


def _documented(function: Callable[..., Json]) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and those of the parameters: `city: where`, also below `Args:`."""
    names = set(inspect.signature(function).parameters)
    told: list[str] = []
    about: dict[str, str] = {}
    last = None
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        found = re.match(r"\s*(\w+)(?: \([^)]*\))?: +(.*)", line)
        if found and found[1] in names:
            last = found[1]
            about[last] = found[2].strip()
        elif re.match(r"(Args|Arguments|Parameters|Returns|Raises|Yields):", line):
            last = ""
        elif last and line.startswith(" ") and line.strip():
            about[last] += f" {line.strip()}"
        elif last is None:
            told.append(line)
    return "\n".join(told).strip(), about


_SCHEMAS: dict[Any, dict[str, Json]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.datetime: {"type": "string", "format": "date-time"},
}


def _schema(hint: Any) -> dict[str, Json]:
    """The JSON Schema of a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is None and hint in (Any, object):
        return {}
    if origin is None and hint in _SCHEMAS:
        return dict(_SCHEMAS[hint])
    if origin is typing.Annotated:
        texts = [note for note in inner[1:] if isinstance(note, str)]
        given = next((note for note in inner[1:] if isinstance(note, dict)), {})
        return {**_schema(inner[0]), **({"description": texts[0]} if texts else {}), **given}
    if origin in (typing.Required, typing.NotRequired):
        return _schema(inner[0])
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(one) for one in inner]}
    if origin in (list, set, frozenset, tuple, collections.abc.Sequence):
        items = inner[0] if inner else Any
        return {"type": "array", "items": _schema(items), **({"uniqueItems": True} if origin in (set, frozenset) else {})}
    if origin in (dict, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [one.value for one in hint]}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = [field for field in dataclasses.fields(hint) if field.init]
        needed = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
        return _object({field.name: hints[field.name] for field in fields}, needed)
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        # Of annotations that are texts the class itself doesn't know which it needs.
        needed = [name for name, one in hints.items() if name in hint.__required_keys__ and typing.get_origin(one) is not typing.NotRequired]
        return _object(hints, needed)
    raise TypeError(f"no JSON Schema is known for {hint!r}; annotate the parameter with Annotated[Any, {{…schema…}}]")


def _object(hints: dict[str, Any], needed: list[str]) -> dict[str, Json]:
    schema = {"type": "object", "properties": {name: _schema(one) for name, one in hints.items()}, "additionalProperties": False}
    return {**schema, "required": needed} if needed else schema


def _taken(hint: Any, value: Json) -> Json:
    """A value of JSON as its type wants it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return _taken(inner[0], value)
    if origin in (typing.Union, types.UnionType):
        fitting = [one for one in inner if one is not type(None)]
        return value if value is None or len(fitting) != 1 else _taken(fitting[0], value)
    if isinstance(value, list) and origin in (list, set, frozenset, tuple, collections.abc.Sequence):
        made = [_taken(inner[0] if inner else Any, one) for one in value]
        return made if origin in (list, collections.abc.Sequence) else origin(made)
    if isinstance(value, dict) and origin in (dict, collections.abc.Mapping):
        return {name: _taken(inner[1], one) for name, one in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (datetime.date, datetime.datetime) and isinstance(value, str):
        return hint.fromisoformat(value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: _taken(hints.get(name, Any), one) for name, one in value.items()})
    return value


# ---- signatures ------------------------------------------------------------------------------------------------------------------------

TOLERANCE_SECS = 300
"""A request may be so old, or so far ahead."""


def verify(secrets: str | Iterable[str], headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> str:
    """Checks a signature as Standard Webhooks defines it; gives the request's id. While secrets change, either may have signed."""
    names = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (names.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id and timestamp and signatures):
        raise BadSignature("the request isn't signed")
    if not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise BadSignature("webhook-timestamp is no time")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECS:
        raise BadSignature("the request is too old, or a clock is wrong")
    given = [text[3:].encode() for text in signatures.split(" ") if text.startswith("v1,")]
    fits = False
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        signed = hmac.new(_key(secret), f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        for one in given:
            # All are compared, however early one fits.
            fits |= hmac.compare_digest(base64.b64encode(signed), one)
    if not fits:
        raise BadSignature("no signature fits the secret")
    return id


def _key(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret[len("whsec_") :], validate=True)
    except binascii.Error:
        raise ValueError("a secret begins with whsec_ and isn't base64 after that") from None


# ---- the agent -------------------------------------------------------------------------------------------------------------------------

Handler = Callable[[Turn], Json]
_H = typing.TypeVar("_H", bound=Callable[..., Json])


class Agent:
    """An agent, or several that share this program: its handlers and its tools.

    Handlers and tools may be `async` or not; those that aren't run on threads of their own.
    """

    def __init__(self, *ids: str, declare: bool = True) -> None:
        """With `declare` Headwater is told of the tools (instead of those in its configuration)."""
        if not ids:
            raise ValueError("an agent has a name: the one in Headwater's configuration")
        self.ids, self._declares = ids, declare
        self._handlers: dict[str, Handler] = {}
        self._tools: dict[str, Tool] = {}
        self._once = _Once()
        self._threads: concurrent.futures.Executor | None = None

    # -- what it does

    def on(self, trigger: str) -> Callable[[_H], _H]:
        """Decides what is done when something of that type happened."""

        def register(handler: _H) -> _H:
            if trigger in self._handlers:
                raise ValueError(f"{trigger} has a handler already")
            self._handlers[trigger] = handler
            return handler

        return register

    def on_messages(self, handler: _H) -> _H:
        """Messages came, and a turn began."""
        return self.on("client.messages")(handler)

    def on_reply(self, handler: _H) -> _H:
        """A model call ended."""
        return self.on("llm.finished")(handler)

    def on_results(self, handler: _H) -> _H:
        """The last result of a reply's tool calls came."""
        return self.on("tool.finished")(handler)

    def on_limit(self, handler: _H) -> _H:
        """A model call waits: there is no room for it in the context window."""
        return self.on("context.limit")(handler)

    def on_resume(self, handler: _H) -> _H:
        """All that paused the turn was answered."""
        return self.on("interrupt.resumed")(handler)

    def on_action(self, handler: _H) -> _H:
        """The front end asks for something that isn't a message."""
        return self.on("client.action")(handler)

    def on_finish(self, handler: _H) -> _H:
        """The turn is about to end well. Asked only when the worker's `triggers` in the configuration say so."""
        return self.on("turn.finished")(handler)

    def tool(self, function: _H | None = None, /, *, name: str | None = None, description: str | None = None, idempotent: bool = False, **options: Json) -> Any:
        """A function that the model may call. What the model is told comes from its name, its types and its docstring.

        `idempotent`: a call may be carried out twice. Others of `options` (attempts, attempt_secs, bad_arguments) go to Headwater as they are.
        """

        def register(function: _H) -> _H:
            tool = _tool(function, name, description, {"idempotent": idempotent, **options})
            if tool.declared["name"] in self._tools:
                raise ValueError(f"there are two tools {tool.declared['name']}")
            self._tools[tool.declared["name"]] = tool
            return function

        return register(function) if function else register

    @property
    def tools(self) -> list[dict[str, Json]]:
        """What Headwater is told of the tools."""
        return [tool.declared for tool in self._tools.values()]

    # -- deciding

    async def decide(self, request: dict[str, Json]) -> Answer:
        """Answers one request."""
        if request["trigger"]["type"] == "tool.execute":
            return await self._execute(request)
        turn = Turn(request)
        handler = self._handlers.get(turn.trigger["type"])
        if turn.trigger["type"] == "client.messages":
            self._declare(turn)
        said = await self._run(handler, turn) if handler else None
        return turn.answer(None if said is turn else said)

    def _declare(self, turn: Turn) -> None:
        """Tells Headwater of the tools, where it doesn't know them yet: what is told holds for the branch."""
        known = turn.config.get("tools")
        if not self._declares or not self._tools or (known is not None and _within(self.tools, known)):
            return
        turn.configure(tools=self.tools)

    async def _execute(self, request: dict[str, Json]) -> Answer:
        trigger: Trigger = request["trigger"]
        tool = self._tools.get(trigger["name"])
        if tool is None:
            return _failed(trigger, f"this agent's worker has no tool {trigger['name']}")
        given = trigger.get("input") or {}
        if "valid" not in given:
            wrong = (given.get("invalid") or {}).get("errors") or [given.get("malformed") or "they are no JSON"]
            return _failed(trigger, "the arguments aren't as they should be: " + "; ".join(map(str, wrong)))
        run = ToolRun(
            id=trigger["id"],
            name=trigger["name"],
            attempt=trigger.get("attempt", 1),
            key=trigger.get("key", ""),
            deadline=request.get("deadline", 0) / 1000,
            session_id=request.get("session_id", ""),
            turn_id=request.get("turn_id", ""),
            state=request.get("state"),
            request=request,
        )
        try:
            arguments = tool.arguments(given["valid"] or {}, run)
        except (TypeError, ValueError) as error:
            return _failed(trigger, f"the arguments aren't as they should be: {error}")
        try:
            result = await self._run(tool.run, **arguments)
            return {"actions": [{"type": "tool.result", "id": trigger["id"], **_content("" if result is None else result)}]}
        except ToolError as error:
            return _failed(trigger, str(error), error.retryable)
        except Exception as error:
            _tell(error, f"the tool {trigger['name']}")
            # What went wrong may hold what no model should read.
            return _failed(trigger, f"the tool failed ({type(error).__name__})", bool(tool.declared["idempotent"]))

    async def _run(self, function: Callable[..., Json], *args: Json, **kwargs: Json) -> Json:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        if self._threads is None:
            self._threads = concurrent.futures.ThreadPoolExecutor(max_workers=64, thread_name_prefix="headwater")
        made = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))
        return await made if inspect.isawaitable(made) else made

    async def answer(self, request: dict[str, Json]) -> Answer:
        """Answers one request; one that came before is answered as before."""
        began, attempt = time.monotonic(), request.get("attempt", 1)
        what = f"{request['trigger']['type']} ({request['decision_id']}, attempt {attempt})"
        try:
            answer = await self._once(request, self.decide)
        except asyncio.CancelledError:
            log.info("%s: given up", what)
            raise
        except Exception as error:
            _tell(error, what)
            raise
        done = ", ".join(action["type"] for action in answer.get("actions", ())) or "nothing"
        log.info("%s: %s, in %d ms", what, done, (time.monotonic() - began) * 1000)
        return answer

    def refusal(self, request: Json) -> tuple[int, dict[str, str]] | None:
        """Why something is no request to this agent."""
        if not isinstance(request, dict) or not isinstance(request.get("trigger"), dict) or not isinstance(request["trigger"].get("type"), str):
            return 400, {"error": "bad_request", "message": "this is no decision: it has no trigger with a type"}
        if not isinstance(request.get("decision_id"), str):
            return 400, {"error": "bad_request", "message": "this is no decision: it has no decision_id"}
        if request.get("agent_id") not in self.ids:
            return 404, {"error": "agent_not_found", "message": f"this worker decides for {', '.join(self.ids)}"}
        return None

    async def receive(self, headers: Mapping[str, str], body: bytes, secrets: Iterable[str] = ()) -> tuple[int, dict[str, Json]]:
        """Answers one HTTP request: the status and the body. For who has a server already."""
        secrets = list(secrets)
        try:
            if secrets:
                verify(secrets, headers, body)
            request = json.loads(body)
        except BadSignature as error:
            log.warning("a request was refused: %s", error)
            return 401, {"error": "unauthorized", "message": str(error)}
        except ValueError:
            return 400, {"error": "bad_json", "message": "the body is no JSON"}
        refused = self.refusal(request)
        if refused:
            return refused
        try:
            return 200, dict(await self.answer(request))
        except Exception as error:
            return 500, {"error": "worker_failed", "message": f"the handler failed ({type(error).__name__})"}

    # -- being asked

    def serve(self, port: int = 9000, host: str = "127.0.0.1", *, secret: str | None = None, old_secret: str | None = None, most: int = 64) -> None:
        """Is asked over HTTP, until the process is told to stop. `most` decisions at once."""
        _logs()
        asyncio.run(_until_stopped(self.serving(port, host, secret=secret, old_secret=old_secret, most=most)))

    async def serving(
        self, port: int = 9000, host: str = "127.0.0.1", *, secret: str | None = None, old_secret: str | None = None, most: int = 64, grace: float = 20, ready: Callable[[str], None] | None = None
    ) -> None:
        """The same inside a program that has an event loop; ends when it is cancelled, once what runs has been answered."""
        secrets = [one for one in (secret, old_secret) if one]
        for one in secrets:
            _key(one)
        if not secrets and not _is_loopback(host):
            raise ValueError("who listens for other machines needs a secret: anybody could ask")
        await _serve(self, (host, port), secrets, most, grace, ready)

    def connect(self, url: str, *, agents: Iterable[str] | None = None, token: str | None = None, credit: int = 16, name: str | None = None) -> None:
        """Dials in over a WebSocket, again and again, until the process is told to stop: for all its agents, or only for these. `credit`
        decisions at once."""
        _logs()
        asyncio.run(_until_stopped(self.connecting(url, agents=agents, token=token, credit=credit, name=name)))

    async def connecting(
        self,
        url: str,
        *,
        agents: Iterable[str] | None = None,
        token: str | None = None,
        credit: int = 16,
        name: str | None = None,
        grace: float = 20,
        ready: Callable[[str], None] | None = None,
    ) -> None:
        """The same inside a program that has an event loop; ends when it is cancelled, once what runs has been answered."""
        hello = {"type": "hello", "agent_ids": list(self.ids if agents is None else agents), "credit": credit, "token": token, "name": name}
        await _Dialler(self, url, {key: value for key, value in hello.items() if value is not None}, grace, ready).run()


def _within(wanted: Json, given: Json) -> bool:
    """Whether all that is wanted is given; what is false may be left out."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        return all(_within(value, given.get(name, False if value is False else None)) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(given, list):
        return len(wanted) == len(given) and all(map(_within, wanted, given))
    return bool(wanted == given)


def _failed(trigger: Trigger, error: str, retryable: bool = False) -> Answer:
    action = {"type": "tool.error", "id": trigger["id"], "error": error}
    return {"actions": [{**action, "retryable": True} if retryable else action]}


def _tell(error: BaseException, what: str) -> None:
    """Where something failed, and of what kind; what it says may be a person's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    log.error("%s failed: %s at %s", what, type(error).__name__, where)
    log.debug("%s", what, exc_info=error)


def _logs() -> None:
    """A program that has no logs of its own gets lines on standard error."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("websockets").setLevel(logging.WARNING)


class _Known:
    """A decision that was asked."""

    def __init__(self, request: dict[str, Json], decide: Callable[[dict[str, Json]], Awaitable[Answer]]) -> None:
        self.request = request
        self.attempt: int = request.get("attempt", 1)
        self.size = 0
        self.task: asyncio.Task[Answer] = asyncio.ensure_future(self._make(decide))

    async def _make(self, decide: Callable[[dict[str, Json]], Awaitable[Answer]]) -> Answer:
        answer = await decide(self.request)
        # Now, so that what can't be written fails here.
        self.size = len(_written(answer))
        return answer

    @property
    def is_tool(self) -> bool:
        return bool(self.request["trigger"]["type"] == "tool.execute")

    def holds(self, attempt: int) -> bool:
        """Whether that attempt has the same answer: this one runs still, it is the same, or the tool has been carried out."""
        if not self.task.done() or attempt <= self.attempt:
            return True
        return self.is_tool and any(action["type"] == "tool.result" for action in self.task.result().get("actions", ()))


class _Once:
    """Each attempt is decided once, however often it is asked."""

    def __init__(self, most: int = 512, bytes_max: int = 32 << 20) -> None:
        self._known: collections.OrderedDict[tuple[str, str], _Known] = collections.OrderedDict()
        self._most, self._bytes_max, self._bytes = most, bytes_max, 0

    async def __call__(self, request: dict[str, Json], decide: Callable[[dict[str, Json]], Awaitable[Answer]]) -> Answer:
        key = (request.get("session_id", ""), request["decision_id"])
        known = self._known.get(key)
        if known is None or not known.holds(request.get("attempt", 1)):
            self._forget(key)
            known = self._known[key] = _Known(request, decide)
            known.task.add_done_callback(functools.partial(self._ended, key, known))
        self._known.move_to_end(key)
        # Who asked may go away; the decision goes on for who asks again.
        return await asyncio.shield(known.task)

    def give_up(self, decision_id: str) -> None:
        """Nobody wants the answer any more. One whose time is over goes on for the next attempt, and a tool goes on in any case."""
        for (_, id), known in self._known.items():
            if id == decision_id and not known.is_tool and time.time() * 1000 < known.request.get("deadline", 0):
                known.task.cancel()

    def _ended(self, key: tuple[str, str], known: _Known, _: asyncio.Task[Answer]) -> None:
        if self._known.get(key) is not known:
            return
        if known.task.cancelled() or known.task.exception():
            # The next one tries again.
            self._forget(key)
            return
        self._bytes += known.size
        for old in [old for old, other in self._known.items() if other.task.done()]:
            if len(self._known) <= self._most and self._bytes <= self._bytes_max:
                return
            self._forget(old)

    def _forget(self, key: tuple[str, str]) -> None:
        known = self._known.pop(key, None)
        if known and known.task.done():
            self._bytes -= known.size

    @property
    def running(self) -> list[asyncio.Task[Answer]]:
        return [known.task for known in self._known.values() if not known.task.done()]


async def _until_stopped(work: typing.Coroutine[Any, Any, None]) -> None:
    """Until SIGINT or SIGTERM; then what runs is answered."""
    task = asyncio.ensure_future(work)
    for name in ("SIGINT", "SIGTERM"):
        try:
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), task.cancel)
        except (NotImplementedError, RuntimeError, ValueError):
            log.debug("%s ends the process at once here", name)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopped")


async def _drained(agents: Iterable[Agent], grace: float) -> None:
    running = [task for agent in agents for task in agent._once.running]
    if running:
        log.info("%d decisions are still being made", len(running))
        await asyncio.wait(running, timeout=grace)


# ---- over HTTP -------------------------------------------------------------------------------------------------------------------------

BODY_BYTES_MAX = 64 << 20
"""A larger request is refused."""
IDLE_SECS = 90
"""A connection on which nothing comes is closed."""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(agent: Agent, address: tuple[str, int], secrets: list[str], most: int, grace: float, ready: Callable[[str], None] | None) -> None:
    loop = asyncio.get_running_loop()
    places = asyncio.Semaphore(most)
    stopping = threading.Event()
    lag = threading.Lock()
    asked = 0

    async def receive(headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Json]]:
        async with places:
            return await agent.receive(headers, body, secrets)

    class Request(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECS

        def do_POST(self) -> None:
            nonlocal asked
            length = self.headers.get("content-length", "")
            if not length.isdecimal():
                return self.reply(411, {"error": "bad_request", "message": "the request has no content-length"}, close=True)
            if int(length) > BODY_BYTES_MAX:
                return self.reply(413, {"error": "body_too_large", "message": f"{BODY_BYTES_MAX} bytes are allowed"}, close=True)
            body = self.rfile.read(int(length))
            with lag:
                if stopping.is_set() or asked >= most * 16:
                    return self.reply(503, {"error": "busy", "message": "ask again in a moment"}, close=True)
                asked += 1
            try:
                self.reply(*asyncio.run_coroutine_threadsafe(receive(dict(self.headers), body), loop).result())
            finally:
                with lag:
                    asked -= 1

        def do_GET(self) -> None:
            self.reply(405, {"error": "method_not_allowed", "message": "decisions are POSTed"})

        def reply(self, status: int, body: dict[str, Json], *, close: bool = False) -> None:
            text = _written(body).encode()
            self.close_connection |= close or stopping.is_set()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            if status == 503:
                self.send_header("retry-after", "1")
            if self.close_connection:
                self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Json) -> None:
            """Decisions have lines of their own."""

        def version_string(self) -> str:
            return "headwater-worker"

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            log.debug("a connection ended", exc_info=True)

    server = Server(address, Request)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    url = f"http://{address[0]}:{server.server_address[1]}"
    log.info("%s is asked at %s%s", ", ".join(agent.ids), url, "" if secrets else " (requests needn't be signed)")
    try:
        if ready:
            ready(url)
        await asyncio.Event().wait()
    finally:
        stopping.set()
        await asyncio.to_thread(server.shutdown)
        await _drained([agent], grace)
        # Those threads write what was answered just now.
        deadline = time.monotonic() + 1
        while asked and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        server.socket.close()


# ---- over a socket ---------------------------------------------------------------------------------------------------------------------

PAUSE_SECS = (0.25, 15.0)
"""Between two attempts to connect: at first, and at most."""
FOR_GOOD = (4001, 4003)
"""Closed with one of these, it won't be let in next time either."""


class _Dialler:
    def __init__(self, agent: Agent, url: str, hello: dict[str, Json], grace: float, ready: Callable[[str], None] | None) -> None:
        self.agent, self.url, self.hello, self.grace, self.ready = agent, url, hello, grace, ready
        self.pause = PAUSE_SECS[0]
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
        except ImportError:
            raise RuntimeError("a socket needs the package websockets: pip install websockets") from None
        while True:
            try:
                # Over loopback and between machines alike no proxy is looked for.
                async with connect(self.url, max_size=BODY_BYTES_MAX, ping_interval=20, ping_timeout=20, proxy=None) as socket:
                    await self.serve(socket)
            except InvalidURI:
                raise
            except ConnectionClosed as closed:
                end = closed.rcvd
                if end and end.code in FOR_GOOD:
                    raise Refused(f"{end.code} {end.reason}") from None
                log.warning("the socket closed: %s", f"{end.code} {end.reason}" if end else "the connection broke")
            except (OSError, InvalidHandshake, TimeoutError) as error:
                log.warning("%s can't be reached: %s", self.url, type(error).__name__)
            await asyncio.sleep(self.pause * random.uniform(0.5, 1))
            self.pause = min(self.pause * 2, PAUSE_SECS[1])

    async def serve(self, socket: Any) -> None:
        await socket.send(_written(self.hello))
        try:
            async for text in socket:
                self.frame(socket, json.loads(text))
            # Closed with 1000 or 1001, which isn't an error to the library.
            log.warning("the socket closed: %s", socket.close_code)
        except asyncio.CancelledError:
            await self.leave(socket)
            raise

    def frame(self, socket: Any, frame: dict[str, Json]) -> None:
        match frame.get("type"):
            case "welcome":
                self.pause = PAUSE_SECS[0]
                log.info("%s is asked over %s", ", ".join(self.hello["agent_ids"]), self.url)
                if self.ready:
                    self.ready(self.url)
            case "decision":
                task = asyncio.ensure_future(self.decide(socket, frame["decision"]))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            case "cancelled":
                self.agent._once.give_up(frame["decision_id"])
            case "refused":
                log.warning("the answer to %s was refused: %s at %s: %s", frame.get("decision_id"), frame.get("error"), frame.get("at"), frame.get("message"))
            case "error":
                log.warning("Headwater refused a frame: %s: %s", frame.get("error"), frame.get("message"))
            case _:
                pass  # answered, pong, and whatever is told one day.

    async def decide(self, socket: Any, request: dict[str, Json]) -> None:
        refused = self.agent.refusal(request)
        frame: dict[str, Json] = {"type": "failed", "decision_id": request.get("decision_id")}
        try:
            if refused:
                frame["message"] = refused[1]["message"]
            else:
                frame = {"type": "answer", "decision_id": request["decision_id"], "answer": await self.agent.answer(request)}
        except asyncio.CancelledError:
            return
        except Exception as error:
            frame["message"] = f"the handler failed ({type(error).__name__})"
        try:
            await socket.send(_written(frame))
        except Exception as error:
            log.debug("the answer to %s waits until it is asked again: %s", request.get("decision_id"), type(error).__name__)

    async def leave(self, socket: Any) -> None:
        """Takes nothing new, answers what it has, and goes."""
        try:
            async with asyncio.timeout(self.grace):
                await socket.send(_written({"type": "credit", "credit": 0}))
                reading = asyncio.ensure_future(self.read_on(socket))
                while self.tasks:
                    await asyncio.wait(self.tasks)
                reading.cancel()
                await socket.close(1000)
        except Exception as error:
            log.debug("the socket was lost while it was closed: %s", type(error).__name__)

    async def read_on(self, socket: Any) -> None:
        try:
            async for text in socket:
                self.frame(socket, json.loads(text))
        except Exception as error:
            log.debug("the socket was lost while it was closed: %s", type(error).__name__)
