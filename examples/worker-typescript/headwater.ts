/**
 * Write an agent for Headwater in TypeScript: what its turns do next, and its tools.
 *
 * One file; copy it beside your agent. Node 20 or later; nothing else is needed over HTTP, the package `ws` over a socket.
 *
 *     import { Agent, s } from "./headwater.js";
 *
 *     const agent = new Agent("bot");
 *     agent.tool("weather", { description: "Weather of a city.", parameters: { city: s.string() }, idempotent: true }, ({ city }) => `It rains in ${city}.`);
 *
 *     await agent.serve({ port: 9000 });                             // Headwater asks over HTTP, or
 *     await agent.connect("ws://127.0.0.1:8080/v1/worker");          // this program dials in
 *
 * Whatever a handler says nothing about is done as Headwater proposes it. What is asked comes at least once: an attempt that comes again
 * is answered as before, and of one that still runs the answer is awaited.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { isIP } from "node:net";
import type { AddressInfo } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { WebSocket } from "ws";

// ---- what is asked, and what may be answered -------------------------------------------------------------------------------------------

/** What JSON can say. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined };
export type JsonObject = { [name: string]: Json | undefined };

/** A message, as a model reads it. */
export interface Message {
  id?: string;
  role: "user" | "assistant" | "tool" | "system" | "developer" | "activity";
  content?: Json;
  tool_calls?: { id: string; type?: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
  error?: string;
  [more: string]: Json | undefined;
}

/** A tool, as Headwater is told of it. */
export interface ServerTool {
  name: string;
  description?: string;
  parameters?: JsonObject;
  by?: "worker" | "outside";
  idempotent?: boolean;
  attempts?: number;
  attempt_secs?: number;
  bad_arguments?: "refuse" | "ask";
}

/** Something that only a person, or somebody outside, can go on with. */
export interface Interrupt {
  id: string;
  reason: string;
  message?: string;
  tool_call_id?: string;
  payload?: Json;
  response_schema?: Json;
  expires_at?: string;
  metadata?: Json;
}

/** An interrupt that was answered. */
export interface Resumed {
  interrupt_id: string;
  status: "resolved" | "cancelled";
  payload?: Json;
  interrupt: Interrupt;
}

/** Whether somebody answered `true` or `{approved: true}`. */
export function isApproved({ status, payload }: Resumed): boolean {
  const said = typeof payload === "object" && payload !== null && !Array.isArray(payload) ? payload.approved : payload;
  return status === "resolved" && said === true;
}

/** A model call that waits for room. */
export interface HeldCall {
  id: string;
  llm: string;
  request: JsonObject;
  stream: boolean;
}

/** What a front end sent besides messages. */
export interface Client {
  tools?: Json;
  context?: Json;
  state?: Json;
  forwarded_props?: Json;
}

/** What happened, by its type. */
export interface Triggers {
  "client.messages": { new_from: number; client: Client };
  "client.action": { name: string; args?: Json; client: Client };
  "llm.finished": { id: string; ok: boolean; message?: Message; usage?: JsonObject; truncated: boolean; error?: { code: string; message: string }; hidden: boolean; held?: HeldCall };
  "tool.execute": { id: string; name: string; arguments: string; input: { valid?: Json; invalid?: { value: Json; errors: string[] }; malformed?: string }; attempt: number; key: string };
  "tool.finished": { id: string; ok: boolean; name: string; result?: Json; error?: string };
  "context.limit": { reason: "idle" | "full" | "overflow"; strategy?: string; tokens: number; window?: number; call: HeldCall };
  "interrupt.resumed": { interrupts: Resumed[] };
  "turn.finished": { usage?: JsonObject[] };
}
export type TriggerType = keyof Triggers;
export type Trigger<T extends TriggerType = TriggerType> = { [K in T]: { type: K } & Triggers[K] }[T];

/** Something to do. */
export type Action =
  | { type: "llm.call"; id?: string; llm?: string; model?: string; messages?: Message[]; tools?: Json; temperature?: number; max_tokens?: number; reasoning?: Json; stream?: boolean }
  | { type: "tool.call"; id: string }
  | { type: "tool.result"; id?: string; content: Json }
  | { type: "tool.error"; id?: string; error: string; retryable?: boolean }
  | { type: "interrupt"; id?: string; reason: string; message?: string; tool_call_id?: string; payload?: Json; response_schema?: Json; expires_at?: string; metadata?: Json }
  | { type: "interrupt.resolve"; interrupt_id: string; payload?: Json }
  | { type: "context.replace"; summary?: string; messages?: Message[] }
  | { type: "custom"; name: string; value: Json }
  | { type: "activity"; id?: string; activity_type: string; content: JsonObject }
  | { type: "message.send"; session_id: string; message: Message }
  | { type: "sub_agent.spawn"; agent_id: string; [more: string]: Json | undefined }
  | { type: "done"; data?: Json };

/** What is done. An empty one does nothing. */
export interface Answer {
  messages?: Message[];
  actions?: Action[];
  state?: Json;
  state_patch?: Json;
  agent?: AgentChanges;
}

/** What of the agent's configuration is set for this branch; null takes one back. */
export interface AgentChanges {
  system?: string | null;
  llm?: string | null;
  model?: string | null;
  tools?: ServerTool[] | null;
}

/** One attempt of a decision, as it is asked. */
export interface Request<T extends TriggerType = TriggerType> {
  session_id: string;
  decision_id: string;
  agent_id: string;
  turn_id: string;
  trigger: Trigger<T>;
  proposed?: Answer;
  state?: Json;
  agent?: { system?: string; llm?: string; model?: string; tools?: ServerTool[] };
  messages?: Message[];
  calls?: { id: string; function: { name: string; arguments: string } }[];
  pending_calls?: string[];
  attempt?: number;
  deadline?: number;
}

/** A tool call of the last reply. */
export interface Call {
  id: string;
  name: string;
  /** As the model wrote them. */
  arguments: string;
  /** The same, read; empty when they are no object. */
  input: JsonObject;
  /** Whether it has no result yet. */
  pending: boolean;
  /** Its result, once it has one. */
  result: Message | undefined;
  /** Whether it ended well. */
  ok: boolean;
}

/** One attempt of a tool call. */
export interface ToolRun {
  id: string;
  name: string;
  attempt: number;
  /** The same at each attempt of this call and at no other's: what was done under it needn't be done again. */
  key: string;
  /** A result that comes later may be too late. */
  deadline: Date;
  sessionId: string;
  turnId: string;
  /** As it was when the call began. Changes of it are not kept. */
  state: Json | undefined;
  request: Request<"tool.execute">;
}

/** A tool failed; the model reads why. `retryable` says that nothing was done, so that it may be tried again. */
export class ToolError extends Error {
  override name = "ToolError";
  readonly retryable: boolean;

