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

each("B13 a stop through another connection reaches the turn: the model's connection is closed within a second, every reader sees one end and nothing after it", async (s) => {
  const chat = s.chat();
  const { call, run } = await midReply(s, chat);
  // Two overlapping readers, at different places of the stream.
  const [first, second] = [s.tab(chat).joining(), s.tab(chat).joining()];
  const firstRun = first.start();
  await caughtUp(first, call);
  call.step();
  await call.held();
  const secondRun = second.start();
  for (const tab of [chat, first, second]) await until("each tab shows what was sent", () => tab.last?.content === call.sent.text);

  assert.deepEqual(await s.tab(chat).postStop(), { stopped: true });
  await call.closed({ within: 1_000 });
  for (const each of [run, firstRun, secondRun]) {
    await each.end();
    assert.equal(each.outcome, stopped(s));
    assert.equal(each.events.filter((event) => ["RUN_FINISHED", "RUN_ERROR"].includes(event.type)).length, 1);
    assert.equal(each.events.at(-1).type, "RUN_FINISHED");
  }
  for (const tab of [chat, first, second]) assert.deepEqual([tab.last.id, tab.last.content], [chat.last.id, call.sent.text]);
  assert.deepEqual(await s.tab(chat).postStop(), { stopped: false });
  assert.equal(s.reads.length, 1, "nobody asked the model again");
  await partialIsKept(s, chat, call);
});

each("B13 a stop through a connection that joined after a reload", async (s) => {
  const chat = s.chat({ agent: "continue" });
  const { call, run } = await midReply(s, chat);
  await chat.leave();
  await run.end();
  const reloaded = s.tab(chat).joining();
  const joined = reloaded.start();
  await caughtUp(reloaded, call);
  assert.equal(call.abandoned, false, "leaving is no stop");
  await reloaded.postStop();
  await call.closed({ within: 1_000 });
  await joined.end();
  assert.equal(joined.outcome, stopped(s));
  chat.show(...reloaded.messages);
  await partialIsKept(s, chat, call);
});

each("B13 readers that leave stop nothing, one after the other, not even the last", async (s) => {
  const chat = s.chat({ agent: "continue" });
  const { call, run } = await midReply(s, chat);
  const tabs = [s.tab(chat).joining(), s.tab(chat).joining()];
  const runs = tabs.map((tab) => tab.start());
  for (const tab of tabs) await caughtUp(tab, call);
  for (const [place, tab] of tabs.entries()) {
    tab.stop();
    await runs[place].end();
  }
  await chat.leave();
  await run.end();
  call.step();
  await call.held();
  assert.equal(call.abandoned, false);
  call.release();
  await s.idle(chat);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
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
