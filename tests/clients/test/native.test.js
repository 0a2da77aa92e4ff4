// The native API beside AG-UI clients in the same session: what an application adds is shown to them in AG-UI's words, and what they do
// goes on from there.
import assert from "node:assert/strict";
import { tool, user } from "../lib/chat.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

/** Sends one native input; the body of its answer. */
async function input(s, chat, body) {
  const response = await fetch(`${s.server.url}/v1/sessions/${chat.threadId}/inputs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ agent_id: "bot", ...body }),
  });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(`${response.status} ${answer.error}: ${answer.message}`), { status: response.status, answer });
  return answer;
}

const PLAN = { id: "plan-1", role: "activity", activity_type: "plan", content: { steps: ["look", "book"], done: 1 } };

each("an activity that an application adds is shown, is no model's business, and stays where it was", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  await input(s, chat, { type: "client.append", messages: [PLAN] });
  const joined = s.tab(chat).joining();
  await joined.run();
  const [activity] = joined.messages.filter(({ role }) => role === "activity");
  assert.deepEqual([activity.id, activity.activityType, activity.content], ["plan-1", "plan", PLAN.content]);

  // A client sends no activities back.
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u2", "and then?");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: and then?"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    custom: {"steps":["look","book"],"done":1}
    user: and then?
    assistant: answer 2 to and then? (head)`);
});

each("an activity that is queued behind a turn is in the snapshot of the run that comes after it", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 2, text: "the first answer" });
  const run = chat.begin("u1", "hello");
  await call.held();
  const queued = await input(s, chat, { type: "client.append", messages: [PLAN], queue: true });
  assert.equal(queued.queued, true);
  const tab = s.tab(chat, user("u1", "hello"));
  const second = tab.begin("u2", "and then?", { forwarded: { queue: true } });
  await until("both wait", async () => (await s.session(chat)).queue.length === 2);
  call.release();
  for (const each of [run, second]) assert.equal((await each.end()).outcome, "finished");
  const [snapshot] = second.of("MESSAGES_SNAPSHOT");
  assert.deepEqual(snapshot.messages.map(({ role }) => role), ["user", "assistant", "activity", "user"]);
  assert.deepEqual(s.read, ["user: hello", "assistant: the first answer", "user: and then?"]);
});

each("a message that an application adds starts a turn, which a tab joins; the tab goes on below it", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const call = s.upstream.next({ hold: 1, text: "to the application" });
  await input(s, chat, { type: "client.message", message: { id: "u2", role: "user", content: "from the application" } });
  await call.held();
  const joined = s.tab(chat).joining();
  const run = joined.start();
  await until("the tab shows it", () => joined.last?.content === call.sent.text);
  call.release();
  await run.end();
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u3", "and then?");
  assert.deepEqual(s.read.slice(2), ["user: from the application", "assistant: to the application", "user: and then?"]);
});

each("an application answers a call that a page was asked for, and the page's late answer changes nothing", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  s.upstream.next({ calls: [{ id: "c1", name: "weather" }, { id: "c2", name: "weather" }] });
  await chat.send("u1", "how is it?");
  const answer = await input(s, chat, { type: "tool.result", tool_call_id: "c1", content: "18 degrees" });
  assert.deepEqual([answer.reply, answer.waiting], [false, ["c2"]]);
  await input(s, chat, { type: "tool.error", tool_call_id: "c2", error: "the station is silent" });
  await s.idle(chat);
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees", "tool c2: Error: the station is silent"]);
  chat.answer("c1", "30 degrees");
  chat.answer("c2", "30 degrees");
  await chat.send("u2", "thanks");
  assert.deepEqual(s.read.slice(2, 4), ["tool c1: 18 degrees", "tool c2: Error: the station is silent"]);
});

each("titles, archiving, labels and moves of the head aren't told over AG-UI, and a list goes on where it ends", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  const [, a1] = chat.messages;
  const change = (method, route, body) =>
    fetch(`${s.server.url}/v1/sessions/${chat.threadId}${route}`, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  assert.equal((await change("PATCH", "", { title: "Greetings", archived: true })).status, 200);
  assert.equal((await change("POST", "/head", { node_id: a1.id, label: "after hello" })).status, 200);
  const joined = s.tab(chat).joining();
  const run = await joined.run();
  assert.deepEqual(run.events.map(({ type }) => type), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
  assert.deepEqual(joined.lines, ["user: hello", "assistant: answer 1 to hello"]);
  await chat.send("u3", "and more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: and more"]);
});

each("a fork is continued by a tab that holds the old ids", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  s.upstream.next({ calls: [{ id: "c1", name: "weather" }] });
  await chat.send("u1", "how is it?");
  chat.answer("c1", "18 degrees");
  await chat.run();
  const response = await fetch(`${s.server.url}/v1/sessions/${chat.threadId}/fork`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  assert.equal(response.status, 201);
  const { session_id: threadId } = await response.json();
  const fork = s.chat({ threadId, tools: chat.tools });
  fork.show(...chat.messages);
  await fork.send("u2", "and tomorrow?");
  assert.deepEqual(s.read, ["user: how is it?", "assistant:  [c1 weather {}]", "tool c1: 18 degrees", "assistant: answer 1 to how is it?", "user: and tomorrow?"]);
  assert.equal((await s.tree(fork)).nodes.length, 6);
  assert.equal((await s.tree(chat)).nodes.length, 4);
});

each("B18 mirrored: a result without its call is no import: it is refused, nothing is written, and no model reads it", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const orphan = { id: "t9", role: "tool", tool_call_id: "c9", content: "of nobody" };
  await assert.rejects(input(s, chat, { type: "client.append", messages: [orphan] }), ({ status, answer }) => {
    assert.deepEqual([status, answer.error], [409, "call_not_open"]);
    return true;
  });
  const joined = s.tab(chat).joining();
  await joined.run();
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u2", "go on");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: go on"]);
  assert.equal(await s.drawn(chat), drawing`
    user: hello
    assistant: answer 1 to hello
    user: go on
    assistant: answer 2 to go on (head)`);
});

each("B18: an imported call without its result is sealed, and nobody waits for it", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  const call = { id: "c7", type: "function", function: { name: "weather", arguments: "{}" } };
  await input(s, chat, { type: "client.append", run: false, messages: [{ id: "i1", role: "user", content: "from elsewhere" }, { id: "i2", role: "assistant", tool_calls: [call] }] });
  assert.equal((await s.session(chat)).status, "idle");
  const joined = s.tab(chat).joining();
  const run = await joined.run();
  assert.equal(run.pending, undefined);
  const tab = s.tab(chat, ...joined.messages);
  await tab.send("u1", "go on");
  assert.deepEqual(s.read, ["user: from elsewhere", "assistant:  [c7 weather {}]", "tool c7: Error: This call was interrupted and has no result.", "user: go on"]);
});
