// Another tab, or the same one after a reload, asks for the whole conversation: what stands, and what is being said.
import assert from "node:assert/strict";
import { drawing, pathOf } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

each("connect gives the whole conversation, under the nodes' ids, and asks nobody", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  const before = await s.tree(chat);
  for (const time of ["once", "and once more"]) {
    const joined = s.tab(chat).joining();
    const run = await joined.run();
    assert.deepEqual(joined.messages.map(({ id, role, content }) => ({ id, role, content })), chat.messages.map(({ id, role, content }) => ({ id, role, content })), time);
    assert.equal(run.events[0].type, "RUN_STARTED");
    assert.equal(run.of("MESSAGES_SNAPSHOT").length, 1);
  }
  assert.equal(s.reads.length, 2);
  assert.deepEqual(await s.tree(chat), before);
});

each("connect shows the branch that the head is on", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  await chat.edit("u2", "u2b", "something else");
  const joined = s.tab(chat).joining();
  await joined.run();
  assert.deepEqual(joined.lines, ["user: hello", "assistant: answer 1 to hello", "user: something else", "assistant: answer 3 to something else"]);
});

each("connect in mid-stream: snapshot and tail are the whole text, wherever the cut is", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 0 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const joined = [];
  const join = () => {
    const tab = s.tab(chat).joining();
    joined.push({ tab, run: tab.start(), from: call.sent.text });
    return tab;
  };
  join();
  for (let piece = 1; piece <= 4; piece++) {
    call.step();
    await call.held();
    await until("the first tab shows it", () => chat.last.content === call.sent.text);
    const tab = join();
    await until("a tab that joins shows it", () => tab.last?.content === call.sent.text);
  }
  call.release();
  await Promise.all([run.end(), ...joined.map((reader) => reader.run.end())]);
  for (const reader of joined) {
    assert.equal(reader.run.outcome, "finished");
    assert.deepEqual(
      reader.tab.messages.map(({ id, content }) => [id, content]),
      chat.messages.map(({ id, content }) => [id, content]),
      `joined at ${JSON.stringify(reader.from)}`,
    );
  }
  assert.deepEqual(pathOf(await s.tree(chat)).map((node) => node.id), chat.messages.map((message) => message.id));
});

each("connect in the midst of reasoning", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 2, reasoning: "let me think", text: "I thought" });
  const run = chat.begin("u1", "hello");
  await call.held();
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  await until("a tab that joins shows the thought", () => joined.last?.role === "reasoning" && joined.last.content === call.sent.reasoning);
  call.release();
  await Promise.all([run.end(), joinedRun.end()]);
  for (const tab of [chat, joined]) {
    const byRole = (role) => tab.messages.filter((message) => message.role === role).map((message) => message.content);
    assert.deepEqual([byRole("user"), byRole("reasoning"), byRole("assistant")], [["hello"], ["let me think"], ["I thought"]]);
  }
});

each("a tab that joined goes on with the conversation", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  call.release();
  await Promise.all([run.end(), joinedRun.end()]);
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u2", "more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    user: more
    assistant: answer 2 to more (head)`);
});

each("a reader that leaves a joined stream doesn't stop the turn", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  await until("a tab that joins shows what was sent", () => joined.last?.content === call.sent.text);
  joined.stop();
  await joinedRun.end();
  call.release();
  await run.end();
  assert.equal(run.outcome, "finished");
  assert.equal(call.abandoned, false);
});
