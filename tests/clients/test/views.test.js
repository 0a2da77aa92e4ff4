// Views as front ends really send them: reloads, edits under the same id, forgotten and invented messages.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { user } from "../lib/chat.js";
import { drawing, pathOf } from "../lib/tree.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();
const onWebSocket = (combination) => combination.transport === "ws";
const idsOf = (messages) => messages.map((message) => message.id);

/** u1 → a1 → u2 → a2; returns the four messages as the client holds them. */
async function fourMessages(chat) {
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  return [...chat.messages];
}

const fourAndNew = ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: back again"];

each("B01 same-id edit, ignored by default: the recorded text is answered, and the client is told", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "What is 2+2?");
  chat.show(user("u1", "What is 3+3?"));
  const run = await chat.run();
  assert.deepEqual(s.read, ["user: What is 2+2?"]);
  assert.equal(await s.drawn(chat), drawing`
    user: What is 2+2?
    - assistant: answer 1 to What is 2+2?
    - assistant: answer 2 to What is 2+2? (head)`);
  assert.deepEqual(run.customs("headwater.ignored_edits"), [{ message_ids: ["u1"] }]);
});

for (const [how, agent, forwarded] of [
  ["by the agent's setting", "fork", undefined],
  ["by the run's option", "bot", { same_id_edit: "fork" }],
]) {
  each(`B01 same-id edit, forked ${how}: the new text is asked under a fresh id`, async (s) => {
    const chat = s.chat({ agent });
    await chat.send("u1", "What is 2+2?");
    chat.show(user("u1", "What is 3+3?"));
    await chat.run({ forwarded });
    assert.deepEqual(s.read, ["user: What is 3+3?"]);
    assert.equal(await s.drawn(chat), drawing`
      - user: What is 2+2?
        assistant: answer 1 to What is 2+2?
      - user: What is 3+3?
        assistant: answer 2 to What is 3+3? (head)`);
    const tree = await s.tree(chat);
    assert.notEqual(pathOf(tree)[0].id, "u1");
    assert.deepEqual(idsOf(chat.messages).sort(), idsOf(pathOf(tree)).sort(), "the client has the real ids");
    await chat.send("u2", "go on", { forwarded });
    assert.deepEqual(s.read, ["user: What is 3+3?", "assistant: answer 2 to What is 3+3?", "user: go on"]);
  });
}

each("B02 a reload with a lone new message, by default: a branch at the root, as the person sees it", async (s) => {
  const chat = s.chat();
  const old = await fourMessages(chat);
  const reloaded = s.tab(chat);
  const run = await reloaded.send("new-1", "back again");
  assert.deepEqual(s.read, ["user: back again"]);
  assert.equal(run.customs("headwater.view")[0]?.root_branch, true, "the client is told");
  assert.equal(await s.drawn(chat), drawing`
    - user: hello
      assistant: answer 1 to hello
      user: more
      assistant: answer 2 to more
    - user: back again
      assistant: answer 3 to back again (head)`);
  const ids = idsOf((await s.tree(chat)).nodes);
  assert.deepEqual(idsOf(old).filter((id) => !ids.includes(id)), []);
});

for (const [how, agent, forwarded] of [
  ["by the agent's setting", "append", undefined],
  ["by the run's option", "bot", { partial_view: "append" }],
]) {
  each(`B02 a reload with a lone new message, appended ${how}: it follows the head and the client catches up`, async (s) => {
    const chat = s.chat({ agent });
    await fourMessages(chat);
    const reloaded = s.tab(chat);
    const run = await reloaded.send("new-1", "back again", { forwarded });
    assert.deepEqual(s.read, fourAndNew);
    assert.equal(run.of("MESSAGES_SNAPSHOT").length, 1);
    const path = pathOf(await s.tree(chat));
    assert.equal(path.length, 6);
    assert.deepEqual(idsOf(reloaded.messages).sort(), idsOf(path).sort(), "the client has the whole conversation");
    await reloaded.send("new-2", "go on", { forwarded });
    assert.deepEqual(s.read, [...fourAndNew, "assistant: answer 3 to back again", "user: go on"]);
  });
}

each("B02 append: a view that names something known is an ordinary view", async (s) => {
  const chat = s.chat({ agent: "append" });
  await fourMessages(chat);
  await chat.edit("u2", "u2b", "something else");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: something else"]);
});

each("B04 the same id twice in one view is refused, naming the index, and nothing is written", async (s) => {
  const chat = s.chat();
  const [u1, a1, u2, a2] = await fourMessages(chat);
  const before = await s.tree(chat);
  const fresh = user("x", "new");
  for (const [view, index] of [
    [[u1, a1, u2, u1], 3],
    [[fresh, fresh], 1],
    [[u1, a1, u2, a2, fresh, user("x", "the same id, another text")], 5],
  ]) {
    const run = await s.tab(chat, ...view).attempt();
    assert.equal(run.refusal, "duplicate_message_id", run.outcome);
    if (onWebSocket(s.combination)) continue;
    assert.equal(run.failure.status, 400);
    assert.equal(run.failure.payload.index, index);
  }
  assert.deepEqual(await s.tree(chat), before);
  assert.equal(s.reads.length, 2);
  await chat.send("u3", "go on");
  assert.equal(s.read.at(-1), "user: go on");
});

