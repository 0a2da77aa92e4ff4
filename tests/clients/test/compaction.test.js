// A long conversation in a small window: the model goes on with a summary and the turns that were kept, people see the conversation as if
// nothing had happened, and no byte of the summary or of what its model was told reaches a client.
import assert from "node:assert/strict";
import * as current from "@ag-ui/client";
import * as legacy from "@ag-ui/client-legacy";
import WebSocket from "ws";
import { Device } from "../lib/device.js";
import { SUMMARY_PROMPT } from "../lib/server.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();

/** The summary: each piece of its stream, however it is cut, has a part that nothing else has. */
const SUMMARY = "ZQXK".repeat(12);
const CANARIES = ["ZQ", "QX", "XK", "KZ", "VKWJ"];

/** Edits a stream so that it reports that 186,400 tokens were read. */
const long = (data) => {
  if (data.usage) data.usage = { prompt_tokens: 186_400, completion_tokens: 4, total_tokens: 186_404 };
};

/** A conversation of three turns of which the model reports that its window is nearly full. */
async function talked(s) {
  const chat = s.chat({ agent: "summing" });
  await chat.send("u1", "a first question");
  await chat.send("u2", "a second question");
  s.upstream.next({ text: "the third answer", edit: long });
  await chat.send("u3", "a third question");
  return chat;
}

/** All the events of the session, as bytes: over SSE from the start to the head, and over `/v1/ws`. */
async function nativeBytes(s, chat) {
  const { head_id: head } = await s.session(chat);
  const isWhole = (text) => text.includes(head) && /"turn\.(completed|failed)"[^\n]*\n*$/.test(text.replace(/\n:[^\n]*/g, ""));
  const stop = new AbortController();
  const response = await fetch(`${s.server.url}/v1/sessions/${chat.threadId}/events?after=0`, { signal: stop.signal });
  const decoder = new TextDecoder();
  let sse = "";
  for await (const piece of response.body) {
    sse += decoder.decode(piece, { stream: true });
    if (isWhole(sse)) break;
  }
  stop.abort();
  const socket = new WebSocket(`${s.server.url.replace("http", "ws")}/v1/ws`);
  let frames = "";
  socket.on("message", (data) => (frames += `${data}\n`));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  socket.send(JSON.stringify({ type: "subscribe", ref: "r", session_id: chat.threadId, after: "0" }));
  await until("the socket tells the whole session", () => isWhole(frames));
  socket.terminate();
  return [sse, frames];
}

/** The bytes that came on a shared socket that reads the thread from its start. */
async function sharedBytes(s, chat, library) {
  const device = await Device.open(s, library, "summing");
  let frames = "";
  device.socket.on("message", (data) => (frames += data));
  await device.subscribe(chat.threadId, "0");
  await until("the device shows the conversation", async () => (await device.messages(chat.threadId)).at(-1)?.content === chat.last.content);
  await device.close();
  return frames;
}

/** Everything that clients can be told of the conversation, as bytes. */
async function everything(s, chat) {
  const joined = s.tab(chat).joining();
  await joined.run();
  assert.deepEqual(joined.lines, chat.lines);
  const hydration = await s.server.get(`/agents/summing?threadId=${chat.threadId}`);
  const pages = [await s.session(chat), await s.tree(chat), hydration].map((page) => JSON.stringify(page));
  const shared = [await sharedBytes(s, chat, current), await sharedBytes(s, chat, legacy)];
  return [...pages, ...shared, ...(await nativeBytes(s, chat)), ...s.wire.exchanges.map((exchange) => exchange.text)];
}

function assertHidden(seen) {
  for (const text of seen) {
    assert.ok(text.length > 0);
    for (const canary of CANARIES) assert.ok(!text.includes(canary), `${canary} in ${text.slice(Math.max(0, text.indexOf(canary) - 300)).slice(0, 600)}`);
  }
}

const raw = (s, chat) => s.server.get(`/v1/sessions/${chat.threadId}/tree?view=raw`);

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
  const epoch = (await raw(s, chat)).nodes.find(({ kind }) => kind === "epoch");
  assert.ok(JSON.stringify(epoch.message).includes(SUMMARY));
});

each("an edit in what was summarized lands where that message stands, and nothing of the summary is read there", async (s) => {
  const chat = await talked(s);
  s.upstream.next({ text: SUMMARY });
  await chat.send("u4", "a fourth question");
  await chat.edit("u2", "u2b", "another second question");
  assert.deepEqual(s.read, ["user: a first question", "assistant: answer 1 to a first question", "user: another second question"]);
  assertHidden(await everything(s, chat));
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
