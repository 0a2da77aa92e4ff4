// Each kind of service behind the same conversation: what the model reads and how its stream fails are the service's, the tree and
// the events are ours.
import assert from "node:assert/strict";
import { tool, user } from "../lib/chat.js";
import { messagesOf } from "../lib/dialects.js";
import { KINDS } from "../lib/server.js";
import { drawing } from "../lib/tree.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();
const TOOLS = [tool("weather"), tool("clock")];
const call = (id, place, name = "weather") => ({ id, name, arguments: { place } });

/** Registers `scenario` for each kind of service, with the clients over SSE; what they do over a WebSocket is no different. */
const eachKind = (name, scenario) => {
  for (const kind of Object.keys(KINDS)) each(`${kind}: ${name}`, (s) => scenario(s, kind), ({ transport }) => transport === "sse");
};
const onceEachKind = (name, scenario) => {
  for (const kind of Object.keys(KINDS)) once(`${kind}: ${name}`, (s) => scenario(s, kind));
};

/** The text of the events of that type. */
const told = (run, type) => run.of(type).map((event) => event.delta).join("");

eachKind("words and thoughts, and the next turn reads the words", async (s, kind) => {
  const chat = s.chat({ agent: kind });
  s.upstream.next({ text: "Grüße, 🌊 and more", reasoning: "They greeted — 🤔" });
  const run = await chat.send("u1", "hello żółw");
  assert.equal(told(run, "TEXT_MESSAGE_CONTENT"), "Grüße, 🌊 and more");
  assert.equal(told(run, "REASONING_MESSAGE_CONTENT"), "They greeted — 🤔");
  await chat.send("u2", "again");
  assert.deepEqual(s.read, [`system: You are ${kind}.`, "user: hello żółw", "assistant: Grüße, 🌊 and more", "user: again"]);
});

