// Send, edit, regenerate, switch: asserted on what the model read and on the tree.
import assert from "node:assert/strict";
import { user } from "../lib/chat.js";
import { drawing, pathOf } from "../lib/tree.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

/** u1 → a1 → u2 → a2; returns the four messages as the client holds them. */
async function fourMessages(chat) {
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  return [...chat.messages];
}

each("several turns, on one socket", async (s) => {
  const chat = s.chat();
  const run = await chat.send("u1", "hello", { runId: "run-1" });
  assert.equal(run.events[0].threadId, chat.threadId);
  assert.equal(run.events[0].runId, "run-1");
  await chat.send("u2", "more");
  await chat.send("u3", "and more");

  assert.deepEqual(s.reads, [
    ["user: hello"],
    ["user: hello", "assistant: answer 1 to hello", "user: more"],
    ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: and more"],
  ]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    user: more
    assistant: answer 2 to more
    user: and more
    assistant: answer 3 to and more (head)`);
  const tree = await s.tree(chat);
  assert.equal(tree.session_id, chat.threadId);
  assert.deepEqual(pathOf(tree).map((node) => node.id), chat.messages.map((message) => message.id), "the ids that streamed are the nodes'");
  if (s.combination.transport === "ws") assert.equal(chat.agent.sockets, 1);
});

each("resending what the client holds writes nothing and moves nothing", async (s) => {
  const chat = s.chat();
  await fourMessages(chat);
  const before = await s.tree(chat);
  const run = await chat.run();
  assert.deepEqual(run.of("TEXT_MESSAGE_START"), []);
  assert.deepEqual(await s.tree(chat), before);
  assert.equal(s.reads.length, 2);
});

each("editing a later message branches there", async (s) => {
  const chat = s.chat();
  await fourMessages(chat);
  await chat.edit("u2", "u2b", "something else");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: something else"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: more
      assistant: answer 2 to more
    - user: something else
      assistant: answer 3 to something else (head)`);
});

each("editing the first message branches at the root", async (s) => {
  const chat = s.chat();
  await fourMessages(chat);
  await chat.edit("u1", "u1b", "good morning");
  assert.deepEqual(s.read, ["user: good morning"]);
  assert.equal(await s.drawn(chat), drawing`
    - user: hello
      assistant: answer 1 to hello
      user: more
      assistant: answer 2 to more
    - user: good morning
      assistant: answer 3 to good morning (head)`);
  await chat.send("u2b", "go on");
  assert.deepEqual(s.read, ["user: good morning", "assistant: answer 3 to good morning", "user: go on"]);
});

each("regenerating makes a sibling", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const first = chat.last.id;
  await chat.regenerate();
  assert.notEqual(chat.last.id, first);
  assert.deepEqual(s.read, ["user: hello"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    - assistant: answer 1 to hello
    - assistant: answer 2 to hello (head)`);
});

each("B10 six regenerations, then a reload: all siblings are there, in order, the newest is the head", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const replies = [chat.last.id];
  for (let time = 0; time < 6; time++) {
    await chat.regenerate();
    replies.push(chat.last.id);
  }
  const reloaded = await s.tree(chat);
  assert.deepEqual(reloaded.nodes.filter((node) => node.parent_id === "u1").map((node) => node.id), replies);
  assert.equal(reloaded.head_id, replies.at(-1));

  const tab = s.tab(chat);
  const connected = tab.joining();
  await connected.run();
  assert.deepEqual(connected.lines, ["user: hello", "assistant: answer 7 to hello"]);
  tab.show(...connected.messages);
  await tab.send("u2", "go on");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 7 to hello", "user: go on"]);
});

each("switching back to the old branch and sending", async (s) => {
  const chat = s.chat();
  const old = await fourMessages(chat);
  await chat.edit("u2", "u2b", "something else");
  chat.show(...old);
  await chat.send("u3", "and more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: and more"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: more
      assistant: answer 2 to more
      user: and more
      assistant: answer 4 to and more (head)
    - user: something else
      assistant: answer 3 to something else`);
});

each("switching alone moves the head and asks nobody", async (s) => {
  const chat = s.chat();
  const old = await fourMessages(chat);
  await chat.edit("u2", "u2b", "something else");
  chat.show(...old);
  const run = await chat.run();
  assert.deepEqual(run.of("TEXT_MESSAGE_START"), []);
  assert.equal(s.reads.length, 3);
  assert.equal((await s.tree(chat)).head_id, old.at(-1).id);
});

each("switching back with the first message forgotten, as assistant-ui does after an edit", async (s) => {
  const chat = s.chat();
  const [, a1, u2, a2] = await fourMessages(chat);
  await chat.edit("u1", "u1b", "good morning");
  chat.show(a1, u2, a2);
  await chat.send("u3", "and more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: and more"]);
  assert.equal(await s.drawn(chat), drawing`
    - user: hello
      assistant: answer 1 to hello
      user: more
      assistant: answer 2 to more
      user: and more
      assistant: answer 4 to and more (head)
    - user: good morning
      assistant: answer 3 to good morning`);
});

each("a view with a gap goes on where its last known message stands, and the gap is told", async (s) => {
  const chat = s.chat();
  const [u1, a1, u2, a2] = await fourMessages(chat);
  chat.show(u1, a2);
  const run = await chat.send("u3", "and more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: and more"]);
  const [told] = run.customs("headwater.view");
  assert.deepEqual(told?.implied, [a1.id, u2.id]);
  assert.equal(told?.new_from, 2);
});

each("a second tab with an older list branches, and neither tab loses anything", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const older = s.tab(chat, ...chat.messages);
  await chat.send("u2", "more");
  await older.send("u2b", "from the other tab");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: from the other tab"]);
  await chat.send("u3", "and more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: and more"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: more
      assistant: answer 2 to more
      user: and more
      assistant: answer 4 to and more (head)
    - user: from the other tab
      assistant: answer 3 to from the other tab`);
});

each("a fork in the past of another fork: edits of edits stay apart", async (s) => {
  const chat = s.chat();
  const [u1, a1] = await fourMessages(chat);
  await chat.edit("u2", "u2b", "second try");
  await chat.send("u3", "on the second");
  await chat.edit("u2b", "u2c", "third try");
  chat.show(u1, a1);
  await chat.send("u2d", "fourth try");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: fourth try"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: more
      assistant: answer 2 to more
    - user: second try
      assistant: answer 3 to second try
      user: on the second
      assistant: answer 4 to on the second
    - user: third try
      assistant: answer 5 to third try
    - user: fourth try
      assistant: answer 6 to fourth try (head)`);
});

each("text of any script arrives whole", async (s) => {
  const chat = s.chat();
  const text = "Grüße 👩‍👩‍👧‍👦 \u2028 \u2029 \\n \"quoted\" 日本語 \u0000 end";
  s.upstream.next({ text });
  await chat.send("u1", text);
  assert.deepEqual(s.read, [`user: ${text}`]);
  assert.equal(chat.last.content, text);
  assert.deepEqual(pathOf(await s.tree(chat)).map((node) => node.message.content), [text, text]);
  chat.show(...chat.messages, user("u2", "again"));
  await chat.run();
  assert.deepEqual(s.read.slice(0, 2), [`user: ${text}`, `assistant: ${text}`]);
});
