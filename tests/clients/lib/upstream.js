// The model: aimock answers as OpenAI, Anthropic or Gemini would, whichever was asked, and keeps the journal of what was read. Before
// it stands a valve that can hold a stream after so many pieces, cut it, spoil it, and that sees when the reader goes away.
import http from "node:http";
import { LLMock } from "@copilotkit/aimock";
import { dataOf, isTerminal, messagesOf, opaqueOf, pieceOf, textOf, toolsOf } from "./dialects.js";
import { until } from "./until.js";

export { textOf };

/** The key that the model asks for. */
export const KEY = "a-key-for-tests";

const PIECE_LENGTH = 4;

/** One request to the model: what was planned for it, and how far it got. */
class Call {
  /**
   * `plan` may have `text`, `reasoning`, `signature` (of the reasoning), `calls` (of tools: `{id, name, arguments}`), `status`,
   * `retryAfter` (s), `chaos` (headers of aimock's, as `{drop: 1}`), `hold`, `cut` (after so many pieces), `cutAtFrame`, `cutAtByte`,
   * `body` (instead of an answer), `edit` (of each frame's data, in place), `pace` (ms between pieces), `asked` (a text: it is for the
   * first request that holds it, and no other).
   */
  constructor(plan) {
    this.plan = plan;
    this.allowed = plan.hold ?? Infinity;
    this.sent = { text: "", reasoning: "", calls: [], pieces: 0, frames: 0 };
    /** Whether the frame that says that the model is done was sent. */
    this.finished = false;
    this.arrived = false;
    this.ended = false;
    /** Whether the reader closed the connection before the end. */
    this.abandoned = false;
    this.wake = () => {};
  }

  /** Lets `pieces` more pieces through. */
  step(pieces = 1) {
    this.allowed += pieces;
    this.wake();
  }

  /** Lets everything through. */
  release() {
    this.step(Infinity);
  }

  /** Waits until the stream stands at its hold (all allowed pieces are sent). */
  async held() {
    await until("the model is asked and its stream is held", () => this.arrived && this.sent.pieces >= this.allowed);
    return this;
  }

  /** Waits until the reader has closed the connection. */
  async closed({ within = 5_000 } = {}) {
    await until("the connection to the model is closed", () => this.abandoned, { within });
  }
}