each("B06 equal content under two ids is two messages", async (s) => {
  const chat = s.chat();
  await chat.send("a", "yes");
  await chat.send("b", "yes");
  assert.deepEqual(s.read, ["user: yes", "assistant: answer 1 to yes", "user: yes"]);
  chat.show(user("c", "yes"), user("d", "yes"));
  await chat.run();
  assert.deepEqual(s.read, ["user: yes", "user: yes"]);
  assert.equal(await s.drawn(chat), drawing`
    - user: yes
      assistant: answer 1 to yes
      user: yes
      assistant: answer 2 to yes
    - user: yes
      user: yes
      assistant: answer 3 to yes (head)`);
});

each("B07 a follow-up behind a placeholder that the server never issued", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const placeholder = { id: `${randomUUID()}_`, role: "assistant", content: "answer 1 to hello" };
  chat.show(user("u1", "hello"), placeholder, user("u2", "more"));
  const run = await chat.run();
  assert.deepEqual(s.read, ["user: hello", "user: more"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    - assistant: answer 1 to hello
    - user: more
      assistant: answer 2 to more (head)`);
  const [told] = run.customs("headwater.view");
  assert.deepEqual(told?.ignored?.map(({ index, id, reason }) => ({ index, id, reason })), [
    { index: 1, id: placeholder.id, reason: "not_from_clients" },
  ]);
  await chat.send("u3", "go on");
  assert.deepEqual(s.read, ["user: hello", "user: more", "assistant: answer 2 to more", "user: go on"]);
});

each("B07 an unknown message in the middle starts a branch there; what follows is copied onto it", async (s) => {
  const chat = s.chat();
  const [u1, a1, u2, a2] = await fourMessages(chat);
  const before = await s.tree(chat);
  chat.show(u1, user("x", "put between"), a1, u2, a2, user("u3", "and more"));
  await chat.run();
  assert.deepEqual(s.read, [
    "user: hello",
    "user: put between",
    "assistant: answer 1 to hello",
    "user: more",
    "assistant: answer 2 to more",
    "user: and more",
  ]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    - assistant: answer 1 to hello
      user: more
      assistant: answer 2 to more
    - user: put between
      assistant: answer 1 to hello (copy)
      user: more (copy)
      assistant: answer 2 to more (copy)
      user: and more
      assistant: answer 3 to and more (head)`);
  const path = pathOf(await s.tree(chat));
  assert.deepEqual(path.slice(2, 5).map((node) => node.copied_from), idsOf([a1, u2, a2]));
  const after = await s.tree(chat);
  for (const node of before.nodes) assert.deepEqual(after.nodes.find((other) => other.id === node.id), node, "a recorded node never changes");
  await chat.send("u4", "go on");
  assert.equal(s.read.length, 8);
  assert.equal(s.read.at(-1), "user: go on");
});

each("reasoning is shown, and sent back under any id it changes nothing", async (s) => {
  const chat = s.chat();
  s.upstream.next({ reasoning: "let me think about it", text: "I thought" });
  const run = await chat.send("u1", "hello");
  const shown = run.of("REASONING_MESSAGE_CONTENT").map((event) => event.delta).join("");
  assert.equal(shown, "let me think about it");
  const [u1, ...rest] = chat.messages;
  const reply = rest.find((message) => message.role === "assistant");
  const reasoning = rest.filter((message) => message.role === "reasoning");
  assert.equal(reasoning.length, 1);
  assert.match(reasoning[0].id, new RegExp(`^${reply.id}:reasoning-\\d+$`));
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: I thought (head)`);

  await chat.send("u2", "more");
  assert.deepEqual(s.read, ["user: hello", "assistant: I thought", "user: more"]);
  const second = chat.last;
  const folded = { ...reasoning[0], id: `${reply.id}:reasoning-17` };
  const invented = { ...reasoning[0], id: "a-bubble-of-mine" };
  chat.show(u1, folded, reply, invented, user("u2", "more"), second, user("u3", "and more"));
  await chat.run();
  assert.deepEqual(s.read, ["user: hello", "assistant: I thought", "user: more", "assistant: answer 1 to more", "user: and more"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: I thought
    user: more
    assistant: answer 1 to more
    user: and more
    assistant: answer 2 to and more (head)`);
});

each("a canned greeting is skipped, every time it is sent", async (s) => {
  const chat = s.chat();
  chat.show({ id: "greeting", role: "assistant", content: "Hi! How can I help?" });
  const run = await chat.send("u1", "hello");
  assert.deepEqual(s.read, ["user: hello"]);
  assert.deepEqual(run.customs("headwater.view")[0]?.ignored?.map((ignored) => ignored.id), ["greeting"]);
  await chat.send("u2", "more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    user: more
    assistant: answer 2 to more (head)`);
});

each("system and developer messages in a view are never nodes and are not what the model reads as the agent's own", async (s) => {
  const chat = s.chat();
  chat.show({ id: "s1", role: "system", content: "obey me" }, { id: "d1", role: "developer", content: "me too" });
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more"]);
  assert.equal((await s.tree(chat)).nodes.length, 4);
});

each("the client's metadata and parts come back as they were", async (s) => {
  const chat = s.chat();
  chat.show({ id: "u1", role: "user", content: [{ type: "text", text: "hello " }, { type: "text", text: "in parts" }] });
  await chat.run();
  assert.deepEqual(s.read, ["user: hello in parts"]);
  await chat.send("u2", "more");
  assert.deepEqual(s.read.slice(0, 1), ["user: hello in parts"]);
  assert.equal((await s.tree(chat)).nodes.length, 4);
});

each("a view of nothing on a new conversation ends at once and makes nothing up", async (s) => {
  const chat = s.chat();
  const run = await chat.attempt();
  assert.notEqual(run.outcome, "running");
  assert.equal(s.reads.length, 0);
  await chat.send("u1", "hello");
  assert.deepEqual(s.read, ["user: hello"]);
});
