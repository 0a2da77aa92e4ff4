// One person's device on a socket that threads and runs share (`ag-ui.ws.v1`): what it asks, what it is told of each thread, and what
// a stock client makes of that.
import assert from "node:assert/strict";
import { from } from "rxjs";
import WebSocket from "ws";
import * as legacy from "@ag-ui/client-legacy";
import { inTime, until } from "./until.js";

const PROTOCOL = "ag-ui.ws.v1";
const ENDS = ["RUN_FINISHED", "RUN_ERROR"];

export class Device {
  /** A device with a stock client of `library`; what it says is of that dialect. */
  static async open(s, library, agent = "bot") {
    const device = new Device();
    const version = library === legacy ? undefined : "1.0";
    Object.assign(device, { s, library, version, threads: new Map(), sent: new Map(), subscribed: new Set(), answers: [], unsubscribed: [], asked: 0 });
    const query = version ? `?protocolVersion=${version}` : "";
    device.socket = new WebSocket(`${s.server.url.replace("http", "ws")}/agents/${agent}${query}`, [PROTOCOL]);
    device.socket.on("message", (data, isBinary) => device.#take(data, isBinary));
    s.tabs.push({ threadId: "nobodys", leave: () => device.close() });
    await new Promise((resolve, reject) => device.socket.once("open", resolve).once("error", reject));
    assert.equal(device.socket.protocol, PROTOCOL);
    return device;
  }

  #take(data, isBinary) {
    assert.equal(isBinary, false);
    const frame = JSON.parse(data.toString());
    if (frame.chunk === undefined) return void (frame.type === "unsubscribed" ? this.unsubscribed : this.answers).push(frame);
    const { threadId, ...told } = frame;
    this.threads.set(threadId, [...this.told(threadId), told]);
  }

  /** The frames of a thread, `{id?, chunk}`. */
  told(threadId) {
    return this.threads.get(threadId) ?? [];
  }

  /** The chunks of a thread, run by run. The last may have no end yet. */
  runs(threadId) {
    return runsOf(this.told(threadId));
  }

  /** Asks something; resolves to its ack, fails with its error. */
  async ask(frame) {
    const ref = `ask-${(this.asked += 1)}`;
    this.socket.send(JSON.stringify({ ...frame, ref }));
    const answer = await until(() => `an answer to ${JSON.stringify(frame)}`, () => this.answers.find((answer) => answer.ref === ref));
    if (answer.type !== "ack") throw Object.assign(new Error(`${frame.type ?? "run"}: ${answer.message}`), { answer });
    return answer;
  }

  /** Asks for a run of what `messages` shows. */
  run(threadId, runId, messages, { headwater, ...more } = {}) {
    // Else its list is what it is told.
    if (!this.subscribed.has(threadId)) this.sent.set(runId, messages);
    const forwardedProps = headwater ? { headwater } : {};
    return this.ask({ threadId, runId, messages, tools: [], context: [], forwardedProps, protocolVersion: this.version, ...more });
  }

  subscribe(threadId, after) {
    this.subscribed.add(threadId);
    return this.ask({ type: "subscribe", threadId, ...(after !== undefined && { after }) });
  }

  /** Waits until the run is told to its end; its chunks. */
  async ended(threadId, runId) {
    const seen = () => this.runs(threadId).map((run) => `${run[0].runId}: ${run.at(-1).type}`);
    return until(
      () => `run ${runId} ends, there is ${seen().join(", ")}`,
      () => this.runs(threadId).find((run) => run[0].runId === runId && ENDS.includes(run.at(-1).type)),
    );
  }

  /** What its stock client shows of the thread. */
  messages(threadId) {
    return held(this.library, this.runs(threadId), this.sent);
  }

  /** The socket closes, also in the middle of a run. All that came is judged as if each run had come alone. */
  async close() {
    if (this.socket.readyState === WebSocket.CLOSED) return;
    const closed = new Promise((resolve) => this.socket.once("close", resolve));
    this.socket.close();
    await inTime("the socket closes", closed);
    for (const threadId of this.threads.keys()) this.#judge(threadId);
  }

  #judge(threadId) {
    // Who came into the middle of a run has no beginning of it.
    for (const run of this.runs(threadId).filter(([first]) => first.type === "RUN_STARTED")) {
      const exchange = this.s.wire.sent(`thread ${threadId}`, { runId: run[0].runId, protocolVersion: this.version });
      for (const chunk of run) this.s.wire.received(exchange, JSON.stringify(chunk), false);
      exchange.left = !exchange.ended;
    }
  }
}

/** The chunks of frames, run by run. */
export function runsOf(frames) {
  const runs = [];
  for (const { chunk } of frames) {
    if (runs.length === 0 || ENDS.includes(runs.at(-1).at(-1).type)) runs.push([]);
    runs.at(-1).push(chunk);
  }
  return runs;
}

/** What a stock client holds after these runs, some of which began with a list of its own. A sequence that it finds illegal is a failure. */
export async function held(library, runs, sent = new Map()) {
  class Replayed extends library.AbstractAgent {
    run() {
      return from(this.next);
    }
  }
  const agent = new Replayed({ threadId: "replayed" });
  for (const run of runs) {
    agent.next = run;
    const list = sent.get(run[0].runId);
    if (list) agent.setMessages(list);
    await agent.runAgent({ runId: run[0].runId });
  }
  return agent.messages;
}
