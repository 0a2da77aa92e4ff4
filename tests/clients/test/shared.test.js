// Two devices on one thread, each over a socket that threads and runs share: what either does, both show; who was away goes on where
// it was. One speaks as client 1.0.0, the other as 0.0.59, and what each is told goes through that client.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import * as current from "@ag-ui/client";
import * as legacy from "@ag-ui/client-legacy";
import { result, tool, user } from "../lib/chat.js";
import { Device, held, runsOf } from "../lib/device.js";
import { drawing, pathOf } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { textOf } from "../lib/upstream.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();

const NAMES = new Map([[current, "1.0.0"], [legacy, "0.0.59"]]);
const PAIRS = [[current, legacy], [legacy, current], [current, current], [legacy, legacy]];

/** Registers a scenario for each pair of clients, with two devices and a thread. */
function between(name, scenario) {
  for (const pair of PAIRS) {
    once(`${name} (${pair.map((library) => NAMES.get(library)).join(" and ")})`, async (s) => {
      const [one, two] = await Promise.all(pair.map((library) => Device.open(s, library)));
      await scenario(s, { one, two, threadId: ofThread(s) });
    });
  }
}

function ofThread(s) {
  const threadId = `thread-${randomUUID()}`;
  s.tabs.push({ threadId, leave: async () => {} });
  return threadId;
}

/** A thread with one turn, which both devices have. */
async function opened(s, { one, two, threadId }) {
  await one.run(threadId, "run-1", [user("u1", "hello")]);
  await one.ended(threadId, "run-1");
  await one.subscribe(threadId);
  await two.subscribe(threadId);
  return same(s, threadId, one, two);
}

/** A message of the native API or of AG-UI, as what counts in both. */
function plain({ id, role, content, toolCalls, tool_calls, toolCallId, tool_call_id }) {
  const parts = Array.isArray(content) ? content.filter((part) => part.type !== "reasoning") : content;
  const calls = (toolCalls ?? tool_calls ?? []).map((call) => ({ id: call.id, ...call.function }));
  return { id, role, text: textOf(parts), calls, answers: toolCallId ?? tool_call_id };
}

/** The messages as clients hold them, without what absent and empty fields make of it. */
const shown = (messages) => messages.map((message) => JSON.parse(JSON.stringify({ ...message, content: message.content ?? "" })));

/** Who asks for the whole, as a client of `library` gets it. */
async function connected(s, threadId, { library, version }) {
  const response = await fetch(`${s.server.url}/agents/bot/connect`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ threadId, protocolVersion: version }),
  });
  const body = await response.text();
  assert.equal(response.status, 200, body);
  const frames = body.split("\n").filter((line) => line.startsWith("data: ")).map((line) => ({ chunk: JSON.parse(line.slice("data: ".length)) }));
  return held(library, runsOf(frames));
}

/**
 * Waits until nothing runs and each device shows what the tree's path says and what `connect` brings; the messages of the first. What
 * is told is one legal stream run by run; `held` fails else.
 */
async function same(s, threadId, ...devices) {
  await until("nothing runs", async () => ["idle", "waiting"].includes((await s.session({ threadId })).status));
  const path = pathOf(await s.tree({ threadId })).map(({ message }) => plain(message));
  for (const device of devices) {
    const whole = shown(await connected(s, threadId, device));
    let seen;
    await until(
      () => `a device shows ${JSON.stringify(whole)}, it shows ${JSON.stringify(seen)}`,
      async () => {
        const last = device.runs(threadId).at(-1);
        if (!["RUN_FINISHED", "RUN_ERROR"].includes(last?.at(-1).type)) return false;
        seen = shown(await device.messages(threadId));
        return JSON.stringify(seen.map(sorted)) === JSON.stringify(whole.map(sorted));
      },
    );
    assert.deepEqual(seen.filter(({ role }) => role !== "reasoning").map(plain), path, "the tree's path");
  }
  return devices[0].messages(threadId);
}