  constructor(message: string, { retryable = false } = {}) {
    super(message);
    this.retryable = retryable;
  }
}

/** Headwater won't have this worker: the token is wrong, or the agent's worker isn't of kind `socket`. */
export class Refused extends Error {
  override name = "Refused";
}

/** A request isn't from who has the secret, or isn't from now. */
export class BadSignature extends Error {
  override name = "BadSignature";
}

// ---- a turn ----------------------------------------------------------------------------------------------------------------------------

/** Actions beside which what is proposed is done nevertheless. */
const NOTES: string[] = ["custom", "activity", "message.send"];

/**
 * A turn at the moment when something happened: what is known, and what is done about it.
 *
 * A handler that adds no action leaves it at what is proposed. One that adds actions decides: they are done instead.
 */
export class Turn<State = JsonObject, T extends TriggerType = TriggerType> {
  readonly sessionId: string;
  readonly turnId: string;
  readonly agentId: string;
  readonly decisionId: string;
  readonly attempt: number;
  readonly deadline: Date;
  readonly trigger: Trigger<T>;
  readonly proposed: Answer;
  readonly messages: Message[];
  readonly calls: Call[];
  /** The state of this branch. Change it, or put another in its place: what it is at the end is kept. */
  state: State;
  readonly #says: Message[] = [];
  readonly #actions: Action[] = [];
  readonly #agent: AgentChanges = {};

  /** `signal` says when nobody wants the answer any more. */
  constructor(readonly request: Request<T>, readonly signal: AbortSignal = new AbortController().signal) {
    this.sessionId = request.session_id;
    this.turnId = request.turn_id;
    this.agentId = request.agent_id;
    this.decisionId = request.decision_id;
    this.attempt = request.attempt ?? 1;
    this.deadline = new Date(request.deadline ?? 0);
    this.trigger = request.trigger;
    this.proposed = request.proposed ?? {};
    this.messages = request.messages ?? [];
    const pending = new Set(request.pending_calls);
    this.calls = (request.calls ?? []).map(({ id, function: { name, arguments: text } }) => {
      const result = this.messages.find((message) => message.role === "tool" && message.tool_call_id === id);
      return { id, name, arguments: text, input: read(text), pending: pending.has(id), result, ok: result !== undefined && !result.error };
    });
    this.state = structuredClone(request.state ?? {}) as State;
  }

  /** What the person said last. */
  get text(): string {
    return textOf(this.messages.findLast((message) => message.role === "user"));
  }

  /** The tool calls of the last reply that have no result yet. */
  get pending(): Call[] {
    return this.calls.filter((call) => call.pending);
  }

  /** Puts a message of the assistant on the path. */
  say(said: string | Message): this {
    this.#says.push(typeof said === "string" ? { role: "assistant", content: said } : said);
    return this;
  }

  /** Adds an action of any type. */
  act(action: Action): this {
    this.#actions.push(action);
    return this;
  }

  /** Adds the actions that are proposed: for handlers that add others beside them. */
  accept(): this {
    this.#actions.push(...(this.proposed.actions ?? []));
    return this;
  }

  /** Calls a model: with `messages` instead of the conversation; what isn't said is as configured. */
  callModel(options: Fields<"llm.call"> = {}): this {
    return this.act({ type: "llm.call", ...options });
  }

  /** Has a call of the reply carried out, by whom it is for. */
  callTool(call: Call | string): this {
    return this.act({ type: "tool.call", id: idOf(call) });
  }

