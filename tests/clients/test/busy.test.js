// One turn at a time, and the same run named twice.
import assert from "node:assert/strict";
import { user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();
const onWebSocket = (combination) => combination.transport === "ws";

/** The refusal names the turn that really runs, in the way of the transport. */
function refusedByTurn(s, run, turn) {
  assert.equal(run.refusal, "turn_already_active", run.outcome);
  if (onWebSocket(s.combination)) return;
  assert.equal(run.failure.status, 409);
  const { error, turn_id, started_at, queue_depth, message } = run.failure.payload;
  assert.equal(typeof message, "string");
  assert.deepEqual({ error, turn_id, started_at, queue_depth }, {
    error: "turn_already_active",
    turn_id: turn.turn_id,
    started_at: turn.started_at,
    queue_depth: 0,
  });
}

each("409 while a turn runs, with the turn's name; nothing is written and the turn is undisturbed", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u1", "hello", { runId: "run-1" });
  await call.held();
  const { running_turn: turn } = await until("a turn runs", async () => {
    const session = await s.session(chat);
    return session.status === "running" && session;
  });
  assert.ok(Number.isInteger(turn.started_at));

  const other = s.tab(chat, user("u1", "hello"), user("u2", "me too"));
  refusedByTurn(s, await other.attempt(), turn);
  const resent = s.tab(chat, user("u1", "hello"));
  refusedByTurn(s, await resent.attempt(), turn);
  refusedByTurn(s, await s.tab(chat, user("u9", "a branch at the root")).attempt(), turn);

  call.release();
  await run.end();
  assert.equal(run.outcome, "finished");
  assert.equal(s.reads.length, 1);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
  await other.run();
  assert.ok(s.read.includes("user: me too"));
});

each("a second run on the socket of a running turn waits for its end, then has an answer of its own", async (s) => {
  s.wire.strayAllowed = true;
  const chat = s.chat();
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const second = { threadId: chat.threadId, runId: "second", messages: [user("u1", "hello"), user("u2", "me too")], tools: [], context: [] };
  chat.agent.socket.send(JSON.stringify(second));
  refusedByTurn(s, await s.tab(chat, user("u3", "asked after the second run was sent")).attempt());
  call.release();
  await run.end();
  assert.equal(run.outcome, "finished");
  assert.equal(chat.last.content, "answer 1 to hello");
  const types = await until("the second run ends too", () => {
    const events = s.wire.stray.map((text) => JSON.parse(text));
    return ["RUN_FINISHED", "RUN_ERROR"].includes(events.at(-1)?.type) && events.map((event) => event.type);
  });
  assert.ok(types[0] === "RUN_STARTED" || types.length === 1, types.join(" "));
  const [question, answer] = (await s.tree(chat)).nodes;
  assert.deepEqual([question.message.content, answer.message.content], ["hello", "answer 1 to hello"]);
}, onWebSocket);

each("B12 sixteen submits at once: one starts, the others are refused and name it", async (s) => {
  const first = s.chat();
  const call = s.upstream.next({ hold: 1 });
  const tabs = [first, ...Array.from({ length: 15 }, () => s.tab(first))];
  const runs = tabs.map((tab, place) => tab.begin(`u${place}`, `from tab ${place}`));
  await call.held();
  const refused = await until("fifteen are refused", () => {
    const ended = runs.filter((run) => run.outcome !== "running");
    return ended.length === 15 && ended;
  });
  const { running_turn: turn } = await s.session(first);
  for (const run of refused) refusedByTurn(s, run, turn);
  call.release();
  const winner = runs.findIndex((run) => !refused.includes(run));
  await runs[winner].end();
  assert.equal(runs[winner].outcome, "finished");
  assert.deepEqual(s.reads, [[`user: from tab ${winner}`]]);
  assert.equal(await s.drawn(first), drawing`
    user: from tab ${winner}
    assistant: answer 1 to from tab ${winner} (head)`);
});

each("sixteen conversations at once don't mix", async (s) => {
  const tabs = Array.from({ length: 16 }, () => s.chat());
  for (const turn of [1, 2]) {
    await Promise.all(tabs.map((tab, place) => tab.send(`u${turn}`, `question ${turn} of ${place}`)));
  }
  for (const [place, tab] of tabs.entries()) {
    const [u1, a1, u2, a2] = tab.messages.map((message) => message.content);
    assert.deepEqual([u1, u2], [`question 1 of ${place}`, `question 2 of ${place}`]);
    assert.match(a1, new RegExp(`^answer \\d+ to question 1 of ${place}$`));
    assert.match(a2, new RegExp(`^answer \\d+ to question 2 of ${place}$`));
    assert.ok(s.reads.some((read) => read.join("\n") === `user: ${u1}\nassistant: ${a1}\nuser: ${u2}`));
  }
});

each("the same run sent again after its end answers with that turn and asks nobody", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello", { runId: "run-1" });
  const reply = chat.last;
  const again = s.tab(chat, user("u1", "hello"));
  await again.run({ runId: "run-1" });
  assert.equal(s.reads.length, 1);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello (head)`);
  assert.deepEqual(again.messages.map((message) => [message.id, message.content]), [["u1", "hello"], [reply.id, reply.content]]);
});

each("the same run sent again while it runs joins it", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u1", "hello", { runId: "run-1" });
  await call.held();
  const again = s.tab(chat, user("u1", "hello"));
  const second = again.start({ runId: "run-1" });
  await until("the second reader has what was sent", () => again.last?.content === call.sent.text);
  call.release();
  await Promise.all([run.end(), second.end()]);
  assert.deepEqual([run.outcome, second.outcome], ["finished", "finished"]);
  assert.deepEqual([chat.last, again.last].map((message) => [message.id, message.content]), [
    [chat.last.id, "answer 1 to hello"],
    [chat.last.id, "answer 1 to hello"],
  ]);
  assert.equal(s.reads.length, 1);
});

each("the same run with other content is refused and changes nothing", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello", { runId: "run-1" });
  const before = await s.tree(chat);
  const other = s.tab(chat, ...chat.messages, user("u2", "something else"));
  const run = await other.attempt({ runId: "run-1" });
  assert.equal(run.refusal, "turn_id_reused", run.outcome);
  if (!onWebSocket(s.combination)) assert.equal(run.failure.status, 409);
  assert.deepEqual(await s.tree(chat), before);
  await other.run();
  assert.equal(s.read.at(-1), "user: something else");
});
