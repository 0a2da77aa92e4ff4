// A turn that pauses until a person has answered, as stock clients see it: raised, there after a reload, answered once, in part, too late, in another
// tab; stopped; left and found again.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before } from "node:test";
import WebSocket from "ws";
import { user } from "../lib/chat.js";
import { inTime } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const SCHEMA = { type: "object", required: ["approved"], properties: { approved: { type: "boolean" } } };

/** A worker that asks as often as a message says, and goes on when nobody says no. */
const worker = http.createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const { trigger, messages, proposed } = JSON.parse(body);
  response.setHeader("content-type", "application/json");
  const [, times] = (trigger.type === "client.messages" && /^ask (\d)/.exec(messages.at(-1).content)) || [];
  const ask = (n) => ({ type: "interrupt", reason: "approval", message: `Question ${n}?`, payload: { n }, response_schema: SCHEMA });
  if (times) return response.end(JSON.stringify({ actions: Array.from({ length: Number(times) }, (_, n) => ask(n + 1)) }));
  const refused = trigger.type === "interrupt.resumed" && trigger.interrupts.some(({ payload }) => !payload?.approved);
  response.end(JSON.stringify(refused ? { actions: [{ type: "done" }] } : proposed));
});

before(() => new Promise((resolve) => worker.listen(0, "127.0.0.1", resolve)));
after(() => worker.close());

const { each, once } = useWorld({
  more: () => `
[agent.asking]
llm = "mock"

[agent.asking.worker]
kind = "http"
url = "http://127.0.0.1:${worker.address().port}/decide"
`,
});

const open = (run) => {
  const { outcome } = run.of("RUN_FINISHED")[0];
  assert.equal(outcome?.type, "interrupt");
  return outcome.interrupts;
};
const yes = (interrupts) => interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
const no = (interrupts) => interrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));

each("asked, there after a reload and in another tab, answered once", async (s) => {
  const chat = s.chat({ agent: "asking" });
  const asked = open(await chat.send("u1", "ask 1"));
  assert.deepEqual(asked.map(({ reason, message, metadata, responseSchema }) => ({ reason, message, metadata, responseSchema })), [
    { reason: "approval", message: "Question 1?", metadata: { payload: { n: 1 } }, responseSchema: SCHEMA },
  ]);
  assert.equal((await s.session(chat)).status, "waiting");

  await s.server.restart();
  const joined = s.tab(chat).joining();
  assert.deepEqual(open(await joined.run()), asked);
  const hydrated = await s.server.get(`/agents/asking?threadId=${chat.threadId}`);
  assert.deepEqual([hydrated.activeRun, hydrated.interrupts], [null, asked]);

  const tab = s.tab(chat, ...joined.messages);
  await tab.run({ resume: yes(asked) });
  assert.equal(tab.last.role, "assistant");
  const reads = s.reads.length;
  // The same answer from elsewhere shows what came of it, and asks nobody.
  const other = s.tab(chat, ...joined.messages);
  await other.run({ resume: yes(asked) });
  assert.deepEqual(other.lines, tab.lines);
  assert.equal(s.reads.length, reads);
  assert.equal((await s.tab(chat, ...joined.messages).attempt({ resume: no(asked) })).refusal, "interrupt_closed");
  assert.equal((await s.session(chat)).status, "idle");
});

each("all in one go, or not at all; what doesn't fit is refused", async (s) => {
  const chat = s.chat({ agent: "asking" });
  const asked = open(await chat.send("u1", "ask 2"));
  const refused = async (resume, ...more) => (await s.tab(chat, user("u1", "ask 2"), ...more).attempt(resume && { resume })).refusal;
  assert.equal(await refused(undefined), "session_interrupted");
  assert.equal(await refused(undefined, user("u2", "never mind")), "session_interrupted");
  assert.equal(await refused(yes(asked.slice(1))), "interrupts_open");
  assert.equal(await refused([...yes(asked), { interruptId: "nothing", status: "cancelled" }]), "interrupt_not_found");
  assert.equal(await refused(yes(asked).map((answer) => ({ ...answer, payload: { approved: "yes" } }))), "payload_mismatch");
  assert.equal(s.reads.length, 0);
  await chat.run({ resume: [...yes(asked.slice(0, 1)), ...no(asked.slice(1))] });
  assert.deepEqual(chat.lines, ["user: ask 2"]);
  await chat.send("u2", "then say something");
  assert.deepEqual(chat.messages.map(({ role }) => role), ["user", "user", "assistant"]);
});