/** aimock and its valve. */
export class Upstream {
  static async start() {
    const upstream = new Upstream();
    upstream.mock = new LLMock({ host: "127.0.0.1", port: 0, latency: 0, chunkSize: PIECE_LENGTH, auth: { apiKeys: [KEY] } });
    upstream.mock.addFixture({ match: { endpoint: "chat" }, response: (request) => upstream.#answer(request) });
    await upstream.mock.start();
    upstream.#reset();
    await upstream.up();
    return upstream;
  }

  /** Where each kind of service is. */
  get baseUrls() {
    const root = `http://127.0.0.1:${this.port}`;
    return { openai: `${root}/v1`, anthropic: `${root}/v1`, gemini: `${root}/v1beta` };
  }

  get baseUrl() {
    return this.baseUrls.openai;
  }

  #reset() {
    this.planned = [];
    this.calls = [];
    this.answers = 0;
    /** Makes a plan for a request that nothing is planned for. */
    this.improvise = () => ({});
  }

  /** Forgets the journal, the calls and what was planned. */
  reset() {
    for (const call of this.calls) call.release();
    this.mock.clearRequests();
    this.#reset();
  }

  /** Plans the next request that nothing is planned for yet. */
  next(plan = {}) {
    const call = new Call(plan);
    this.planned.push(call);
    return call;
  }

  /** Listens (again, on the same port). */
  async up() {
    this.server = http.createServer((request, response) => void this.#serve(request, response));
    await new Promise((resolve, reject) => {
      this.server.once("error", reject);
      this.server.listen(this.port ?? 0, "127.0.0.1", resolve);
    });
    this.port = this.server.address().port;
  }

  /** Refuses connections. */
  async down() {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  async stop() {
    await this.down();
    await this.mock.stop();
  }

  /** Calls whose stream is still open. */
  get open() {
    return this.calls.filter((call) => !call.ended && !call.abandoned);
  }

  /** The requests for which aimock looked an answer up, in order: their bodies as they were sent. */
  journal() {
    const asked = this.mock.getRequests().filter((entry) => entry.body?.messages);
    return asked.map((entry) => this.calls[Number(entry.headers["x-aimock-context"])].request);
  }

  /** What the model read each time, as lines: `role: text`, after a reply the calls that it asks for, before a result its call. */
  reads() {
    return this.journal().map((body) => messagesOf(body).map(lineOf));
  }

  /** The opaque parts that the model was sent back each time. */
  opaque() {
    return this.journal().map(opaqueOf);
  }

  /** The names of the tools that the model was offered each time. */
  offers() {
    return this.journal().map(toolsOf);
  }

  /** What providers refuse to read, as lines: calls without a result, results without a call, either of them twice. */
  misread() {
    return this.journal().flatMap((body, index) => unpaired(messagesOf(body)).map((fault) => `call ${index} of the model reads ${fault}`));
  }

  #answer(request) {
    const call = this.calls[Number(request._context)];
    const { text, reasoning, signature, calls, status, retryAfter = 0 } = call.plan;
    if (status) return { error: { message: `planned failure ${status}`, type: "server_error" }, status, retryAfter };
    const thought = { ...(reasoning && { reasoning }), ...(signature && { reasoningSignature: signature }) };
    if (calls) return { ...(text && { content: text }), ...thought, toolCalls: calls.map(written) };
    const asked = textOf(request.messages.findLast((message) => message.role === "user")?.content ?? "");
    return { content: text ?? `answer ${++this.answers} to ${asked}`, ...thought };
  }

  async #serve(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const place = this.planned.findIndex(({ plan }) => plan.asked === undefined || body.includes(plan.asked));
    const [call = new Call(this.improvise())] = place < 0 ? [] : this.planned.splice(place, 1);
    const index = this.calls.push(call) - 1;
    call.arrived = true;
    response.on("close", () => {
      if (!call.ended) call.abandoned = true;
      call.wake();
    });
    call.request = parsed(body);
    const chaos = Object.entries(call.plan.chaos ?? {}).map(([name, rate]) => [`x-aimock-chaos-${name}`, String(rate)]);
    const headers = { ...request.headers, ...Object.fromEntries(chaos), "x-aimock-context": String(index), connection: "close" };
    const options = { host: "127.0.0.1", port: this.mock.port, path: request.url, method: request.method, headers, agent: false };
    const forwarded = http.request(options, (answer) => {
      this.#pass(answer, response, call).catch(() => response.destroy());
    });
    forwarded.on("error", () => response.destroy());
    forwarded.end(body);
  }

  async #pass(answer, response, call) {
    const { body, cut, cutAtByte, cutAtFrame, edit, pace, retryAfter = 0 } = call.plan;
    answer.setEncoding("utf8");
    let whole = "";
    for await (const chunk of answer) whole += chunk;
    const end = () => {
      call.ended = true;
      response.end();
    };
    const headers = { "content-type": answer.headers["content-type"] ?? "application/json" };
    if (answer.headers["retry-after"]) headers["retry-after"] = String(retryAfter);
    response.writeHead(answer.statusCode, headers);
    if (body !== undefined) {
      response.write(body);
      return end();
    }
    if (cutAtByte !== undefined) {
      call.ended = true;
      return response.write(Buffer.from(whole).subarray(0, cutAtByte), () => response.destroy());
    }
    if (answer.statusCode !== 200) {
      response.write(whole);
      return end();
    }
    const destroy = async () => {
      call.ended = true;
      await new Promise((resolve) => setImmediate(resolve));
      response.destroy();
    };
    for (const written of whole.split(/(?<=\n\n)/)) {
      const data = dataOf(written);
      edit?.(data);
      const frame = edit && Object.keys(data).length ? written.replace(/data: .*/, () => `data: ${JSON.stringify(data)}`) : written;
      const piece = pieceOf(data);
      const isPiece = Object.keys(piece).length > 0;
      if (call.sent.frames === cutAtFrame) return destroy();
      if ((cut === 0 || isPiece) && cut !== undefined && call.sent.pieces >= cut) return destroy();
      while (isPiece && call.sent.pieces >= call.allowed && !call.abandoned) {
        await new Promise((resolve) => (call.wake = resolve));
      }
      if (call.abandoned) return;
      if (isPiece && pace) await new Promise((resolve) => setTimeout(resolve, pace));
      response.write(frame);
      call.sent.frames += 1;
      call.finished ||= isTerminal(data);
      if (!isPiece) continue;
      call.sent.pieces += 1;
      call.sent.text += piece.text ?? "";
      call.sent.reasoning += piece.reasoning ?? "";
      call.sent.calls.push(...(piece.calls ?? []).map((asked) => asked.id).filter(Boolean));
    }
    end();
  }
}

/** How many bytes the stream of an answer of `text` has; what `cutAtByte` can go up to. */
export async function answerLength(upstream, text) {
  const request = { model: "mock", stream: true, stream_options: { include_usage: true }, messages: [{ role: "user", content: "?" }] };
  upstream.next({ text });
  const response = await fetch(`${upstream.baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
    body: JSON.stringify(request),
  });
  return Buffer.byteLength(await response.text());
}

function parsed(bytes) {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return {};
  }
}

/** A call as aimock wants it. */
function written({ id, name, arguments: given = {} }) {
  return { id, name, arguments: typeof given === "string" ? given : JSON.stringify(given) };
}

/** What a model read of one message. */
function lineOf({ role, text, calls, answers }) {
  const asks = calls.map((call) => ` [${call.id} ${call.name} ${call.arguments}]`);
  return `${role}${answers ? ` ${answers}` : ""}: ${text}${asks.join("")}`;
}

function unpaired(messages) {
  const faults = [];
  const asked = new Set();
  let open = new Set();
  const close = () => {
    for (const id of open) faults.push(`a call ${id} without its result`);
    open = new Set();
  };
  for (const { role, calls, answers } of messages) {
    if (role === "tool") {
      if (!open.delete(answers)) faults.push(asked.has(answers) ? `a result of ${answers} twice or late` : `a result of ${answers} without its call`);
      continue;
    }
    close();
    for (const { id } of calls) {
      if (asked.has(id)) faults.push(`a call ${id} twice`);
      asked.add(id);
      open.add(id);
    }
  }
  close();
  return faults;
}