  /** Gives the result of a call oneself. */
  toolResult(call: Call | string, result: unknown): this {
    return this.act({ type: "tool.result", id: idOf(call), content: contentOf(result) });
  }

  /** Lets a call fail; the model reads why. */
  toolError(call: Call | string, error: string): this {
    return this.act({ type: "tool.error", id: idOf(call), error });
  }

  /** Pauses the turn until a person, or somebody outside, has answered. */
  interrupt({ call, ...fields }: Fields<"interrupt"> & { call?: Call | string }): this {
    return this.act({ type: "interrupt", ...fields, ...(call !== undefined && { tool_call_id: idOf(call) }) });
  }

  /** Answers an interrupt oneself. */
  resolve(interruptId: string, payload?: Json): this {
    return this.act({ type: "interrupt.resolve", interrupt_id: interruptId, ...(payload !== undefined && { payload }) });
  }

  /** Gives the model another history; people go on seeing theirs. */
  replace(history: Fields<"context.replace">): this {
    return this.act({ type: "context.replace", ...history });
  }

  /** Tells the application something; no model reads it, and what is proposed is done. */
  custom(name: string, value: Json): this {
    return this.act({ type: "custom", name, value });
  }

  /** Puts an activity on the path; what is proposed is done. */
  activity(activityType: string, content: JsonObject, id?: string): this {
    return this.act({ type: "activity", activity_type: activityType, content, ...(id !== undefined && { id }) });
  }

  /** Says something in another session; what is proposed here is done. */
  send(sessionId: string, message: Message): this {
    return this.act({ type: "message.send", session_id: sessionId, message });
  }

  /** Has another agent do something. */
  spawn(agentId: string, fields: JsonObject = {}): this {
    return this.act({ type: "sub_agent.spawn", agent_id: agentId, ...fields });
  }

  /** Ends the turn. */
  done(data?: Json): this {
    return this.act({ type: "done", ...(data !== undefined && { data }) });
  }

