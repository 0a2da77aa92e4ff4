// Room in the window with what people build with: CopilotKit's core, TanStack AI's client, assistant-ui in a browser, and two devices on
// one thread. They never heard of it: they show the whole conversation, the model goes on with the summary, and none is told a byte of that.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import * as current from "@ag-ui/client";
import * as legacy from "@ag-ui/client-legacy";
import { useBrowser } from "../lib/browser.js";
import { SUMMARY, TALKED, assertHidden, epochs, nativeBytes, pageBytes, reporting } from "../lib/canary.js";
import { user } from "../lib/chat.js";
import { Device } from "../lib/device.js";
import { CopilotKit, TanStack } from "../lib/frontends.js";
import { SUMMARY_PROMPT } from "../lib/server.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();
const browser = useBrowser();

const QUESTIONS = ["a first question", "a second question", "a third question"];

/** The conversation of `talked`, by `send`; then a question before which it is summarized. */
async function compact(s, send) {
  await send(QUESTIONS[0]);
  await send(QUESTIONS[1]);
  s.upstream.next({ text: "the third answer", edit: reporting(186_400) });
  await send(QUESTIONS[2]);
  s.upstream.next({ text: SUMMARY, asked: SUMMARY_PROMPT });
  s.upstream.next({ text: "the fourth answer" });
  await send("a fourth question");
  assert.deepEqual(readBelow(s), [...TALKED.slice(4), "user: a fourth question"]);
}

const WHOLE = [...TALKED, "user: a fourth question", "assistant: the fourth answer"];

/** What the model read last below the summary. */
function readBelow(s) {
  const [summary, ...kept] = s.read;
  assert.ok(summary.includes(SUMMARY), summary);
  return kept;
}

for (const FrontEnd of [CopilotKit, TanStack]) {
  once(`a talk that is summed up, another reply, and on (${FrontEnd.name})`, async (s) => {
    const threadId = `thread-${randomUUID()}`;
    const page = new FrontEnd({ url: `${s.server.url}/agents/summing`, fetch: s.wire.fetch, threadId, tools: {} });
    s.tabs.push({ threadId, leave: async () => {} });
    let said = 0;
    await compact(s, (text) => page.send(`u${(said += 1)}`, text));
    assert.deepEqual(page.lines, WHOLE);
    s.upstream.next({ text: "another fourth answer" });
    await page.regenerate();
    assert.deepEqual(readBelow(s), [...TALKED.slice(4), "user: a fourth question"]);
    assert.deepEqual(page.lines, [...WHOLE.slice(0, -1), "assistant: another fourth answer"]);
    s.upstream.next({ text: "the fifth answer" });
    await page.send("u5", "a fifth question");
    assert.deepEqual(readBelow(s), [...TALKED.slice(4), "user: a fourth question", "assistant: another fourth answer", "user: a fifth question"]);
    assert.equal(s.reads.length, 7);
    assert.equal(await s.drawn({ threadId }), drawing`
      ${TALKED[0]}
      ${TALKED[1]}
      ${TALKED[2]}
      ${TALKED[3]}
      ${TALKED[4]}
      ${TALKED[5]}
      user: a fourth question
      - assistant: the fourth answer
      - assistant: another fourth answer
        user: a fifth question
        assistant: the fifth answer (head)`);
    assert.deepEqual(page.failures, []);
    const chat = { threadId, agentName: "summing" };
    assert.equal((await epochs(s, chat)).length, 1);
    const shown = page.client?.getMessages() ?? page.agent.messages;
    assertHidden([...(await pageBytes(s, chat)), ...(await nativeBytes(s, chat)), ...s.wire.exchanges.map(({ text }) => text), JSON.stringify(shown)]);
  });
}

