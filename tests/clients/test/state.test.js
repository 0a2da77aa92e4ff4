// An agent's state, as stock clients see it: set and changed by the agent's worker, or by the page itself; there again after a reload, and
// with the branch that is shown.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before } from "node:test";
import { user } from "../lib/chat.js";
import { useWorld } from "../lib/world.js";

const NOTE = "all that this conversation is about, said at such length that what changes of it is always shorter than the whole";

/** A worker that keeps a list of what people said and of what was answered; the rest is as proposed. */
const worker = http.createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const { trigger, state, messages, proposed } = JSON.parse(body);
  const entry = trigger.type === "client.messages" ? messages.at(-1).content : "answered";
  const becomes = state ? { state_patch: [{ op: "add", path: "/plan/-", value: entry }] } : { state: { note: NOTE, plan: [entry] } };
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ ...proposed, ...becomes }));
});

before(() => new Promise((resolve) => worker.listen(0, "127.0.0.1", resolve)));
after(() => worker.close());

const { each } = useWorld({
  more: () => `
[agent.planning]
llm = "mock"

[agent.planning.worker]
kind = "http"
url = "http://127.0.0.1:${worker.address().port}/decide"
`,
});

const plan = (...entries) => ({ note: NOTE, plan: entries });

each("a worker's state comes whole and in changes, and is there after a reload", async (s) => {
  const chat = s.chat({ agent: "planning" });
  const first = await chat.send("u1", "Porto");
  assert.deepEqual(first.of("STATE_SNAPSHOT").map(({ snapshot }) => snapshot), [plan("Porto")]);
  assert.deepEqual(first.of("STATE_DELTA").map(({ delta }) => delta), [[{ op: "add", path: "/plan/1", value: "answered" }]]);
  assert.deepEqual(chat.agent.state, plan("Porto", "answered"));

  // It is echoed, and comes back changed, not whole.
  const second = await chat.send("u2", "by train");
  assert.equal(second.of("STATE_SNAPSHOT").length, 0);
  assert.equal(second.of("STATE_DELTA").length, 2);
  assert.deepEqual(chat.agent.state, plan("Porto", "answered", "by train", "answered"));

  const joined = s.tab(chat).joining();
  const run = await joined.run();
  assert.deepEqual(joined.agent.state, chat.agent.state);
  const types = run.events.map(({ type }) => type);
  assert.ok(types.indexOf("STATE_SNAPSHOT") < types.indexOf("MESSAGES_SNAPSHOT"), "the state comes first");
  // A page that was loaded anew holds none, and is told at once.
  const tab = s.tab(chat, ...joined.messages);
  const third = await tab.send("u3", "in May");
  assert.deepEqual(third.events.slice(0, 2).map(({ type }) => type), ["RUN_STARTED", "STATE_SNAPSHOT"]);
  assert.deepEqual(tab.agent.state.plan.slice(-2), ["in May", "answered"]);
  assert.deepEqual((await s.session(chat)).state, tab.agent.state);
});

each("a state goes with the branch", async (s) => {
  const chat = s.chat({ agent: "planning" });
  await chat.send("u1", "Porto");
  await chat.send("u2", "by train");
  const train = chat.messages;
  await chat.edit("u2", "u3", "by boat");
  assert.deepEqual(chat.agent.state, plan("Porto", "answered", "by boat", "answered"));
  chat.show(...train);
  const back = await chat.run();
  assert.deepEqual(back.of("STATE_SNAPSHOT").map(({ snapshot }) => snapshot), [plan("Porto", "answered", "by train", "answered")]);
  assert.deepEqual(chat.agent.state, plan("Porto", "answered", "by train", "answered"));
  chat.show(...train, user("u4", "in May"));
  await chat.run();
  assert.deepEqual(chat.agent.state.plan, ["Porto", "answered", "by train", "answered", "in May", "answered"]);
});

each("without a worker the page's own state is the session's; none, and an echo elsewhere, change nothing", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  assert.equal((await s.session(chat)).state, undefined);
  chat.agent.setState({ color: "red" });
  const run = await chat.send("u2", "in red");
  assert.equal(run.of("STATE_SNAPSHOT").length, 0, "it holds that");
  assert.deepEqual((await s.session(chat)).state, { color: "red" });
  const joined = s.tab(chat).joining();
  await joined.run();
  assert.deepEqual(joined.agent.state, { color: "red" });
  // Loaded anew, with nothing.
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u3", "and now?");
  assert.deepEqual(tab.agent.state, { color: "red" });
  assert.deepEqual((await s.session(chat)).state, { color: "red" });
  // Where there was none yet the echo isn't wanted.
  await tab.edit("u2", "u4", "without a color");
  assert.deepEqual(tab.agent.state, {});
  assert.equal((await s.session(chat)).state, undefined);
});