  /** Sets system, llm, model or tools for this branch; null takes one back. */
  configure(changes: AgentChanges): this {
    Object.assign(this.#agent, changes);
    return this;
  }

  /** What comes of it, with what the handler gave back: nothing, a text (say it and end), or a whole answer. */
  answer(said?: Said): Answer {
    if (typeof said === "string") this.say(said).done();
    const answer: Answer = { ...(typeof said === "object" && !("decisionId" in said) ? said : this.proposed) };
    if (this.#says.length) answer.messages = [...(answer.messages ?? []), ...this.#says];
    if (this.#actions.length) {
      const decides = this.#actions.some(({ type }) => !NOTES.includes(type));
      answer.actions = decides ? this.#actions : [...this.#actions, ...(answer.actions ?? [])];
    }
    if (Object.keys(this.#agent).length) answer.agent = { ...answer.agent, ...this.#agent };
    if (!isDeepStrictEqual(this.state, this.request.state ?? {})) {
      answer.state = (this.state ?? {}) as Json;
      delete answer.state_patch;
    }
    return answer;
  }
}

type Fields<T extends Action["type"]> = Omit<Extract<Action, { type: T }>, "type">;

/** What a handler gives back: nothing or the turn, a text, or a whole answer. */
export type Said = void | undefined | string | Answer | { readonly decisionId: string };
export type Handler<State, T extends TriggerType> = (turn: Turn<State, T>) => Said | Promise<Said>;

function read(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text || "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
  } catch {
    return {};
  }
}

const idOf = (call: Call | string): string => (typeof call === "string" ? call : call.id);

function textOf(message: Message | undefined): string {
  const content = message?.content;
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  const parts = content as { type?: string; text?: string }[];
  return parts.map((part) => (part?.type === "text" ? (part.text ?? "") : "")).join("");
}

/** A result: a text as it is, anything else as JSON. */
const contentOf = (result: unknown): string => (typeof result === "string" ? result : (JSON.stringify(result) ?? ""));

// ---- tools -----------------------------------------------------------------------------------------------------------------------------

/** A JSON Schema that knows the type of what fits it. */
export interface Schema<T> {
  readonly json: JsonObject;
  /** Only for the compiler. */
  readonly fits?: T;
}
/** The same, of something that may be left out. */
export interface Optional<T> extends Schema<T> {
  readonly optional: true;
}
export type Properties = { [name: string]: Schema<unknown> };
export type Of<P extends Properties> = { [K in keyof P as P[K] extends Optional<unknown> ? never : K]: Fit<P[K]> } & { [K in keyof P as P[K] extends Optional<unknown> ? K : never]?: Fit<P[K]> };
type Fit<S> = S extends Schema<infer T> ? T : never;

const plain =
  <T>(type: string) =>
  (description?: string, more: JsonObject = {}): Schema<T> => ({ json: { type, ...(description !== undefined && { description }), ...more } });

function objectOf<P extends Properties>(properties: P, description?: string): Schema<Of<P>> {
  const required = Object.keys(properties).filter((name) => !("optional" in (properties[name] ?? {})));
  const json = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, schema.json]));
  return { json: { type: "object", ...(description !== undefined && { description }), properties: json, additionalProperties: false, ...(required.length && { required }) } };
}

/** Schemas of a tool's parameters; the function gets them with their types. */
export const s = {
  string: plain<string>("string"),
  integer: plain<number>("integer"),
  number: plain<number>("number"),
  boolean: plain<boolean>("boolean"),
  /** One of these values. */
  oneOf: <const V extends readonly (string | number)[]>(values: V, description?: string): Schema<V[number]> => ({ json: { enum: [...values], ...(description !== undefined && { description }) } }),
  list: <T>(items: Schema<T>, description?: string): Schema<T[]> => ({ json: { type: "array", ...(description !== undefined && { description }), items: items.json } }),
  object: objectOf,
  nullable: <T>(schema: Schema<T>): Schema<T | null> => ({ json: { anyOf: [schema.json, { type: "null" }] } }),
  optional: <T>(schema: Schema<T>): Optional<T> => ({ json: schema.json, optional: true }),
  /** Any other schema, of a type that is said. */
  json: <T = Json>(json: JsonObject): Schema<T> => ({ json }),
};

/** What is said of a tool besides its function. */
export interface ToolOptions<P extends Properties> {
  description: string;
  parameters?: P;
  /** Whether a call may be carried out twice. */
  idempotent?: boolean;
  /** Attempts of a call. */
  attempts?: number;
  /** How long one may take. */
  attempt_secs?: number;
}

interface Tool {
  declared: ServerTool;
  run: (input: never, run: ToolRun) => unknown;
}

// ---- signatures ------------------------------------------------------------------------------------------------------------------------

/** A request may be so old, or so far ahead. */
const TOLERANCE_SECS = 300;

/** Checks a signature as Standard Webhooks defines it; gives the request's id. While secrets change, either may have signed. */
export function verify(secrets: string | string[], headers: Headers, body: Uint8Array, now = Date.now() / 1000): string {
  const header = (name: string): string => String(headers[`webhook-${name}`] ?? "");
  const [id, timestamp, signatures] = [header("id"), header("timestamp"), header("signature")];
  if (!id || !timestamp || !signatures) throw new BadSignature("the request isn't signed");
  if (!/^[0-9]{1,15}$/.test(timestamp)) throw new BadSignature("webhook-timestamp is no time");
  if (Math.abs(now - Number(timestamp)) > TOLERANCE_SECS) throw new BadSignature("the request is too old, or a clock is wrong");
  const given = signatures.split(" ").filter((one) => one.startsWith("v1,")).map((one) => Buffer.from(one.slice(3)));
  let fits = false;
  for (const secret of [secrets].flat()) {
    const signed = Buffer.from(createHmac("sha256", keyOf(secret)).update(`${id}.${timestamp}.`).update(body).digest("base64"));
    // All are compared, however early one fits.
    for (const one of given) fits = (one.length === signed.length && timingSafeEqual(one, signed)) || fits;
  }
  if (!fits) throw new BadSignature("no signature fits the secret");
  return id;
}

/** Headers by their names in lower case, as node has them. */
export type Headers = Record<string, string | string[] | undefined>;

function keyOf(secret: string): Buffer {
  if (!secret.startsWith("whsec_")) return Buffer.from(secret);
  const text = secret.slice("whsec_".length);
  const key = Buffer.from(text, "base64");
  if (!key.length || key.toString("base64").replace(/=+$/, "") !== text.replace(/=+$/, "")) throw new Error("a secret begins with whsec_ and isn't base64 after that");
  return key;
}

// ---- the agent -------------------------------------------------------------------------------------------------------------------------

/** Where lines about what is done go; no contents are in them. */
export interface Log {
  info(line: string): void;
  warn(line: string): void;
  error(line: string): void;
}

const toStandardError = (level: string) => (line: string) => void process.stderr.write(`${new Date().toISOString()} ${level} headwater: ${line}\n`);
const STANDARD_ERROR: Log = { info: toStandardError("INFO"), warn: toStandardError("WARN"), error: toStandardError("ERROR") };

export interface AgentOptions {
  /** Whether Headwater is told of the tools (instead of those in its configuration); it is, unless this is false. */
  declare?: boolean;
  log?: Log;
}

export interface HttpOptions {
  port?: number;
  host?: string;
  /** What requests are signed with. */
  secret?: string | undefined;
  /** While secrets change: they may be signed with this one, too. */
  oldSecret?: string | undefined;
  /** Decisions at once. */
  most?: number;
  /** How long it waits for those that run when it is stopped. */
  graceMs?: number;
}

export interface SocketOptions {
  /** For which of the agents; for all, unless this says it. */
  agents?: readonly string[];
  token?: string | undefined;
  /** Decisions at once. */
  credit?: number;
  /** What Headwater's logs call this worker. */
  name?: string;
  graceMs?: number;
}

/** A worker that runs. */
export interface Running {
  readonly url: string;
  /** Ends when it is stopped; fails when it isn't let in. */
  readonly ended: Promise<void>;
  /** Takes nothing new, answers what it has, and goes. */
  stop(): Promise<void>;
}

/** What asks of an agent, whatever its state is. */
type Asked = Pick<Agent<unknown>, "ids" | "log" | "answer" | "receive" | "refusal" | "giveUp" | "drained">;

/** An agent, or several that share this program (`new Agent(["bot", "cat"])`): its handlers and its tools. */
export class Agent<State = JsonObject> {
  readonly ids: readonly string[];
  readonly log: Log;
  readonly #declares: boolean;
  readonly #handlers = new Map<string, Handler<State, never>>();
  readonly #tools = new Map<string, Tool>();
  readonly #once = new Once();

