// Several runs on one socket: bare frames don't say whose they are, so what is told of them comes one run after the other; but what may
// wait for a turn, or stop it, is submitted as it comes.
import assert from "node:assert/strict";
import WebSocket from "ws";
import { result, tool, user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();

/** A socket by hand. */
class Socket {
  static async open(s, agent, version) {
    const socket = new Socket();
    socket.version = version;
    socket.frames = [];
    socket.ws = new WebSocket(`${s.server.url.replace("http", "ws")}/agents/${agent}`);
    socket.ws.on("message", (data) => socket.frames.push(JSON.parse(data.toString())));
    s.tabs.push({ threadId: "talk", leave: () => socket.close() });
    await new Promise((resolve, reject) => socket.ws.once("open", resolve).once("error", reject));
    return socket;
  }

  run(threadId, runId, messages, headwater, more) {
    const forwardedProps = headwater ? { headwater } : {};
    this.ws.send(JSON.stringify({ threadId, runId, messages, tools: [], context: [], forwardedProps, protocolVersion: this.version, ...more }));
  }

  abort(runId) {
    this.ws.send(JSON.stringify({ type: "abort", runId }));
  }

  /** Waits for so many ends; the runs in the order of what was told, each as its types, ends with their outcome. */
  async ends(count) {
    const isEnd = ({ type }) => type === "RUN_FINISHED" || type === "RUN_ERROR";
    await until(() => `${count} ends, there are ${this.frames.map(({ type }) => type).join(" ")}`, () => this.frames.filter(isEnd).length >= count);
    const runs = [[]];
    for (const frame of this.frames) {
      runs.at(-1).push(frame);
      if (isEnd(frame)) runs.push([]);
    }
    assert.deepEqual(runs.pop(), [], "nothing but whole runs");
    return runs.map((frames) => {
      const [first, last] = [frames[0], frames.at(-1)];
      assert.ok(first.type === "RUN_STARTED" || frames.length === 1);
      return `${first.runId ?? "-"}: ${last.code ?? last.outcome?.type ?? "finished"}`;
    });
  }

  async close() {
    if (this.ws.readyState === WebSocket.CLOSED) return;
    const closed = new Promise((resolve) => this.ws.once("close", resolve));
    this.ws.close();
    await closed;
  }
}

/** A socket whose first run stands in the middle of its reply. */
async function busy(s, agent = "bot") {
  const threadId = `thread-${process.hrtime.bigint()}`;
  const chat = s.chat({ agent, threadId });
  const socket = await Socket.open(s, agent, "1.0");
  const call = s.upstream.next({ hold: 2, text: "the first answer" });
  socket.run(threadId, "run-1", [user("u1", "hello")]);
  await call.held();
  await until("words came", () => socket.frames.some(({ type }) => type === "TEXT_MESSAGE_CONTENT"));
  return { threadId, chat, socket, call };
}

const waits = (s, chat, ...expected) =>
  until(`the queue is ${expected}`, async () => {
    const { queue } = await s.session(chat);
    return queue.map((turn) => `${turn.turn_id}: ${turn.messages.map(({ content }) => content).join(", ")}`).join("; ") === expected.join("; ");
  });

once("runs that are merged are recorded as they come on a busy socket, and told one after the other", async (s) => {
  const { threadId, chat, socket, call } = await busy(s);
  socket.run(threadId, "run-2", [user("u1", "hello"), user("u2", "and then?")], { queue: "merge" });
  socket.run(threadId, "run-3", [user("u1", "hello"), user("u3", "and why?")], { queue: "merge" });
  await waits(s, chat, "run-2: and then?, and why?");
  assert.ok(socket.frames.every(({ runId }) => runId === undefined || runId === "run-1"), "nothing of them is told yet");
  call.release();
  assert.deepEqual(await socket.ends(3), ["run-1: finished", "run-2: finished", "run-3: finished"]);
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?", "user: and why?"]);
  assert.equal(s.reads.length, 2);
});

once("queued runs on a busy socket, one of them stopped in its place", async (s) => {
  const { threadId, chat, socket, call } = await busy(s);
  for (const place of [2, 3, 4]) socket.run(threadId, `run-${place}`, [user("u1", "hello"), user(`u${place}`, `question ${place}`)], { queue: true });
  await waits(s, chat, "run-2: question 2", "run-3: question 3", "run-4: question 4");
  socket.abort("run-3");
  await waits(s, chat, "run-2: question 2", "run-4: question 4");
  call.release();
  assert.deepEqual(await socket.ends(4), ["run-1: finished", "run-2: finished", "run-3: cancelled", "run-4: finished"]);
  assert.deepEqual(s.read.filter((line) => line.startsWith("user: ")), ["user: hello", "user: question 2", "user: question 4"]);
});

once("a run that stops the running one does so on the same socket", async (s) => {
  const { threadId, chat, socket, call } = await busy(s, "stopping");
  const replyId = socket.frames.find(({ type }) => type === "TEXT_MESSAGE_START").messageId;
  socket.run(threadId, "run-2", [user("u1", "hello"), { id: replyId, role: "assistant", content: "the " }, user("u2", "something else")]);
  assert.deepEqual(await socket.ends(2), ["run-1: cancelled", "run-2: finished"]);
  await call.closed({ within: 1_000 });
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: ${call.sent.text} (partial)
    user: something else
    assistant: answer 1 to something else (head)`);
});

once("a run that may not wait waits for the socket, and those behind it don't overtake it", async (s) => {
  const { threadId, chat, socket, call } = await busy(s);
  socket.run(threadId, "run-2", [user("u1", "hello"), user("u2", "and then?")]);
  socket.run(threadId, "run-3", [user("u1", "hello"), user("u2", "and then?"), user("u3", "and why?")], { queue: true });
  socket.ws.send("nonsense");
  assert.deepEqual((await s.session(chat)).queue, []);
  call.release();
  assert.deepEqual(await socket.ends(4), ["run-1: finished", "run-2: finished", "run-3: finished", "-: bad_json"]);
  assert.equal(s.reads.length, 3);
});

once("a refusal of a run that came ahead is told in its place", async (s) => {
  const { threadId, chat, socket, call } = await busy(s);
  socket.run(threadId, "run-2", [user("u9", "an edit of nothing")], { queue: true });
  socket.run(threadId, "run-3", [user("u1", "hello"), user("u3", "and why?")], { queue: true });
  await waits(s, chat, "run-3: and why?");
  assert.ok(!socket.frames.some(({ type }) => type === "RUN_ERROR"));
  call.release();
  assert.deepEqual(await socket.ends(3), ["run-1: finished", "-: turn_already_active", "run-3: finished"]);
});

once("a run that waits for results of its own socket doesn't keep them from coming", async (s) => {
  const threadId = `thread-${process.hrtime.bigint()}`;
  const chat = s.chat({ threadId });
  const socket = await Socket.open(s, "bot", "1.0");
  const offered = { tools: [tool("weather")] };
  s.upstream.next({ calls: [{ id: "c1", name: "weather" }] });
  socket.run(threadId, "run-1", [user("u1", "how is it?")], undefined, offered);
  assert.deepEqual(await socket.ends(1), ["run-1: success"]);
  socket.run(threadId, "run-2", [user("u1", "how is it?"), user("u2", "and then?")], { queue: true }, offered);
  await waits(s, chat, "run-2: and then?");
  // It doesn't say what is to become of it while a turn is there: the run that is silent isn't in its way.
  socket.run(threadId, "run-3", [result("c1", "18 degrees")], undefined, offered);
  assert.deepEqual(await socket.ends(3), ["run-1: success", "run-3: finished", "run-2: finished"]);
  assert.deepEqual(s.reads.map((read) => read.at(-1)), ["user: how is it?", "tool c1: 18 degrees", "user: and then?"]);
});

once("a queued run is stopped by an abort that names nobody, when it is the only one", async (s) => {
  const { threadId, chat, socket, call } = await busy(s);
  const other = await Socket.open(s, "bot", "1.0");
  other.run(threadId, "run-2", [user("u1", "hello"), user("u2", "and then?")], { queue: true });
  await waits(s, chat, "run-2: and then?");
  other.abort();
  assert.deepEqual(await other.ends(1), ["run-2: cancelled"]);
  call.release();
  assert.deepEqual(await socket.ends(1), ["run-1: finished"]);
  await s.idle(chat);
});

once("a socket that goes away leaves its queued runs behind, or takes them along as its agent says", async (s) => {
  for (const [agent, left] of [["bot", ["run-2: and then?"]], ["cancel", []]]) {
    const { threadId, chat, socket, call } = await busy(s, agent);
    const tab = s.tab(chat).joining();
    const joined = tab.start();
    socket.run(threadId, "run-2", [user("u1", "hello"), user("u2", "and then?")], { queue: true });
    await waits(s, chat, "run-2: and then?");
    await socket.close();
    await waits(s, chat, ...left);
    call.release();
    await joined.end();
    await s.idle(chat);
  }
});
