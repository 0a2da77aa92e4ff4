// A summary that nothing else looks like, conversations that need one, and every byte that a person's client can be told of them.
import assert from "node:assert/strict";
import * as current from "@ag-ui/client";
import * as legacy from "@ag-ui/client-legacy";
import WebSocket from "ws";
import { Device } from "./device.js";
import { until } from "./until.js";

/** The summary: each piece of its stream, however it is cut, has a part that nothing else has. */
export const SUMMARY = "ZQXK".repeat(12);
/** Those parts, and a part of what its model is told. */
const CANARIES = ["ZQ", "QX", "XK", "KZ", "VKWJ"];

/** Edits a stream so that it reports that so many tokens were read. */
export const reporting = (tokens) => (data) => {
  if (data.usage) data.usage = { prompt_tokens: tokens, completion_tokens: 4, total_tokens: tokens + 4 };
};

/** A conversation of three turns of which the model reports in the end that it read so many tokens. */
export async function talked(s, { agent = "summing", tokens = 186_400 } = {}) {
  const chat = s.chat({ agent });
  await chat.send("u1", "a first question");
  await chat.send("u2", "a second question");
  s.upstream.next({ text: "the third answer", edit: reporting(tokens) });
  await chat.send("u3", "a third question");
  return chat;
}

/** What the conversation of `talked` looks like. */
export const TALKED = [
  "user: a first question",
  "assistant: answer 1 to a first question",
  "user: a second question",
  "assistant: answer 2 to a second question",
  "user: a third question",
  "assistant: the third answer",
];

/** All the events of the session, as bytes: over SSE from the start to the head, and over `/v1/ws`. */
export async function nativeBytes(s, chat) {
  const { head_id: head } = await s.session(chat);
  const last = /"(turn\.(completed|failed|cancelled)|head\.moved)"[^\n]*\n*$/;
  const isWhole = (text) => text.includes(head) && last.test(text.replace(/\n:[^\n]*/g, ""));
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
async function sharedBytes(s, { agentName, threadId }, library, last) {
  const device = await Device.open(s, library, agentName);
  let frames = "";
  device.socket.on("message", (data) => (frames += data));
  await device.subscribe(threadId, "0");
  await until("the device shows the conversation", async () => (await device.messages(threadId)).at(-1)?.id === last);
  await device.close();
  return frames;
}

/** What pages and hydrations say of the conversation, as bytes. */
export async function pageBytes(s, chat) {
  const hydration = await s.server.get(`/agents/${chat.agentName}?threadId=${chat.threadId}`);
  return [await s.session(chat), await s.tree(chat), hydration].map((page) => JSON.stringify(page));
}

/** Everything that clients can be told of the conversation while nothing runs, and what they were told, as bytes. `chat` shows it. */
export async function everything(s, chat) {
  await s.idle(chat);
  const joined = s.tab(chat).joining();
  await joined.run();
  assert.deepEqual(joined.lines, chat.lines);
  const shared = [];
  for (const library of [current, legacy]) shared.push(await sharedBytes(s, chat, library, joined.last.id));
  return [...(await pageBytes(s, chat)), ...shared, ...(await nativeBytes(s, chat)), ...s.wire.exchanges.map((exchange) => exchange.text)];
}

/** No byte of the summary, and of what its model was told, is in any of these texts. */
export function assertHidden(seen) {
  for (const text of seen) {
    assert.ok(text.length > 0);
    for (const canary of CANARIES) assert.ok(!text.includes(canary), `${canary} in ${text.slice(Math.max(0, text.indexOf(canary) - 300)).slice(0, 600)}`);
  }
}

/** The epochs of the conversation, oldest first, as who asks for every node is told. */
export async function epochs(s, chat) {
  const { nodes } = await s.server.get(`/v1/sessions/${chat.threadId}/tree?view=raw`);
  return nodes.filter(({ kind }) => kind === "epoch");
}
