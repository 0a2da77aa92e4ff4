// A long conversation in a small window: the model goes on with a summary and the turns that were kept, people see the conversation as if
// nothing had happened, and no byte of the summary or of what its model was told reaches a client.
import assert from "node:assert/strict";
import { SUMMARY, TALKED, assertHidden, epochs, everything, nativeBytes, pageBytes, reporting, talked } from "../lib/canary.js";
import { SUMMARY_PROMPT } from "../lib/server.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();

each("186,400 tokens of 200,000: one summary, in no client's bytes; the next view lands below it", async (s) => {
  const chat = await talked(s);
  s.upstream.next({ text: SUMMARY });
  const run = await chat.send("u4", "a fourth question");
  const asked = s.upstream.journal();
  assert.equal(asked.length, 5);
  const [system, ...said] = asked[3].messages;
  assert.deepEqual([system.content, said.length], [SUMMARY_PROMPT, 1]);
  for (const text of ["a first question", "a second question"]) assert.ok(said[0].content.includes(text));
  assert.ok(!said[0].content.includes("a third question"));
  const [summary, ...kept] = s.read;
  assert.ok(summary.includes(SUMMARY));
  assert.deepEqual(kept, ["user: a third question", "assistant: the third answer", "user: a fourth question"]);
  const [limited] = run.customs("context.limited");
  assert.deepEqual([limited.reason, limited.strategy, limited.window], ["full", "summarize", 200_000]);
  assert.ok(limited.tokens >= 186_400);
  const [replaced] = run.customs("context.replaced");
  assert.deepEqual([replaced.epoch, replaced.callId, limited.callId.length > 0, run.customs("context.kept")], [1, limited.callId, true, []]);

  const lines = chat.lines;
  await chat.send("u5", "a fifth question");
  assert.equal(s.reads.length, 6);
  assert.deepEqual(s.read, [summary, ...kept, lines.at(-1), "user: a fifth question"]);
  assert.equal(await s.drawn(chat), drawing`
    user: a first question
    assistant: answer 1 to a first question
    user: a second question
    assistant: answer 2 to a second question
    user: a third question
    assistant: the third answer
    user: a fourth question
    ${lines.at(-1)}
    user: a fifth question
    assistant: ${chat.last.content} (head)`);
  assertHidden(await everything(s, chat));
  await s.server.restart();
  assertHidden(await everything(s, chat));
  // Who asks for every node sees it, so there is something to be hidden.
  const [epoch] = await epochs(s, chat);
  assert.ok(JSON.stringify(epoch.message).includes(SUMMARY));
});

/** That conversation with a fourth turn, before which it was summarized. */
async function compacted(s) {
  const chat = await talked(s);
  s.upstream.next({ text: SUMMARY });
  await chat.send("u4", "a fourth question");
  return chat;
}

/** What the model reads since then, the summary left out; it has to be the first. */
function readBelow(s) {
  const [summary, ...kept] = s.read;
  assert.ok(summary.startsWith("user: ") && summary.includes(SUMMARY), summary);
  return kept;
}

/** Nothing of the summary is read. */
function readWhole(s) {
  assert.ok(!JSON.stringify(s.read).includes(SUMMARY));
  return s.read;
}

each("an edit in what was summarized lands where that message stands, and nothing of the summary is read there", async (s) => {
  const chat = await compacted(s);
  const before = chat.messages;
  await chat.edit("u2", "u2b", "another second question");
  assert.deepEqual(readWhole(s), [...TALKED.slice(0, 2), "user: another second question"]);
  assertHidden(await everything(s, chat));
  // And back: the branch goes on with the summary.
  chat.show(...before);
  await chat.send("u5", "a fifth question");
  assert.deepEqual(readBelow(s), [...TALKED.slice(4), ...chat.lines.slice(6)].slice(0, -1));
  assert.equal((await epochs(s, chat)).length, 1);
  assertHidden(await everything(s, chat));
});

each("another reply after a compaction reads the same summary; no second one is written", async (s) => {
  const chat = await compacted(s);
  const first = chat.last;
  const reads = s.reads.length;
  await chat.regenerate();
  assert.equal(s.reads.length, reads + 1);
  assert.deepEqual(readBelow(s), [...TALKED.slice(4), "user: a fourth question"]);
  assert.notEqual(chat.last.id, first.id);
  const tree = await s.tree(chat);
  const replies = tree.nodes.filter(({ parent_id: parent }) => parent === "u4").map(({ id }) => id);
  assert.deepEqual(replies, [first.id, chat.last.id]);
  assertHidden(await everything(s, chat));
  // A reply to a question that was kept word for word; and one to a question that wasn't.
  for (const id of ["u3", "u2"]) {
    chat.show(...chat.upTo(id));
    await chat.run();
    assert.equal(s.read.at(-1), `user: a ${id === "u3" ? "third" : "second"} question`);
    assertHidden(await everything(s, chat));
  }
  assert.deepEqual(readWhole(s), TALKED.slice(0, 3));
  assert.equal((await epochs(s, chat)).length, 1);
});

