// Runs that come while a turn is there: they wait, join what waits, or stop it; from several tabs, and from one.
import assert from "node:assert/strict";
import { tool, user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();
const onWebSocket = (combination) => combination.transport === "ws";
const onSse = (combination) => combination.transport === "sse";

const QUEUE = { queue: true };
const MERGE = { queue: "merge" };

/** How a stopped run ends, by dialect. */
const stopped = (s) => (s.combination.isLegacy ? "finished" : "cancelled");

/** A tab whose turn stands in the middle of its reply. */
async function busy(s, options) {
  const chat = s.chat(options);
  const call = s.upstream.next({ hold: 2, text: "the first answer" });
  const run = chat.begin("u1", "hello", { runId: "run-1" });
  await call.held();
  await until("the tab shows what was sent", () => chat.last?.content === call.sent.text);
  return { chat, call, run };
}

/** The runs that wait in `chat`'s session, each as `turn: texts`. */
async function queue(s, chat) {
  const { queue: turns } = await s.session(chat);
  return turns.map((turn, place) => {
    assert.equal(turn.position, place + 1);
    return `${turn.turn_id}: ${turn.messages.map((message) => message.content).join(", ")}`;
  });
}

/** Begins a run that has to wait, and waits until it does. */
async function queued(s, tab, id, text, { runId, forwarded } = {}) {
  const run = tab.begin(id, text, { runId, forwarded });
  await until(() => `${id} waits (${run.outcome})`, async () => (await s.session(tab)).queue.some((turn) => turn.messages.some((message) => message.id === id)));
  return run;
}

/** It was taken and told nothing yet; over HTTP the client has its answer. */
async function isSilent(s, run, times = 1) {
  if (onSse(s.combination)) {
    const isAnswered = ({ input, text }) => input.runId === run.runId && text === ": queued\n\n";
    await until("the answer is there", () => s.wire.exchanges.filter(isAnswered).length === times);
  }
  assert.deepEqual(run.events, []);
  assert.equal(run.outcome, "running");
}

const typesOf = (run) => run.events.map((event) => event.type);

each("a queued run is taken at once, begins when the running one ends, and sees the reply that it waited for", async (s) => {
  const { chat, call, run } = await busy(s);
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  await isSilent(s, second);
  assert.deepEqual(await queue(s, chat), ["run-2: and then?"]);

  call.release();
  await Promise.all([run.end(), second.end()]);
  assert.deepEqual([run.outcome, second.outcome], ["finished", "finished"]);
  assert.deepEqual(typesOf(second).slice(0, 2), ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
  assert.equal(second.events[0].runId, "run-2");
  assert.deepEqual(second.of("MESSAGES_SNAPSHOT")[0].messages.map((message) => message.content), ["hello", "the first answer", "and then?"]);
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?"]);
  assert.deepEqual(new Set(tab.lines), new Set(["user: hello", "assistant: the first answer", "user: and then?", "assistant: answer 1 to and then?"]));
  assert.deepEqual(chat.lines, ["user: hello", "assistant: the first answer"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: the first answer
    user: and then?
    assistant: answer 1 to and then? (head)`);
});

each("queued runs begin in the order in which they came", async (s) => {
  const { chat, call, run } = await busy(s);
  const runs = [];
  for (const place of [2, 3, 4]) runs.push(await queued(s, s.tab(chat, user("u1", "hello")), `u${place}`, `question ${place}`, { runId: `run-${place}`, forwarded: QUEUE }));
  assert.deepEqual(await queue(s, chat), ["run-2: question 2", "run-3: question 3", "run-4: question 4"]);
  call.release();
  for (const each of [run, ...runs]) assert.equal((await each.end()).outcome, "finished");
  assert.deepEqual(s.read.filter((line) => line.startsWith("user: ")), ["user: hello", "user: question 2", "user: question 3", "user: question 4"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: the first answer
    user: question 2
    assistant: answer 1 to question 2
    user: question 3
    assistant: answer 2 to question 3
    user: question 4
    assistant: answer 3 to question 4 (head)`);
});

each("merged runs of two tabs are one turn with one reply, which each tab gets under its own run", async (s) => {
  const { chat, call, run } = await busy(s);
  const [one, other] = [s.tab(chat, user("u1", "hello")), s.tab(chat, user("u1", "hello"))];
  const first = await queued(s, one, "u2", "and then?", { runId: "run-2", forwarded: MERGE });
  const second = await queued(s, other, "u3", "and why?", { runId: "run-3", forwarded: MERGE });
  assert.deepEqual(await queue(s, chat), ["run-2: and then?, and why?"]);
  call.release();
  for (const each of [run, first, second]) assert.equal((await each.end()).outcome, "finished");
  assert.deepEqual([first.events[0].runId, second.events[0].runId], ["run-2", "run-3"]);
  assert.deepEqual([first.events.at(-1).runId, second.events.at(-1).runId], ["run-2", "run-3"]);
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?", "user: and why?"]);
  assert.equal(s.reads.length, 2);
  assert.deepEqual([one.last.content, other.last.content], ["answer 1 to and why?", "answer 1 to and why?"]);
  assert.equal(one.last.id, other.last.id);
  assert.deepEqual(new Set(one.messages.map(({ id }) => id)), new Set(other.messages.map(({ id }) => id)));
});

each("a message that two tabs merge is recorded once", async (s) => {
  const { chat, call, run } = await busy(s);
  const [one, other] = [s.tab(chat, user("u1", "hello")), s.tab(chat, user("u1", "hello"), user("u2", "and then?"))];
  const first = await queued(s, one, "u2", "and then?", { runId: "run-2", forwarded: MERGE });
  const second = await queued(s, other, "u3", "and why?", { runId: "run-3", forwarded: MERGE });
  assert.deepEqual(await queue(s, chat), ["run-2: and then?, and why?"]);
  call.release();
  for (const each of [run, first, second]) assert.equal((await each.end()).outcome, "finished");
  assert.deepEqual(s.read.slice(2), ["user: and then?", "user: and why?"]);
});

each("a merged run joins only the last that waits, and only if that was merged too", async (s) => {
  const { chat, call, run } = await busy(s);
  const plan = [["run-2", QUEUE], ["run-3", MERGE], ["run-4", MERGE], ["run-5", QUEUE], ["run-6", MERGE]];
  const runs = [];
  for (const [place, [runId, forwarded]] of plan.entries()) {
    runs.push(await queued(s, s.tab(chat, user("u1", "hello")), `u${place + 2}`, `question ${place + 2}`, { runId, forwarded }));
  }
  assert.deepEqual(await queue(s, chat), ["run-2: question 2", "run-3: question 3, question 4", "run-5: question 5", "run-6: question 6"]);
  call.release();
  for (const each of [run, ...runs]) assert.equal((await each.end()).outcome, "finished");
  assert.equal(s.reads.length, 5);
});

each("an agent's on_busy is for front ends that can't say, and what a run says wins", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "queueing" });
  const tab = () => s.tab(chat, user("u1", "hello"));
  const refused = tab();
  refused.say("u9", "now or never");
  assert.equal((await refused.attempt({ forwarded: { queue: false } })).refusal, "turn_already_active");
  const second = await queued(s, tab(), "u2", "and then?", { runId: "run-2" });
  const third = await queued(s, tab(), "u3", "and why?", { runId: "run-3", forwarded: MERGE });
  const fourth = await queued(s, tab(), "u4", "and how?", { runId: "run-4", forwarded: MERGE });
  assert.deepEqual(await queue(s, chat), ["run-2: and then?", "run-3: and why?, and how?"]);
  call.release();
  for (const each of [run, second, third, fourth]) assert.equal((await each.end()).outcome, "finished");
});