  constructor(ids: string | readonly string[], { declare = true, log = STANDARD_ERROR }: AgentOptions = {}) {
    this.ids = [ids].flat();
    if (!this.ids.length) throw new Error("an agent has a name: the one in Headwater's configuration");
    this.#declares = declare;
    this.log = log;
  }

  /** Decides what is done when something of that type happened. */
  on<T extends TriggerType>(type: T, handler: Handler<State, T>): this {
    if (this.#handlers.has(type)) throw new Error(`${type} has a handler already`);
    this.#handlers.set(type, handler as unknown as Handler<State, never>);
    return this;
  }

  /** Messages came, and a turn began. */
  onMessages = (handler: Handler<State, "client.messages">): this => this.on("client.messages", handler);
  /** A model call ended. */
  onReply = (handler: Handler<State, "llm.finished">): this => this.on("llm.finished", handler);
  /** The last result of a reply's tool calls came. */
  onResults = (handler: Handler<State, "tool.finished">): this => this.on("tool.finished", handler);
  /** A model call waits: there is no room for it in the context window. */
  onLimit = (handler: Handler<State, "context.limit">): this => this.on("context.limit", handler);
  /** All that paused the turn was answered. */
  onResume = (handler: Handler<State, "interrupt.resumed">): this => this.on("interrupt.resumed", handler);
  /** The front end asks for something that isn't a message. */
  onAction = (handler: Handler<State, "client.action">): this => this.on("client.action", handler);
  /** The turn is about to end well. Asked only when the worker's `triggers` in the configuration say so. */
  onFinish = (handler: Handler<State, "turn.finished">): this => this.on("turn.finished", handler);

  /** A function that the model may call, with what the model is told of it. Its first parameter has the types that `parameters` say. */
  tool<P extends Properties = {}>(name: string, options: ToolOptions<P>, run: (input: Of<P>, run: ToolRun) => unknown): this {
    if (this.#tools.has(name)) throw new Error(`there are two tools ${name}`);
    const { parameters = {} as P, ...said } = options;
    this.#tools.set(name, { declared: { name, ...said, parameters: objectOf(parameters).json }, run: run as Tool["run"] });
    return this;
  }

  /** What Headwater is told of the tools. */
  get tools(): ServerTool[] {
    return [...this.#tools.values()].map(({ declared }) => declared);
  }

  /** Answers one request, whether or not it came before. */
  async decide(request: Request, signal?: AbortSignal): Promise<Answer> {
    if (request.trigger.type === "tool.execute") return this.#execute(request as Request<"tool.execute">);
    const turn = new Turn<State>(request, signal);
    if (turn.trigger.type === "client.messages") this.#declare(turn);
    const handler = this.#handlers.get(turn.trigger.type) as Handler<State, TriggerType> | undefined;
    return turn.answer(await handler?.(turn));
  }

  /** Tells Headwater of the tools, where it doesn't know them yet: what is told holds for the branch. */
  #declare(turn: Turn<State>): void {
    const known = turn.request.agent?.tools;
    if (!this.#declares || !this.#tools.size || (known && isWithin(this.tools, known))) return;
    turn.configure({ tools: this.tools });
  }

  async #execute(request: Request<"tool.execute">): Promise<Answer> {
    const { id, name, input, attempt, key } = request.trigger;
    const failed = (error: string, retryable = false): Answer => ({ actions: [{ type: "tool.error", id, error, ...(retryable && { retryable }) }] });
    const tool = this.#tools.get(name);
    if (!tool) return failed(`this agent's worker has no tool ${name}`);
    if (input?.valid === undefined) {
      const wrong = input?.invalid?.errors ?? [input?.malformed ?? "they are no JSON"];
      return failed(`the arguments aren't as they should be: ${wrong.join("; ")}`);
    }
    const run: ToolRun = { id, name, attempt, key, deadline: new Date(request.deadline ?? 0), sessionId: request.session_id, turnId: request.turn_id, state: request.state, request };
    try {
      const content = contentOf(await tool.run((input.valid ?? {}) as never, run));
      return { actions: [{ type: "tool.result", id, content }] };
    } catch (error) {
      if (error instanceof ToolError) return failed(error.message, error.retryable);
      this.#tell(error, `the tool ${name}`);
      // What went wrong may hold what no model should read.
      return failed(`the tool failed (${kindOf(error)})`, tool.declared.idempotent);
    }
  }

  /** Answers one request; one that came before is answered as before. */
  async answer(request: Request): Promise<Answer> {
    const what = `${request.trigger.type} (${request.decision_id}, attempt ${request.attempt ?? 1})`;
    const began = performance.now();
    try {
      const answer = await this.#once.answer(request, (signal) => this.decide(request, signal));
      const done = answer.actions?.map(({ type }) => type).join(", ") || "nothing";
      this.log.info(`${what}: ${done}, in ${Math.round(performance.now() - began)} ms`);
      return answer;
    } catch (error) {
      this.#tell(error, what);
      throw error;
    }
  }

  /** Nobody wants an answer any more. */
  giveUp(decisionId: string): void {
    this.#once.giveUp(decisionId);
  }

  /** Ends when nothing runs any more, or when it took too long. */
  async drained(graceMs: number): Promise<void> {
    const running = this.#once.running;
    if (!running.length) return;
    this.log.info(`${running.length} decisions are still being made`);
    await Promise.race([Promise.allSettled(running), pause(graceMs)]);
  }

  /** Where something failed, and of what kind; what it says may be a person's. */
  #tell(error: unknown, what: string): void {
    const stack = error instanceof Error ? (error.stack ?? "") : "";
    const where = /^ +at (.*)$/m.exec(stack)?.[1] ?? "?";
    this.log.error(`${what} failed: ${kindOf(error)} at ${where}`);
  }

  /** Why something is no request to this agent. */
  refusal(request: unknown): Reply | undefined {
    const { trigger, decision_id: id, agent_id: agent } = (typeof request === "object" && request !== null ? request : {}) as { trigger?: { type?: unknown }; decision_id?: unknown; agent_id?: unknown };
    if (typeof trigger?.type !== "string") return { status: 400, body: { error: "bad_request", message: "this is no decision: it has no trigger with a type" } };
    if (typeof id !== "string") return { status: 400, body: { error: "bad_request", message: "this is no decision: it has no decision_id" } };
    if (!this.ids.includes(agent as string)) return { status: 404, body: { error: "agent_not_found", message: `this worker decides for ${this.ids.join(", ")}` } };
    return undefined;
  }

  /** Answers one HTTP request: the status and the body. For who has a server already. */
  async receive(headers: Headers, body: Uint8Array, secrets: string[] = []): Promise<Reply> {
    let request: unknown;
    try {
      if (secrets.length) verify(secrets, headers, body);
      request = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    } catch (error) {
      if (!(error instanceof BadSignature)) return { status: 400, body: { error: "bad_json", message: "the body is no JSON" } };
      this.log.warn(`a request was refused: ${error.message}`);
      return { status: 401, body: { error: "unauthorized", message: error.message } };
    }
    const refused = this.refusal(request);
    if (refused) return refused;
    try {
      return { status: 200, body: await this.answer(request as Request) };
    } catch (error) {
      return { status: 500, body: { error: "worker_failed", message: `the handler failed (${kindOf(error)})` } };
    }
  }

  /** Is asked over HTTP, until the process is told to stop. */
  async serve(options: HttpOptions = {}): Promise<void> {
    await untilStopped(await this.listen(options), this.log);
  }

  /** The same inside a program that goes on. */
  async listen(options: HttpOptions = {}): Promise<Running> {
    return listen(this, options);
  }

  /** Dials in over a WebSocket, again and again, until the process is told to stop. */
  async connect(url: string, options: SocketOptions = {}): Promise<void> {
    await untilStopped(this.dial(url, options), this.log);
  }

  /** The same inside a program that goes on. */
  dial(url: string, options: SocketOptions = {}): Running {
    return new Dialler(this, url, options);
  }
}

/** What a request is answered with. */
export interface Reply {
  status: number;
  body: object;
}

const kindOf = (error: unknown): string => (error instanceof Error ? error.constructor.name : typeof error);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref());

/** Whether all that is wanted is given; what is false may be left out. */
function isWithin(wanted: unknown, given: unknown): boolean {
  if (Array.isArray(wanted) && Array.isArray(given)) return wanted.length === given.length && wanted.every((one, at) => isWithin(one, given[at]));
  if (typeof wanted !== "object" || wanted === null || typeof given !== "object" || given === null) return wanted === given;
  return Object.entries(wanted).every(([name, value]) => value === undefined || isWithin(value, (given as JsonObject)[name] ?? (value === false ? false : undefined)));
}

/** A decision that was asked. */
interface Known {
  request: Request;
  attempt: number;
  answer: Promise<Answer>;
  /** Once it is there. */
  made?: Answer;
  size: number;
  aborter: AbortController;
}

/** So many answers are kept, and so many characters of them. */
const KEPT_MAX = 512;
const KEPT_CHARS_MAX = 32 << 20;

/** Each attempt is decided once, however often it is asked. */
class Once {
  /** The oldest first. */
  readonly #known = new Map<string, Known>();
  #size = 0;

