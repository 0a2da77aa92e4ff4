// B18: calls that never get their result. What the model reads is always paired, what was answered is kept, and a call that waits for
// a person is left alone.
import assert from "node:assert/strict";
import { tool, user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

const UNANSWERED = "Error: This call was interrupted and has no result.";
const CALLS = [
  { id: "c1", name: "weather", arguments: { place: "Rome" } },
  { id: "c2", name: "weather", arguments: { place: "Oslo" } },
];

/** A turn that waits for `c2`; `c1` is done. */
async function halfDone(s, options) {
  const chat = s.chat({ tools: [tool("weather")], ...options });
  s.upstream.next({ calls: CALLS });
  await chat.send("u1", "how is it?");
  chat.answer("c1", "18 degrees");
  await chat.run();
  return chat;
}

each("B18 cancelled in mid tool calls, c1 done and c2 not, then a new message: c1 keeps its result, c2 has an error, on every later turn", async (s) => {
  const chat = await halfDone(s);
  assert.deepEqual(await chat.postStop(), { stopped: true });
  assert.deepEqual(await chat.postStop(), { stopped: false });
  await chat.send("u2", "go on");
  const head = ["user: how is it?", 'assistant:  [c1 weather {"place":"Rome"}] [c2 weather {"place":"Oslo"}]', "tool c1: 18 degrees", `tool c2: ${UNANSWERED}`, "user: go on"];
  assert.deepEqual(s.read, head);
  await chat.send("u3", "and on");
  assert.deepEqual(s.read, [...head, "assistant: answer 1 to go on", "user: and on"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant:  [c1 weather] [c2 weather]
    tool c1: 18 degrees
    user: go on
    assistant: answer 1 to go on
    user: and on
    assistant: answer 2 to and on (head)`);
  // What the tab shows has an open call for ever: sent again from another one it is the same conversation.
  const joined = s.tab(chat).joining();
  await joined.run();
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u4", "still here?");
  assert.deepEqual(s.read.slice(0, 5), head);
});

each("B18 cancelled while the calls were being written: none of them is kept, its words are", async (s) => {
  for (const text of [undefined, "Let me see."]) {
    const chat = s.chat({ tools: [tool("weather")] });
    const words = text ? Math.ceil(text.length / 4) : 0;
    const call = s.upstream.next({ calls: CALLS, text, hold: words + 2 });
    const run = chat.begin("u1", "how is it?");
    await call.held();
    await until("the tab shows the call", () => chat.openCalls.length > 0);
    await chat.postStop();
    await run.end();
    await s.idle(chat);
    await chat.send("u2", "go on");
    assert.deepEqual(s.read, ["user: how is it?", ...(text ? [`assistant: ${text}`] : []), "user: go on"]);
  }
});

each("B18 cancelled in mid tool calls of the second round: the first round stays whole", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  s.upstream.next({ calls: [CALLS[0]] });
  await chat.send("u1", "how is it?");
  s.upstream.next({ calls: [CALLS[1]] });
  chat.answer("c1", "18 degrees");
  await chat.run();
  await chat.postStop();
  await chat.send("u2", "go on");
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", 'assistant:  [c2 weather {"place":"Oslo"}]', `tool c2: ${UNANSWERED}`, "user: go on"]);
});

each("B18 mirrored: a result without its call is never read", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  await chat.send("u1", "hello");
  chat.answer("c9", "of nobody");
  const run = await chat.send("u2", "go on");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: go on"]);
  assert.deepEqual(run.customs("headwater.view")[0]?.ignored, [{ index: 2, id: "result-of-c9", reason: "call_not_open" }]);
});

each("B18 mirrored: a result whose call is on another branch is never read there", async (s) => {
  const chat = await halfDone(s);
  const [question, , result] = chat.messages;
  await chat.postStop();
  chat.show({ ...question, id: "u1b", content: "how was it?" }, result);
  await chat.run();
  const faults = s.upstream.misread();
  assert.deepEqual(faults, []);
  assert.equal(s.read[0], "user: how was it?");
});

each("B18 a call that waits for a person isn't repaired: by no reader, no restart, no other conversation, no resend", async (s) => {
  s.wire.cutsAllowed = true;
  const chat = await halfDone(s);
  const waits = async () => {
    const { status, open_calls: open } = await s.session(chat);
    assert.deepEqual([status, open], ["waiting", [{ id: "c2", name: "weather" }]]);
  };
  await waits();
  await s.tab(chat).joining().run();
  await chat.run();
  await s.chat().send("u1", "elsewhere");
  await waits();
  await s.server.restart();
  await waits();
  const joined = s.tab(chat).joining();
  await joined.run();
  assert.deepEqual(joined.openCalls, ["c2"]);
  const tab = s.tab(chat, ...joined.messages);
  tab.answer("c2", "a person's answer");
  await tab.run();
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: a person's answer"]);
  assert.equal((await s.session(chat)).status, "idle");
  assert.ok(!s.reads.flat().some((line) => line.includes("interrupted")));
});

each("B18 while a call waits, a list that is sent again under the known ids changes nothing", async (s) => {
  const chat = await halfDone(s);
  const before = await s.tree(chat);
  for (const tab of [s.tab(chat, ...chat.messages), s.tab(chat, ...chat.messages.slice(0, 2)), s.tab(chat, user("u1", "how is it?"), ...chat.messages.slice(1))]) {
    await tab.run();
  }
  assert.deepEqual(await s.tree(chat), before);
  assert.equal(s.reads.length, 1);
});