each("on_busy = merge: what is said while a turn runs is one turn after it", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "merging" });
  const second = await queued(s, s.tab(chat, user("u1", "hello")), "u2", "and then?");
  const third = await queued(s, s.tab(chat, user("u1", "hello")), "u3", "and why?");
  call.release();
  for (const each of [run, second, third]) assert.equal((await each.end()).outcome, "finished");
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?", "user: and why?"]);
});

each("on_busy = cancel: a run stops the turn that is there; what was said is kept where the list names it", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "stopping" });
  const tab = s.tab(chat, ...chat.messages);
  const second = tab.begin("u2", "stop, something else");
  for (const each of [run, second]) await each.end();
  assert.deepEqual([run.outcome, second.outcome], [stopped(s), "finished"]);
  await call.closed({ within: 1_000 });
  assert.deepEqual(s.read, ["user: hello", `assistant: ${call.sent.text}`, "user: stop, something else"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: ${call.sent.text} (partial)
    user: stop, something else
    assistant: answer 1 to stop, something else (head)`);
});

each("on_busy = cancel: a list that never saw the reply goes on without it", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "stopping" });
  const second = s.tab(chat, user("u1", "hello")).begin("u2", "something else");
  for (const each of [run, second]) await each.end();
  assert.deepEqual([run.outcome, second.outcome], [stopped(s), "finished"]);
  assert.deepEqual(s.read, ["user: hello", "user: something else"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    - assistant: ${call.sent.text} (partial)
    - user: something else
      assistant: answer 1 to something else (head)`);
});

