// Models that fail, are cut, or talk nonsense: a code, exactly one terminal, no half node, and the next run works.
import assert from "node:assert/strict";
import { user } from "../lib/chat.js";
import { drawing, pathOf } from "../lib/tree.js";
import { answerLength } from "../lib/upstream.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();
const onWebSocket = (combination) => combination.transport === "ws";

/** Ways in which a model fails, with the codes that say so. */
const FAILURES = [
  [{ status: 503 }, ["llm_unavailable"]],
  [{ status: 429 }, ["llm_rate_limited"]],
  [{ status: 400 }, ["llm_refused"]],
  [{ cut: 0 }, ["llm_cut", "llm_unavailable"]],
  [{ cut: 2 }, ["llm_cut"]],
  [{ body: "<html>busy</html>" }, ["llm_bad_response", "llm_cut"]],
  [{ body: 'data: {"error":{"message":"flagged"}}\n\n' }, ["llm_bad_response", "llm_refused", "llm_unavailable", "llm_cut"]],
  [{ body: 'data: {"choices":[{"index":0,"delta":{"content":17}}]}\n\ndata: [DONE]\n\n' }, ["llm_bad_response", "llm_cut"]],
];

each("B08 five failing regenerations, then one that works: the tree is as before until then", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const before = await s.tree(chat);
  for (const [plan, codes] of FAILURES.slice(0, 5)) {
    s.upstream.next(plan);
    chat.show(user("u1", "hello"));
    const run = await chat.attempt();
    assert.ok(codes.map((code) => `error: ${code}`).includes(run.outcome), `${JSON.stringify(plan)}: ${run.outcome}`);
    await s.idle(chat);
    const after = await s.tree(chat);
    assert.deepEqual(after.nodes, before.nodes);
    const path = pathOf(after);
    assert.equal(path[0].id, "u1", "a reload gives a path that can be shown");
  }
  chat.show(user("u1", "hello"));
  await chat.run();
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    - assistant: answer 1 to hello
    - assistant: ${chat.last.content} (head)`);
});

each("B08 a first message whose call fails stays, and is answered when it is sent again", async (s) => {
  const chat = s.chat();
  for (const [plan, codes] of FAILURES) {
    s.upstream.next(plan);
    chat.show(user("u1", "hello"));
    const run = await chat.attempt();
    assert.ok(codes.map((code) => `error: ${code}`).includes(run.outcome), `${JSON.stringify(plan)}: ${run.outcome}`);
    await s.idle(chat);
    assert.equal(await s.drawn(chat), drawing`user: hello (head)`);
  }
  chat.show(user("u1", "hello"));
  await chat.run();
  assert.deepEqual(s.read, ["user: hello"]);
});

each("B08 what was shown of a cut reply is sent back and isn't taken for a message", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ cut: 2 });
  await chat.begin("u1", "hello").end();
  assert.equal(call.sent.pieces, 2);
  await chat.send("u2", "are you there?");
  assert.deepEqual(s.read, ["user: hello", "user: are you there?"]);
  assert.equal((await s.tree(chat)).nodes.length, 3);
});

once("B08 a stream cut at any byte leaves a whole reply or none", async (s) => {
  const text = "Grüße, one two three";
  const length = await answerLength(s.upstream, text);
  let whole = 0;
  const bytes = [...Array.from({ length: Math.ceil(length / 7) }, (_, step) => step * 7), length];
  for (const byte of bytes) {
    const chat = s.chat();
    s.upstream.next({ text, cutAtByte: byte });
    const run = await chat.begin("u1", "hello").end();
    await s.idle(chat);
    const drawn = await s.drawn(chat);
    if (byte === length) assert.equal(run.outcome, "finished", "the whole stream had come");
    if (run.outcome === "finished") {
      whole += 1;
      assert.equal(drawn, drawing`
        user: hello
        assistant: ${text} (head)`, `cut at byte ${byte} of ${length}`);
    } else {
      assert.match(run.outcome, /^error: llm_/, `cut at byte ${byte} of ${length}`);
      assert.equal(drawn, drawing`user: hello (head)`, `cut at byte ${byte} of ${length}`);
    }
  }
  assert.ok(whole < bytes.length / 2, `${whole} whole replies of ${bytes.length}`);
});

each("B19 every run ends with exactly one terminal: finished, stopped, left, failing, cut", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  for (const [plan] of FAILURES) {
    s.upstream.next(plan);
    const run = await s.tab(chat, user("u1", "hello")).attempt();
    const terminals = run.events.filter((event) => ["RUN_FINISHED", "RUN_ERROR"].includes(event.type));
    assert.deepEqual(terminals.map((event) => event.type), ["RUN_ERROR"], JSON.stringify(plan));
    assert.ok(terminals[0].message.length > 0);
    await s.idle(chat);
  }
  const call = s.upstream.next({ hold: 1 });
  const stopping = s.tab(chat, user("u1", "hello"));
  const stopped = stopping.start();
  await call.held();
  await stopping.postStop();
  await stopped.end();
  assert.deepEqual([stopped.of("RUN_FINISHED").length, stopped.of("RUN_ERROR").length], [1, 0]);

  const left = s.upstream.next({ hold: 1 });
  const leaving = s.tab(chat, user("u1", "hello"));
  leaving.start();
  await left.held();
  await leaving.leave();
  left.release();
  await s.idle(chat);
  await chat.run();
});

each("a reply that is cut and tried again: the first text goes, the second stays, under its own id", async (s) => {
  const chat = s.chat({ agent: "retrying" });
  s.upstream.next({ cut: 2 });
  const run = await chat.send("u1", "hello");
  const ids = run.of("TEXT_MESSAGE_START").map((event) => event.messageId);
  assert.equal(ids.length, 2);
  assert.notEqual(ids[0], ids[1]);
  assert.deepEqual(chat.lines, ["user: hello", "assistant: answer 2 to hello"]);
  assert.equal(chat.last.id, ids[1]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 2 to hello (head)`);
  await chat.send("u2", "more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 2 to hello", "user: more"]);
});

