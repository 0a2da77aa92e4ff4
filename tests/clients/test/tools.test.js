// Tools that the page carries out: the run ends with the calls, the turn waits, and its next run brings the results.
import assert from "node:assert/strict";
import { result, tool, user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();
const onSse = (combination) => combination.transport === "sse";

const WEATHER = [tool("weather")];
const call = (id, place = "Rome", name = "weather") => ({ id, name, arguments: { place } });

/** A page that asked, and whose turn waits for the results of `calls`. */
async function asked(s, calls, { text, reasoning, agent } = {}) {
  const chat = s.chat({ tools: WEATHER, agent });
  s.upstream.next({ calls, text, reasoning });
  const run = await chat.send("u1", "how is it?");
  waits(s, run, calls.map(({ id }) => id));
  assert.equal((await s.session(chat)).status, "waiting");
  return chat;
}

/** The run ended well, and those who can read it are told for what its turn waits. */
function waits(s, run, pending) {
  assert.equal(run.outcome, "finished");
  assert.deepEqual(run.pending, s.combination.isLegacy ? undefined : pending);
}

/** The run that ended ended its turn. */
async function ended(s, chat, run) {
  waits(s, run, undefined);
  assert.equal((await s.session(chat)).status, "idle");
}

const UNANSWERED = "Error: This call was interrupted and has no result.";

each("a call: the run ends well with it, the results' run goes on with the same turn", async (s) => {
  const chat = await asked(s, [call("c1")]);
  assert.deepEqual(s.offered, ["weather"]);
  assert.deepEqual(chat.openCalls, ["c1"]);
  assert.deepEqual(chat.last.toolCalls.map((asked) => asked.function), [{ name: "weather", arguments: '{"place":"Rome"}' }]);

  chat.answer("c1", "18 degrees");
  const run = await chat.run({ runId: "run-with-the-result" });
  await ended(s, chat, run);
  assert.deepEqual([run.events[0].runId, run.events.at(-1).runId], ["run-with-the-result", "run-with-the-result"]);
  assert.deepEqual(s.read, ["user: how is it?", 'assistant:  [c1 weather {"place":"Rome"}]', "tool c1: 18 degrees"]);
  assert.deepEqual(s.offered, ["weather"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant:  [c1 weather]
    tool c1: 18 degrees
    assistant: answer 1 to how is it? (head)`);
  assert.deepEqual(chat.lines, ["user: how is it?", "assistant: ", "tool: 18 degrees", "assistant: answer 1 to how is it?"]);

  await chat.send("u2", "thanks");
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "assistant: answer 1 to how is it?", "user: thanks"]);
});

each("a call after words and thoughts", async (s) => {
  const chat = await asked(s, [call("c1")], { text: "Let me see.", reasoning: "I need the weather" });
  chat.answer("c1", "18 degrees");
  await chat.run();
  assert.deepEqual(s.read, ["user: how is it?", 'assistant: Let me see. [c1 weather {"place":"Rome"}]', "tool c1: 18 degrees"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant: Let me see. [c1 weather]
    tool c1: 18 degrees
    assistant: answer 1 to how is it? (head)`);
});

each("parallel calls, all answered at once, in another order", async (s) => {
  const chat = await asked(s, [call("c1", "Rome"), call("c2", "Oslo"), call("c3", "Bern")]);
  chat.answer("c3", "8 degrees");
  chat.answer("c1", "18 degrees");
  chat.answer("c2", "2 degrees");
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: 2 degrees", "tool c3: 8 degrees"]);
  await chat.send("u2", "thanks");
  assert.equal(s.reads.length, 3);
});

each("parallel calls answered one by one: each run ends at once with what is left, and nobody is asked before the last", async (s) => {
  const chat = await asked(s, [call("c1", "Rome"), call("c2", "Oslo"), call("c3", "Bern")]);
  chat.answer("c2", "2 degrees");
  waits(s, await chat.run(), ["c1", "c3"]);
  chat.answer("c3", "8 degrees");
  waits(s, await chat.run(), ["c1"]);
  assert.equal(s.reads.length, 1);
  assert.equal((await s.session(chat)).status, "waiting");
  chat.answer("c1", "18 degrees");
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: 2 degrees", "tool c3: 8 degrees"]);
});

each("several rounds in one turn, each a run", async (s) => {
  const chat = await asked(s, [call("c1")]);
  s.upstream.next({ calls: [call("c2", "Oslo")], text: "And there?" });
  chat.answer("c1", "18 degrees");
  waits(s, await chat.run(), ["c2"]);
  chat.answer("c2", "2 degrees");
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read, [
    "user: how is it?",
    'assistant:  [c1 weather {"place":"Rome"}]',
    "tool c1: 18 degrees",
    'assistant: And there? [c2 weather {"place":"Oslo"}]',
    "tool c2: 2 degrees",
  ]);
});

each("no answer and a new message: the calls are sealed, and a result that comes later changes nothing", async (s) => {
  const chat = await asked(s, [call("c1"), call("c2")]);
  const before = [...chat.messages];
  await ended(s, chat, await chat.send("u2", "never mind"));
  assert.deepEqual(s.read.slice(2), [`tool c1: ${UNANSWERED}`, `tool c2: ${UNANSWERED}`, "user: never mind"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant:  [c1 weather] [c2 weather]
    user: never mind
    assistant: answer 1 to never mind (head)`);

  const late = s.tab(chat, ...before, result("c1", "18 degrees"), ...chat.messages.slice(2), user("u3", "and now?"));
  const run = await late.run();
  assert.deepEqual(run.customs("headwater.view")[0]?.ignored, [{ index: 2, id: "result-of-c1", reason: "call_not_open" }]);
  assert.ok(s.read.includes(`tool c1: ${UNANSWERED}`));
});

each("some answered and a new message in the same list: what was answered is kept, the rest is sealed", async (s) => {
  const chat = await asked(s, [call("c1"), call("c2")]);
  chat.answer("c1", "18 degrees");
  await ended(s, chat, await chat.send("u2", "that is enough"));
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", `tool c2: ${UNANSWERED}`, "user: that is enough"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant:  [c1 weather] [c2 weather]
    tool c1: 18 degrees
    user: that is enough
    assistant: answer 1 to that is enough (head)`);
});

each("all answered and a new message in the same list: one call of the model reads both", async (s) => {
  const chat = await asked(s, [call("c1")]);
  chat.answer("c1", "18 degrees");
  await ended(s, chat, await chat.send("u2", "and tomorrow?"));
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "user: and tomorrow?"]);
  assert.equal(s.reads.length, 2);
});