each("back to the branch before the compaction, and forth", async (s) => {
  const chat = await compacted(s);
  const whole = chat.messages;
  const at = async () => {
    const { head_id: head, epoch } = await s.session(chat);
    assert.equal((await s.tree(chat)).head_id, head);
    return [head, epoch];
  };
  // By a list that ends in a reply which was summarized: nobody is asked, and the talk goes on there. Where the summary ends it is read
  // in the place of what it stands for; people are told of the node that they know.
  const reads = s.reads.length;
  for (const [length, epoch] of [[2, 0], [4, 1], [8, 1], [4, 1]]) {
    chat.show(...whole.slice(0, length));
    await chat.run();
    assert.deepEqual(await at(), [whole[length - 1].id, epoch], `${length} messages`);
    assertHidden(await everything(s, chat));
  }
  assert.equal(s.reads.length, reads);
  await chat.send("u3b", "another third question");
  assert.deepEqual(readBelow(s), ["user: another third question"]);
  assertHidden(await everything(s, chat));
  // By the head, to exactly that reply: the whole conversation is read.
  await move(s, chat, whole[3].id);
  assert.deepEqual(await at(), [whole[3].id, 0]);
  chat.show(...whole.slice(0, 4));
  await chat.send("u3c", "yet another third question");
  assert.deepEqual(readWhole(s), [...TALKED.slice(0, 4), "user: yet another third question"]);
  assertHidden(await everything(s, chat));
  // By the head, to the last reply of the compacted branch.
  await move(s, chat, whole.at(-1).id);
  assert.deepEqual(await at(), [whole.at(-1).id, 1]);
  chat.show(...whole);
  await chat.send("u5", "a fifth question");
  assert.deepEqual(readBelow(s), [...TALKED.slice(4), ...chat.lines.slice(6, -1)]);
  assertHidden(await everything(s, chat));
  assert.equal((await epochs(s, chat)).length, 1);
});

/** Moves the head to a node that people know. */
async function move(s, chat, id) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${s.server.url}/v1/sessions/${chat.threadId}/head`, { method: "POST", headers, body: JSON.stringify({ node_id: id }) });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  assertHidden([text]);
  assert.equal(JSON.parse(text).head_id, id);
}

each("a run's tokens are those of all its calls, the hidden one too; nothing else of that is told", async (s) => {
  const chat = await talked(s);
  s.upstream.next({ text: SUMMARY, edit: reporting(500) });
  s.upstream.next({ text: "the fourth answer", edit: reporting(300) });
  const run = await chat.send("u4", "a fourth question");
  const usage = s.wire.exchanges.at(-1).text.match(/"type":"RUN_FINISHED".*/)[0];
  assert.match(usage, /"inputTokens":800,"outputTokens":8\b/);
  assert.equal(run.outcome, "finished");
  const [sse] = await nativeBytes(s, chat);
  const hidden = sse.split("\n").filter((line) => line.includes('"hidden":true')).map((line) => JSON.parse(line.slice("data: ".length)));
  assert.deepEqual(hidden.map(({ type, usage: { input_tokens: read } }) => [type, read]), [["llm.call.completed", 500]]);
});

each("after a pause the model starts over, and people see the whole conversation", async (s) => {
  const chat = s.chat({ agent: "forgetful" });
  await chat.send("u1", "a first question");
  const first = await chat.send("u2", "a second question");
  assert.deepEqual([s.read, first.customs("context.limited")], [[...chat.lines.slice(0, 2), "user: a second question"], []]);
  await s.idle(chat);
  const since = Date.now();
  await until("a second has passed", () => Date.now() - since > 1_100);
  const run = await chat.send("u3", "a third question");
  assert.deepEqual(s.read, ["user: a third question"]);
  const [limited] = run.customs("context.limited");
  const [replaced] = run.customs("context.replaced");
  assert.deepEqual([limited.reason, limited.strategy, replaced.epoch, replaced.callId], ["idle", "reset", 1, limited.callId]);
  await chat.send("u4", "a fourth question");
  assert.deepEqual(s.read, ["user: a third question", chat.lines[5], "user: a fourth question"]);
  assert.equal(chat.lines.length, 8);
  const [epoch, ...more] = await epochs(s, chat);
  assert.deepEqual([epoch.message.content ?? "", more], ["", []]);
  const told = [...(await pageBytes(s, chat)), ...s.wire.exchanges.map((exchange) => exchange.text)];
  assert.deepEqual(told.filter((text) => text.includes(epoch.id)), []);
});

each("the provider finds a call too long: one retry, with a summary", async (s) => {
  const chat = await talkedShortly(s);
  s.upstream.next({ status: 413 });
  s.upstream.next({ text: SUMMARY });
  const run = await chat.send("u4", "a fourth question");
  assert.equal(s.upstream.journal().length, 6);
  assert.ok(s.read[0].includes(SUMMARY));
  assert.equal(s.read.at(-1), "user: a fourth question");
  assert.deepEqual(run.customs("context.limited").map(({ reason }) => reason), ["overflow"]);
  assertHidden(await everything(s, chat));
});

once("the provider finds it too long again: the run fails with its code, and the conversation stands", async (s) => {
  const chat = await talkedShortly(s);
  for (const plan of [{ status: 413 }, { text: SUMMARY }, { status: 413 }]) s.upstream.next(plan);
  const run = await chat.begin("u4", "a fourth question").end();
  assert.equal(run.outcome, "error: llm_too_long");
  assert.equal(s.upstream.journal().length, 6);
  await s.idle(chat);
  assertHidden([...(await nativeBytes(s, chat)), ...s.wire.exchanges.map((exchange) => exchange.text)]);
  await chat.run();
  assert.equal(chat.lines.length, 8);
});

/** A conversation of three turns. */
async function talkedShortly(s) {
  const chat = s.chat({ agent: "summing" });
  for (const n of [1, 2, 3]) await chat.send(`u${n}`, `question ${n}, of which there is something to tell at some length`);
  return chat;
}