each("an overloaded model is asked again without anybody noticing", async (s) => {
  const chat = s.chat({ agent: "retrying" });
  s.upstream.next({ status: 503 });
  const run = await chat.send("u1", "hello");
  assert.equal(run.of("TEXT_MESSAGE_START").length, 1);
  assert.deepEqual(chat.lines, ["user: hello", "assistant: answer 1 to hello"]);
});

each("a model that is down: a code, and the next run works when it is up again", async (s) => {
  const chat = s.chat();
  await s.upstream.down();
  try {
    const run = await chat.begin("u1", "hello").end();
    assert.equal(run.outcome, "error: llm_unavailable");
    await s.idle(chat);
    assert.equal(await s.drawn(chat), drawing`user: hello (head)`);
  } finally {
    await s.upstream.up();
  }
  await chat.run();
  assert.deepEqual(s.read, ["user: hello"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
});

each("a model that has stopped talking is left alone by others' turns", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const other = s.chat();
  await other.send("u1", "hi");
  assert.equal(other.last.content, "answer 2 to hi");
  call.release();
  await until("the first turn ends", () => run.outcome === "finished");
});

each("a wrong request is refused with a code and the next one works", async (s) => {
  const chat = s.chat();
  for (const [input, code] of [
    [{ threadId: chat.threadId, runId: "r", messages: [{ id: "u1", role: "user", content: 7 }] }, "bad_request"],
    [{ threadId: chat.threadId, runId: "r", messages: "none" }, "bad_request"],
    [{ threadId: 5, runId: "r", messages: [] }, "bad_request"],
    ["{", "bad_json"],
  ]) {
    const response = await fetch(`${s.server.url}/agents/bot`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: typeof input === "string" ? input : JSON.stringify(input),
    });
    assert.equal(response.status, 400, JSON.stringify(input));
    assert.equal((await response.json()).error, code, JSON.stringify(input));
  }
  const unknown = s.chat({ agent: "nobody" });
  const run = await unknown.begin("u1", "hello").end();
  if (!onWebSocket(s.combination)) {
    assert.equal(run.failure.status, 404);
    assert.equal(run.refusal, "unknown_agent");
  } else {
    assert.notEqual(run.outcome, "finished");
  }
  await chat.send("u1", "hello");
});
