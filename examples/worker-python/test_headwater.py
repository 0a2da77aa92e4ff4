"""The library against a gateway that these tests play: python -m unittest. Needs the package websockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import enum
import hashlib
import hmac
import http.client
import json
import logging
import random
import threading
import time
import unittest
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from websockets.asyncio.server import serve

from headwater import Agent, BadSignature, Call, Refused, ToolError, ToolRun, Turn, verify

logging.getLogger("headwater").setLevel(logging.CRITICAL)
logging.getLogger("websockets").setLevel(logging.CRITICAL)


def asked(trigger: dict[str, Any] | str = "client.messages", **more: Any) -> dict[str, Any]:
    """A request."""
    what = {"type": trigger} if isinstance(trigger, str) else trigger
    return {
        "session_id": "s1",
        "decision_id": "d1",
        "agent_id": "bot",
        "turn_id": "t1",
        "trigger": what,
        "proposed": {"actions": [{"type": "llm.call"}]},
        "messages": [{"id": "u1", "role": "user", "content": "Hello"}],
        "calls": [],
        "pending_calls": [],
        "attempt": 1,
        "deadline": int((time.time() + 20) * 1000),
        **more,
    }


def execute(name: str, arguments: Any, *, attempt: int = 1, **more: Any) -> dict[str, Any]:
    """A request to carry a tool call out."""
    given = arguments if isinstance(arguments, dict) and set(arguments) <= {"valid", "invalid", "malformed"} and arguments else {"valid": arguments}
    trigger = {"type": "tool.execute", "id": "c1", "name": name, "arguments": json.dumps(arguments), "input": given, "attempt": attempt, "key": "s1/c1"}
    return asked(trigger, proposed={}, attempt=attempt, **{"decision_id": "x1", **more})


async def until(is_so: Callable[[], Any]) -> None:
    """Waits for something to become true."""
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.002)


def signed(secret: bytes, body: bytes, *, id: str = "d1", at: float | None = None) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    signature = base64.b64encode(hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()).decode()
    return {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


class Signatures(unittest.TestCase):
    BODY = b'{"test": 2432232314}'
    VECTOR = {"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330", "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}
    SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    def test_the_vector_of_standard_webhooks(self) -> None:
        self.assertEqual(verify(self.SECRET, self.VECTOR, self.BODY, now=1614265330), self.VECTOR["Webhook-Id"])

    def test_any_of_the_secrets_fits_any_of_the_signatures(self) -> None:
        headers = self.VECTOR | {"Webhook-Signature": f"v1,AAAA v1a,other {self.VECTOR['Webhook-Signature']}"}
        verify(["new", self.SECRET], headers, self.BODY, now=1614265330)

    def test_what_is_wrong_is_refused(self) -> None:
        for what, headers, secret, body, late in [
            ("another body", {}, self.SECRET, b"{}", 0),
            ("another id", {"Webhook-Id": "msg_other"}, self.SECRET, self.BODY, 0),
            ("another secret", {}, "whsec_AAAA", self.BODY, 0),
            ("no signature", {"Webhook-Signature": ""}, self.SECRET, self.BODY, 0),
            ("another kind of signature", {"Webhook-Signature": "v2,g0hM9SsE"}, self.SECRET, self.BODY, 0),
            ("no time", {"Webhook-Timestamp": "soon"}, self.SECRET, self.BODY, 0),
            ("too old", {}, self.SECRET, self.BODY, 301),
            ("from ahead", {}, self.SECRET, self.BODY, -301),
        ]:
            with self.subTest(what), self.assertRaises(BadSignature):
                verify(secret, self.VECTOR | headers, body, now=1614265330 + late)
        verify(self.SECRET, self.VECTOR, self.BODY, now=1614265330 + 299)

    def test_a_secret_that_is_none_is_said(self) -> None:
        with self.assertRaisesRegex(ValueError, "base64"):
            verify("whsec_!", self.VECTOR, self.BODY, now=1614265330)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    city: str
    country: str = "CH"


class Options(TypedDict):
    brief: bool
    language: NotRequired[str]


class Schemas(unittest.TestCase):
    def declared(self, function: Any, **options: Any) -> dict[str, Any]:
        agent = Agent("bot")
        agent.tool(**options)(function)
        return agent.tools[0]

    def test_a_tool_is_what_its_signature_and_docstring_say(self) -> None:
        def weather(city: str, days: int = 3, run: ToolRun | None = None) -> str:
            """Weather of a city.

            It may be wrong.

            Args:
                city (str): where, in
                    English
                days: how many

            Returns:
                what to expect
            """
            return ""

        self.assertEqual(
            self.declared(weather, idempotent=True, attempts=2),
            {
                "name": "weather",
                "description": "Weather of a city.\n\nIt may be wrong.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string", "description": "where, in English"}, "days": {"type": "integer", "description": "how many", "default": 3}},
                    "additionalProperties": False,
                    "required": ["city"],
                },
                "idempotent": True,
                "attempts": 2,
            },
        )

    def test_types_have_schemas(self) -> None:
        def all_kinds(
            a: float,
            b: bool,
            c: list[int],
            d: dict[str, float],
            e: Literal["x", 1],
            f: str | None,
            g: Colour,
            h: Place,
            i: Options,
            j: Annotated[str, "A name.", {"minLength": 1}],
            k: Any,
            m: datetime.date,
            n: set[str],
        ) -> None: ...

        properties = self.declared(all_kinds)["parameters"]["properties"]
        place = {"type": "object", "properties": {"city": {"type": "string"}, "country": {"type": "string"}}, "additionalProperties": False, "required": ["city"]}
        options = {"type": "object", "properties": {"brief": {"type": "boolean"}, "language": {"type": "string"}}, "additionalProperties": False, "required": ["brief"]}
        self.assertEqual(
            properties,
            {
                "a": {"type": "number"},
                "b": {"type": "boolean"},
                "c": {"type": "array", "items": {"type": "integer"}},
                "d": {"type": "object", "additionalProperties": {"type": "number"}},
                "e": {"enum": ["x", 1]},
                "f": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "g": {"enum": ["red", "blue"]},
                "h": place,
                "i": options,
                "j": {"type": "string", "description": "A name.", "minLength": 1},
                "k": {},
                "m": {"type": "string", "format": "date"},
                "n": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            },
        )

    def test_what_no_model_can_call_is_refused_at_once(self) -> None:
        def starred(*cities: str) -> None: ...
        def odd(when: threading.Thread) -> None: ...

        for function in (starred, odd):
            with self.subTest(function.__name__), self.assertRaises(TypeError):
                self.declared(function)
        agent = Agent("bot")
        agent.tool(name="same")(lambda: 1)
        with self.assertRaises(ValueError):
            agent.tool(name="same")(lambda: 2)


class Deciding(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.agent = Agent("bot")

    async def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        return dict(await self.agent.decide(request))

    async def test_what_nobody_decides_is_done_as_proposed(self) -> None:
        for trigger in ("client.messages", "llm.finished", "something.newer"):
            self.assertEqual(await self.decide(asked(trigger)), {"actions": [{"type": "llm.call"}]})

    async def test_a_handler_adds_to_what_is_proposed_or_decides(self) -> None:
        seen: list[Turn] = []

        @self.agent.on_messages
        def reply(turn: Turn) -> Any:
            seen.append(turn)
            match turn.text:
                case "note":
                    turn.say("One moment.").custom("app.note", 1)
                case "echo":
                    return "You said echo"
                case "stop":
                    return turn.done()
                case "both":
                    return turn.accept().act("sub_agent.spawn", agent_id="other")
                case "raw":
                    return {"actions": []}
            return None

        async def answer(text: str) -> dict[str, Any]:
            return await self.decide(asked({"type": "client.messages", "new_from": 0}, messages=[{"role": "user", "content": [{"type": "text", "text": text}]}]))

        call, say = {"type": "llm.call"}, lambda text: [{"role": "assistant", "content": text}]
        self.assertEqual(await answer("note"), {"messages": say("One moment."), "actions": [{"type": "custom", "name": "app.note", "value": 1}, call]})
        self.assertEqual(await answer("echo"), {"messages": say("You said echo"), "actions": [{"type": "done"}]})
        self.assertEqual(await answer("stop"), {"actions": [{"type": "done"}]})
        self.assertEqual(await answer("both"), {"actions": [call, {"type": "sub_agent.spawn", "agent_id": "other"}]})
        self.assertEqual(await answer("raw"), {"actions": []})
        self.assertEqual(await answer("anything"), {"actions": [call]})
        self.assertEqual(len(seen[0].new_messages), 1)

    async def test_state_is_told_when_it_changed(self) -> None:
        @self.agent.on_messages
        async def reply(turn: Turn) -> None:
            turn.state.setdefault("count", 0)
            turn.state["count"] += turn.text == "more"
            if turn.text == "clear":
                turn.state.clear()

        async def state(text: str, before: Any) -> Any:
            return (await self.decide(asked(state=before, messages=[{"role": "user", "content": text}]))).get("state", "as it was")

        self.assertEqual(await state("more", None), {"count": 1})
        self.assertEqual(await state("more", {"count": 1, "x": [1]}), {"count": 2, "x": [1]})
        self.assertEqual(await state("less", {"count": 1}), "as it was")
        self.assertEqual(await state("clear", {"count": 1}), {})

    async def test_an_interrupt_is_raised_and_answered(self) -> None:
        @self.agent.on_reply
        def ask(turn: Turn) -> None:
            for call in turn.pending:
                if call.input["amount"] > 100:
                    turn.interrupt("approval", "Pay?", call=call, payload={"amount": call.input["amount"]})

        @self.agent.on_resume
        def go_on(turn: Turn) -> None:
            for answer in turn.resumed:
                if answer.approved:
                    turn.call_tool(answer.tool_call_id)
                else:
                    turn.tool_error(answer.tool_call_id, "They said no.")

        calls = [{"id": name, "type": "function", "function": {"name": "pay", "arguments": json.dumps({"amount": amount})}} for name, amount in (("c1", 500), ("c2", 700))]
        raised = await self.decide(asked("llm.finished", calls=calls, pending_calls=["c2"]))
        self.assertEqual(raised, {"actions": [{"type": "interrupt", "reason": "approval", "message": "Pay?", "tool_call_id": "c2", "payload": {"amount": 700}}]})
        for status, payload, expected in [
            ("resolved", {"approved": True}, {"type": "tool.call", "id": "c2"}),
            ("resolved", True, {"type": "tool.call", "id": "c2"}),
            ("resolved", {"approved": False}, {"type": "tool.error", "id": "c2", "error": "They said no."}),
            ("cancelled", None, {"type": "tool.error", "id": "c2", "error": "They said no."}),
        ]:
            trigger = {"type": "interrupt.resumed", "interrupts": [{"interrupt_id": "i1", "status": status, "payload": payload, "interrupt": {"id": "i1", "reason": "approval", "tool_call_id": "c2"}}]}
            self.assertEqual((await self.decide(asked(trigger)))["actions"], [expected])

    async def test_every_action_is_written_as_it_is_read(self) -> None:
        turn = Turn(asked())
        turn.call_model(id="k1", llm="main", model="m", messages=[{"role": "user", "content": "x"}], stream=False, temperature=0.5)
        turn.tool_result("c1", {"n": 1}).replace(summary="s").resolve("i1", 5).activity("plan", {"step": 1}).send("s2", {"role": "user", "content": "y"}).spawn("other", message="z").done({"ok": True})
        self.assertEqual(
            turn.answer()["actions"],
            [
                {"type": "llm.call", "id": "k1", "llm": "main", "model": "m", "messages": [{"role": "user", "content": "x"}], "stream": False, "temperature": 0.5},
                {"type": "tool.result", "id": "c1", "content": '{"n": 1}'},
                {"type": "context.replace", "summary": "s"},
                {"type": "interrupt.resolve", "interrupt_id": "i1", "payload": 5},
                {"type": "activity", "activity_type": "plan", "content": {"step": 1}},
                {"type": "message.send", "session_id": "s2", "message": {"role": "user", "content": "y"}},
                {"type": "sub_agent.spawn", "agent_id": "other", "message": "z"},
                {"type": "done", "data": {"ok": True}},
            ],
        )
        self.assertEqual(Turn(asked()).configure(system="Be brief.", model=None).answer()["agent"], {"system": "Be brief.", "model": None})

    async def test_tools_are_told_once_a_branch(self) -> None:
        @self.agent.tool
        def now() -> str:
            """The time."""
            return "12:00"

        told = (await self.decide(asked()))["agent"]["tools"]
        self.assertEqual([tool["name"] for tool in told], ["now"])
        known = [{"name": "now", "description": "The time.", "parameters": told[0]["parameters"], "by": "worker", "attempts": 3, "attempt_secs": 60}]
        self.assertNotIn("agent", await self.decide(asked(agent={"tools": known})))
        self.assertIn("agent", await self.decide(asked(agent={"tools": [known[0] | {"description": "Another."}]})))
        self.assertNotIn("agent", await self.decide(asked("llm.finished")))
        silent = Agent("bot", declare=False)
        silent.tool(now)
        self.assertNotIn("agent", dict(await silent.decide(asked())))

    async def test_a_tool_gets_its_arguments_in_its_own_types(self) -> None:
        got: list[Any] = []

        @self.agent.tool
        async def book(place: Place, colour: Colour, when: datetime.date, run: ToolRun, weight: float = 1) -> dict[str, Any]:
            got.extend([place, colour, when, weight, run.key, run.attempt])
            return {"place": place, "at": when}

        arguments = {"place": {"city": "Bern"}, "colour": "red", "when": "2026-12-01", "weight": 2}
        answer = await self.decide(execute("book", {"valid": arguments}))
        self.assertEqual(got, [Place("Bern"), Colour.RED, datetime.date(2026, 12, 1), 2.0, "s1/c1", 1])
        self.assertIsInstance(got[3], float)
        self.assertEqual(answer, {"actions": [{"type": "tool.result", "id": "c1", "content": '{"place": {"city": "Bern", "country": "CH"}, "at": "2026-12-01"}'}]})

    async def test_tools_fail_in_words_that_a_model_may_read(self) -> None:
        @self.agent.tool
        def strict(n: int) -> int:
            raise ToolError(f"{n} is taken", retryable=n > 1)

        @self.agent.tool(idempotent=True)
        def broken() -> int:
            raise RuntimeError("password=hunter2")

        @self.agent.tool(name="broken_once")
        def also_broken() -> float:
            return float("nan")

        async def error(request: dict[str, Any]) -> dict[str, Any]:
            action = (await self.decide(request))["actions"][0]
            self.assertEqual((action.pop("type"), action.pop("id")), ("tool.error", "c1"))
            return action

        self.assertEqual(await error(execute("strict", {"n": 1})), {"error": "1 is taken"})
        self.assertEqual(await error(execute("strict", {"n": 2})), {"error": "2 is taken", "retryable": True})
        self.assertEqual(await error(execute("broken", {"valid": {}})), {"error": "the tool failed (RuntimeError)", "retryable": True})
        self.assertEqual(await error(execute("broken_once", {"valid": {}})), {"error": "the tool failed (ValueError)"})
        self.assertEqual(await error(execute("nothing", {"valid": {}})), {"error": "this agent's worker has no tool nothing"})
        for wrong in ({"valid": {}}, {"valid": {"n": 1, "m": 2}}, {"invalid": {"value": {}, "errors": ["n is missing"]}}, {"malformed": "EOF"}):
            self.assertIn("the arguments aren't as they should be", (await error(execute("strict", wrong)))["error"])


class Once(unittest.IsolatedAsyncioTestCase):
    async def test_an_attempt_is_decided_once_and_the_next_one_again(self) -> None:
        agent, counts = Agent("bot"), []

        @agent.on_messages
        def reply(turn: Turn) -> str:
            counts.append(turn.attempt)
            return str(len(counts))

        said = [(await agent.answer(asked(attempt=attempt)))["messages"][0]["content"] for attempt in (1, 1, 2, 1, 2)]
        self.assertEqual((said, counts), (["1", "1", "2", "2", "2"], [1, 2]))

    async def test_attempts_meet_while_the_first_one_runs(self) -> None:
        agent, go, counts = Agent("bot"), asyncio.Event(), []

        @agent.tool
        async def slow() -> str:
            counts.append(1)
            await go.wait()
            return "done"

        first = [asyncio.ensure_future(agent.answer(execute("slow", {"valid": {}}, attempt=attempt))) for attempt in (1, 1, 2)]
        await asyncio.sleep(0)
        first[0].cancel()
        go.set()
        answers = await asyncio.gather(*first[1:])
        # It was carried out: no attempt carries it out again.
        answers.append(await agent.answer(execute("slow", {"valid": {}}, attempt=3)))
        self.assertEqual((counts, [answer["actions"][0]["content"] for answer in answers]), ([1], ["done"] * 3))

    async def test_what_failed_is_tried_again(self) -> None:
        agent, counts = Agent("bot"), []

        @agent.tool(idempotent=True)
        def flaky() -> str:
            counts.append(1)
            if len(counts) < 2:
                raise ToolError("busy", retryable=True)
            return "done"

        @agent.on_messages
        def reply(turn: Turn) -> None:
            counts.append(2)
            raise KeyError

        types = [(await agent.answer(execute("flaky", {"valid": {}}, attempt=attempt)))["actions"][0]["type"] for attempt in (1, 1, 2)]
        self.assertEqual((types, counts), (["tool.error", "tool.error", "tool.result"], [1, 1]))
        for _ in range(2):
            with self.assertRaises(KeyError):
                await agent.answer(asked())
        self.assertEqual(counts, [1, 1, 2, 2])

    async def test_old_answers_are_forgotten(self) -> None:
        agent = Agent("bot")
        agent._once._most, agent._once._bytes_max = 5, 1000
        for n in range(20):
            await agent.answer(asked(decision_id=f"d{n}"))
        self.assertEqual(len(agent._once._known), 5)
        agent.on_messages(lambda turn: "x" * 600)
        for n in range(20, 30):
            await agent.answer(asked(decision_id=f"d{n}"))
        self.assertEqual([id for _, id in agent._once._known], ["d29"])
        self.assertEqual(agent._once._bytes, sum(known.size for known in agent._once._known.values()))


@contextlib.asynccontextmanager
async def serving(agent: Agent, **options: Any):
    """The agent as it is asked over HTTP: a function that asks."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(agent.serving(0, ready=started.set_result, **options))
    host, port = (await asyncio.wait_for(started, 5)).removeprefix("http://").split(":")

    def post(body: bytes, headers: dict[str, str], connection: http.client.HTTPConnection | None = None) -> tuple[int, Any]:
        kept = connection or http.client.HTTPConnection(host, int(port), timeout=10)
        kept.request("POST", "/", body, headers)
        response = kept.getresponse()
        answer = (response.status, json.loads(response.read()))
        if not connection:
            kept.close()
        return answer

    async def ask(request: Any, headers: dict[str, str] | None = None, connection: http.client.HTTPConnection | None = None) -> tuple[int, Any]:
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return await asyncio.to_thread(post, body, headers or {}, connection)

    ask.task, ask.address = task, (host, int(port))
    try:
        yield ask
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class OverHttp(unittest.IsolatedAsyncioTestCase):
    async def test_signed_requests_are_answered(self) -> None:
        agent = Agent("bot")
        body = json.dumps(asked()).encode()
        async with serving(agent, secret="new", old_secret="whsec_b2xk") as ask:
            self.assertEqual(await ask(body, signed(b"new", body)), (200, {"actions": [{"type": "llm.call"}]}))
            self.assertEqual((await ask(body, signed(b"old", body)))[0], 200)
            for headers in ({}, signed(b"other", body), signed(b"new", body + b" "), signed(b"new", body, at=time.time() - 400)):
                status, said = await ask(body, headers)
                self.assertEqual((status, said["error"]), (401, "unauthorized"))

    async def test_what_is_no_request_is_refused(self) -> None:
        async with serving(Agent("bot")) as ask:
            for request, status in [(b"{", 400), (b"[]", 400), ({"trigger": {}}, 400), (asked(agent_id="other"), 404), (asked(decision_id=5), 400)]:
                self.assertEqual((await ask(request))[0], status)
            connection = http.client.HTTPConnection(*ask.address, timeout=10)
            # Several over one connection.
            self.assertEqual([(await ask(asked(decision_id=id), None, connection))[0] for id in "abc"], [200] * 3)
            connection.close()

    async def test_a_failure_says_its_kind_and_no_more(self) -> None:
        agent = Agent("bot")

        @agent.on_messages
        def reply(turn: Turn) -> None:
            raise ValueError("hunter2")

        async with serving(agent) as ask:
            self.assertEqual(await ask(asked()), (500, {"error": "worker_failed", "message": "the handler failed (ValueError)"}))

    async def test_many_are_answered_at_once_and_the_last_ones_before_the_end(self) -> None:
        agent, go, waiting = Agent("bot"), asyncio.Event(), []

        @agent.on_messages
        async def reply(turn: Turn) -> str:
            waiting.append(turn.decision_id)
            await go.wait()
            return turn.decision_id

        async with serving(agent, most=4) as ask:
            asks = [asyncio.ensure_future(ask(asked(decision_id=f"d{n}"))) for n in range(6)]
            await until(lambda: len(waiting) >= 4)
            self.assertEqual(len(waiting), 4)
            go.set()
            said = await asyncio.gather(*asks)
            self.assertEqual(sorted(answer["messages"][0]["content"] for _, answer in said), [f"d{n}" for n in range(6)])
            go.clear()
            last = asyncio.ensure_future(ask(asked(decision_id="last")))
            await until(lambda: "last" in waiting)
            ask.task.cancel()
            go.set()
            self.assertEqual((await last)[0], 200)

    async def test_other_machines_need_a_secret(self) -> None:
        with self.assertRaisesRegex(ValueError, "secret"):
            await Agent("bot").serving(0, "0.0.0.0")


