// Reads what the server sends, raw, before any client has touched it, and judges it: framing, schema, order, one terminal.
import { invalid } from "./schema.js";

const TERMINALS = ["RUN_FINISHED", "RUN_ERROR"];

/** One request with what was answered to it. */
class Exchange {
  constructor(kind, where, input) {
    this.kind = kind;
    this.where = where;
    this.input = input;
    /** The answer as it came, when it was an event stream. */
    this.text = "";
    this.events = [];
    this.faults = [];
    /** Whether the client went away before the end. */
    this.left = false;
    /** Whether the answer ended as answers do (not by a broken connection). */
    this.ended = false;
  }

  get name() {
    return `${this.kind} ${this.where} ${this.input?.runId ?? ""}`;
  }
}

/** Records every exchange of one scenario. */
export class Wire {
  constructor() {
    this.exchanges = [];
    /** Frames that came while no run was under way. */
    this.stray = [];
    /** Set by scenarios that break connections on purpose (`kill -9`). */
    this.cutsAllowed = false;
    /** Set by scenarios that speak to a socket with their own hands. */
    this.strayAllowed = false;
  }

  /** A `fetch` that records event streams; what the clients are given. */
  get fetch() {
    return async (url, options) => {
      const exchange = new Exchange("sse", new URL(url).pathname, JSON.parse(options.body));
      const response = await fetch(url, options);
      if (!response.ok) return response;
      this.exchanges.push(exchange);
      const type = response.headers.get("content-type");
      if (type !== "text/event-stream") exchange.faults.push(`content-type is ${type}`);
      options.signal?.addEventListener("abort", () => (exchange.left ||= !exchange.ended));
      const { status, headers } = response;
      return { ok: true, status, headers, body: { getReader: () => tapped(response.body.getReader(), exchange) } };
    };
  }

  /** A run begins on a socket. */
  sent(where, input) {
    const exchange = new Exchange("ws", where, input);
    this.exchanges.push(exchange);
    return exchange;
  }

  /** A frame came on a socket for `exchange`, if there is one. */
  received(exchange, data, isBinary) {
    const text = data.toString();
    if (!exchange) return void this.stray.push(text);
    if (isBinary) exchange.faults.push("a binary frame");
    exchange.text += `${text}\n`;
    const event = parse(exchange, text);
    if (event) exchange.events.push(event);
    if (TERMINALS.includes(event?.type)) exchange.ended = true;
  }

  /** Everything that is wrong, as lines. */
  faults() {
    const faults = this.exchanges.flatMap((exchange) => {
      if (exchange.kind === "sse") readStream(exchange);
      judge(exchange, this.cutsAllowed);
      return exchange.faults.map((fault) => `${exchange.name}: ${fault}`);
    });
    if (!this.strayAllowed) faults.push(...this.stray.map((text) => `a frame outside of a run: ${text.slice(0, 200)}`));
    return faults;
  }
}

/** A reader that passes everything on and writes it down. A broken stream's `cancel` says so again, which clients don't expect: it is kept. */
function tapped(reader, exchange) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const read = async () => {
    const piece = await reader.read();
    exchange.text += decoder.decode(piece.value, { stream: !piece.done });
    if (piece.done) exchange.ended = true;
    return piece;
  };
  return { read, cancel: (reason) => reader.cancel(reason).catch(() => {}), releaseLock: () => reader.releaseLock() };
}

function parse(exchange, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    exchange.faults.push(`not JSON (${error.message}): ${text.slice(0, 200)}`);
    return undefined;
  }
}