each("a queued run that is stopped has a start and an end; nothing of it is left, and its message may be sent again", async (s) => {
  const { chat, call, run } = await busy(s);
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  const third = await queued(s, s.tab(chat, user("u1", "hello")), "u3", "and why?", { runId: "run-3", forwarded: QUEUE });
  assert.deepEqual(await chat.postStop("run-2"), { stopped: true });
  await second.end();
  assert.equal(second.outcome, stopped(s));
  assert.deepEqual(typesOf(second), ["RUN_STARTED", "RUN_FINISHED"]);
  assert.deepEqual(await chat.postStop("run-2"), { stopped: false });
  assert.deepEqual(await queue(s, chat), ["run-3: and why?"]);
  assert.equal(call.abandoned, false);
  call.release();
  for (const each of [run, third]) assert.equal((await each.end()).outcome, "finished");
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and why?"]);

  const joined = s.tab(chat).joining();
  await joined.run();
  const again = s.tab(chat, ...joined.messages);
  await again.send("u2", "and then?");
  assert.equal(s.read.at(-1), "user: and then?");
});

each("the client's abort of a queued run takes it out of the queue", async (s) => {
  const { chat, call, run } = await busy(s);
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  tab.stop();
  await second.end();
  if (onWebSocket(s.combination)) assert.equal(second.outcome, stopped(s));
  await until("the queue is empty", async () => (await queue(s, chat)).length === 0);
  call.release();
  assert.equal((await run.end()).outcome, "finished");
  await s.idle(chat);
  assert.equal(s.reads.length, 1);
});

each("stopping the running turn lets the next one begin", async (s) => {
  const { chat, call, run } = await busy(s);
  const second = await queued(s, s.tab(chat, user("u1", "hello")), "u2", "and then?", { forwarded: QUEUE });
  assert.deepEqual(await chat.postStop(), { stopped: true });
  await Promise.all([run.end(), second.end()]);
  assert.deepEqual([run.outcome, second.outcome], [stopped(s), "finished"]);
  await call.closed();
  assert.deepEqual(s.read, ["user: hello", `assistant: ${call.sent.text}`, "user: and then?"]);
});

each("stopping one of a merged group removes the group", async (s) => {
  const { chat, call, run } = await busy(s);
  const first = await queued(s, s.tab(chat, user("u1", "hello")), "u2", "and then?", { runId: "run-2", forwarded: MERGE });
  const second = await queued(s, s.tab(chat, user("u1", "hello")), "u3", "and why?", { runId: "run-3", forwarded: MERGE });
  assert.deepEqual(await chat.postStop("run-3"), { stopped: true });
  for (const each of [first, second]) assert.equal((await each.end()).outcome, stopped(s));
  call.release();
  await run.end();
  await s.idle(chat);
  assert.equal(s.reads.length, 1);
});