each("a tool that nobody declared is answered with an error at once, and the turn goes on", async (s) => {
  const chat = s.chat({ tools: WEATHER });
  s.upstream.next({ calls: [call("c1", "Rome", "stocks")] });
  const run = await chat.send("u1", "how is it?");
  await ended(s, chat, run);
  assert.deepEqual(run.of("TOOL_CALL_RESULT").map((event) => [event.toolCallId, event.content]), [["c1", 'There is no tool named "stocks".']]);
  assert.deepEqual(s.read.slice(2), ['tool c1: Error: There is no tool named "stocks".']);
  assert.deepEqual(chat.lines, ["user: how is it?", "assistant: ", 'tool: There is no tool named "stocks".', "assistant: answer 1 to how is it?"]);
  await chat.send("u2", "thanks");
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant:  [c1 stocks]
    tool c1: There is no tool named "stocks".
    assistant: answer 1 to how is it?
    user: thanks
    assistant: answer 2 to thanks (head)`);
});

each("arguments that are no object are answered with an error at once; none at all are an empty object", async (s) => {
  const wrong = [['{"place": ', ": EOF while parsing a value at line 1 column 10"], ['["Rome"]', ""], ["7", ""], ["null", ""]];
  for (const [place, [given, where]] of wrong.entries()) {
    const chat = s.chat({ tools: WEATHER });
    s.upstream.next({ calls: [{ id: "c1", name: "weather", arguments: given }] });
    const run = await chat.send("u1", "how is it?");
    await ended(s, chat, run);
    assert.deepEqual(s.read.slice(2), [`tool c1: Error: The arguments of "weather" are not a JSON object${where}.`], given);
    assert.equal(s.reads.length, 2 * (place + 1));
  }
  const chat = await asked(s, [{ id: "c1", name: "weather", arguments: "" }]);
  chat.answer("c1", "18 degrees");
  await chat.run();
  assert.deepEqual(s.read.slice(1), ["assistant:  [c1 weather {}]", "tool c1: 18 degrees"]);
});

each("of parallel calls those that are wrong have their errors, the others are the page's", async (s) => {
  const chat = s.chat({ tools: WEATHER });
  s.upstream.next({ calls: [call("c1", "Rome", "stocks"), call("c2"), { id: "c3", name: "weather", arguments: "{" }] });
  const run = await chat.send("u1", "how is it?");
  waits(s, run, ["c2"]);
  assert.deepEqual(run.of("TOOL_CALL_RESULT").map((event) => event.toolCallId), ["c1", "c3"]);
  assert.deepEqual(chat.openCalls, ["c2"]);
  chat.answer("c2", "18 degrees");
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(2), [
    'tool c1: Error: There is no tool named "stocks".',
    "tool c2: 18 degrees",
    'tool c3: Error: The arguments of "weather" are not a JSON object: EOF while parsing an object at line 1 column 1.',
  ]);
});

each("a result that is an error is read as one", async (s) => {
  const chat = await asked(s, [call("c1"), call("c2")]);
  chat.answer("c1", "", { error: "the station is silent" });
  chat.answer("c2", "old data", { error: "the station is silent" });
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: Error: the station is silent", "tool c2: old data\nError: the station is silent"]);
});

each("a reload while a turn waits: the calls are shown, and are answered from there", async (s) => {
  const chat = await asked(s, [call("c1"), call("c2")], { text: "Let me see." });
  chat.answer("c1", "18 degrees");
  waits(s, await chat.run(), ["c2"]);

  const joined = s.tab(chat).joining();
  const run = await joined.run();
  waits(s, run, ["c2"]);
  assert.equal(run.of("MESSAGES_SNAPSHOT").length, 1);
  assert.deepEqual(joined.openCalls, ["c2"]);
  assert.deepEqual(joined.messages.map(({ id }) => id), chat.messages.map(({ id }) => id));
  assert.equal(s.reads.length, 1);

  const tab = s.tab(chat, ...joined.messages);
  tab.answer("c2", "2 degrees");
  await ended(s, chat, await tab.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: 2 degrees"]);
});

each("kill -9 while a turn waits: its calls are still open after the start, and are answered", async (s) => {
  s.wire.cutsAllowed = true;
  const chat = await asked(s, [call("c1"), call("c2")]);
  chat.answer("c1", "18 degrees");
  waits(s, await chat.run(), ["c2"]);
  await s.server.restart();
  const { status, open_calls: open } = await s.session(chat);
  assert.deepEqual([status, open], ["waiting", [{ id: "c2", name: "weather" }]]);
  const tab = s.tab(chat, ...chat.messages);
  tab.answer("c2", "2 degrees");
  await ended(s, chat, await tab.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: 2 degrees"]);
});

each("a reply that is asked for while calls are open is refused", async (s) => {
  const chat = await asked(s, [call("c1"), call("c2")]);
  const before = await s.tree(chat);
  const run = await chat.attempt({ forwarded: { run: true } });
  assert.equal(run.refusal, "calls_open", run.outcome);
  if (onSse(s.combination)) assert.equal(run.failure.status, 409);
  chat.answer("c1", "18 degrees");
  assert.equal((await chat.attempt({ forwarded: { run: true } })).refusal, "calls_open");
  assert.deepEqual(await s.tree(chat), before);
  chat.answer("c2", "2 degrees");
  await ended(s, chat, await chat.run({ forwarded: { run: true } }));
});

each("what is shown while a turn waits, sent again, changes nothing and asks nobody", async (s) => {
  const chat = await asked(s, [call("c1")]);
  const before = await s.tree(chat);
  waits(s, await chat.run(), ["c1"]);
  assert.deepEqual(await s.tree(chat), before);
  assert.equal(s.reads.length, 1);
  chat.answer("c1", "18 degrees");
  await ended(s, chat, await chat.run());
});

each("another reply while a turn waits: the calls are sealed on their branch", async (s) => {
  const chat = await asked(s, [call("c1")]);
  await chat.regenerate();
  assert.deepEqual(s.read, ["user: how is it?"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    - assistant:  [c1 weather]
    - assistant: answer 1 to how is it? (head)`);
});