  answer(request: Request, decide: (signal: AbortSignal) => Promise<Answer>): Promise<Answer> {
    const key = JSON.stringify([request.session_id, request.decision_id]);
    const before = this.#known.get(key);
    const holds = before && this.#holds(before, request.attempt ?? 1);
    const known = holds ? before : this.#begin(key, request, decide);
    this.#known.delete(key);
    this.#known.set(key, known);
    return known.answer;
  }

  /** Whether that attempt has the same answer: this one runs still, it is the same, or the tool has been carried out. */
  #holds(known: Known, attempt: number): boolean {
    if (!known.made || attempt <= known.attempt) return true;
    return isTool(known.request) && (known.made.actions ?? []).some(({ type }) => type === "tool.result");
  }

  #begin(key: string, request: Request, decide: (signal: AbortSignal) => Promise<Answer>): Known {
    this.#forget(key);
    const aborter = new AbortController();
    const known: Known = { request, attempt: request.attempt ?? 1, answer: decide(aborter.signal), size: 0, aborter };
    known.answer = known.answer.then(
      (answer) => {
        // Now, so that what can't be written fails here.
        known.size = JSON.stringify(answer).length;
        known.made = answer;
        if (this.#known.get(key) === known) this.#trim(known.size);
        return answer;
      },
    );
    known.answer.catch(() => {
      // The next one tries again.
      if (this.#known.get(key) === known) this.#forget(key);
    });
    return known;
  }

  /** One whose time is over goes on for the next attempt, and a tool goes on in any case. */
  giveUp(decisionId: string): void {
    for (const [key, known] of this.#known) {
      const { request } = known;
      if (request.decision_id !== decisionId || known.made || isTool(request) || Date.now() >= (request.deadline ?? 0)) continue;
      known.aborter.abort();
      this.#forget(key);
    }
  }

  get running(): Promise<Answer>[] {
    return [...this.#known.values()].filter(({ made }) => !made).map(({ answer }) => answer);
  }

  #trim(more: number): void {
    this.#size += more;
    for (const [key, known] of this.#known) {
      if (this.#known.size <= KEPT_MAX && this.#size <= KEPT_CHARS_MAX) return;
      if (known.made) this.#forget(key);
    }
  }

  #forget(key: string): void {
    const known = this.#known.get(key);
    if (known?.made) this.#size -= known.size;
    this.#known.delete(key);
  }
}

const isTool = (request: Request): boolean => request.trigger.type === "tool.execute";

/** Until SIGINT or SIGTERM; then what runs is answered. */
async function untilStopped(running: Running, log: Log): Promise<void> {
  const stop = (): void => void running.stop();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
  try {
    await running.ended;
    log.info("stopped");
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, stop);
  }
}