const sorted = (message) => Object.fromEntries(Object.entries(message).sort(([one], [other]) => (one < other ? -1 : 1)));

between("what one device says the other shows: a message, an edit, another answer, an older branch", async (s, { one, two, threadId }) => {
  const first = await opened(s, { one, two, threadId });
  await two.run(threadId, "run-2", [...first, user("u2", "and then?")]);
  await one.ended(threadId, "run-2");
  const branch = await same(s, threadId, one, two);
  assert.deepEqual(branch.map(({ id }) => id).filter((id) => id.startsWith("u")), ["u1", "u2"]);

  await one.run(threadId, "run-3", [...first, user("u3", "and why?")]);
  await two.ended(threadId, "run-3");
  const edited = await same(s, threadId, two, one);
  assert.equal(edited.at(-1).content, "answer 3 to and why?");

  await two.run(threadId, "run-4", edited.slice(0, -1));
  await one.ended(threadId, "run-4");
  assert.equal((await same(s, threadId, one, two)).at(-1).content, "answer 4 to and why?");

  // Back to the first branch: by a list that ends in its reply, and the other way by the head.
  await one.run(threadId, "run-5", branch);
  await until("both show the first branch", async () => (await two.messages(threadId)).at(-1).id === branch.at(-1).id);
  await same(s, threadId, one, two);
  const moved = await two.ask({ type: "head", threadId, body: { node_id: edited.at(-1).id } });
  assert.equal(moved.body.head_id, edited.at(-1).id);
  await until("both show the edit", async () => (await one.messages(threadId)).at(-1).id === edited.at(-1).id);
  await same(s, threadId, one, two);
  await one.run(threadId, "run-6", [...edited, user("u4", "go on")]);
  await two.ended(threadId, "run-6");
  assert.deepEqual((await same(s, threadId, two, one)).map(plain).map(({ text }) => text), [
    "hello", "answer 1 to hello", "and why?", "answer 3 to and why?", "go on", "answer 5 to go on",
  ]);
  assert.deepEqual(one.unsubscribed.concat(two.unsubscribed), []);
  assert.equal(await s.drawn({ threadId }), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: and then?
      assistant: answer 2 to and then?
    - user: and why?
      - assistant: answer 3 to and why?
        user: go on
        assistant: answer 5 to go on (head)
      - assistant: answer 4 to and why?`);
});

const STOPS = { abort: { type: "abort" }, cancel: { type: "cancel" }, "the running turn's cancel": { type: "cancel", runId: undefined } };

for (const [name, frame] of Object.entries(STOPS)) {
  between(`a reply is stopped from the other device by ${name}`, async (s, { one, two, threadId }) => {
    const first = await opened(s, { one, two, threadId });
    const call = s.upstream.next({ text: "a long answer that nobody waits for", hold: 3 });
    await one.run(threadId, "run-2", [...first, user("u2", "at length")]);
    await call.held();
    await until("words came to both", () => [one, two].every((device) => device.runs(threadId).at(-1).some(({ type }) => type === "TEXT_MESSAGE_CONTENT")));
    const stopped = await two.ask({ runId: "run-2", ...frame, threadId });
    assert.deepEqual(stopped.body, { cancelled: true });
    for (const device of [one, two]) {
      const end = (await device.ended(threadId, "run-2")).at(-1);
      assert.deepEqual([end.type, end.outcome?.type], ["RUN_FINISHED", device.version && "cancelled"]);
    }
    await call.closed();
    assert.equal((await same(s, threadId, one, two)).at(-1).content, call.sent.text);
    assert.match(await s.drawn({ threadId }), /assistant: \S.* \(partial, head\)$/);
  });
}

between("calls of one device's page are answered from both", async (s, { one, two, threadId }) => {
  const first = await opened(s, { one, two, threadId });
  const offered = { tools: [tool("weather")] };
  s.upstream.next({ text: "let me see", calls: [{ id: "c1", name: "weather", arguments: { place: "here" } }, { id: "c2", name: "weather", arguments: { place: "there" } }] });
  await one.run(threadId, "run-2", [...first, user("u2", "how is it?")], offered);
  const end = (await two.ended(threadId, "run-2")).at(-1);
  assert.deepEqual(end.outcome?.pendingToolCallIds, two.version && ["c1", "c2"]);
  const asked = await same(s, threadId, one, two);
  await two.run(threadId, "run-3", [...asked, result("c2", "rain")], offered);
  await until("the result is recorded", async () => (await s.session({ threadId })).open_calls.length === 1);
  const half = await same(s, threadId, one, two);
  assert.deepEqual(half.map(plain).filter(({ answers }) => answers).map(({ answers }) => answers), ["c2"]);
  await one.run(threadId, "run-4", [...half, result("c1", "sun")], offered);
  await two.ended(threadId, "run-4");
  const whole = await same(s, threadId, one, two);
  assert.equal(whole.at(-1).content, "answer 2 to how is it?");
  assert.deepEqual(s.read.filter((line) => line.startsWith("tool")).sort(), ["tool c1: sun", "tool c2: rain"]);
});

between("runs that wait, of both devices, are told to both in their order", async (s, { one, two, threadId }) => {
  const first = await opened(s, { one, two, threadId });
  const call = s.upstream.next({ hold: 2 });
  await one.run(threadId, "run-2", [...first, user("u2", "first")]);
  await call.held();
  const queue = { headwater: { queue: true } };
  assert.equal((await two.run(threadId, "run-3", [...first, user("u2", "first"), user("u3", "second")], queue)).body.queued, true);
  assert.equal((await one.run(threadId, "run-4", [...first, user("u2", "first"), user("u4", "third")], queue)).body.position, 2);
  await assert.rejects(two.run(threadId, "run-5", [...first, user("u5", "an edit")]), ({ answer }) => answer.error === "turn_already_active" && answer.runId === "run-5");
  call.release();
  for (const device of [one, two]) await device.ended(threadId, "run-4");
  await same(s, threadId, one, two);
  for (const device of [one, two]) {
    assert.deepEqual(device.runs(threadId).map(([start]) => start.runId).slice(-3), ["run-2", "run-3", "run-4"]);
  }
});

/** A stream of thoughts, text, and two calls whose arguments come in turns. */
function interleaved() {
  const chunk = (delta, finish_reason = null) => `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: "mock", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const call = (index, more) => chunk({ tool_calls: [{ index, ...more }] });
  const begins = (index, id) => call(index, { id, type: "function", function: { name: "weather", arguments: "" } });
  const goesOn = (index, pieces) => call(index, { function: { arguments: pieces } });
  return [
    chunk({ role: "assistant", reasoning_content: "Let me " }), chunk({ reasoning_content: "think 🌊." }),
    chunk({ content: "I " }), chunk({ content: "look " }), chunk({ content: "twice 🌍." }),
    begins(0, "c1"), goesOn(0, '{"pla'), begins(1, "c2"), goesOn(1, '{"place"'), goesOn(0, 'ce":"here"'), goesOn(1, ':"there"'), goesOn(0, "}"), goesOn(1, "}"),
    chunk({}, "tool_calls"), "data: [DONE]\n\n",
  ].join("");
}

/** Chunks without their times; pieces of one text that follow each other as one: how many there are is a matter of time. */
function flat(frames) {
  const all = [];
  for (const { chunk: { timestamp, ...chunk } } of frames) {
    const last = all.at(-1);
    const goesOn = chunk.delta !== undefined && ["type", "messageId", "toolCallId"].every((field) => last?.[field] === chunk[field]);
    if (goesOn) last.delta += chunk.delta;
    else all.push(chunk);
  }
  return all;
}

/** Only up to the last frame after which a reader may go on. */
const upToId = (frames) => frames.slice(0, frames.findLastIndex(({ id }) => id !== undefined) + 1);

for (const library of NAMES.keys()) {
  once(`after each chunk's id comes the rest of the whole: thoughts, text, calls that interleave (${NAMES.get(library)})`, async (s) => {
    const threadId = ofThread(s);
    const one = await Device.open(s, library);
    await one.run(threadId, "run-1", [user("u1", "hello")]);
    await one.ended(threadId, "run-1");
    const { id: begin } = upToId(one.told(threadId)).at(-1);
    await one.subscribe(threadId, begin);
    const offered = { tools: [tool("weather")] };
    s.upstream.next({ body: interleaved() });
    await one.run(threadId, "run-2", [...(await one.messages(threadId)), user("u2", "how is it?")], offered);
    await one.ended(threadId, "run-2");
    s.upstream.next({ text: "Rain here, sun there.", reasoning: "Both came." });
    const results = [result("c1", "rain"), result("c2", "sun")];
    await one.run(threadId, "run-3", [...(await one.messages(threadId)), ...results], offered);
    await one.ended(threadId, "run-3");
    const live = one.told(threadId);
    const last = upToId(live).at(-1).id;
    const expected = shown(await one.messages(threadId));
    assert.deepEqual(expected.filter(({ toolCalls }) => toolCalls).map(plain).map(({ calls }) => calls.map(({ arguments: given }) => given)), [['{"place":"here"}', '{"place":"there"}']]);
    let cuts = 0;
    const from = live.findIndex(({ id }) => id === begin);
    for (const [at, { id }] of live.entries()) {
      if (at < from || id === undefined || id === last) continue;
      const two = await Device.open(s, library);
      assert.deepEqual((await two.subscribe(threadId, id)).body, { threadId, cursor: id });
      await until(() => `the rest after ${id}`, () => two.told(threadId).some((told) => told.id === last));
      const rest = two.told(threadId);
      const whole = [...live.slice(0, at + 1), ...rest];
      assert.deepEqual(flat(whole.slice(from)), flat(live.slice(from)), `after ${id}`);
      assert.deepEqual(shown(await held(library, runsOf(whole), one.sent)), expected, `after ${id}`);
      await two.close();
      cuts += 1;
    }
    assert.ok(cuts > 15, `${cuts} places`);
  });

  once(`a device that is cut off again and again in the middle of a reply goes on where it was (${NAMES.get(library)})`, async (s) => {
    const threadId = ofThread(s);
    const one = await Device.open(s, library);
    await one.run(threadId, "run-1", [user("u1", "hello")]);
    await one.ended(threadId, "run-1");
    await one.subscribe(threadId);
    let two = await Device.open(s, library);
    await two.subscribe(threadId);
    await until("the conversation came", () => two.told(threadId).at(-1)?.chunk.type === "RUN_FINISHED");
    const plan = { reasoning: "let me think", text: "one two three four five", calls: [{ id: "c1", name: "weather" }, { id: "c2", name: "weather" }] };
    const call = s.upstream.next({ ...plan, hold: 1 });
    await one.run(threadId, "run-2", [...(await one.messages(threadId)), user("u2", "at length")], { tools: [tool("weather")] });
    let has = [];
    let cuts = 0;
    for (; !call.ended; cuts += 1) {
      await until("the model stands", () => call.ended || (call.arrived && call.sent.pieces >= call.allowed));
      // A second call is told when the first is over: its pieces may bring nothing yet.
      await until("words came", () => two.told(threadId).some(({ chunk }) => chunk.delta) || call.sent.calls.length > 0 || call.ended);
      await two.close();
      has = upToId([...has, ...two.told(threadId)]);
      two = await Device.open(s, library);
      await two.subscribe(threadId, has.at(-1).id);
      call.step(1);
    }
    assert.ok(cuts > 8, `${cuts} cuts`);
    await one.ended(threadId, "run-2");
    const isEnd = ({ chunk }) => chunk.type === "RUN_FINISHED" && chunk.runId === "run-2";
    await until("the end", () => [...has, ...two.told(threadId)].some(isEnd));
    const whole = [...has, ...two.told(threadId)];
    assert.deepEqual(shown(await held(library, runsOf(whole))), shown(await one.messages(threadId)));
    await same(s, threadId, one);
  });
}