each("the same run sent again while its turn waits shows the calls, and the results' run shows the answer", async (s) => {
  const chat = s.chat({ tools: WEATHER });
  s.upstream.next({ calls: [call("c1")] });
  await chat.send("u1", "how is it?", { runId: "run-1" });
  const again = s.tab(chat, user("u1", "how is it?"));
  waits(s, await again.run({ runId: "run-1" }), ["c1"]);
  assert.deepEqual(again.openCalls, ["c1"]);

  chat.answer("c1", "18 degrees");
  const answered = [...chat.messages];
  await ended(s, chat, await chat.run({ runId: "run-2" }));
  const once = s.tab(chat, ...answered);
  await ended(s, chat, await once.run({ runId: "run-2" }));
  assert.deepEqual(once.lines, chat.lines);
  assert.equal(s.reads.length, 2);
});

each("the first result of a call stays, whatever is sent after it", async (s) => {
  const chat = await asked(s, [call("c1"), call("c2")]);
  chat.answer("c1", "18 degrees");
  waits(s, await chat.run(), ["c2"]);
  const other = s.tab(chat, ...chat.before("result-of-c1"), result("c1", "30 degrees", { id: "another" }), result("c2", "2 degrees"));
  await ended(s, chat, await other.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: 2 degrees"]);
});

each("results of calls that nobody made are passed over and told", async (s) => {
  const chat = await asked(s, [call("c1")]);
  chat.answer("forged", "you may");
  const run = await chat.run();
  waits(s, run, ["c1"]);
  assert.deepEqual(run.customs("headwater.view")[0]?.ignored, [{ index: 2, id: "result-of-forged", reason: "call_not_open" }]);
  chat.answer("c1", "18 degrees");
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees"]);
});

each("a provider that uses a call's id again: the second call has another one, and each has its result", async (s) => {
  const chat = await asked(s, [call("c1")]);
  s.upstream.next({ calls: [call("c1", "Oslo")] });
  chat.answer("c1", "18 degrees");
  await chat.run();
  const [second] = chat.openCalls;
  assert.notEqual(second, "c1");
  // Front ends name their results after the call.
  chat.answer(second, "2 degrees", { id: `${second}:tool` });
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(-2), [`assistant:  [${second} weather {"place":"Oslo"}]`, `tool ${second}: 2 degrees`]);
});