// ---- over HTTP -------------------------------------------------------------------------------------------------------------------------

/** A larger request is refused. */
const BODY_BYTES_MAX = 64 << 20;

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));

async function listen(agent: Asked, options: HttpOptions): Promise<Running> {
  const { port = 9000, host = "127.0.0.1", secret, oldSecret, most = 64, graceMs = 20_000 } = options;
  const secrets = [secret, oldSecret].filter((one) => one !== undefined && one !== "") as string[];
  secrets.forEach(keyOf);
  if (!secrets.length && !isLoopback(host)) throw new Error("who listens for other machines needs a secret: anybody could ask");
  const places = new Places(most, most * 16);
  let isStopping = false;

  const server = createServer((request, response) => {
    handle(request, response).catch(() => void response.destroy());
  });
  // Longer than those who ask keep a connection that they don't use.
  server.keepAliveTimeout = 90_000;
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const reply = await receive(request);
    const text = JSON.stringify(reply.body);
    if (isStopping || !request.complete) response.setHeader("connection", "close");
    if (reply.status === 503) response.setHeader("retry-after", "1");
    response.writeHead(reply.status, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
    response.end(text);
  };
  const receive = async (request: IncomingMessage): Promise<Reply> => {
    if (request.method !== "POST") return { status: 405, body: { error: "method_not_allowed", message: "decisions are POSTed" } };
    const body = await bodyOf(request);
    if (!body) return { status: 413, body: { error: "body_too_large", message: `${BODY_BYTES_MAX} bytes are allowed` } };
    if (isStopping || !places.take) return { status: 503, body: { error: "busy", message: "ask again in a moment" } };
    return places.with(() => agent.receive(request.headers, body, secrets));
  };

  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  const url = `http://${host}:${(server.address() as AddressInfo).port}`;
  agent.log.info(`${agent.ids.join(", ")} is asked at ${url}${secrets.length ? "" : " (requests needn't be signed)"}`);
  const closed = new Promise<void>((resolve) => server.once("close", resolve));
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    isStopping = true;
    server.close();
    await agent.drained(graceMs);
    // What was answered just now is still being written.
    await Promise.race([closed, pause(1000)]);
    server.closeAllConnections();
    await closed;
  };
  return { url, ended: closed, stop: () => (stopping ??= stop()) };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  if (Number(request.headers["content-length"] ?? 0) > BODY_BYTES_MAX) return undefined;
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > BODY_BYTES_MAX) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** So many at once; others wait, and not too many of them. */
class Places {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(most: number, readonly waitingMax: number) {
    this.#free = most;
  }

  /** Whether one more may wait. */
  get take(): boolean {
    return this.#waiting.length < this.waitingMax;
  }

