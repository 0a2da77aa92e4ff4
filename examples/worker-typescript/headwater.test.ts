// The library against a gateway that these tests play.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, Agent as Connections } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { WebSocketServer, type WebSocket } from "ws";
import { Agent, BadSignature, isApproved, Refused, s, ToolError, Turn, verify } from "./headwater.js";
import type { Action, Answer, HttpOptions, Json, Log, Message, Request, SocketOptions, ToolRun, Trigger, TriggerType } from "./headwater.js";

const QUIET: Log = { info: () => {}, warn: () => {}, error: () => {} };
const bot = <State = { [name: string]: Json | undefined }>(ids: string | string[] = "bot"): Agent<State> => new Agent<State>(ids, { log: QUIET });

const MESSAGES: Trigger<"client.messages"> = { type: "client.messages", new_from: 0, client: {} };
const REPLY: Trigger<"llm.finished"> = { type: "llm.finished", id: "k1", ok: true, truncated: false, hidden: false };

/** A request. */
function asked<T extends TriggerType>(trigger: Trigger<T>, more: Partial<Request> = {}): Request {
  const messages: Message[] = [{ id: "u1", role: "user", content: "Hello" }];
  const proposed: Answer = { actions: [{ type: "llm.call" }] };
  return { session_id: "s1", decision_id: "d1", agent_id: "bot", turn_id: "t1", trigger, proposed, messages, calls: [], pending_calls: [], attempt: 1, deadline: Date.now() + 20_000, ...more } as Request;
}

const said = (text: string, more: Partial<Request> = {}): Request => asked(MESSAGES, { messages: [{ role: "user", content: text }], ...more });

/** A request to carry a tool call out. */
function execute(name: string, input: Trigger<"tool.execute">["input"] = { valid: {} }, attempt = 1): Request {
  return asked({ type: "tool.execute", id: "c1", name, arguments: "", input, attempt, key: "s1/c1" }, { proposed: {}, decision_id: "x1", attempt });
}

function signed(secret: string, body: string, { id = "d1", at = Date.now() / 1000 } = {}): Record<string, string> {
  const timestamp = String(Math.trunc(at));
  const signature = createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
}

