// Stopping, leaving, and what is kept of a reply that was stopped.
import assert from "node:assert/strict";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();
const onWebSocket = (combination) => combination.transport === "ws";
const onSse = (combination) => combination.transport === "sse";

/** Waits until the tab shows all that the model has sent so far. */
const caughtUp = (chat, call) => until("the tab shows what was sent", () => chat.last?.content === call.sent.text);

/** A reply that stands still after two pieces, seen by the tab. */
async function midReply(s, chat) {
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u1", "hello");
  await call.held();
  await caughtUp(chat, call);
  return { call, run };
}

/** The partial reply is a node, the provider's connection is closed, and the conversation goes on from there. */
async function partialIsKept(s, chat, call) {
  await call.closed();
  await s.idle(chat);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: ${call.sent.text} (partial, head)`);
  const shown = chat.last;
  assert.equal((await s.tree(chat)).head_id, shown.id, "the partial node has the id that streamed");
  await chat.send("u2", "go on");
  assert.deepEqual(s.read, ["user: hello", `assistant: ${call.sent.text}`, "user: go on"]);
}

/** How a stopped run ends, by dialect. */
const stopped = (s) => (s.combination.isLegacy ? "finished" : "cancelled");

each("the client's abort stops the turn and what was said is kept", async (s) => {
  const chat = s.chat();
  const { call, run } = await midReply(s, chat);
  chat.stop();
  await run.end();
  if (onWebSocket(s.combination)) assert.equal(run.outcome, stopped(s));
  await partialIsKept(s, chat, call);
});

each("POST …/stop stops the turn, ends its run, and what was said is kept", async (s) => {
  const chat = s.chat();
  const { call, run } = await midReply(s, chat);
  await chat.postStop();
  await run.end();
  assert.equal(run.outcome, stopped(s));
  await partialIsKept(s, chat, call);
});

each("stopping before the first piece leaves the question and no reply", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 0 });
  const run = chat.begin("u1", "hello");
  await call.held();
  await chat.postStop();
  await run.end();
  await call.closed();
  assert.equal(run.outcome, stopped(s));
  await s.idle(chat);
  assert.equal(await s.drawn(chat), drawing`user: hello (head)`);
  await chat.run();
  assert.deepEqual(s.read, ["user: hello"]);
});

each("stopping when nothing runs changes nothing", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const before = await s.tree(chat);
  await chat.postStop();
  assert.deepEqual(await s.tree(chat), before);
});

each("a stopped reply can be regenerated", async (s) => {
  const chat = s.chat();
  const { call, run } = await midReply(s, chat);
  await chat.postStop();
  await run.end();
  await chat.regenerate();
  assert.deepEqual(s.read, ["user: hello"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    - assistant: ${call.sent.text} (partial)
    - assistant: answer 2 to hello (head)`);
});

each("B13 a stop reaches the turn from another tab, and every reader sees one end", async (s) => {
  const chat = s.chat();
  const { call, run } = await midReply(s, chat);
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  await caughtUp(joined, call);
  await s.tab(chat).postStop();
  await run.end();
  await joinedRun.end();
  assert.equal(run.outcome, stopped(s));
  assert.equal(joined.last.content, call.sent.text);
  await partialIsKept(s, chat, call);
});

each("a turn goes on when its WebSocket closes", async (s) => {
  const chat = s.chat();
  const { call } = await midReply(s, chat);
  await chat.leave();
  call.release();
  await s.idle(chat);
  assert.equal(call.abandoned, false);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
}, onWebSocket);

each("on_disconnect = cancel: a turn stops when its WebSocket closes", async (s) => {
  const chat = s.chat({ agent: "cancel" });
  const { call, run } = await midReply(s, chat);
  await chat.leave();
  await run.end();
  await partialIsKept(s, chat, call);
}, onWebSocket);

each("on_disconnect = continue: a turn goes on when its POST is closed", async (s) => {
  const chat = s.chat({ agent: "continue" });
  const { call, run } = await midReply(s, chat);
  await chat.leave();
  await run.end();
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  await caughtUp(joined, call);
  assert.equal(call.abandoned, false);
  call.release();
  await joinedRun.end();
  assert.equal(joined.last.content, "answer 1 to hello");
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
}, onSse);

each("going to another branch cancels the running turn and keeps what was said", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const before = [...chat.messages];
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u2", "more");
  await call.held();
  await caughtUp(chat, call);
  await s.tab(chat, ...before).run();
  await run.end();
  assert.equal(run.outcome, stopped(s));
  await call.closed();
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)
    user: more
    assistant: ${call.sent.text} (partial)`);
});
