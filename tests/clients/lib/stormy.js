// A worker that nobody would want: it answers late, twice, never, or not at all. A process of its own, to be killed.
//   node stormy.js http PORT SERVER     decisions are POSTed to it
//   node stormy.js socket SERVER        it dials in
// Each carries out tools and writes down which call it did, in a line on standard output.
import http from "node:http";
import WebSocket from "ws";

const [kind, ...rest] = process.argv.slice(2);
const roll = (n) => Math.floor(Math.random() * n);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What is proposed, and a mark by which the answer that was taken is known. */
function answerTo({ decision_id, attempt, trigger, proposed }) {
  if (trigger.type === "tool.execute") {
    console.log(`did ${trigger.key}`);
    const failed = { type: "tool.error", id: trigger.id, error: "busy", retryable: true };
    return { actions: [roll(6) ? { type: "tool.result", id: trigger.id, content: `result of ${trigger.key}` } : failed] };
  }
  const mark = { type: "custom", name: "storm", value: { decision_id, attempt, answer: roll(1e9) } };
  return { ...proposed, actions: [mark, ...(proposed.actions ?? [])] };
}

/** What it does about a decision: how long it waits, and how often it answers. */
function mood() {
  const late = roll(12) === 0;
  return { fails: roll(20) === 0, silent: roll(20) === 0, waitMs: late ? 1500 : roll(60), times: 1 + (roll(4) === 0) + (roll(8) === 0) };
}

if (kind === "http") {
  const [port, server] = rest;
  const outOfBand = async (request) => {
    const body = JSON.stringify({ session_id: request.session_id, answer: answerTo(request) });
    const headers = { "content-type": "application/json" };
    await fetch(`${server}/v1/decisions/${request.decision_id}`, { method: "POST", headers, body }).catch(() => {});
  };
  const handle = async (incoming, response) => {
    let text = "";
    for await (const piece of incoming) text += piece;
    const request = JSON.parse(text);
    const { fails, silent, waitMs, times } = mood();
    await pause(waitMs);
    if (silent) return void response.destroy();
    if (fails) return void response.writeHead(500).end();
    // Before, and after.
    if (times > 2) await outOfBand(request);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answerTo(request)));
    if (times > 1) await outOfBand(request);
  };
  http.createServer((request, response) => void handle(request, response).catch(() => response.destroy())).listen(Number(port), "127.0.0.1", () => console.log("asked"));
} else {
  const [server] = rest;
  const dial = () => {
    const socket = new WebSocket(`${server.replace("http", "ws")}/v1/worker`);
    const say = (frame) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(frame));
    const decide = async (request) => {
      const { fails, silent, waitMs, times } = mood();
      await pause(waitMs);
      if (silent) return void socket.terminate();
      if (fails) return void say({ type: "failed", decision_id: request.decision_id, message: "not today" });
      for (let time = 0; time < times; time += 1) say({ type: "answer", decision_id: request.decision_id, answer: answerTo(request) });
    };
    socket.on("open", () => say({ type: "hello", agent_ids: ["stormy-socket"], credit: 4 }));
    socket.on("message", (data) => {
      const frame = JSON.parse(data.toString());
      if (frame.type === "welcome") console.log("asked");
      if (frame.type === "decision") void decide(frame.decision);
    });
    socket.on("error", () => {});
    socket.on("close", () => void pause(50).then(dial));
  };
  dial();
}