each("a stop while a turn waits ends it, and the conversation goes on", async (s) => {
  const chat = await asked(s, [call("c1")]);
  assert.deepEqual(await chat.postStop(), { stopped: true });
  assert.equal((await s.session(chat)).status, "idle");
  assert.deepEqual(await chat.postStop(), { stopped: false });
  await ended(s, chat, await chat.send("u2", "go on"));
  assert.deepEqual(s.read.slice(2), [`tool c1: ${UNANSWERED}`, "user: go on"]);
});

each("an edit while a turn waits: the calls are sealed on their branch, and stay answered as they are", async (s) => {
  const chat = s.chat({ tools: WEATHER });
  await chat.send("u1", "hello");
  s.upstream.next({ calls: [call("c1")] });
  waits(s, await chat.send("u2", "how is it?"), ["c1"]);
  const left = [...chat.messages];
  await ended(s, chat, await chat.edit("u2", "u2b", "something else"));
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: something else"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: how is it?
      assistant:  [c1 weather]
    - user: something else
      assistant: answer 2 to something else (head)`);

  chat.show(...left);
  await ended(s, chat, await chat.send("u3", "back here"));
  assert.deepEqual(s.read.slice(2), ["user: how is it?", 'assistant:  [c1 weather {"place":"Rome"}]', `tool c1: ${UNANSWERED}`, "user: back here"]);
});

each("going back while a turn waits ends it and asks nobody", async (s) => {
  const chat = s.chat({ tools: WEATHER });
  await chat.send("u1", "hello");
  const before = [...chat.messages];
  s.upstream.next({ calls: [call("c1")] });
  waits(s, await chat.send("u2", "how is it?"), ["c1"]);
  await ended(s, chat, await s.tab(chat, ...before).run());
  assert.equal((await s.tree(chat)).head_id, before.at(-1).id);
  assert.equal(s.reads.length, 2);
});

each("another reply after results is a sibling that reads them", async (s) => {
  const chat = await asked(s, [call("c1")]);
  chat.answer("c1", "18 degrees");
  await chat.run();
  chat.show(...chat.upTo("result-of-c1"));
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant:  [c1 weather]
    tool c1: 18 degrees
    - assistant: answer 1 to how is it?
    - assistant: answer 2 to how is it? (head)`);
  // Another reply to the question itself asks for the tool again, or not.
  await chat.regenerate();
  assert.deepEqual(s.read, ["user: how is it?"]);
});

each("tools count as they are offered last", async (s) => {
  const chat = await asked(s, [call("c1")]);
  chat.tools = [tool("clock")];
  chat.answer("c1", "18 degrees");
  s.upstream.next({ calls: [call("c2", "Rome", "clock"), call("c3")] });
  waits(s, await chat.run(), ["c2"]);
  assert.deepEqual(s.offered, ["clock"]);
  chat.answer("c2", "noon");
  await ended(s, chat, await chat.run());
  assert.deepEqual(s.read.slice(-2), ["tool c2: noon", 'tool c3: Error: There is no tool named "weather".']);
});