eachKind("parallel calls of the page, answered in another order, in two rounds", async (s, kind) => {
  const chat = s.chat({ agent: kind, tools: TOOLS });
  s.upstream.next({ calls: [call("c1", "Rome"), call("c2", "Łódź", "clock"), call("c3", "Oslo")], text: "Let me see.", reasoning: "Three." });
  const run = await chat.send("u1", "how is it?");
  assert.deepEqual(s.offered, ["weather", "clock"]);
  assert.deepEqual(chat.openCalls, ["c1", "c2", "c3"]);
  assert.deepEqual(run.of("TOOL_CALL_START").map((event) => event.toolCallName), ["weather", "clock", "weather"]);
  for (const id of ["c3", "c1", "c2"]) chat.answer(id, `result of ${id}`);
  s.upstream.next({ calls: [call("c4", "Bern")] });
  await chat.run();
  const results = ["c1", "c2", "c3"].map((id) => `result of ${id}`);
  const bodies = s.upstream.journal().map((body) => messagesOf(body));
  assert.deepEqual(bodies[1].filter((message) => message.role === "tool").map((message) => message.text), results);
  assert.deepEqual(bodies[1].find((message) => message.calls.length > 0).calls.map(({ arguments: given }) => JSON.parse(given)), [
    { place: "Rome" },
    { place: "Łódź" },
    { place: "Oslo" },
  ]);
  chat.answer("c4", "result of c4", { error: "no network" });
  await chat.run();
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant: Let me see. [c1 weather] [c2 clock] [c3 weather]
    tool c3: result of c3
    tool c1: result of c1
    tool c2: result of c2
    assistant:  [c4 weather]
    tool c4: result of c4
    assistant: ${chat.last.content} (head)`);
});

/** What makes aimock's frames carry opaque parts, and how they are read back. */
const OPAQUE = {
  openai: { plan: {}, opaque: [] },
  anthropic: { plan: { signature: "c2ln+bmF0dXJl/==" }, opaque: ["reasoning: c2ln+bmF0dXJl/=="] },
  gemini: {
    plan: {
      edit: ({ candidates }) => {
        const signed = candidates?.[0].content.parts.find((part) => part.functionCall);
        if (signed) signed.thoughtSignature = "Q2FsbA==/+";
      },
    },
    opaque: ["call weather: Q2FsbA==/+"],
  },
};

eachKind("opaque parts go back with the call they belong to, and no reader sees them", async (s, kind) => {
  const { plan, opaque } = OPAQUE[kind];
  const chat = s.chat({ agent: kind, tools: TOOLS });
  s.upstream.next({ calls: [call("c1", "Rome"), call("c2", "Oslo")], reasoning: "Two.", ...plan });
  await chat.send("u1", "how is it?");
  chat.answer("c1", "18 degrees");
  chat.answer("c2", "2 degrees");
  await chat.run();
  assert.deepEqual(s.upstream.opaque().at(-1), opaque);
  await chat.send("u2", "thanks");
  assert.deepEqual(s.upstream.opaque().at(-1), opaque);
  await s.server.restart();
  await chat.send("u3", "and now?");
  assert.deepEqual(s.upstream.opaque().at(-1), opaque);
  const seen = JSON.stringify([s.wire.exchanges.map((exchange) => exchange.text), chat.messages, await s.tree(chat)]);
  for (const part of opaque) assert.ok(!seen.includes(part.split(": ")[1]), part);
});

onceEachKind("opaque parts of one service are never sent to another", async (s, kind) => {
  const { plan } = OPAQUE[kind];
  const chat = s.chat({ agent: kind, tools: TOOLS });
  s.upstream.next({ calls: [call("c1", "Rome")], reasoning: "One.", ...plan });
  await chat.send("u1", "how is it?");
  chat.answer("c1", "18 degrees");
  await chat.run();
  for (const other of Object.keys(KINDS).filter((other) => other !== kind)) {
    const tab = s.chat({ agent: other, threadId: chat.threadId });
    tab.show(...chat.messages);
    await tab.send(`u-${other}`, "go on");
    // What Gemini takes in the place of a signature that it didn't make.
    assert.deepEqual(s.upstream.opaque().at(-1), other === "gemini" ? ["call weather: skip_thought_signature_validator"] : []);
  }
});

/** Faults that aimock's chaos headers ask for, with the codes that say so. */
const CHAOS = [
  [{ drop: 1 }, ["llm_unavailable"]],
  [{ malformed: 1 }, ["llm_bad_response", "llm_cut"]],
  [{ disconnect: 1 }, ["llm_unavailable", "llm_cut"]],
  [{ ratelimit: 1 }, ["llm_rate_limited"]],
];

/** Ways in which each service fails, with the codes that say so. */
const FAILURES = [
  ...CHAOS.map(([chaos, codes]) => [{ chaos }, codes]),
  [{ status: 500 }, ["llm_unavailable"]],
  [{ status: 429 }, ["llm_rate_limited"]],
  [{ status: 400 }, ["llm_refused"]],
  [{ status: 413 }, ["llm_too_long"]],
  [{ body: "<html>busy</html>" }, ["llm_cut"]],
  [{ body: 'data: {"error":{"message":"overloaded","type":"overloaded_error","code":503}}\n\n' }, ["llm_unavailable"]],
  [{ body: "data: {\n\n" }, ["llm_bad_response"]],
  [{ body: "" }, ["llm_cut"]],
];

onceEachKind("failures: a code, exactly one terminal, and the tree as it was before", async (s, kind) => {
  const chat = s.chat({ agent: kind });
  await chat.send("u1", "hello");
  const before = await s.tree(chat);
  for (const [plan, codes] of FAILURES) {
    s.upstream.next(plan);
    chat.show(user("u1", "hello"));
    const run = await chat.attempt();
    assert.ok(codes.map((code) => `error: ${code}`).includes(run.outcome), `${JSON.stringify(plan)}: ${run.outcome}`);
    assert.deepEqual(run.events.filter((event) => ["RUN_FINISHED", "RUN_ERROR"].includes(event.type)).length, 1);
    await s.idle(chat);
    assert.deepEqual((await s.tree(chat)).nodes, before.nodes, JSON.stringify(plan));
  }
  chat.show(user("u1", "hello"));
  await chat.run();
});

onceEachKind("a limit, then success: the pause that was asked for is kept", async (s, kind) => {
  const chat = s.chat({ agent: `${kind}-retrying` });
  s.upstream.next({ status: 429, retryAfter: 1 });
  const start = performance.now();
  await chat.send("u1", "hello");
  assert.ok(performance.now() - start >= 1000, `only ${performance.now() - start} ms`);
  assert.deepEqual(s.reads.length, 2);
  assert.deepEqual(s.reads[1], s.reads[0]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
});

onceEachKind("faults by chance, then success", async (s, kind) => {
  for (const [chaos] of CHAOS.filter(([fault]) => !fault.malformed)) {
    const chat = s.chat({ agent: `${kind}-retrying` });
    s.upstream.next({ chaos });
    await chat.send("u1", "hello");
    assert.equal((await s.tree(chat)).nodes.length, 2, JSON.stringify(chaos));
  }
});

const RICH = { text: "Let me look — 🌊.", reasoning: "Two places, żółw", calls: [call("c1", "Rome"), call("c2", "Łódź")], signature: "c2ln" };

onceEachKind("a cut before each frame: a whole reply or none, and the tree is as before", async (s, kind) => {
  const ask = async (chat, plan) => {
    const planned = s.upstream.next({ ...RICH, ...OPAQUE[kind].plan, ...plan });
    chat.show(user("u1", "hello"));
    return [await chat.attempt(), planned];
  };
  const [, { sent }] = await ask(s.chat({ agent: kind, tools: TOOLS }), {});
  assert.ok(sent.frames >= 6, `${sent.frames} frames`);
  let whole = 0;
  const failing = s.chat({ agent: kind, tools: TOOLS });
  for (let cutAtFrame = 0; cutAtFrame < sent.frames; cutAtFrame += 1) {
    const chat = whole > 0 ? s.chat({ agent: kind, tools: TOOLS }) : failing;
    const [run, planned] = await ask(chat, { cutAtFrame });
    const drawn = await s.drawn(chat);
    if (run.outcome === "finished") {
      whole += 1;
      assert.ok(planned.finished, `cut before frame ${cutAtFrame}: the model had not said that it was done`);
      assert.equal(drawn, drawing`
        user: hello
        assistant: Let me look — 🌊. [c1 weather] [c2 weather] (head)`, `cut before frame ${cutAtFrame}`);
    } else {
      assert.match(run.outcome, /^error: llm_(cut|unavailable)$/, `cut before frame ${cutAtFrame}`);
      assert.equal(drawn, drawing`user: hello (head)`, `cut before frame ${cutAtFrame}`);
    }
  }
  assert.ok(whole <= 2, `${whole} whole replies of ${sent.frames}`);
});

onceEachKind("a cut before each frame, then success: what the model reads is whole, and one reply stays", async (s, kind) => {
  const { sent } = s.upstream.next({ ...RICH, ...OPAQUE[kind].plan });
  await s.chat({ agent: kind, tools: TOOLS }).send("u1", "hello");
  const { frames } = sent;
  // Not at each: the pause before a second attempt is real time.
  const places = Array.from({ length: frames }, (_, place) => place).filter((place) => place % 3 === 0 || place > frames - 4);
  for (const cutAtFrame of places) {
    const chat = s.chat({ agent: `${kind}-retrying`, tools: TOOLS });
    s.upstream.next({ ...RICH, ...OPAQUE[kind].plan, cutAtFrame });
    const second = s.upstream.next({ ...RICH, ...OPAQUE[kind].plan });
    await chat.send("u1", "hello");
    // The model had said that it was done: nobody asked again.
    if (!second.arrived) s.upstream.planned.length = 0;
    assert.equal(await s.drawn(chat), drawing`
      user: hello
      assistant: Let me look — 🌊. [c1 weather] [c2 weather] (head)`, `cut before frame ${cutAtFrame}`);
    assert.deepEqual(chat.openCalls, ["c1", "c2"]);
    chat.answer("c1", "18 degrees");
    chat.answer("c2", "2 degrees");
    await chat.run();
    assert.deepEqual(s.read.slice(-2).map((line) => line.split(": ")[1]), ["18 degrees", "2 degrees"]);
  }
});

const PNG = "iVBORw0KGgoAAAANSUhEUg==";
const PARTS = [
  { type: "text", text: "Look" },
  { type: "image", source: { type: "data", value: PNG, mimeType: "image/png" } },
  { type: "document", source: { type: "data", value: "aGk=", mimeType: "text/plain" } },
  { type: "video", source: { type: "url", value: "https://example.com/a.mp4", mimeType: "video/mp4" } },
];
const NOTE = { type: "text", text: "[a video that can't be given to this model: https://example.com/a.mp4]" };

/** What becomes of `PARTS` in a user's message, and of the picture in a result. */
const MEDIA = {
  openai: {
    said: [{ type: "text", text: "Look" }, { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }, { type: "text", text: "[a document]\nhi" }, NOTE],
    result: (body) => [body.messages.at(-2).content, ...body.messages.at(-1).content],
    shown: ["seen", { type: "text", text: "[of the result of c1:]" }, { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }],
  },
  anthropic: {
    said: [
      { type: "text", text: "Look" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      { type: "text", text: "[a document]\nhi" },
      NOTE,
    ],
    result: (body) => body.messages.at(-1).content[0].content,
    shown: [{ type: "text", text: "seen" }, { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }],
  },
  gemini: {
    said: [
      { text: "Look" },
      { inlineData: { mimeType: "image/png", data: PNG } },
      { inlineData: { mimeType: "text/plain", data: "aGk=" } },
      { fileData: { mimeType: "video/mp4", fileUri: "https://example.com/a.mp4" } },
    ],
    result: (body) => [body.contents.at(-1).parts[0].functionResponse.response.output, ...body.contents.at(-1).parts.slice(1)],
    shown: ["seen", { text: "[of the result of weather:]" }, { inlineData: { mimeType: "image/png", data: PNG } }],
  },
};

onceEachKind("pictures, texts and videos, in a message and in a result", async (s, kind) => {
  const { said, result, shown } = MEDIA[kind];
  const chat = s.chat({ agent: kind, tools: TOOLS });
  s.upstream.next({ calls: [call("c1", "Rome")] });
  await chat.send("u1", PARTS);
  const [body] = s.upstream.journal();
  const last = body.contents?.at(-1).parts ?? body.messages.at(-1).content;
  assert.deepEqual(last, said);
  chat.answer("c1", [{ type: "text", text: "seen" }, PARTS[1]]);
  await chat.run();
  assert.deepEqual(result(s.upstream.journal()[1]), shown);
});
