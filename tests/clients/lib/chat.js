// One person's browser tab: a stock client with its list of messages, and what a person does with it.
import { httpAgent, webSocketAgent } from "./agents.js";
import { inTime } from "./until.js";

/** A message of a user, as apps make it. */
export const user = (id, content) => ({ id, role: "user", content });

/** A result, as stock clients send it. */
export const result = (toolCallId, content, { id = `result-of-${toolCallId}`, error } = {}) => ({ id, role: "tool", toolCallId, content, ...(error && { error }) });

/** A tool, as a page offers it. */
export const tool = (name) => ({ name, description: `What ${name} does`, parameters: { type: "object", properties: { place: { type: "string" } } } });

export class Chat {
  constructor({ combination, server, wire, agent, threadId, tools = [] }) {
    this.combination = combination;
    this.tools = tools;
    this.agentName = agent;
    this.threadId = threadId;
    this.server = server;
    this.wire = wire;
    const make = combination.transport === "ws" ? webSocketAgent : httpAgent;
    const scheme = combination.transport === "ws" ? "ws" : "http";
    const url = `${server.url.replace("http", scheme)}/agents/${agent}`;
    this.agent = make({ library: combination.library, url, wire, threadId });
  }

  /** What the tab shows. */
  get messages() {
    return this.agent.messages;
  }

  /** The messages as lines `role: text`. */
  get lines() {
    return this.messages.map((message) => `${message.role}: ${message.content ?? ""}`);
  }

  /** The last message. */
  get last() {
    return this.messages.at(-1);
  }

  /** What the tab shows from now on: a cut, an older branch, anything. */
  show(...messages) {
    this.agent.setMessages(messages);
  }

  /** Starts a run of what is shown. `forwarded` goes into `forwardedProps.headwater`; `resume` answers interrupts. */
  start({ runId, forwarded, resume } = {}) {
    const run = new Run(runId);
    const parameters = { tools: this.tools, ...(runId && { runId }), ...(resume && { resume }), ...(forwarded && { forwardedProps: { headwater: forwarded } }) };
    const subscriber = {
      onEvent: ({ event }) => void run.events.push(event),
      onRunFailed: ({ error }) => void (run.failure ??= error),
    };
    run.settled = this.agent.runAgent(parameters, subscriber).catch((error) => void (run.failure = error));
    return run;
  }

  /** Runs what is shown until the end, whatever that is. */
  async attempt(options) {
    return this.start(options).end();
  }

  /** Runs what is shown; the run must finish well. */
  async run(options) {
    const run = await this.attempt(options);
    if (run.outcome !== "finished") throw new Error(`the run ended with ${run.outcome}`, { cause: run.failure });
    return run;
  }

  /** Says something, without running yet. */
  say(id, text) {
    this.agent.addMessage(user(id, text));
  }

  /** The calls that are shown without a result, in order. */
  get openCalls() {
    const answered = new Set(this.messages.map((message) => message.toolCallId));
    return this.messages.flatMap((message) => message.toolCalls ?? []).filter((call) => !answered.has(call.id)).map((call) => call.id);
  }

  /** Carries out a call, without running yet. */
  answer(toolCallId, content, options) {
    this.agent.addMessage(result(toolCallId, content, options));
  }

  /** Says something and gets the answer. */
  async send(id, text, options) {
    this.say(id, text);
    return this.run(options);
  }

  /** Says something, which starts a run that goes on. */
  begin(id, text, options) {
    this.say(id, text);
    return this.start(options);
  }

  /** Shows the list before message `id`, says something in its place, and gets the answer. */
  async edit(id, newId, text, options) {
    this.show(...this.before(id), user(newId, text));
    return this.run(options);
  }

  /** Shows the list up to the last user message and gets another answer. */
  async regenerate(options) {
    this.show(...this.upTo(this.messages.findLast((message) => message.role === "user").id));
    return this.run(options);
  }

  /** The messages before `id`. */
  before(id) {
    return this.messages.slice(0, this.#place(id));
  }

  /** The messages up to and with `id`. */
  upTo(id) {
    return this.messages.slice(0, this.#place(id) + 1);
  }

  #place(id) {
    const place = this.messages.findIndex((message) => message.id === id);
    if (place < 0) throw new Error(`${id} isn't shown`);
    return place;
  }

  /** What the client offers as "stop": over WebSocket a frame, over HTTP it closes the connection. */
  stop() {
    this.agent.abortRun();
  }

  /** The tab is closed, also in the middle of a run. */
  async leave() {
    if (this.combination.transport === "ws") await this.agent.leave();
    else this.agent.abortRun();
  }

  /** `POST …/stop/{thread}`, of that run only when one is named: the body of the answer. */
  async postStop(runId) {
    const route = `${this.server.url}/agents/${this.agentName}/stop/${this.threadId}`;
    const response = await fetch(route, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ runId }) });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`POST …/stop: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  /** A new tab that asks for the whole conversation (`POST …/connect`) with the same client; resolves to its run once it has ended. */
  joining() {
    const { library } = this.combination;
    const url = `${this.server.url}/agents/${this.agentName}/connect`;
    const tab = Object.create(Chat.prototype, Object.getOwnPropertyDescriptors(this));
    tab.agent = httpAgent({ library, url, wire: this.wire, threadId: this.threadId });
    return tab;
  }
}

/** One run, as its client saw it. */
export class Run {
  constructor(runId) {
    this.runId = runId;
    this.events = [];
  }

  /** Waits for its end, whatever that is; resolves to the run itself. */
  async end() {
    await inTime("a run ends", this.settled);
    return this;
  }

  /** Events of that type. */
  of(type) {
    return this.events.filter((event) => event.type === type);
  }

  /** The values of CUSTOM events of that name. */
  customs(name) {
    return this.of("CUSTOM").filter((event) => event.name === name).map((event) => event.value);
  }

  /** The calls that a 1.0 client is told to carry out, once the run has ended; `undefined` to others. */
  get pending() {
    return this.of("RUN_FINISHED")[0]?.outcome?.pendingToolCallIds;
  }

  /** `"finished"`, `"cancelled"` (told so only by the 1.0 dialect), `"error: <code>"`, `"failed: <why>"` or `"running"`. */
  get outcome() {
    const terminal = this.events.find((event) => ["RUN_FINISHED", "RUN_ERROR"].includes(event.type));
    if (this.failure) return `failed: ${this.failure.message}`;
    if (!terminal) return "running";
    if (terminal.type === "RUN_ERROR") return `error: ${terminal.code}`;
    return terminal.outcome?.type === "cancelled" ? "cancelled" : "finished";
  }

  /** Of a run that was refused before it began: the code, however the transport says it. */
  get refusal() {
    if (this.failure?.payload?.error) return this.failure.payload.error;
    const [event, ...more] = this.events;
    return event?.type === "RUN_ERROR" && !more.length ? event.code : undefined;
  }
}
