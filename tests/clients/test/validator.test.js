// ag-ui-validate, another implementation's judge, finds nothing: asked against the agent's address, and over recorded streams.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { user } from "../lib/chat.js";
import { validate } from "../lib/validator.js";
import { useWorld } from "../lib/world.js";

const { each, once } = useWorld();
const onSse = (combination) => combination.transport === "sse";

once("ag-ui-validate finds nothing at the agent's address", async (s) => {
  s.upstream.next({ pace: 15, text: "a reply that comes in several pieces" });
  const { findings, events } = await validate(`${s.server.url}/agents/bot`);
  assert.deepEqual(findings, []);
  assert.ok(events > 4);
  assert.deepEqual(s.reads, [["user: Hello! Please respond briefly."]]);
});

each("ag-ui-validate finds nothing in recorded streams: plain, with reasoning, joined, stopped, failed, ignored edits", async (s) => {
  const chat = s.chat();
  s.upstream.next({ reasoning: "let me think", text: "I thought" });
  await chat.send("u1", "hello");
  chat.show(user("u1", "changed"));
  await chat.run();
  s.upstream.next({ cut: 1 });
  await s.tab(chat, user("u1", "hello")).attempt();
  await s.idle(chat);
  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u2", "more");
  await call.held();
  const joined = s.tab(chat).joining();
  const joinedRun = joined.start();
  await s.tab(chat).postStop();
  await Promise.all([run.end(), joinedRun.end()]);
  for (const [place, exchange] of s.wire.exchanges.entries()) {
    const file = path.join(s.server.directory, `stream-${place}.sse`);
    writeFileSync(file, exchange.text);
    const { findings } = await validate(file);
    assert.deepEqual(findings, [], exchange.name);
  }
}, onSse);