/** A promise, and what fulfils it. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

async function until(what: string, is: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 5000; !is(); await new Promise(setImmediate)) if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
}

// ---- signatures

const BODY = Buffer.from('{"test": 2432232314}');
const VECTOR = { "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" };
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

test("the vector of Standard Webhooks fits", () => {
  assert.equal(verify(SECRET, VECTOR, BODY, 1614265330), VECTOR["webhook-id"]);
  const headers = { ...VECTOR, "webhook-signature": `v1,AAAA v1a,other ${VECTOR["webhook-signature"]}` };
  verify(["new", SECRET], headers, BODY, 1614265330 + 299);
});

test("signatures that don't fit are refused", () => {
  const cases: [string, object, string, Buffer, number][] = [
    ["another body", {}, SECRET, Buffer.from("{}"), 0],
    ["another id", { "webhook-id": "msg_other" }, SECRET, BODY, 0],
    ["another secret", {}, "whsec_AAAA", BODY, 0],
    ["no signature", { "webhook-signature": "" }, SECRET, BODY, 0],
    ["another kind", { "webhook-signature": "v2,g0hM9SsE" }, SECRET, BODY, 0],
    ["no time", { "webhook-timestamp": "soon" }, SECRET, BODY, 0],
    ["too old", {}, SECRET, BODY, 301],
    ["from ahead", {}, SECRET, BODY, -301],
  ];
  for (const [what, headers, secret, body, late] of cases) assert.throws(() => verify(secret, { ...VECTOR, ...headers }, body, 1614265330 + late), BadSignature, what);
  assert.throws(() => verify("whsec_!", VECTOR, BODY, 1614265330), /base64/);
});

// ---- deciding

test("what nobody decides is done as proposed", async () => {
  const triggers = [MESSAGES, REPLY, { type: "something.newer" } as unknown as Trigger];
  for (const trigger of triggers) assert.deepEqual(await bot().decide(asked(trigger)), { actions: [{ type: "llm.call" }] });
});

test("a handler adds to what is proposed, or decides", async () => {
  const agent = bot().onMessages((turn) => {
    switch (turn.text) {
      case "note":
        return turn.say("One moment.").custom("app.note", 1);
      case "echo":
        return "You said echo";
      case "stop":
        return turn.done();
      case "both":
        return turn.accept().spawn("other");
      case "raw":
        return { actions: [] };
    }
    return undefined;
  });
  const say = (content: string): Message[] => [{ role: "assistant", content }];
  const call: Action = { type: "llm.call" };
  assert.deepEqual(await agent.decide(said("note")), { messages: say("One moment."), actions: [{ type: "custom", name: "app.note", value: 1 }, call] });
  assert.deepEqual(await agent.decide(said("echo")), { messages: say("You said echo"), actions: [{ type: "done" }] });
  assert.deepEqual(await agent.decide(said("stop")), { actions: [{ type: "done" }] });
  assert.deepEqual(await agent.decide(said("both")), { actions: [call, { type: "sub_agent.spawn", agent_id: "other" }] });
  assert.deepEqual(await agent.decide(said("raw")), { actions: [] });
  assert.deepEqual(await agent.decide(asked(MESSAGES, { messages: [{ role: "user", content: [{ type: "text", text: "stop" }] }] })), { actions: [{ type: "done" }] });
  assert.deepEqual(await agent.decide(said("anything")), { actions: [call] });
});

test("state is told when it changed", async () => {
  const agent = bot<{ count?: number }>().onMessages((turn) => {
    if (turn.text === "more") turn.state.count = (turn.state.count ?? 0) + 1;
    if (turn.text === "clear") turn.state = {};
  });
  const state = async (text: string, before?: Json): Promise<unknown> => (await agent.decide(said(text, before === undefined ? {} : { state: before }))).state;
  assert.deepEqual(await state("more"), { count: 1 });
  assert.deepEqual(await state("more", { count: 1, x: [1] }), { count: 2, x: [1] });
  assert.equal(await state("less", { count: 1 }), undefined);
  assert.deepEqual(await state("clear", { count: 1 }), {});
});

test("an interrupt is raised and answered", async () => {
  const agent = bot()
    .onReply((turn) => {
      for (const call of turn.pending) if (Number(call.input.amount) > 100) turn.interrupt({ reason: "approval", message: "Pay?", call, payload: { amount: call.input.amount } });
    })
    .onResume((turn) => {
      for (const answer of turn.trigger.interrupts) {
        const call = answer.interrupt.tool_call_id ?? "";
        if (isApproved(answer)) turn.callTool(call);
        else turn.toolError(call, "They said no.");
      }
    });
  const calls = [500, 700].map((amount, at) => ({ id: `c${at + 1}`, function: { name: "pay", arguments: JSON.stringify({ amount }) } }));
  const raised = await agent.decide(asked(REPLY, { calls, pending_calls: ["c2"] }));
  assert.deepEqual(raised, { actions: [{ type: "interrupt", reason: "approval", message: "Pay?", payload: { amount: 700 }, tool_call_id: "c2" }] });
  const resumed = async (status: "resolved" | "cancelled", payload?: Json): Promise<unknown> => {
    const interrupt = { id: "i1", reason: "approval", tool_call_id: "c2" };
    const trigger: Trigger = { type: "interrupt.resumed", interrupts: [{ interrupt_id: "i1", status, interrupt, ...(payload !== undefined && { payload }) }] };
    return (await agent.decide(asked(trigger))).actions;
  };
  const no = [{ type: "tool.error", id: "c2", error: "They said no." }];
  assert.deepEqual(await resumed("resolved", true), [{ type: "tool.call", id: "c2" }]);
  assert.deepEqual(await resumed("resolved", { approved: true }), [{ type: "tool.call", id: "c2" }]);
  assert.deepEqual(await resumed("resolved", { approved: false }), no);
  assert.deepEqual(await resumed("cancelled"), no);
});

test("every action is written as it is read", () => {
  const turn = new Turn(asked(MESSAGES));
  turn.callModel({ id: "k1", llm: "main", model: "m", messages: [{ role: "user", content: "x" }], stream: false, temperature: 0.5 });
  turn.toolResult("c1", { n: 1 }).replace({ summary: "s" }).resolve("i1", 5).activity("plan", { step: 1 });
  turn.send("s2", { role: "user", content: "y" }).spawn("other", { message: "z" }).done({ ok: true });
  assert.deepEqual(turn.answer().actions, [
    { type: "llm.call", id: "k1", llm: "main", model: "m", messages: [{ role: "user", content: "x" }], stream: false, temperature: 0.5 },
    { type: "tool.result", id: "c1", content: '{"n":1}' },
    { type: "context.replace", summary: "s" },
    { type: "interrupt.resolve", interrupt_id: "i1", payload: 5 },
    { type: "activity", activity_type: "plan", content: { step: 1 } },
    { type: "message.send", session_id: "s2", message: { role: "user", content: "y" } },
    { type: "sub_agent.spawn", agent_id: "other", message: "z" },
    { type: "done", data: { ok: true } },
  ]);
  assert.deepEqual(new Turn(asked(MESSAGES)).configure({ system: "Be brief.", model: null }).answer().agent, { system: "Be brief.", model: null });
});

test("calls have arguments, also when they are none", () => {
  const inputs = ['{"a":1}', "", "[1]", "{"].map((text, at) => ({ id: `c${at}`, function: { name: "f", arguments: text } }));
  assert.deepEqual(new Turn(asked(REPLY, { calls: inputs })).calls.map(({ input }) => input), [{ a: 1 }, {}, {}, {}]);
});

test("calls know their results", () => {
  const calls = ["c1", "c2", "c3"].map((id) => ({ id, function: { name: "f", arguments: "{}" } }));
  const messages: Message[] = [{ role: "tool", tool_call_id: "c1", content: "x" }, { role: "tool", tool_call_id: "c2", content: "y", error: "y" }];
  const turn = new Turn(asked(REPLY, { calls, messages, pending_calls: ["c3"] }));
  assert.deepEqual(turn.calls.map(({ ok, pending }) => [ok, pending]), [[true, false], [false, false], [false, true]]);
});

// ---- tools

test("a tool's parameters have a schema, and types", async () => {
  let got: unknown;
  const agent = bot().tool(
    "book",
    {
      description: "Book a bed.",
      parameters: {
        place: s.object({ city: s.string("where"), country: s.optional(s.string()) }),
        nights: s.optional(s.integer("how many", { minimum: 1 })),
        kind: s.oneOf(["room", "tent"]),
        names: s.list(s.string()),
        note: s.nullable(s.string()),
        extra: s.optional(s.json<{ a: number }>({ type: "object" })),
      },
      idempotent: true,
      attempts: 2,
    },
    ({ place, nights = 1, kind, names, note, extra }, run: ToolRun) => {
      // What the compiler knows of them.
      const total: number = nights + names.length + (extra?.a ?? 0);
      const where: "room" | "tent" = kind;
      // @ts-expect-error a city is a text
      const wrong: number = place.city;
      // @ts-expect-error it may be null
      const never: string = note;
      got = { total, where, wrong, never, key: run.key };
      return { booked: place.city };
    },
  );
  assert.deepEqual(agent.tools, [
    {
      name: "book",
      description: "Book a bed.",
      idempotent: true,
      attempts: 2,
      parameters: {
        type: "object",
        properties: {
          place: { type: "object", properties: { city: { type: "string", description: "where" }, country: { type: "string" } }, additionalProperties: false, required: ["city"] },
          nights: { type: "integer", description: "how many", minimum: 1 },
          kind: { enum: ["room", "tent"] },
          names: { type: "array", items: { type: "string" } },
          note: { anyOf: [{ type: "string" }, { type: "null" }] },
          extra: { type: "object" },
        },
        additionalProperties: false,
        required: ["place", "kind", "names", "note"],
      },
    },
  ]);
  const valid = { place: { city: "Bern" }, kind: "tent", names: ["a"], note: null };
  assert.deepEqual(await agent.decide(execute("book", { valid })), { actions: [{ type: "tool.result", id: "c1", content: '{"booked":"Bern"}' }] });
  assert.deepEqual(got, { total: 2, where: "tent", wrong: "Bern", never: null, key: "s1/c1" });
  assert.throws(() => agent.tool("book", { description: "" }, () => 1), /two tools/);
});

test("tools are told once a branch", async () => {
  const agent = bot().tool("now", { description: "The time." }, () => "12:00");
  const tools = (await agent.decide(asked(MESSAGES))).agent?.tools;
  assert.deepEqual(tools?.map(({ name }) => name), ["now"]);
  const known = { name: "now", description: "The time.", parameters: tools?.[0]?.parameters ?? {}, by: "worker" as const, attempts: 3, attempt_secs: 60 };
  assert.equal((await agent.decide(asked(MESSAGES, { agent: { tools: [known] } }))).agent, undefined);
  assert.notEqual((await agent.decide(asked(MESSAGES, { agent: { tools: [{ ...known, description: "Another." }] } }))).agent, undefined);
  assert.equal((await agent.decide(asked(REPLY))).agent, undefined);
  const silent = new Agent("bot", { declare: false, log: QUIET }).tool("now", { description: "" }, () => "");
  assert.equal((await silent.decide(asked(MESSAGES))).agent, undefined);
});

test("tools fail in words that a model may read", async () => {
  const agent = bot()
    .tool("strict", { description: "", parameters: { n: s.integer() } }, ({ n }) => {
      throw new ToolError(`${n} is taken`, { retryable: n > 1 });
    })
    .tool("broken", { description: "", idempotent: true }, () => {
      throw new TypeError("password=hunter2");
    })
    .tool("endless", { description: "" }, () => 1n);
  const error = async (request: Request): Promise<object> => {
    const [action] = (await agent.decide(request)).actions ?? [];
    assert.ok(action?.type === "tool.error" && action.id === "c1", JSON.stringify(action));
    const { error, retryable } = action;
    return { error, ...(retryable && { retryable }) };
  };
  assert.deepEqual(await error(execute("strict", { valid: { n: 1 } })), { error: "1 is taken" });
  assert.deepEqual(await error(execute("strict", { valid: { n: 2 } })), { error: "2 is taken", retryable: true });
  assert.deepEqual(await error(execute("broken")), { error: "the tool failed (TypeError)", retryable: true });
  assert.deepEqual(await error(execute("endless")), { error: "the tool failed (TypeError)" });
  assert.deepEqual(await error(execute("nothing")), { error: "this agent's worker has no tool nothing" });
  assert.deepEqual(await error(execute("strict", { invalid: { value: {}, errors: ["n is missing"] } })), { error: "the arguments aren't as they should be: n is missing" });
  assert.deepEqual(await error(execute("strict", { malformed: "EOF" })), { error: "the arguments aren't as they should be: EOF" });
});

// ---- at least once

test("an attempt is decided once, and the next one again", async () => {
  const attempts: number[] = [];
  const agent = bot().onMessages((turn) => String(attempts.push(turn.attempt)));
  const texts: unknown[] = [];
  for (const attempt of [1, 1, 2, 1, 2]) texts.push((await agent.answer(asked(MESSAGES, { attempt }))).messages?.[0]?.content);
  assert.deepEqual([texts, attempts], [["1", "1", "2", "2", "2"], [1, 2]]);
});

test("attempts meet while the first one runs, and a tool isn't carried out twice", async () => {
  const { opened, open } = gate();
  let count = 0;
  const agent = bot().tool("slow", { description: "" }, async () => {
    count += 1;
    await opened;
    return "done";
  });
  const answers = [1, 1, 2].map((attempt) => agent.answer(execute("slow", { valid: {} }, attempt)));
  open();
  answers.push(agent.answer(execute("slow", { valid: {} }, 3)));
  for (const answer of await Promise.all(answers)) assert.deepEqual(answer.actions, [{ type: "tool.result", id: "c1", content: "done" }]);
  await agent.answer(execute("slow", { valid: {} }, 4));
  assert.equal(count, 1);
});

test("what failed is tried again", async () => {
  let count = 0;
  const agent = bot()
    .tool("flaky", { description: "", idempotent: true }, () => {
      count += 1;
      if (count < 2) throw new ToolError("busy", { retryable: true });
      return "done";
    })
    .onMessages(() => {
      count += 1;
      throw new RangeError();
    });
  const types: unknown[] = [];
  for (const attempt of [1, 1, 2]) types.push((await agent.answer(execute("flaky", { valid: {} }, attempt))).actions?.[0]?.type);
  assert.deepEqual([types, count], [["tool.error", "tool.error", "tool.result"], 2]);
  for (const after of [3, 4]) {
    await assert.rejects(agent.answer(asked(MESSAGES)), RangeError);
    assert.equal(count, after);
  }
});

test("old answers are forgotten", async () => {
  let count = 0;
  const agent = bot().onMessages(() => void (count += 1));
  const ask = (id: string): Promise<Answer> => agent.answer(asked(MESSAGES, { decision_id: id }));
  await ask("first");
  for (let n = 0; n < 511; n += 1) await ask(`d${n}`);
  await ask("first");
  assert.equal(count, 512);
  for (let n = 511; n < 1024; n += 1) await ask(`d${n}`);
  await ask("first");
  assert.equal(count, 512 + 513 + 1);
});

// ---- over HTTP

type Ask = (request: Request | string, headers?: Record<string, string>, connections?: Connections) => Promise<{ status: number; body: Record<string, unknown> }>;

async function serving<State>(t: TestContext, agent: Agent<State>, options: HttpOptions = {}): Promise<{ ask: Ask; stop: () => Promise<void> }> {
  const running = await agent.listen({ port: 0, ...options });
  t.after(() => running.stop());
  const ask: Ask = async (request, headers = {}, connections) => {
    const body = typeof request === "string" ? request : JSON.stringify(request);
    const sent = httpRequest(running.url, { method: "POST", headers, ...(connections && { agent: connections }) });
    sent.end(body);
    const [response] = await once(sent, "response");
    let text = "";
    for await (const piece of response) text += piece;
    return { status: response.statusCode, body: JSON.parse(text) };
  };
  return { ask, stop: () => running.stop() };
}

test("signed requests are answered over HTTP", async (t) => {
  const { ask } = await serving(t, bot(), { secret: "new", oldSecret: "whsec_b2xk" });
  const body = JSON.stringify(asked(MESSAGES));
  assert.deepEqual(await ask(body, signed("new", body)), { status: 200, body: { actions: [{ type: "llm.call" }] } });
  assert.equal((await ask(body, signed("old", body))).status, 200);
  for (const headers of [{}, signed("other", body), signed("new", `${body} `), signed("new", body, { at: Date.now() / 1000 - 400 })]) {
    const { status, body: why } = await ask(body, headers);
    assert.deepEqual([status, why.error], [401, "unauthorized"]);
  }
});

test("what is no request is refused over HTTP", async (t) => {
  const { ask } = await serving(t, bot());
  const cases: [string, number][] = [
    ["{", 400],
    ["[]", 400],
    ['{"trigger":{}}', 400],
    [JSON.stringify(asked(MESSAGES, { agent_id: "other" })), 404],
    [JSON.stringify({ ...asked(MESSAGES), decision_id: 5 }), 400],
  ];
  for (const [request, status] of cases) assert.equal((await ask(request)).status, status, request);
  const connections = new Connections({ keepAlive: true, maxSockets: 1 });
  for (const decision_id of ["a", "b", "c"]) assert.equal((await ask(asked(MESSAGES, { decision_id }), {}, connections)).status, 200);
  connections.destroy();
});

test("a failure says its kind and no more", async (t) => {
  const { ask } = await serving(t, bot().onMessages(() => Promise.reject(new RangeError("hunter2"))));
  assert.deepEqual(await ask(asked(MESSAGES)), { status: 500, body: { error: "worker_failed", message: "the handler failed (RangeError)" } });
});

test("so many are answered at once, and the last ones before the end", async (t) => {
  const first = gate();
  const last = gate();
  const begun: string[] = [];
  const agent = bot().onMessages(async (turn) => {
    begun.push(turn.decisionId);
    await (turn.decisionId === "last" ? last : first).opened;
    return turn.decisionId;
  });
  const { ask, stop } = await serving(t, agent, { most: 4 });
  const answers = [1, 2, 3, 4, 5, 6].map((n) => ask(asked(MESSAGES, { decision_id: `d${n}` })));
  await until("four run", () => begun.length === 4);
  first.open();
  assert.deepEqual((await Promise.all(answers)).map(({ status }) => status), [200, 200, 200, 200, 200, 200]);
  const answer = ask(asked(MESSAGES, { decision_id: "last" }));
  await until("the last one runs", () => begun.includes("last"));
  const stopped = stop();
  last.open();
  assert.equal((await answer).status, 200);
  await stopped;
  await assert.rejects(ask(asked(MESSAGES)));
});

test("other machines need a secret", async () => {
  await assert.rejects(bot().listen({ port: 0, host: "0.0.0.0" }), /secret/);
});

test("no request breaks it", async (t) => {
  const agent = bot().tool("add", { description: "", parameters: { a: s.integer() } }, ({ a }) => a + 1);
  const { ask } = await serving(t, agent);
  const odd = [null, true, 1, "", "tool.execute", [], {}, { type: "tool.execute" }, { valid: null }, [[{}]]];
  for (const request of [execute("add", { valid: { a: 1 } }), asked(MESSAGES)]) {
    for (const value of odd) {
      for (const field of Object.keys(request)) assert.ok([200, 400, 404, 500].includes((await ask(JSON.stringify({ ...request, [field]: value }))).status), field);
      for (const field of Object.keys(request.trigger)) {
        const trigger = { ...request.trigger, [field]: value };
        assert.ok([200, 400, 404, 500].includes((await ask(JSON.stringify({ ...request, trigger, decision_id: `${field}-${JSON.stringify(value)}` }))).status), field);
      }
    }
  }
  assert.equal((await ask(asked(MESSAGES, { decision_id: "end" }))).status, 200);
});

// ---- over a socket

/** What a worker dials into. */
class Gateway {
  readonly hellos: Json[] = [];
  readonly frames: { type: string; decision_id?: string; [more: string]: Json | undefined }[] = [];
  readonly sockets: WebSocket[] = [];
  closesWith: number | undefined;
  url = "";

