// ag-ui-validate, another implementation's judge, finds nothing: asked against the agent's address, and over recorded streams.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { tool, user } from "../lib/chat.js";
import { until } from "../lib/until.js";
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
  await findsNothing(s);
}, onSse);

each("ag-ui-validate finds nothing in recorded streams: calls, some answered, joined while they wait, errors at once, queued, merged, cancelled before the start", async (s) => {
  const chat = s.chat({ tools: [tool("weather")] });
  const calls = ["weather", "stocks", "weather"].map((name, place) => ({ id: `c${place}`, name, arguments: { place: "Rome" } }));
  s.upstream.next({ text: "Let me see.", reasoning: "I need it", calls });
  await chat.send("u1", "how is it?");
  chat.answer("c0", "18 degrees");
  await chat.run();
  await s.tab(chat).joining().run();
  chat.answer("c2", "18 degrees");
  await chat.run();

  const call = s.upstream.next({ hold: 1 });
  const run = chat.begin("u2", "more");
  await call.held();
  const queued = ["true", "merge", "merge", "gone"].map((queue, place) => {
    const tab = s.tab(chat, ...chat.before("u2"), user("u2", "more"));
    return tab.begin(`q${place}`, "and more", { runId: `queued-${place}`, forwarded: { queue: queue === "merge" ? queue : true } });
  });
  await until("all wait", async () => (await s.session(chat)).queue.flatMap((turn) => turn.messages).length === 4);
  await chat.postStop("queued-3");
  call.release();
  for (const each of [run, ...queued]) await each.end();
  await findsNothing(s);
}, onSse);

/** Judges each stream of the scenario as it came. */
async function findsNothing(s) {
  for (const [place, exchange] of s.wire.exchanges.entries()) {
    const file = path.join(s.server.directory, `stream-${place}.sse`);
    writeFileSync(file, exchange.text);
    const { findings } = await validate(file);
    assert.deepEqual(findings, [], exchange.name);
  }
}
