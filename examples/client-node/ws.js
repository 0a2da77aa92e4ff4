// Two devices on one conversation, each over one WebSocket that threads share (`ag-ui.ws.v1`): what one says, edits, regenerates or
// goes back to, the other shows too, also after its connection was lost. Every run that is told goes through the stock client.
import { AbstractAgent } from "@ag-ui/client";
import { from } from "rxjs";
import WebSocket from "ws";

const url = process.argv[2] ?? "ws://127.0.0.1:8080/agents/demo";
const agentId = new URL(url).pathname.split("/")[2];
const threadId = crypto.randomUUID();
const message = (content) => ({ id: crypto.randomUUID(), role: "user", content });

/** The stock client, given one run after another. */
class Shown extends AbstractAgent {
  run() {
    return from(this.chunks);
  }
}

class Device {
  constructor(client = new Shown({ threadId })) {
    this.client = client;
    this.waiting = new Map();
    this.chunks = [];
    this.isBehind = Promise.resolve();
    this.socket = new WebSocket(`${url}?protocolVersion=1.0`, ["ag-ui.ws.v1"]);
    this.socket.on("message", (data) => this.#take(JSON.parse(data)));
    this.opened = new Promise((resolve, reject) => this.socket.once("open", resolve).once("error", reject));
  }

  #take({ type, ref, id, chunk, ...answer }) {
    if (!chunk) return void this.waiting.get(ref)?.({ type, ...answer });
    this.chunks.push(chunk);
    if (id) this.cursor = id;
    if (chunk.type !== "RUN_FINISHED" && chunk.type !== "RUN_ERROR") return;
    const chunks = this.chunks.splice(0);
    this.isBehind = this.isBehind.then(async () => {
      this.client.chunks = chunks;
      await this.client.runAgent({ runId: chunks[0].runId });
      this.told?.();
    });
  }

  /** Each frame that asks is answered once, whatever else is told meanwhile. */
  async ask(frame) {
    await this.opened;
    const ref = crypto.randomUUID();
    const answer = new Promise((resolve) => this.waiting.set(ref, resolve));
    this.socket.send(JSON.stringify({ ...frame, ref }));
    const { type, ...rest } = await answer;
    if (type === "error") throw new Error(rest.message);
    return rest.body;
  }

  subscribe = (after) => this.ask({ type: "subscribe", threadId, after });
  run = (messages) => this.ask({ threadId, runId: crypto.randomUUID(), messages, protocolVersion: "1.0" });

  /** Waits until it shows a list that is `enough`. */
  async until(enough) {
    while (!enough(this.client.messages)) await new Promise((resolve) => (this.told = resolve));
    return this.client.messages;
  }
}

const desk = new Device();
let phone = new Device();

/** Both show a reply to that message; prints it. */
async function both(what, question, except) {
  const isAnswer = (messages) => messages.at(-2)?.content === question && messages.at(-1).role === "assistant" && messages.at(-1).id !== except;
  const [one, other] = await Promise.all([desk, phone].map((device) => device.until(isAnswer)));
  if (JSON.stringify(one) !== JSON.stringify(other)) throw new Error("the devices differ");
  console.log(`${what}\n  > ${question}\n  < ${one.at(-1).content.split("\n")[0]}\n`);
  return [...one];
}

// A thread comes into being with its first message; then it can be subscribed to.
await desk.ask({ type: "input", threadId, body: { type: "client.message", agent_id: agentId, message: message("Where does the river begin?") } });
await Promise.all([desk.subscribe("0"), phone.subscribe("0")]);
const first = await both("the desk says", "Where does the river begin?");

await phone.run([message("Where does the river end?")]);
const edited = await both("the phone edits", "Where does the river end?");

await desk.run(edited.slice(0, -1));
await both("the desk asks for another answer", "Where does the river end?", edited.at(-1).id);

await phone.ask({ type: "head", threadId, body: { node_id: first.at(-1).id } });
await both("the phone goes back to the first branch", "Where does the river begin?");

// The phone loses its connection, and goes on after the last chunk that it had.
phone.socket.terminate();
const { client, cursor } = phone;
await desk.run([...first, message("And then?")]);
phone = new Device(client);
await phone.subscribe(cursor);
await both("the desk says, and the phone comes back", "And then?");

for (const device of [desk, phone]) device.socket.close();
