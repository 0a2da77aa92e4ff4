// Tools of the page with the front ends that people build with: CopilotKit's core, TanStack AI's client.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { CopilotKit, PERSON, TanStack } from "../lib/frontends.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();

/** Each scenario once for each front end. */
function each(name, scenario) {
  for (const FrontEnd of [CopilotKit, TanStack]) {
    once(`${name} (${FrontEnd.name})`, async (s) => {
      const made = [];
      await scenario(s, (tools, threadId = `thread-${randomUUID()}`) => {
        const page = new FrontEnd({ url: `${s.server.url}/agents/bot`, fetch: s.wire.fetch, threadId, tools });
        s.tabs.push({ threadId, leave: async () => {} });
        made.push(page);
        return page;
      });
      assert.deepEqual(made.flatMap((page) => page.failures), []);
    });
  }
}

const WEATHER = { weather: (place) => `18 degrees in ${place}` };
const call = (id, place, name = "weather") => ({ id, name, arguments: { place } });

each("a tool is carried out and the turn goes on", async (s, page) => {
  const chat = page(WEATHER);
  s.upstream.next({ text: "Let me see.", calls: [call("c1", "Rome")] });
  await chat.send("u1", "how is it?");
  assert.deepEqual(s.offered, ["weather"]);
  assert.deepEqual(s.reads, [["user: how is it?"], ["user: how is it?", 'assistant: Let me see. [c1 weather {"place":"Rome"}]', "tool c1: 18 degrees in Rome"]]);
  assert.deepEqual(chat.lines, ["user: how is it?", "assistant: Let me see.", "assistant: answer 1 to how is it?"]);
  await chat.send("u2", "thanks");
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees in Rome", "assistant: answer 1 to how is it?", "user: thanks"]);
  assert.equal(await s.drawn(chat), drawing`
    user: how is it?
    assistant: Let me see. [c1 weather]
    tool c1: 18 degrees in Rome
    assistant: answer 1 to how is it?
    user: thanks
    assistant: answer 2 to thanks (head)`);
});

each("parallel calls, then another round", async (s, page) => {
  const chat = page(WEATHER);
  s.upstream.next({ calls: [call("c1", "Rome"), call("c2", "Oslo")] });
  s.upstream.next({ calls: [call("c3", "Bern")] });
  await chat.send("u1", "how is it?");
  await until("the answer is there", () => chat.lines.at(-1).startsWith("assistant: answer"));
  assert.deepEqual(s.read.filter((line) => line.startsWith("tool")), ["tool c1: 18 degrees in Rome", "tool c2: 18 degrees in Oslo", "tool c3: 18 degrees in Bern"]);
  assert.equal(s.reads.length, 3);
  assert.equal((await s.tree(chat)).nodes.length, 7);
});

each("a tool that fails is read as such", async (s, page) => {
  const chat = page({
    weather: () => {
      throw new Error("the station is silent");
    },
  });
  s.upstream.next({ calls: [call("c1", "Rome")] });
  await chat.send("u1", "how is it?");
  // CopilotKit goes on only when the person does.
  await chat.send("u2", "and now?");
  assert.match(s.read[2], /^tool c1: .*the station is silent/s);
  assert.equal(s.read.at(-1), "user: and now?");
});

each("a tool that nobody offers: the turn goes on by itself, and the talk after it", async (s, page) => {
  const chat = page(WEATHER);
  s.upstream.next({ calls: [call("c1", "Rome", "stocks")] });
  await chat.send("u1", "how is it?");
  assert.deepEqual(s.read.slice(2), ['tool c1: Error: There is no tool named "stocks".']);
  await chat.send("u2", "thanks");
  assert.deepEqual(s.read.slice(2), ['tool c1: Error: There is no tool named "stocks".', "assistant: answer 1 to how is it?", "user: thanks"]);
});

each("a person answers after a while", async (s, page) => {
  const chat = page({ ask: PERSON });
  s.upstream.next({ calls: [call("c1", "Rome", "ask")] });
  await chat.send("u1", "may I?");
  assert.equal((await s.session(chat)).status, "waiting");
  assert.equal(s.reads.length, 1);
  await chat.answer("c1", "yes");
  assert.deepEqual(s.read.slice(2), ["tool c1: yes"]);
  assert.equal((await s.session(chat)).status, "idle");
});

each("a person says something else instead", async (s, page) => {
  const chat = page({ ask: PERSON });
  s.upstream.next({ calls: [call("c1", "Rome", "ask")] });
  await chat.send("u1", "may I?");
  await chat.send("u2", "never mind");
  const read = ["user: may I?", 'assistant:  [c1 ask {"place":"Rome"}]', "tool c1: Error: This call was interrupted and has no result.", "user: never mind"];
  assert.deepEqual(s.read, read);
  assert.equal((await s.session(chat)).status, "idle");
  // The answer comes all the same: too late to be read.
  await chat.answer("c1", "yes");
  await s.idle(chat);
  await chat.send("u3", "go on");
  assert.deepEqual(s.read.slice(0, 4), read);
  assert.equal(s.read.at(-1), "user: go on");
});

each("another reply after a tool", async (s, page) => {
  const chat = page(WEATHER);
  s.upstream.next({ calls: [call("c1", "Rome")] });
  await chat.send("u1", "how is it?");
  await chat.regenerate();
  assert.deepEqual(s.read, ["user: how is it?"]);
  const tree = await s.tree(chat);
  assert.equal(tree.nodes.filter((node) => node.parent_id === tree.nodes[0].id).length, 2);
});