each("a tab that is closed takes its queued run along, when its agent says so", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "cancel" });
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { forwarded: QUEUE });
  await tab.leave();
  await second.end();
  await until("the queue is empty", async () => (await queue(s, chat)).length === 0);
  call.release();
  assert.equal((await run.end()).outcome, "finished");
  await s.idle(chat);
  assert.equal(s.reads.length, 1);
});

each("a tab that is closed leaves its queued run behind, when its agent says so", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "continue" });
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  await tab.leave();
  await second.end();
  assert.deepEqual(await queue(s, chat), ["run-2: and then?"]);
  call.release();
  await run.end();
  await s.idle(chat);
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?"]);
});

each("a tab that is closed doesn't take along what others merged into its run, waiting or running", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "cancel" });
  const [one, other] = [s.tab(chat, user("u1", "hello")), s.tab(chat, user("u1", "hello"))];
  const next = s.upstream.next({ hold: 1, text: "to both" });
  const first = await queued(s, one, "u2", "and then?", { runId: "run-2", forwarded: MERGE });
  const second = await queued(s, other, "u3", "and why?", { runId: "run-3", forwarded: MERGE });
  await one.leave();
  await first.end();
  assert.deepEqual(await queue(s, chat), ["run-2: and then?, and why?"]);
  call.release();
  await run.end();
  await next.held();
  await until("the second tab shows it", () => other.last?.content === next.sent.text);
  const third = s.tab(chat).joining();
  const joined = third.start();
  await until("a reader shows it", () => third.last?.content === next.sent.text);
  await other.leave();
  await second.end();
  next.release();
  assert.equal((await joined.end()).outcome, "finished");
  assert.equal(next.abandoned, false);
  assert.equal(third.last.content, "to both");
});

each("a tab that merged into nobody's run takes its own along", async (s) => {
  const { chat, call, run } = await busy(s, { agent: "cancel" });
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { forwarded: MERGE });
  await tab.leave();
  await second.end();
  await until("the queue is empty", async () => (await queue(s, chat)).length === 0);
  call.release();
  await run.end();
});

each("the same run sent again while it is queued waits too, and both get the answer", async (s) => {
  const { chat, call, run } = await busy(s);
  const [tab, again] = [s.tab(chat, user("u1", "hello")), s.tab(chat, user("u1", "hello"))];
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  const twice = again.begin("u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  if (onSse(s.combination)) await isSilent(s, twice, 2);
  call.release();
  for (const each of [run, second, twice]) assert.equal((await each.end()).outcome, "finished");
  assert.equal(s.reads.length, 2);
  assert.equal(tab.last.content, "answer 1 to and then?");
  assert.equal(again.last.id, tab.last.id);
});

each("a turn that fails doesn't take the queue along", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 2, cut: 3 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const second = await queued(s, s.tab(chat, user("u1", "hello")), "u2", "and then?", { forwarded: QUEUE });
  call.release();
  await Promise.all([run.end(), second.end()]);
  assert.deepEqual([run.outcome, second.outcome], ["error: llm_cut", "finished"]);
  assert.deepEqual(s.read, ["user: hello", "user: and then?"]);
});

each("going to another branch cancels what waited for this one", async (s) => {
  const chat = s.chat();
  await chat.send("u0", "good morning");
  const before = [...chat.messages];
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const second = await queued(s, s.tab(chat, ...before, user("u1", "hello")), "u2", "and then?", { forwarded: QUEUE });
  await s.tab(chat, ...before).run();
  await Promise.all([run.end(), second.end()]);
  assert.deepEqual([run.outcome, second.outcome], [stopped(s), stopped(s)]);
  assert.deepEqual(typesOf(second), ["RUN_STARTED", "RUN_FINISHED"]);
  await s.idle(chat);
  assert.equal(s.reads.length, 2);
});

each("an edit while a turn runs can't wait for it, and is refused", async (s) => {
  const chat = s.chat();
  await chat.send("u0", "good morning");
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u1", "hello");
  await call.held();
  for (const forwarded of [QUEUE, MERGE, undefined]) {
    const edited = await s.tab(chat, user("u0b", "good evening")).attempt({ forwarded });
    assert.equal(edited.refusal, "turn_already_active", edited.outcome);
  }
  call.release();
  assert.equal((await run.end()).outcome, "finished");
});

