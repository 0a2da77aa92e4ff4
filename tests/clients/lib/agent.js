// AG-UI agents as they stand behind Headwater, unchanged: one that says what a scenario plans and keeps what it was sent, and aimock's.
import http from "node:http";
import { AGUIMock } from "@copilotkit/aimock";
import { until } from "./until.js";

/** What agents send, as short as scenarios want it. */
export const say = (id, ...deltas) => [
  { type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" },
  ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta })),
  { type: "TEXT_MESSAGE_END", messageId: id },
];
export const call = (id, name, args = "{}", parent) => [
  { type: "TOOL_CALL_START", toolCallId: id, toolCallName: name, ...(parent && { parentMessageId: parent }) },
  { type: "TOOL_CALL_ARGS", toolCallId: id, delta: args },
  { type: "TOOL_CALL_END", toolCallId: id },
];
export const outcome = (id, content) => [{ type: "TOOL_CALL_RESULT", messageId: `upstream-${id}`, toolCallId: id, content, role: "tool" }];
/** The stream stands still here until it is released. */
export const HOLD = { hold: true };
/** The connection is closed here. */
export const CUT = { cut: true };
/** A run ends with questions for a person. */
export const asks = (...interrupts) => [{ type: "RUN_FINISHED", threadId: "upstream", runId: "upstream", outcome: { type: "interrupt", interrupts } }];
/** A run ends badly. */
export const failed = (message, code) => [{ type: "RUN_ERROR", message, code }];

/** An agent that says what was planned, one plan a run; without one, `answer N to <the last message>`. */
export class Agent {
  static async start() {
    const agent = new Agent();
    agent.reset();
    agent.server = http.createServer((request, response) => void agent.#take(request, response));
    await new Promise((resolve) => agent.server.listen(0, "127.0.0.1", resolve));
    agent.url = `http://127.0.0.1:${agent.server.address().port}/agent`;
    return agent;
  }

  reset() {
    this.plans = [];
    this.runs = [];
  }

  /** What the next run says; the run. */
  next(...events) {
    const run = { events: events.flat(), ended: false, abandoned: false, wake: () => {} };
    run.release = () => {
      run.released = true;
      run.wake();
    };
    run.held = () => until("the agent's run stands at its hold", () => run.isHeld);
    run.closed = () => until("the agent's reader has gone away", () => run.abandoned);
    this.plans.push(run);
    return run;
  }

  /** What the agent was sent, run by run, as lines. */
  get reads() {
    return this.runs.map(({ input }) => input.messages.map(line));
  }

  get read() {
    return this.reads.at(-1);
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #take(request, response) {
    let body = "";
    for await (const piece of request) body += piece;
    const input = JSON.parse(body);
    const number = this.runs.length + 1;
    const said = input.messages.findLast((message) => message.role === "user")?.content;
    if (!this.plans.length) this.next(say(`upstream-${number}`, `answer ${number} to ${said}`));
    const run = this.plans.shift();
    run.input = input;
    run.headers = request.headers;
    this.runs.push(run);
    response.on("close", () => (run.abandoned = !run.ended));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const write = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
    const { threadId, runId } = input;
    write({ type: "RUN_STARTED", threadId, runId });
    for (const event of run.events) {
      if (event === HOLD) {
        run.isHeld = true;
        await new Promise((resolve) => (run.released ? resolve() : (run.wake = resolve)));
      } else if (event === CUT) {
        response.destroy();
        return;
      } else write(event);
    }
    run.ended = true;
    if (!["RUN_ERROR", "RUN_FINISHED"].includes(run.events.at(-1)?.type)) write({ type: "RUN_FINISHED", threadId, runId });
    response.end();
  }
}

/** A message as a line, without its id. */
function line({ role, content = "", toolCalls = [], toolCallId }) {
  const calls = toolCalls.map((call) => ` [${call.id} ${call.function.name} ${call.function.arguments}]`).join("");
  return `${role}${toolCallId ? ` ${toolCallId}` : ""}: ${content}${calls}`;
}

/** aimock's own agent: it echoes, calls a tool that it carries out itself, leaves one to the page, thinks, fails. */
export async function aimockAgent() {
  const agent = new AGUIMock({ port: 0, host: "127.0.0.1" });
  agent.onMessage("hello", "Hello from aimock.");
  agent.onToolCall("look", "look", '{"at":"sky"}', { result: "blue" });
  agent.onReasoning("think", "Hm.");
  const url = await agent.start();
  return { url, stop: () => agent.stop() };
}