  static async start(t: TestContext): Promise<Gateway> {
    const gateway = new Gateway();
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
    await once(server, "listening");
    gateway.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/worker`;
    server.on("connection", (socket) => gateway.#talk(socket));
    t.after(() => {
      for (const client of server.clients) client.terminate();
      server.close();
    });
    return gateway;
  }

  #talk(socket: WebSocket): void {
    socket.once("message", (hello) => {
      this.hellos.push(JSON.parse(String(hello)));
      if (this.closesWith) return socket.close(this.closesWith, "no");
      socket.on("message", (frame) => this.frames.push(JSON.parse(String(frame))));
      socket.send(JSON.stringify({ type: "welcome", agent_ids: ["bot"], credit: 4 }));
      this.sockets.push(socket);
    });
  }

  async socket(n = 1): Promise<WebSocket> {
    await until("a worker dials in", () => this.sockets.length >= n);
    return this.sockets[n - 1] as WebSocket;
  }

  async frame(type: string): Promise<Gateway["frames"][number]> {
    await until(`${type} comes`, () => this.frames.some((frame) => frame.type === type));
    return this.frames.splice(this.frames.findIndex((frame) => frame.type === type), 1)[0] as Gateway["frames"][number];
  }
}

const frame = (decision: Request): string => JSON.stringify({ type: "decision", decision });

function dialling<State>(t: TestContext, agent: Agent<State>, gateway: Gateway, options: SocketOptions = {}): { stop: () => Promise<void>; ended: Promise<void> } {
  const running = agent.dial(gateway.url, options);
  t.after(() => running.stop().catch(() => {}));
  return running;
}

test("over a socket it says who it is, and answers in any order", async (t) => {
  const gateway = await Gateway.start(t);
  const { opened, open } = gate();
  const agent = bot(["bot", "cat"]).onMessages(async (turn) => {
    if (turn.decisionId === "slow") await opened;
    if (turn.decisionId === "bad") throw new RangeError("hunter2");
    return turn.decisionId;
  });
  dialling(t, agent, gateway, { agents: ["bot"], token: "s3cret", credit: 4, name: "laptop" });
  const socket = await gateway.socket();
  assert.deepEqual(gateway.hellos, [{ type: "hello", agent_ids: ["bot"], credit: 4, token: "s3cret", name: "laptop" }]);
  for (const decision_id of ["slow", "quick", "bad"]) socket.send(frame(asked(MESSAGES, { decision_id })));
  socket.send('{"type":"something.newer"}');
  assert.equal((await gateway.frame("answer")).decision_id, "quick");
  assert.deepEqual(await gateway.frame("failed"), { type: "failed", decision_id: "bad", message: "the handler failed (RangeError)" });
  open();
  assert.deepEqual(await gateway.frame("answer"), { type: "answer", decision_id: "slow", answer: { messages: [{ role: "assistant", content: "slow" }], actions: [{ type: "done" }] } });
});

test("after a cut it dials again, and what ran is not lost", async (t) => {
  const gateway = await Gateway.start(t);
  const { opened, open } = gate();
  let count = 0;
  const agent = bot().tool("slow", { description: "" }, async () => {
    count += 1;
    await opened;
    return "done";
  });
  dialling(t, agent, gateway);
  (await gateway.socket()).send(frame(execute("slow")));
  await until("it runs", () => count === 1);
  (await gateway.socket()).terminate();
  (await gateway.socket(2)).send(frame(execute("slow")));
  open();
  assert.deepEqual((await gateway.frame("answer")).answer, { actions: [{ type: "tool.result", id: "c1", content: "done" }] });
  assert.equal(count, 1);
});

test("a decision that nobody wants is told so, and a tool goes on", async (t) => {
  const gateway = await Gateway.start(t);
  const { opened, open } = gate();
  const signals = new Map<string, AbortSignal>();
  let toolRuns = false;
  const agent = bot()
    .onMessages(async (turn) => {
      signals.set(turn.decisionId, turn.signal);
      await opened;
    })
    .tool("slow", { description: "" }, async () => {
      toolRuns = true;
      await opened;
    });
  dialling(t, agent, gateway);
  const socket = await gateway.socket();
  for (const request of [asked(MESSAGES), asked(MESSAGES, { decision_id: "late", deadline: 1 }), execute("slow")]) socket.send(frame(request));
  await until("all run", () => signals.size === 2 && toolRuns);
  for (const decision_id of ["d1", "late", "x1"]) socket.send(JSON.stringify({ type: "cancelled", decision_id }));
  await until("it is told", () => signals.get("d1")?.aborted === true);
  assert.equal(signals.get("late")?.aborted, false);
  open();
  await until("all are answered", () => ["d1", "late", "x1"].every((id) => gateway.frames.some(({ decision_id }) => decision_id === id)));
});

test("it goes when what it has is answered", async (t) => {
  const gateway = await Gateway.start(t);
  const { opened, open } = gate();
  let begun = false;
  const agent = bot().onMessages(async () => {
    begun = true;
    await opened;
    return "last";
  });
  const running = dialling(t, agent, gateway);
  const socket = await gateway.socket();
  const closed = once(socket, "close");
  socket.send(frame(asked(MESSAGES)));
  await until("it runs", () => begun);
  const stopped = running.stop();
  assert.deepEqual(await gateway.frame("credit"), { type: "credit", credit: 0 });
  open();
  assert.equal((await gateway.frame("answer")).decision_id, "d1");
  assert.equal((await closed)[0], 1000);
  await stopped;
});

test("who is not let in does not ask again; a server that stops is dialled again", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.closesWith = 4001;
  await assert.rejects(dialling(t, bot(), gateway).ended, Refused);
  assert.equal(gateway.hellos.length, 1);
  gateway.closesWith = 1012;
  dialling(t, bot(), gateway);
  await until("it said hello", () => gateway.hellos.length === 2);
  gateway.closesWith = undefined;
  await gateway.socket();
});

test("stopped while nobody is there, it ends at once", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.closesWith = 1012;
  const running = dialling(t, bot(), gateway);
  await until("it said hello", () => gateway.hellos.length > 0);
  await running.stop();
});
