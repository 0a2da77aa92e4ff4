// AG-UI agents behind Headwater, unchanged: what their users see, and what the agents are sent.
import assert from "node:assert/strict";
import { CUT, HOLD, asks, call, failed, outcome, say } from "../lib/agent.js";
import { tool } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld({ relay: true });

const relayed = (s, options) => s.chat({ agent: "relayed", ...options });

each("an agent answers, and is sent the conversation as a client would send it", async (s) => {
  const chat = relayed(s);
  await chat.send("u1", "hello");
  await chat.send("u2", "and?");
  assert.deepEqual(s.agent.reads, [
    ["system: You are relayed.", "user: hello"],
    ["system: You are relayed.", "user: hello", "assistant: answer 1 to hello", "user: and?"],
  ]);
  const [first, second] = s.agent.runs.map((run) => run.input);
  assert.notEqual(first.threadId, second.threadId, "a thread for each run");
  assert.deepEqual(second.messages.map(({ id }) => id).slice(1), [...chat.messages.slice(0, 3)].map(({ id }) => id), "ids as the client has them");
  assert.equal(s.agent.runs[0].headers["x-relayed"], "yes");
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    user: and?
    assistant: answer 2 to and? (head)`);
});

each("what an agent carries out itself is seen with its result, and read again", async (s) => {
  const chat = relayed(s);
  s.agent.next(say("m1", "Let me ", "look."), call("c1", "look", '{"at":"sky"}', "m1"), outcome("c1", "blue"), say("m2", "It is blue."));
  const run = await chat.send("u1", "which colour?");
  assert.deepEqual(run.of("TOOL_CALL_RESULT").map(({ toolCallId, content }) => [toolCallId, content]), [["c1", "blue"]]);
  assert.deepEqual(chat.lines, ["user: which colour?", "assistant: Let me look.", "tool: blue", "assistant: It is blue."]);
  assert.equal(s.agent.runs.length, 1, "one run");
  await chat.send("u2", "sure?");
  assert.deepEqual(s.agent.read.slice(1), [
    "user: which colour?",
    'assistant: Let me look. [c1 look {"at":"sky"}]',
    "tool c1: blue",
    "assistant: It is blue.",
    "user: sure?",
  ]);
  await s.idle(chat);
});

each("a result is seen while the agent goes on", async (s) => {
  const chat = relayed(s);
  const planned = s.agent.next(call("c1", "look"), outcome("c1", "blue"), HOLD, say("m2", "It is blue."));
  const run = chat.begin("u1", "which colour?");
  await planned.held();
  await until("the result is seen", () => chat.lines.includes("tool: blue"));
  assert.equal(run.outcome, "running");
  planned.release();
  await run.end();
  assert.equal(run.outcome, "finished");
  assert.equal(chat.last.content, "It is blue.");
});

each("a tool of the page's makes a round trip", async (s) => {
  const chat = relayed(s, { tools: [tool("confirm")] });
  s.agent.next(say("m1", "May I?"), call("c1", "look", "{}", "m1"), call("c2", "confirm", "{}", "m1"), outcome("c1", "blue"));
  await chat.send("u1", "do it");
  assert.deepEqual(chat.openCalls, ["c2"]);
  assert.deepEqual(s.agent.runs[0].input.tools.map(({ name }) => name), ["confirm"]);
  chat.answer("c2", "yes");
  await chat.run();
  assert.deepEqual(s.agent.read.slice(1), ["user: do it", "assistant: May I? [c1 look {}] [c2 confirm {}]", "tool c1: blue", "tool c2: yes"]);
  assert.equal(chat.last.content, "answer 2 to do it");
});

each("after an edit and a regenerate the agent reads exactly the branch", async (s) => {
  const chat = relayed(s);
  await chat.send("u1", "one");
  s.agent.next(call("c1", "look"), outcome("c1", "blue"), say("m2", "Two."));
  await chat.send("u2", "two");
  await chat.edit("u2", "u2b", "two, edited");
  assert.deepEqual(s.agent.read.slice(1), ["user: one", "assistant: answer 1 to one", "user: two, edited"]);
  await chat.regenerate();
  assert.deepEqual(s.agent.read.slice(1), ["user: one", "assistant: answer 1 to one", "user: two, edited"]);
  await chat.send("u3", "three");
  assert.deepEqual(s.agent.read.slice(1), ["user: one", "assistant: answer 1 to one", "user: two, edited", "assistant: answer 4 to two, edited", "user: three"]);
});

each("an agent's state is the conversation's, and follows the branch", async (s) => {
  const chat = relayed(s);
  s.agent.next({ type: "STATE_SNAPSHOT", snapshot: { seats: [] } }, { type: "STATE_DELTA", delta: [{ op: "add", path: "/seats/-", value: "12A" }] }, say("m1", "Booked."));
  await chat.send("u1", "book 12A");
  assert.deepEqual(chat.agent.state, { seats: ["12A"] });
  s.agent.next({ type: "STATE_SNAPSHOT", snapshot: { seats: ["12A", "12B"], messages: [{}] } }, say("m2", "And 12B."));
  await chat.send("u2", "and 12B");
  assert.deepEqual(s.agent.runs[1].input.state, { seats: ["12A"] });
  assert.deepEqual(chat.agent.state, { seats: ["12A", "12B"] });
  await chat.edit("u2", "u2b", "and nothing else");
  assert.deepEqual(s.agent.runs[2].input.state, { seats: ["12A"] }, "what the other branch booked isn't booked here");
});

each(
  "an agent asks a person, and goes on with the answer",
  async (s) => {
    const chat = relayed(s);
    s.agent.next(say("m1", "May I?"), call("c1", "book", "{}", "m1"), asks({ id: "i1", reason: "approval", message: "Book 12A?", toolCallId: "c1" }));
    const run = await chat.send("u1", "book it");
    const [interrupt] = run.of("RUN_FINISHED")[0].outcome.interrupts;
    assert.deepEqual([interrupt.message, interrupt.toolCallId], ["Book 12A?", "c1"]);
    s.agent.next(outcome("c1", "booked"), say("m2", "Done."));
    await chat.run({ resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }] });
    const [first, second] = s.agent.runs.map(({ input }) => input);
    assert.deepEqual(second.resume, [{ interruptId: "i1", status: "resolved", payload: { approved: true } }]);
    assert.equal(second.threadId, first.threadId, "the thread on which it waits");
    assert.deepEqual(s.agent.read.slice(1), ["user: book it", "assistant: May I? [c1 book {}]"], "no result is made up");
    assert.deepEqual(chat.lines, ["user: book it", "assistant: May I?", "tool: booked", "assistant: Done."]);
    await chat.send("u2", "thanks");
    assert.deepEqual(s.agent.read.slice(1), ["user: book it", "assistant: May I? [c1 book {}]", "tool c1: booked", "assistant: Done.", "user: thanks"]);
  },
  (combination) => !combination.isLegacy,
);

each("stopping closes the agent's run, and what was said is kept", async (s) => {
  const chat = relayed(s);
  const planned = s.agent.next({ type: "TEXT_MESSAGE_START", messageId: "m1", role: "assistant" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "On and" }, HOLD);
  const run = chat.begin("u1", "talk");
  await planned.held();
  await until("the tab shows what was said", () => chat.last?.content === "On and");
  await chat.postStop();
  await planned.closed();
  planned.release();
  await run.end();
  await s.idle(chat);
  assert.equal(await s.drawn(chat), drawing`
    user: talk
    assistant: On and (partial, head)`);
});

each("an agent that fails, and one that is lost in the middle", async (s) => {
  const chat = relayed(s);
  s.agent.next(failed("the graph failed", "invalid_graph"));
  const run = await chat.begin("u1", "hello").end();
  assert.equal(run.outcome, "error: llm_refused");
  assert.match(run.of("RUN_ERROR")[0].message, /the graph failed \(invalid_graph\)/);
  // What it carried out before isn't carried out again.
  const planned = s.agent.next(call("c1", "look"), outcome("c1", "blue"), HOLD, CUT);
  const again = chat.begin("u2", "again");
  await planned.held();
  await until("the result is seen", () => chat.lines.includes("tool: blue"));
  planned.release();
  assert.equal((await again.end()).outcome, "finished");
  assert.deepEqual(s.agent.read.slice(-3), ["user: again", "assistant:  [c1 look {}]", "tool c1: blue"]);
  assert.equal(chat.last.content, "answer 3 to again");
});

each("kill -9 in the middle of a run: the agent is sent what was recorded, and goes on from there", async (s) => {
  s.wire.cutsAllowed = true;
  const chat = relayed(s);
  const planned = s.agent.next(call("c1", "look"), outcome("c1", "blue"), HOLD);
  const run = chat.begin("u1", "which colour?");
  await planned.held();
  await until("the result is seen", () => chat.lines.includes("tool: blue"));
  await s.server.restart();
  await run.end();
  await s.idle(chat);
  assert.equal(s.agent.runs.length, 2);
  assert.deepEqual(s.agent.read.slice(1), ["user: which colour?", "assistant:  [c1 look {}]", "tool c1: blue"]);
  assert.equal(await s.drawn(chat), drawing`
    user: which colour?
    assistant:  [c1 look]
    tool c1: blue
    assistant: answer 2 to which colour? (head)`);
  planned.release();
});

each("a tab that joins in the middle of a run, and one that comes later, show the same", async (s) => {
  const chat = relayed(s);
  const planned = s.agent.next(say("m1", "Looking."), call("c1", "look", "{}", "m1"), outcome("c1", "blue"), { type: "TEXT_MESSAGE_START", messageId: "m2", role: "assistant" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m2", delta: "It " }, HOLD, { type: "TEXT_MESSAGE_CONTENT", messageId: "m2", delta: "is blue." }, { type: "TEXT_MESSAGE_END", messageId: "m2" });
  const run = chat.begin("u1", "which colour?");
  await planned.held();
  await until("the text is seen", () => chat.last?.content === "It ");
  const joined = s.tab(chat).joining();
  const joining = joined.start();
  await until("the joined tab shows it too", () => joined.last?.content === "It ");
  planned.release();
  await run.end();
  await joining.end();
  const expected = ["user: which colour?", "assistant: Looking.", "tool: blue", "assistant: It is blue."];
  assert.deepEqual([chat.lines, joined.lines], [expected, expected]);
  const later = s.tab(chat).joining();
  await later.run();
  assert.deepEqual(later.lines, expected);
});

each("aimock's agent behind Headwater", async (s) => {
  const chat = s.chat({ agent: "aimock" });
  await chat.send("u1", "hello");
  assert.equal(chat.last.content, "Hello from aimock.");
  await chat.send("u2", "look");
  assert.equal(chat.last.role, "tool");
  assert.equal(chat.last.content, "blue");
  await chat.send("u3", "think");
  assert.ok(chat.messages.some((message) => message.role === "reasoning" && message.content === "Hm."));
});