each("what can't be said about a busy session is refused in words", async (s) => {
  const chat = s.chat();
  chat.say("u1", "hello");
  assert.equal((await chat.attempt({ forwarded: { queue: "later" } })).refusal, "bad_request");
  await assert.rejects(s.session(chat), { status: 404 });
});

each("a queue has a limit, beyond which a run is refused and changes nothing", async (s) => {
  const { chat, call, run } = await busy(s);
  const runs = [];
  for (let place = 0; place < 6; place++) runs.push(await queued(s, s.tab(chat, user("u1", "hello")), `q${place}`, "and then?", { forwarded: QUEUE }));
  const over = await s.tab(chat, user("u1", "hello"), user("q9", "too much")).attempt({ forwarded: QUEUE });
  assert.equal(over.refusal, "queue_full", over.outcome);
  if (onSse(s.combination)) assert.deepEqual([over.failure.status, over.failure.payload.queue_depth], [429, 6]);
  assert.equal((await queue(s, chat)).length, 6);
  call.release();
  for (const each of [run, ...runs]) assert.equal((await each.end()).outcome, "finished");
  assert.ok(!s.read.includes("user: too much"));
});

each("while a turn waits for results a queued run waits too; the results go first", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  s.upstream.next({ calls: [{ id: "c1", name: "weather" }] });
  await chat.send("u1", "how is it?");
  const tab = s.tab(chat, ...chat.messages);
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  assert.equal((await s.session(chat)).status, "waiting");
  chat.answer("c1", "18 degrees");
  const run = await chat.run();
  assert.equal(chat.last.content, "answer 1 to how is it?");
  assert.equal((await second.end()).outcome, "finished");
  assert.deepEqual(s.reads.at(1).slice(2), ["tool c1: 18 degrees"]);
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "assistant: answer 1 to how is it?", "user: and then?"]);
  assert.ok(run);
});

each("a stop while a turn waits for results lets the next one begin", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  s.upstream.next({ calls: [{ id: "c1", name: "weather" }] });
  await chat.send("u1", "how is it?");
  const second = await queued(s, s.tab(chat, ...chat.messages), "u2", "and then?", { forwarded: QUEUE });
  await chat.postStop();
  assert.equal((await second.end()).outcome, "finished");
  assert.deepEqual(s.read.slice(2), ["tool c1: Error: This call was interrupted and has no result.", "user: and then?"]);
});

each("kill -9 with runs in the queue: after the start they run in their order", async (s) => {
  s.wire.cutsAllowed = true;
  const { chat, run } = await busy(s, { agent: "queueing" });
  const tab = s.tab(chat, user("u1", "hello"));
  const second = await queued(s, tab, "u2", "and then?", { runId: "run-2" });
  const third = await queued(s, s.tab(chat, user("u1", "hello")), "u3", "and why?", { runId: "run-3" });
  await s.server.restart();
  for (const each of [run, second, third]) await each.end();
  await s.idle(chat);
  assert.deepEqual(s.read.filter((line) => line.startsWith("user: ")), ["user: hello", "user: and then?", "user: and why?"]);
  // The run is still known by its name.
  const again = s.tab(chat, user("u1", "hello"));
  again.say("u2", "and then?");
  assert.equal((await again.attempt({ runId: "run-2" })).outcome, "finished");
  assert.equal(s.reads.length, 4);
});

each("a server that stops lets what is queued run first", async (s) => {
  s.wire.cutsAllowed = true;
  const { chat, call, run } = await busy(s);
  const second = await queued(s, s.tab(chat, user("u1", "hello")), "u2", "and then?", { runId: "run-2", forwarded: QUEUE });
  const stopping = s.server.kill("SIGTERM");
  call.release();
  await Promise.all([run.end(), second.end(), stopping]);
  assert.deepEqual([run.outcome, second.outcome], ["finished", "finished"]);
  await s.server.spawn();
  await s.idle(chat);
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?"]);
});
