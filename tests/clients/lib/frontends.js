// The front ends that people build with, as far as they run without a page: CopilotKit's core and TanStack AI's client, each with its own
// way of offering tools, carrying them out and going on. A common face for scenarios.
import { HttpAgent } from "@ag-ui/client-legacy";
import { CopilotKitCore } from "@copilotkit/core";
import { toolDefinition } from "@tanstack/ai";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { until } from "./until.js";

/** What tools take here: one place. A Standard Schema that also gives itself as JSON Schema. */
const JSON_SCHEMA = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const PLACE = {
  "~standard": {
    version: 1,
    vendor: "headwater-tests",
    validate: (value) => ({ value }),
    jsonSchema: { input: () => JSON_SCHEMA, output: () => JSON_SCHEMA },
  },
};

/** A tool that waits for a person. */
export const PERSON = Symbol("a person answers");

/** CopilotKit: tools with a handler run by themselves, and a run follows; one for a person runs until that has answered. */
export class CopilotKit {
  constructor({ url, fetch, threadId, tools }) {
    this.threadId = threadId;
    this.failures = [];
    /** How a person answers, by call. */
    this.questions = new Map();
    this.agent = new HttpAgent({ url, threadId, agentId: "bot", fetch });
    this.core = new CopilotKitCore({ agents__unsafe_dev_only: { bot: this.agent } });
    this.core.subscribe({ onError: ({ error, code }) => void (code === "tool_handler_failed" || this.failures.push(`${code}: ${error.message}`)) });
    for (const [name, handler] of Object.entries(tools)) {
      const isPersons = handler === PERSON;
      const ask = (_, { toolCall }) => new Promise((resolve) => this.questions.set(toolCall.id, resolve));
      const tool = { name, description: `What ${name} does`, parameters: PLACE, handler: isPersons ? ask : async ({ place }) => handler(place) };
      this.core.addTool(isPersons ? { ...tool, type: "human-in-the-loop" } : tool);
    }
  }

  /** Says something and waits until nothing goes on by itself any more. */
  async send(id, text) {
    this.agent.addMessage({ id, role: "user", content: text });
    await this.#run();
  }

  async #run() {
    const before = this.questions.size;
    this.running = this.core.runAgent({ agent: this.agent });
    let over = false;
    void this.running.finally(() => (over = true));
    await until("the run is over, or a person is asked", () => over || this.questions.size > before);
  }

  /** A person answers a call. */
  async answer(toolCallId, content) {
    this.questions.get(toolCallId)(content);
    await this.running;
  }

  /** The list up to the last message of the person, once more. */
  async regenerate() {
    const { messages } = this.agent;
    this.agent.setMessages(messages.slice(0, messages.findLastIndex(({ role }) => role === "user") + 1));
    await this.#run();
  }

  /** What it shows, as lines. */
  get lines() {
    return this.agent.messages.filter(({ role, content }) => role !== "tool" && content).map(({ role, content }) => `${role}: ${content}`);
  }
}

/** TanStack AI: its page carries out calls that came without a result, and tells the client. */
export class TanStack {
  constructor({ url, fetch, threadId, tools }) {
    this.threadId = threadId;
    this.failures = [];
    this.tools = tools;
    const declared = Object.keys(tools).map((name) => toolDefinition({ name, description: `What ${name} does`, inputSchema: JSON_SCHEMA }).client());
    const onError = (error) => void this.failures.push(error.message);
    this.client = new ChatClient({ connection: fetchServerSentEvents(url, { fetchClient: fetch }), tools: declared, threadId, onError });
  }

  async send(id, text) {
    await this.client.sendMessage({ id, content: text });
    await this.carryOut();
  }

  async carryOut() {
    for (;;) {
      const calls = this.openCalls().filter((call) => typeof this.tools[call.name] === "function");
      if (!calls.length) return;
      for (const call of calls) {
        const { output, errorText } = attempt(() => this.tools[call.name](call.input.place));
        await this.client.addToolResult({ toolCallId: call.id, tool: call.name, output, ...(errorText && { state: "output-error", errorText }) });
      }
    }
  }

  async answer(toolCallId, content) {
    const call = this.openCalls().find(({ id }) => id === toolCallId);
    await this.client.addToolResult({ toolCallId, tool: call.name, output: content });
  }

  async regenerate() {
    await this.client.reload();
    await this.carryOut();
  }

  openCalls() {
    const parts = this.client.getMessages().flatMap((message) => message.parts);
    const answered = new Set(parts.filter(({ type }) => type === "tool-result").map((part) => part.toolCallId));
    return parts.filter(({ type, id }) => type === "tool-call" && !answered.has(id));
  }

  get lines() {
    const text = (message) => message.parts.filter(({ type }) => type === "text").map((part) => part.content).join("");
    return this.client.getMessages().filter((message) => text(message)).map((message) => `${message.role}: ${text(message)}`);
  }
}

function attempt(run) {
  try {
    return { output: run() };
  } catch (error) {
    return { output: null, errorText: error.message };
  }
}
