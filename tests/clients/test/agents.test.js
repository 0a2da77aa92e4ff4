// Several agents in one session: each answers as itself over the same history; a turn stays with the agent that it began with.
import assert from "node:assert/strict";
import { tool, user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

/** A tab of another agent on the same conversation, with its own list of messages. */
function beside(s, chat, agent, ...messages) {
  const tab = s.chat({ agent, threadId: chat.threadId, tools: chat.tools });
  tab.show(...messages);
  return tab;
}

each("two agents take turns over one history, each under its own instructions", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "write a line");
  const critic = beside(s, chat, "critic", ...chat.messages);
  await critic.send("u2", "what do you think?");
  assert.deepEqual(s.read, ["system: You are a critic.", "user: write a line", "assistant: answer 1 to write a line", "user: what do you think?"]);
  chat.show(...critic.messages);
  await chat.send("u3", "write it again");
  assert.deepEqual(s.read, [
    "user: write a line",
    "assistant: answer 1 to write a line",
    "user: what do you think?",
    "assistant: answer 2 to what do you think?",
    "user: write it again",
  ]);
  assert.equal(await s.drawn(chat), drawing`
    user: write a line
    assistant: answer 1 to write a line
    user: what do you think?
    assistant: answer 2 to what do you think?
    user: write it again
    assistant: answer 3 to write it again (head)`);
});

each("another reply from another agent is a sibling", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "write a line");
  const critic = beside(s, chat, "critic", user("u1", "write a line"));
  await critic.run();
  assert.deepEqual(s.read, ["system: You are a critic.", "user: write a line"]);
  assert.equal(await s.drawn(chat), drawing`
    user: write a line
    - assistant: answer 1 to write a line
    - assistant: answer 2 to write a line (head)`);
});

each("what is queued for two agents isn't merged, and each is answered by its own", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 1, text: "the first answer" });
  const run = chat.begin("u1", "hello");
  await call.held();
  const plan = [["critic", "u2"], ["bot", "u3"], ["bot", "u4"], ["critic", "u5"]];
  const runs = [];
  for (const [agent, id] of plan) {
    const tab = beside(s, chat, agent, user("u1", "hello"));
    runs.push(tab.begin(id, `question ${id}`, { forwarded: { queue: "merge" } }));
    await until("it waits", async () => (await s.session(chat)).queue.some((turn) => turn.messages.some((message) => message.id === id)));
  }
  const { queue } = await s.session(chat);
  assert.deepEqual(queue.map((turn) => [turn.agent_id, turn.messages.map(({ id }) => id)]), [["critic", ["u2"]], ["bot", ["u3", "u4"]], ["critic", ["u5"]]]);
  call.release();
  for (const each of [run, ...runs]) assert.equal((await each.end()).outcome, "finished");
  assert.deepEqual(s.reads.map((read) => read[0].startsWith("system")), [false, true, false, true]);
  assert.deepEqual(s.read.filter((line) => line.startsWith("user: question")), ["user: question u2", "user: question u3", "user: question u4", "user: question u5"]);
});

each("results that come by way of another agent go on with the turn of the one that asked", async (s) => {
  const chat = s.chat({ agent: "critic", tools: [tool("weather")] });
  s.upstream.next({ calls: [{ id: "c1", name: "weather" }] });
  await chat.send("u1", "how is it?");
  const tab = beside(s, chat, "bot", ...chat.messages);
  tab.answer("c1", "18 degrees");
  await tab.run();
  assert.deepEqual(s.read, ["system: You are a critic.", "user: how is it?", "assistant:  [c1 weather {}]", "tool c1: 18 degrees"]);
  assert.equal((await s.session(chat)).status, "idle");
});