once("a talk that is summed up, an edit in it, and back (assistant-ui)", async (s) => {
  const tab = await browser.assistant(s, { agent: "summing" });
  const bodies = [];
  tab.page.on("response", (response) => void bodies.push(response.text().catch(() => "")));
  const shown = [];
  const say = async (text) => {
    const before = s.reads.length;
    await tab.send(text);
    await until("the model has answered", async () => s.reads.length > before && (await tab.lines()).length === shown.length + 2);
    await s.idle(tab);
    shown.push(...(await tab.lines()).slice(shown.length));
  };
  await compact(s, say);
  await tab.shows(...WHOLE);
  s.upstream.next({ text: "an edited answer" });
  await tab.edit(2, "another second question");
  await tab.shows(...TALKED.slice(0, 2), "user: another second question", "assistant: an edited answer");
  assert.deepEqual(s.read, [...TALKED.slice(0, 2), "user: another second question"]);
  await tab.reload(3);
  await until("the model is asked once more", () => s.reads.length === 7);
  await s.idle(tab);
  assert.deepEqual(s.read, [...TALKED.slice(0, 2), "user: another second question"]);
  assertHidden(await pageBytes(s, { ...tab, agentName: "summing" }));
  const told = (await Promise.all(bodies)).filter((text) => text !== "");
  assert.ok(told.some((text) => text.includes("the fourth answer")), "what came over the wire was read");
  assertHidden([...told, ...(await nativeBytes(s, tab)), JSON.stringify(await tab.page.evaluate(() => window.thread.getState().messages))]);
});

for (const [library, other, name] of [[current, legacy, "1.0.0 and 0.0.59"], [legacy, current, "0.0.59 and 1.0.0"]]) {
  once(`two devices on one thread show the same, whoever asks for what is summed up (${name})`, async (s) => {
    const threadId = `thread-${randomUUID()}`;
    s.tabs.push({ threadId, leave: async () => {} });
    const [one, two] = [await Device.open(s, library, "summing"), await Device.open(s, other, "summing")];
    const frames = [];
    for (const device of [one, two]) device.socket.on("message", (data) => void frames.push(data.toString()));
    await one.run(threadId, "run-1", [user("u1", QUESTIONS[0])]);
    await one.ended(threadId, "run-1");
    await one.subscribe(threadId, "0");
    await two.subscribe(threadId, "0");
    const lines = (messages) => messages.map(({ role, content }) => `${role}: ${content}`);
    let runs = 1;
    /** One of them asks, and both show the answer. */
    const say = async (text, [asks, reads] = [one, two]) => {
      runs += 1;
      await until("it shows the last answer", async () => (await asks.messages(threadId)).length === 2 * (runs - 1));
      await asks.run(threadId, `run-${runs}`, [...(await asks.messages(threadId)), user(`u${runs}`, text)]);
      await reads.ended(threadId, `run-${runs}`);
      await asks.ended(threadId, `run-${runs}`);
    };
    await say(QUESTIONS[1]);
    s.upstream.next({ text: "the third answer", edit: reporting(186_400) });
    await say(QUESTIONS[2]);
    s.upstream.next({ text: SUMMARY, asked: SUMMARY_PROMPT });
    s.upstream.next({ text: "the fourth answer" });
    await say("a fourth question", [two, one]);
    assert.deepEqual(readBelow(s), [...TALKED.slice(4), "user: a fourth question"]);
    s.upstream.next({ text: "the fifth answer" });
    await say("a fifth question");
    assert.deepEqual(readBelow(s), [...WHOLE.slice(4), "user: a fifth question"]);
    for (const device of [one, two]) assert.deepEqual(lines(await device.messages(threadId)), [...WHOLE, "user: a fifth question", "assistant: the fifth answer"]);
    // The one goes back to before the summary; the other follows it there.
    await two.ask({ type: "head", threadId, body: { node_id: "u2" } });
    await until("both show that", async () => (await Promise.all([one, two].map((device) => device.messages(threadId)))).every((messages) => messages.at(-1).id === "u2"));
    const chat = { threadId, agentName: "summing" };
    assert.equal((await s.session(chat)).head_id, "u2");
    assertHidden([...frames, ...(await pageBytes(s, chat)), ...(await nativeBytes(s, chat))]);
  });
}