each("stopped, it is over", async (s) => {
  const chat = s.chat({ agent: "asking" });
  const asked = open(await chat.send("u1", "ask 1"));
  assert.deepEqual(await chat.postStop(), { stopped: true });
  assert.equal((await s.tab(chat, user("u1", "ask 1")).attempt({ resume: yes(asked) })).refusal, "interrupt_closed");
  const tab = s.tab(chat, user("u1", "ask 1"), user("u2", "something else"));
  await tab.run();
  assert.equal(tab.last.role, "assistant");
});

each("an edit runs beside it, and its branch asks again", async (s) => {
  const chat = s.chat({ agent: "asking" });
  await chat.send("u1", "hello");
  const hello = [...chat.messages];
  const asked = open(await chat.send("u2", "ask 1"));
  const tab = s.tab(chat, ...hello, user("u3", "another way"));
  await tab.run();
  assert.equal(tab.last.role, "assistant");
  const [suspended] = (await s.session(chat)).suspended;
  assert.deepEqual([suspended.node_id, suspended.interrupts.length], ["u2", 1]);

  const back = s.tab(chat, ...hello, user("u2", "ask 1"));
  assert.deepEqual(open(await back.run()), asked);
  tab.say("u4", "and on");
  await tab.run();
  await back.run({ resume: yes(asked) });
  assert.deepEqual(back.messages.map(({ id }) => id).slice(0, 3), [...hello.map(({ id }) => id), "u2"]);
  assert.equal(back.last.role, "assistant");
  assert.equal((await s.session(chat)).suspended, undefined);
});

once("an application answers over REST and over its own socket, and reads what happens", async (s) => {
  const chat = s.chat({ agent: "asking" });
  const [first] = open(await chat.send("u1", "ask 1"));
  const resume = (id, payload, turn_id) => ({ type: "interrupt.resume", turn_id, interrupts: [{ interrupt_id: id, status: "resolved", payload }] });
  const post = async (body, accept = "application/json") => {
    const route = `${s.server.url}/v1/sessions/${chat.threadId}/inputs`;
    const response = await fetch(route, { method: "POST", headers: { "content-type": "application/json", accept }, body: JSON.stringify(body) });
    return [response.status, accept === "application/json" ? await response.json() : await response.text()];
  };
  const page = await s.session(chat);
  assert.deepEqual([page.status, page.interrupts.map(({ id, payload }) => ({ id, payload }))], ["waiting", [{ id: first.id, payload: { n: 1 } }]]);
  assert.deepEqual([(await post(resume(first.id, 7)))[0], (await post(resume("nothing", 7)))[0]], [422, 404]);
  const [status, told] = await post(resume(first.id, { approved: true }, "r1"), "text/event-stream");
  assert.equal(status, 200);
  assert.match(told, /event: accepted[^]*"type":"turn.completed"/);
  const [again, { duplicate, turn_id }] = await post(resume(first.id, { approved: true }, "r2"));
  assert.deepEqual([again, duplicate, turn_id], [200, true, page.running_turn.turn_id]);

  const tab = s.tab(chat).joining();
  await tab.run();
  const next = s.tab(chat, ...tab.messages);
  const [second] = open(await next.send("u2", "ask 1"));
  const socket = new WebSocket(`${s.server.url.replace("http", "ws")}/v1/ws`);
  await inTime("the socket opens", new Promise((resolve) => socket.once("open", resolve)));
  const frames = [];
  const acked = new Promise((resolve) => {
    socket.on("message", (data) => {
      frames.push(JSON.parse(data));
      if (frames.at(-1).ref === "a") resolve();
    });
  });
  socket.send(JSON.stringify({ type: "input", ref: "a", session_id: chat.threadId, body: resume(second.id, { approved: false }) }));
  await inTime("it is answered", acked);
  socket.close();
  assert.notEqual(frames.at(-1).type, "refused", JSON.stringify(frames));
  await s.idle(chat);
  const events = await fetch(`${s.server.url}/v1/sessions/${chat.threadId}/records?limit=1000`).then((response) => response.json());
  const types = events.records.map(({ record }) => record.type).filter((type) => type.startsWith("session.interrupt"));
  assert.deepEqual(types, ["session.interrupted", "session.interrupt_resumed", "session.interrupted", "session.interrupt_resumed"]);
});
