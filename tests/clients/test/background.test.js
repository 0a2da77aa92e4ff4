// A summary that is written while the talk goes on (`background = true`): nobody waits for it, nobody is told a byte of it, and the next
// call reads it in the place of what it stands for.
import assert from "node:assert/strict";
import { SUMMARY, TALKED, assertHidden, epochs, everything, pageBytes, reporting, talked } from "../lib/canary.js";
import { SUMMARY_PROMPT } from "../lib/server.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();

const FORESIGHTED = { agent: "foresighted", tokens: 120_000 };

/** What the calls that people see the answers of read. */
const told = (s) => s.reads.filter(([first]) => first !== `system: ${SUMMARY_PROMPT}`);

/** A summary that the model writes so far as it is let. */
const summary = (s, plan = {}) => s.upstream.next({ text: SUMMARY, asked: SUMMARY_PROMPT, hold: 0, ...plan });

/** The person says something; the model, which reads much, answers once the summary is asked for too. The summary's call and the run. */
async function sayUntilAsked(s, chat, id, text, plan) {
  const writes = summary(s, plan);
  const call = s.upstream.next({ text: `the answer to ${text}`, edit: reporting(FORESIGHTED.tokens), hold: 0 });
  const run = chat.begin(id, text);
  await until("a summary is asked for", () => writes.arrived);
  call.release();
  await run.end();
  assert.equal(run.outcome, "finished");
  return { writes, run };
}

/** The person says something more. The model still reads much. */
function say(s, chat, id, text) {
  s.upstream.next({ text: `the answer to ${text}`, edit: reporting(FORESIGHTED.tokens) });
  return chat.send(id, text);
}

/** The background summary, as the session's page tells of it. */
const jobOf = async (s, chat) => (await s.session(chat)).job;

/** Waits until it is there, for the next call. */
const written = (s, chat) => until("the summary is written", async () => (await jobOf(s, chat))?.written);

each("it is written while the talk goes on, in no client's bytes; the next call reads it, and everything since unchanged", async (s) => {
  const chat = await talked(s, FORESIGHTED);
  const { writes, run: fourth } = await sayUntilAsked(s, chat, "u4", "a fourth question", { hold: 2 });
  await writes.held();
  const job = await jobOf(s, chat);
  assert.deepEqual([job.strategy, job.attempt, job.written], ["summarize", 1, undefined]);
  assert.deepEqual(told(s).at(-1), [...TALKED, "user: a fourth question"], "the call didn't wait for it");
  assert.deepEqual(["context.limited", "context.replaced"].flatMap((name) => fourth.customs(name)), []);
  // Half of it is written: whoever comes now, and what is there to be read.
  assertHidden(await everything(s, chat));
  const call = s.upstream.next({ text: "the fifth answer", edit: reporting(FORESIGHTED.tokens), hold: 1 });
  const fifth = chat.begin("u5", "a fifth question");
  await call.held();
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  await until("a tab that joins shows what is being said", () => joined.last?.content === call.sent.text);
  writes.release();
  await written(s, chat);
  assertHidden(await pageBytes(s, chat));
  call.release();
  await Promise.all([fifth.end(), joinedRun.end()]);
  assert.deepEqual([fifth.outcome, joinedRun.outcome], ["finished", "finished"]);
  assert.deepEqual((await epochs(s, chat)).length, 0);

  const sixth = await chat.send("u6", "a sixth question");
  const [replaced, ...more] = sixth.customs("context.replaced");
  assert.deepEqual([replaced.background, replaced.epoch, more, sixth.customs("context.limited")], [true, 1, [], []]);
  const [first, ...kept] = told(s).at(-1);
  assert.ok(first.includes(SUMMARY), first);
  assert.deepEqual(kept, chat.lines.slice(4, -1));
  assert.equal((await epochs(s, chat)).length, 1);
  assert.equal(chat.lines.length, 12);
  assertHidden(await everything(s, chat));
  await s.server.restart();
  assertHidden(await everything(s, chat));
  // A device that never heard of it goes on below it, and the tree that people see is one chain.
  await chat.send("u7", "a seventh question");
  assert.deepEqual(told(s).at(-1), [first, ...chat.lines.slice(4, -1)]);
  const { nodes } = await s.tree(chat);
  assert.deepEqual(nodes.slice(1).map((node) => node.parent_id), nodes.slice(0, -1).map((node) => node.id));
  assertHidden(await everything(s, chat));
});

each("it is left behind with its branch, and an edit below it keeps it", async (s) => {
  const chat = await talked(s, FORESIGHTED);
  const { writes } = await sayUntilAsked(s, chat, "u4", "a fourth question");
  const whole = chat.messages;
  await chat.edit("u2", "u2b", "another second question");
  writes.release();
  await until("the summary is written or given up", () => writes.ended || writes.abandoned);
  await say(s, chat, "u3b", "and then");
  assert.ok(!JSON.stringify(told(s)).includes(SUMMARY));
  assert.equal((await epochs(s, chat)).length, 0);
  assertHidden(await everything(s, chat));
  // Back on the first branch another one is written, and adopted.
  chat.show(...whole);
  const { writes: again } = await sayUntilAsked(s, chat, "u5", "a fifth question");
  again.release();
  await written(s, chat);
  await chat.edit("u5", "u5b", "another fifth question");
  const [first, ...kept] = told(s).at(-1);
  assert.ok(first.includes(SUMMARY), first);
  assert.deepEqual(kept, chat.lines.slice(6, -1));
  assertHidden(await everything(s, chat));
});

once("one that fails changes nothing, and nobody is told of it", async (s) => {
  const chat = await talked(s, FORESIGHTED);
  const { writes } = await sayUntilAsked(s, chat, "u4", "a fourth question", { text: undefined, status: 500 });
  await until("it is given up", async () => writes.ended && (await jobOf(s, chat)) === undefined);
  assertHidden(await everything(s, chat));
  assert.equal(await s.drawn(chat), drawing`
    ${TALKED[0]}
    ${TALKED[1]}
    ${TALKED[2]}
    ${TALKED[3]}
    ${TALKED[4]}
    ${TALKED[5]}
    user: a fourth question
    ${chat.lines.at(-1)} (head)`);
});