class Gateway:
    """What a worker dials into."""

    def __init__(self) -> None:
        self.hellos: list[dict[str, Any]] = []
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sockets: asyncio.Queue[Any] = asyncio.Queue()
        self.closes_with: int | None = None

    async def talk(self, socket: Any) -> None:
        self.hellos.append(json.loads(await socket.recv()))
        if self.closes_with:
            return await socket.close(self.closes_with, "no")
        await socket.send(json.dumps({"type": "welcome", "agent_ids": ["bot"], "credit": 4}))
        await self.sockets.put(socket)
        async for text in socket:
            await self.said.put(json.loads(text))

    async def next(self, type: str = "answer") -> dict[str, Any]:
        while True:
            frame = await asyncio.wait_for(self.said.get(), 5)
            if frame["type"] == type:
                return frame


@contextlib.asynccontextmanager
async def dialling(agent: Agent, gateway: Gateway, **options: Any):
    async with serve(gateway.talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        task = asyncio.ensure_future(agent.connecting(f"ws://127.0.0.1:{port}/v1/worker", **options))
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Refused):
                await task


def decision(**more: Any) -> str:
    return json.dumps({"type": "decision", "decision": asked(**more)})


class OverASocket(unittest.IsolatedAsyncioTestCase):
    async def test_it_says_who_it_is_and_answers_in_any_order(self) -> None:
        agent, gateway, go = Agent("bot", "cat"), Gateway(), asyncio.Event()

        @agent.on_messages
        async def reply(turn: Turn) -> str:
            if turn.decision_id == "slow":
                await go.wait()
            if turn.decision_id == "bad":
                raise ValueError("hunter2")
            return turn.decision_id

        async with dialling(agent, gateway, agents=["bot"], token="s3cret", credit=4, name="laptop"):
            socket = await gateway.sockets.get()
            self.assertEqual(gateway.hellos, [{"type": "hello", "agent_ids": ["bot"], "credit": 4, "token": "s3cret", "name": "laptop"}])
            for id in ("slow", "quick", "bad"):
                await socket.send(decision(decision_id=id))
            await socket.send(json.dumps({"type": "something.newer"}))
            self.assertEqual((await gateway.next())["decision_id"], "quick")
            self.assertEqual(await gateway.next("failed"), {"type": "failed", "decision_id": "bad", "message": "the handler failed (ValueError)"})
            go.set()
            self.assertEqual(await gateway.next(), {"type": "answer", "decision_id": "slow", "answer": {"messages": [{"role": "assistant", "content": "slow"}], "actions": [{"type": "done"}]}})

    async def test_after_a_cut_it_dials_again_and_what_ran_is_not_lost(self) -> None:
        agent, gateway, go, counts = Agent("bot"), Gateway(), asyncio.Event(), []

        @agent.tool
        async def slow() -> str:
            counts.append(1)
            await go.wait()
            return "done"

        async with dialling(agent, gateway):
            socket = await gateway.sockets.get()
            frame = json.dumps({"type": "decision", "decision": execute("slow", {"valid": {}})})
            await socket.send(frame)
            await until(lambda: counts)
            socket.transport.abort()
            again = await asyncio.wait_for(gateway.sockets.get(), 5)
            await again.send(frame)
            go.set()
            self.assertEqual((await gateway.next())["answer"]["actions"][0]["content"], "done")
            self.assertEqual(counts, [1])

    async def test_a_decision_that_nobody_wants_ends_and_a_tool_goes_on(self) -> None:
        agent, gateway, ended, go = Agent("bot"), Gateway(), asyncio.Event(), asyncio.Event()
        running: set[str] = set()

        @agent.on_messages
        async def reply(turn: Turn) -> None:
            running.add(turn.decision_id)
            try:
                await go.wait()
            except asyncio.CancelledError:
                ended.set()
                raise

        @agent.tool
        async def slow() -> str:
            running.add("tool")
            await go.wait()
            return "done"

        async with dialling(agent, gateway):
            socket = await gateway.sockets.get()
            await socket.send(decision(decision_id="d1"))
            await socket.send(decision(decision_id="late", deadline=1))
            await socket.send(json.dumps({"type": "decision", "decision": execute("slow", {"valid": {}})}))
            await until(lambda: len(running) >= 3)
            for id in ("d1", "late", "x1"):
                await socket.send(json.dumps({"type": "cancelled", "decision_id": id}))
            await asyncio.wait_for(ended.wait(), 5)
            go.set()
            self.assertEqual({(await gateway.next())["decision_id"] for _ in range(2)}, {"late", "x1"})

    async def test_it_goes_when_what_it_has_is_answered(self) -> None:
        agent, gateway, go, begun = Agent("bot"), Gateway(), asyncio.Event(), asyncio.Event()

        @agent.on_messages
        async def reply(turn: Turn) -> str:
            begun.set()
            await go.wait()
            return "last"

        async with dialling(agent, gateway) as task:
            socket = await gateway.sockets.get()
            await socket.send(decision())
            await begun.wait()
            task.cancel()
            self.assertEqual(await gateway.next("credit"), {"type": "credit", "credit": 0})
            go.set()
            self.assertEqual((await gateway.next())["decision_id"], "d1")
            await asyncio.wait_for(socket.wait_closed(), 5)
            self.assertEqual(socket.close_code, 1000)

    async def test_who_is_not_let_in_does_not_ask_again(self) -> None:
        gateway = Gateway()
        gateway.closes_with = 4001
        async with dialling(Agent("bot"), gateway) as task:
            with self.assertRaisesRegex(Refused, "4001"):
                await asyncio.wait_for(task, 5)
        self.assertEqual(len(gateway.hellos), 1)

    async def test_a_server_that_stops_is_dialled_again(self) -> None:
        gateway = Gateway()
        gateway.closes_with = 1012
        async with dialling(Agent("bot"), gateway):
            await until(lambda: gateway.hellos)
            gateway.closes_with = None
            await asyncio.wait_for(gateway.sockets.get(), 5)