/** Takes a stream of server-sent events apart, more strictly than clients do. */
function readStream(exchange) {
  exchange.events = [];
  const whole = exchange.ended || !exchange.left;
  if (exchange.text.includes("\r")) exchange.faults.push("a carriage return in the framing");
  const frames = exchange.text.split("\n\n");
  const rest = frames.pop();
  if (rest !== "" && whole && exchange.ended) exchange.faults.push(`an unfinished frame at the end: ${rest.slice(0, 200)}`);
  let last;
  for (const frame of frames) {
    const lines = frame.split("\n");
    if (lines.every((line) => line.startsWith(":"))) continue;
    const odd = lines.find((line) => !/^(id: |data: |:)/.test(line));
    if (odd !== undefined) exchange.faults.push(`an odd line: ${odd.slice(0, 200)}`);
    const data = lines.filter((line) => line.startsWith("data: "));
    if (data.length !== 1) exchange.faults.push(`a frame with ${data.length} data lines: ${frame.slice(0, 200)}`);
    const event = data.length ? parse(exchange, data.map((line) => line.slice("data: ".length)).join("\n")) : undefined;
    if (event) exchange.events.push(event);
    const id = lines.find((line) => line.startsWith("id: "))?.slice("id: ".length);
    if (id === undefined) continue;
    if (!/^\d+(\.\d+\.\d+)?$/.test(id)) exchange.faults.push(`${id} is no cursor`);
    else if (last && isBefore(id, last)) exchange.faults.push(`the cursor goes back from ${last} to ${id}`);
    last = id;
  }
}

/** Whether the cursor `one` is before `other`. */
function isBefore(one, other) {
  const [a, b] = [one, other].map((cursor) => cursor.split(".").map(Number));
  for (const place of [0, 1, 2]) {
    if ((a[place] ?? 0) !== (b[place] ?? 0)) return (a[place] ?? 0) < (b[place] ?? 0);
  }
  return false;
}

function judge(exchange, cutsAllowed) {
  const { events, faults, input } = exchange;
  for (const event of events) {
    const fault = invalid(event);
    if (fault) faults.push(`invalid ${event.type}: ${fault} in ${JSON.stringify(event).slice(0, 300)}`);
    if (input?.protocolVersion === undefined) faults.push(...beyondLegacy(event));
  }
  const types = events.map((event) => event.type);
  const terminals = types.filter((type) => TERMINALS.includes(type)).length;
  const cut = exchange.left || (cutsAllowed && !(exchange.ended && terminals));
  if (types.length && types[0] !== "RUN_STARTED" && !(types.length === 1 && types[0] === "RUN_ERROR")) {
    faults.push(`begins with ${types[0]}`);
  }
  if (terminals > 1) faults.push(`${terminals} terminals`);
  if (terminals === 1 && !TERMINALS.includes(types.at(-1))) faults.push(`${types.at(-1)} after the terminal`);
  if (terminals === 0 && !cut) faults.push(`no terminal (${types.length} events, the last is ${types.at(-1)})`);
  if (!exchange.ended && !cut) faults.push("the connection broke");
  const failure = events.find((event) => event.type === "RUN_ERROR");
  if (failure && !(failure.message && failure.code)) faults.push("RUN_ERROR without a message or a code");
  faults.push(...unbalanced(events));
}

/** What kills the clients before 1.0 although the schema allows it. */
function beyondLegacy(event) {
  const faults = [];
  if (event.type === "RUN_FINISHED" && event.outcome) {
    if (!["success", "interrupt"].includes(event.outcome.type)) faults.push(`outcome ${event.outcome.type} to a legacy client`);
    if (event.outcome.pendingToolCallIds) faults.push("pendingToolCallIds to a legacy client");
  }
  if (event.type === "TOOL_CALL_RESULT" && typeof event.content !== "string") faults.push("result parts to a legacy client");
  if (event.type === "RUN_STARTED" && event.input && !(event.input.tools && event.input.context)) {
    faults.push("an input without tools and context to a legacy client");
  }
  return faults;
}

/** Starts and ends that don't match. RUN_ERROR needs nothing closed. */
function unbalanced(events) {
  const faults = [];
  const open = new Set();
  for (const event of events) {
    const match = /^(TEXT_MESSAGE|REASONING_MESSAGE|REASONING|TOOL_CALL)_(START|CONTENT|ARGS|END)$/.exec(event.type);
    if (match) {
      const item = `${match[1]} ${event.messageId ?? event.toolCallId}`;
      if (match[2] === "START" ? open.has(item) : !open.has(item)) faults.push(`${event.type} of ${item} out of order`);
      if (match[2] === "START") open.add(item);
      if (match[2] === "END") open.delete(item);
    } else if (event.type === "RUN_FINISHED" && open.size) {
      faults.push(`RUN_FINISHED while open: ${[...open].join(", ")}`);
    }
  }
  return faults;
}
