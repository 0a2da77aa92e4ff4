// Connections that break in the middle of a reply: the stock TanStack client goes on by itself, over SSE and over WebSocket; what the
// AG-UI clients make of a run that is joined and of what follows any cut is the same conversation.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ChatClient, fetchServerSentEvents, webSocket } from "@tanstack/ai-client";
import * as current from "@ag-ui/client";
import * as legacy from "@ag-ui/client-legacy";
import { from } from "rxjs";
import WebSocket from "ws";
import { Proxy } from "../lib/proxy.js";
import { inTime, until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();

const TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen";

const textOf = (message) => message.parts.filter(({ type }) => type === "text").map((part) => part.content).join("");

/** A TanStack chat whose connection goes through `url`. */
function chatOf(connection, threadId) {
  const failures = [];
  const client = new ChatClient({ connection, threadId, onError: (error) => void failures.push(error.message) });
  return { client, failures, shown: () => client.getMessages().map((message) => `${message.role}: ${textOf(message)}`) };
}

function ofThread(s) {
  const threadId = `thread-${randomUUID()}`;
  s.tabs.push({ threadId, leave: async () => {} });
  return threadId;
}

const CONNECTIONS = {
  SSE: (url) => fetchServerSentEvents(url, { reconnect: { maxAttempts: 5, delayMs: 5 } }),
  WebSocket: (url) => webSocket(url.replace("http", "ws"), { WebSocketImpl: WebSocket, reconnect: { maxAttempts: 5, delayMs: 5 } }),
};

for (const [name, connect] of Object.entries(CONNECTIONS)) {
  once(`TanStack over ${name} goes on by itself when its connection breaks in the middle of a reply`, async (s) => {
    s.upstream.next({ text: TEXT, pace: 10 });
    const threadId = ofThread(s);
    const proxy = await Proxy.start(s.server.url, [900, 700, 650]);
    const { client, failures, shown } = chatOf(connect(`${proxy.url}/agents/continue?threadId=${threadId}`), threadId);
    try {
      await client.sendMessage({ id: "u1", content: "count" });
      await until(() => `the whole reply, there is ${shown().join(" | ")} ${failures}`, () => shown().at(-1) === `assistant: ${TEXT}`);
      assert.deepEqual(failures, []);
      assert.deepEqual(shown(), ["user: count", `assistant: ${TEXT}`]);
      assert.ok(proxy.made >= 2, `it was cut ${proxy.made} times`);
      assert.equal(s.reads.length, 1, "the model was asked once");
    } finally {
      client.stop();
      client.dispose?.();
      await proxy.stop();
    }
  });
}

once("TanStack finds the conversation and joins the run that is active, on another device", async (s) => {
  const threadId = ofThread(s);
  const url = `${s.server.url}/agents/continue?threadId=${threadId}`;
  const first = s.upstream.next({ text: "the first answer" });
  const one = chatOf(CONNECTIONS.SSE(url), threadId);
  await one.client.sendMessage({ id: "u1", content: "hello" });
  assert.ok(first.sent.text);
  const call = s.upstream.next({ text: TEXT, hold: 3 });
  const sending = one.client.sendMessage({ id: "u2", content: "count" });
  await call.held();
  const connections = { SSE: CONNECTIONS.SSE(url), WebSocket: CONNECTIONS.WebSocket(url) };
  const { messages, activeRun } = await connections.SSE.hydrate(threadId);
  assert.deepEqual(messages.map((message) => `${message.role}: ${textOf(message)}`), ["user: hello", "assistant: the first answer", "user: count"]);
  assert.ok(activeRun.runId);
  const joined = Object.values(connections).map(async (connection) => {
    const chunks = [];
    for await (const chunk of connection.joinRun(activeRun.runId)) chunks.push(chunk);
    return chunks;
  });
  call.release();
  await sending;
  for (const chunks of await Promise.all(joined)) {
    assert.deepEqual(chunks.filter(({ type }) => type === "TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), TEXT);
    assert.equal(chunks.at(-1).type, "RUN_FINISHED");
  }
  assert.equal((await connections.SSE.hydrate(threadId)).activeRun, null);
});

/** The frames of a stream of server-sent events, with their ids. */
async function frames(url, init) {
  const response = await fetch(url, init);
  const body = await response.text();
  assert.equal(response.status, 200, body);
  const line = (frame, name) => frame.split("\n").find((line) => line.startsWith(name))?.slice(name.length);
  return body.split("\n\n").filter((frame) => frame.includes("data: ")).map((frame) => ({ id: line(frame, "id: "), event: JSON.parse(line(frame, "data: ")) }));
}

/** The frames that a socket brings which goes on with a run, until the server closes it. */
async function framesOverSocket(url) {
  const socket = new WebSocket(url.replace("http", "ws"));
  const told = [];
  socket.on("message", (data) => told.push(JSON.parse(data.toString())));
  const closed = new Promise((resolve, reject) => socket.once("close", resolve).once("error", reject));
  assert.equal(await inTime("the socket closes", closed), 1000);
  return told.map(({ id, chunk, ...bare }) => ({ id, event: chunk ?? bare }));
}

/** What a stock client holds after these events. */
async function held(library, events) {
  class Replayed extends library.AbstractAgent {
    run() {
      return from(events);
    }
  }
  const agent = new Replayed({ threadId: "replayed" });
  await agent.runAgent({ runId: "replayed" });
  return agent.messages.map(({ id, role, content, toolCalls }) => ({ id, role, content: content ?? "", calls: (toolCalls ?? []).map((call) => call.function) }));
}

for (const [library, version] of [[current, "1.0"], [legacy, undefined]]) {
  once(`a run that is joined, and what follows every cut, is the whole to client ${version ?? "0.0.59"}`, async (s) => {
    const threadId = ofThread(s);
    s.upstream.next({ text: "two lines", reasoning: "let me think" });
    const body = { threadId, runId: "r1", protocolVersion: version, messages: [{ id: "u1", role: "user", content: "hello" }], tools: [], context: [] };
    const url = `${s.server.url}/agents/continue`;
    const whole = await frames(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    const query = `threadId=${threadId}&runId=r1${version ? `&protocolVersion=${version}` : ""}`;
    const joined = (await frames(`${url}?${query}&offset=-1`)).map(({ event }) => event);
    const expected = await held(library, joined);
    assert.ok(expected.some(({ content }) => content === "two lines"), JSON.stringify(expected));
    const made = (messages) => messages.filter(({ role }) => role !== "user");
    for (const [at, { id }] of whole.entries()) {
      if (!id || at === whole.length - 1) continue;
      for (const read of [frames, framesOverSocket]) {
        const rest = await read(`${url}?${query}&offset=${id}`);
        const events = [...whole.slice(0, at + 1), ...rest].map(({ event }) => event);
        assert.deepEqual(made(await held(library, events)), made(expected), `after ${id} by ${read.name}`);
      }
    }
  });
}
