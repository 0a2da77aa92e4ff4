// kill -9 and a new process on the same data; wrong keys.
import assert from "node:assert/strict";
import { user } from "../lib/chat.js";
import { drawing, pathOf } from "../lib/tree.js";
import { inTime, until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();

each("kill -9 between two turns: the history is there and the talk goes on", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  await chat.send("u2", "more");
  await chat.edit("u2", "u2b", "something else");
  const before = await s.tree(chat);
  await s.server.restart();
  assert.deepEqual(await s.tree(chat), before);
  await chat.send("u3", "are you still there?");
  assert.deepEqual(s.read, [
    "user: hello",
    "assistant: answer 1 to hello",
    "user: something else",
    "assistant: answer 3 to something else",
    "user: are you still there?",
  ]);
  const joined = s.tab(chat).joining();
  await joined.run();
  assert.equal(joined.messages.length, 6);
});

each("kill -9 in the middle of a reply: the question is there, no half reply, and the turn goes on or fails", async (s) => {
  s.wire.cutsAllowed = true;
  const chat = s.chat();
  await chat.send("u1", "hello");
  const call = s.upstream.next({ hold: 2 });
  const run = chat.begin("u2", "more");
  await call.held();
  await until("the tab shows what was sent", () => chat.last.content === call.sent.text);
  await s.server.restart();
  call.release();
  await run.end();
  await s.idle(chat);
  const path = pathOf(await s.tree(chat));
  const lines = path.map((node) => `${node.message.role}: ${node.message.content}`);
  const asked = ["user: hello", "assistant: answer 1 to hello", "user: more"];
  assert.deepEqual(lines.slice(0, 3), asked);
  assert.ok(path.length <= 4, "at most one reply");
  assert.ok(path.every((node) => !node.partial), "no half reply");
  if (path.length === 4) assert.notEqual(path[3].id, chat.last.id, "a new attempt has a new id");

  await chat.send("u3", "go on");
  assert.deepEqual(s.read.slice(0, 3), asked);
  assert.equal(s.read.at(-1), "user: go on");
  assert.equal(s.read.length, path.length + 1, "the abandoned text names the reply that replaced it, or nothing");
});

each("kill -9 in the middle of a reply, then the same run again", async (s) => {
  s.wire.cutsAllowed = true;
  const chat = s.chat();
  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u1", "hello", { runId: "run-1" });
  await call.held();
  await s.server.restart();
  call.release();
  await run.end();
  const again = s.tab(chat, user("u1", "hello"));
  const second = await again.attempt({ runId: "run-1" });
  assert.ok(second.outcome === "finished" || second.outcome.startsWith("error: "), second.outcome);
  await s.idle(chat);
  const tree = await s.tree(chat);
  assert.equal(tree.nodes.filter((node) => node.message.role === "user").length, 1);
  assert.ok(tree.nodes.length <= 2);
  await again.send("u2", "go on");
  assert.equal(s.read.at(-1), "user: go on");
});

each("SIGTERM: a turn's readers get a terminal, and the history is there after a new start", async (s) => {
  const chat = s.chat();
  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u1", "hello");
  await call.held();
  const exited = s.server.kill("SIGTERM");
  call.release();
  await run.end();
  const { code, signal } = await inTime("the server ends", exited);
  assert.deepEqual({ code, signal }, { code: 0, signal: null });
  await s.server.spawn();
  await s.idle(chat);
  assert.equal((await s.tree(chat)).nodes[0].id, "u1");
  await chat.send("u2", "go on");
  assert.equal(s.read.at(-1), "user: go on");
});

each("a wrong key: a code, and the next run works once the key is right", async (s) => {
  await s.server.restart({ key: "a-wrong-key" });
  const chat = s.chat();
  const run = await chat.begin("u1", "hello").end();
  assert.match(run.outcome, /^error: (llm_refused|unauthorized)$/);
  assert.ok(!JSON.stringify(run.events).includes("a-wrong-key"), "the key is told to nobody");
  await s.idle(chat);
  assert.equal(await s.drawn(chat), drawing`user: hello (head)`);
  await s.server.restart();
  await chat.run();
  assert.deepEqual(s.read, ["user: hello"]);
});

once("a second process on the same data is refused and the first goes on", async (s) => {
  const chat = s.chat();
  await chat.send("u1", "hello");
  const second = await s.server.rival();
  assert.notEqual(second.code, 0);
  assert.notEqual(second.output.trim(), "");
  await chat.send("u2", "more");
});