  async with<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

// ---- over a socket ---------------------------------------------------------------------------------------------------------------------

/** Between two attempts to connect: at first, and at most. */
const PAUSE_MS = [250, 15_000] as const;
/** Closed with one of these, it won't be let in next time either. */
const FOR_GOOD = [4001, 4003];
/** A server that says nothing for so long is gone. */
const SILENT_MS = 40_000;

type Frame =
  | { type: "welcome" }
  | { type: "decision"; decision: Request }
  | { type: "cancelled"; decision_id: string }
  | { type: "refused"; decision_id: string; error: string; message: string; at?: string }
  | { type: "error"; error: string; message: string }
  | { type: "answered" | "pong" };

class Dialler implements Running {
  readonly ended: Promise<void>;
  readonly #hello: JsonObject;
  readonly #graceMs: number;
  readonly #deciding = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #pauseMs: number = PAUSE_MS[0];
  #socket: WebSocket | undefined;

  constructor(readonly agent: Asked, readonly url: string, { agents = agent.ids, token, credit = 16, name, graceMs = 20_000 }: SocketOptions) {
    this.#hello = { type: "hello", agent_ids: [...agents], credit, ...(token && { token }), ...(name && { name }) };
    this.#graceMs = graceMs;
    this.ended = this.#run();
    // Who only stops it needn't look at how it ended.
    this.ended.catch(() => {});
  }

  async stop(): Promise<void> {
    if (!this.#stopping.signal.aborted) {
      this.#stopping.abort();
      const socket = this.#socket;
      if (socket) {
        this.#say(socket, { type: "credit", credit: 0 });
        await Promise.race([Promise.all(this.#deciding), pause(this.#graceMs)]);
        socket.close(1000);
        const timer = setTimeout(() => socket.terminate(), 1000);
        socket.once("close", () => clearTimeout(timer));
      }
    }
    await this.ended;
  }

  async #run(): Promise<void> {
    const { WebSocket: Socket } = await import("ws").catch(() => {
      throw new Error("a socket needs the package ws: npm install ws");
    });
    while (!this.#stopping.signal.aborted) {
      const { code, reason } = await this.#serve(new Socket(this.url, { maxPayload: BODY_BYTES_MAX, handshakeTimeout: 10_000 }));
      if (FOR_GOOD.includes(code)) throw new Refused(`${code} ${reason}`);
      if (this.#stopping.signal.aborted) return;
      this.agent.log.warn(`the socket closed: ${code} ${reason}`);
      await this.#wait(this.#pauseMs * (0.5 + Math.random() / 2));
      this.#pauseMs = Math.min(this.#pauseMs * 2, PAUSE_MS[1]);
    }
  }

  /** A pause that ends when it is stopped. */
  async #wait(ms: number): Promise<void> {
    const { signal } = this.#stopping;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }

  /** Serves until the socket closes, however that comes. */
  #serve(socket: WebSocket): Promise<{ code: number; reason: string }> {
    return new Promise((resolve) => {
      let heard = Date.now();
      const pulse = setInterval(() => {
        if (Date.now() - heard > SILENT_MS) socket.terminate();
        else if (socket.readyState === socket.OPEN) socket.ping();
      }, SILENT_MS / 4);
      const hear = (): void => void (heard = Date.now());
      socket.on("ping", hear).on("pong", hear);
      socket.on("open", () => this.#say(socket, this.#hello));
      socket.on("message", (data) => {
        hear();
        this.#frame(socket, JSON.parse(String(data)) as Frame);
      });
      let fault = "";
      socket.on("error", (error) => (fault = (error as NodeJS.ErrnoException).code ?? kindOf(error)));
      socket.on("close", (code, reason) => {
        clearInterval(pulse);
        if (this.#socket === socket) this.#socket = undefined;
        resolve({ code, reason: String(reason) || fault });
      });
    });
  }

  #frame(socket: WebSocket, frame: Frame): void {
    const { log } = this.agent;
    switch (frame.type) {
      case "welcome":
        this.#pauseMs = PAUSE_MS[0];
        this.#socket = socket;
        log.info(`${(this.#hello.agent_ids as string[]).join(", ")} is asked over ${this.url}`);
        if (this.#stopping.signal.aborted) socket.close(1000);
        break;
      case "decision": {
        const deciding = this.#decide(socket, frame.decision).finally(() => this.#deciding.delete(deciding));
        this.#deciding.add(deciding);
        break;
      }
      case "cancelled":
        this.agent.giveUp(frame.decision_id);
        break;
      case "refused":
        log.warn(`the answer to ${frame.decision_id} was refused: ${frame.error} at ${frame.at ?? "?"}: ${frame.message}`);
        break;
      case "error":
        log.warn(`Headwater refused a frame: ${frame.error}: ${frame.message}`);
        break;
      default:
      // answered, pong, and whatever is told one day
    }
  }

  async #decide(socket: WebSocket, request: Request): Promise<void> {
    const refused = this.agent.refusal(request);
    const decision_id = request.decision_id;
    try {
      if (refused) this.#say(socket, { type: "failed", decision_id, message: (refused.body as { message: string }).message });
      else this.#say(socket, { type: "answer", decision_id, answer: (await this.agent.answer(request)) as Json });
    } catch (error) {
      this.#say(socket, { type: "failed", decision_id, message: `the handler failed (${kindOf(error)})` });
    }
  }

  /** Says it if it can; an answer that isn't heard waits until it is asked again. */
  #say(socket: WebSocket, frame: Json): void {
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(frame), () => {});
  }
}