class Anything(unittest.IsolatedAsyncioTestCase):
    async def test_no_request_breaks_it(self) -> None:
        """Whatever comes is answered or refused, and the next one is answered."""
        agent, made = Agent("bot"), random.Random(6)

        @agent.tool
        def add(a: int, b: int = 1) -> int:
            return a + b

        def value(depth: int = 0) -> Any:
            kinds = [None, True, 1, -1.5, "", "client.messages", "tool.execute", "add"]
            if depth < 3 and made.random() < 0.5:
                return made.choice([[value(depth + 1) for _ in range(2)], {name: value(depth + 1) for name in made.sample(["a", "valid", "type", "id"], 2)}])
            return made.choice(kinds)

        for _ in range(400):
            request = execute("add", {"valid": {"a": 1}}) if made.random() < 0.5 else asked()
            place = made.choice([request, request["trigger"]])
            place[made.choice(list(place))] = value()
            status, said = await agent.receive({}, json.dumps(request).encode())
            self.assertIn(status, (200, 400, 404, 500))
            self.assertIsInstance(said, dict)
        self.assertEqual((await agent.receive({}, json.dumps(asked(decision_id="end")).encode()))[0], 200)


class Types(unittest.TestCase):
    def test_calls_know_their_results(self) -> None:
        calls = [{"id": id, "function": {"name": "f", "arguments": "{}"}} for id in ("c1", "c2", "c3")]
        messages = [{"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "tool", "tool_call_id": "c2", "content": "y", "error": "y"}]
        turn = Turn(asked("tool.finished", calls=calls, pending_calls=["c3"], messages=messages))
        self.assertEqual([(call.ok, call.pending) for call in turn.calls], [(True, False), (False, False), (False, True)])

    def test_calls_have_arguments_also_when_they_are_none(self) -> None:
        for arguments, expected in [('{"a": 1}', {"a": 1}), ("", {}), ("[1]", {}), ("{", {})]:
            self.assertEqual(Call("c1", "f", arguments, True).input, expected)


if __name__ == "__main__":
    unittest.main()
