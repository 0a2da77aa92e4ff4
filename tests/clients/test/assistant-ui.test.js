// assistant-ui in a browser: its tree of branches, and tools that its page carries out or a person answers.
import assert from "node:assert/strict";
import { useBrowser } from "../lib/browser.js";
import { drawing } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();
const browser = useBrowser();

const each = (name, scenario) => once(`assistant-ui: ${name}`, scenario);
/** Waits until the model was asked so often, and has answered. */
async function asked(s, tab, times) {
  await until(`the model is asked ${times} times`, () => s.reads.length === times);
  await s.idle(tab);
}

const call = (id, place, name = "weather") => ({ id, name, arguments: { place } });

each("a talk, an edit, another reply, and back to the first branch", async (s) => {
  const tab = await browser.assistant(s);
  await tab.send("hello");
  await tab.shows("user: hello", "assistant: answer 1 to hello");
  await tab.send("more");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more");
  await tab.edit(2, "something else");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: something else", "assistant: answer 3 to something else");
  await tab.reload(3);
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: something else", "assistant: answer 4 to something else");
  await tab.switch(2, "previous");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "assistant: answer 2 to more");
  await tab.send("go on");
  // It forgets the message that was edited; the model doesn't.
  await tab.shows("user: hello", "assistant: answer 1 to hello", "assistant: answer 2 to more", "user: go on", "assistant: answer 5 to go on");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more", "user: go on"]);
  assert.equal(await s.drawn(tab), drawing`
    user: hello
    assistant: answer 1 to hello
    - user: more
      assistant: answer 2 to more
      user: go on
      assistant: answer 5 to go on (head)
    - user: something else
      - assistant: answer 3 to something else
      - assistant: answer 4 to something else`);
});

each("a tool of the page is carried out, and the turn goes on", async (s) => {
  const tab = await browser.assistant(s);
  s.upstream.next({ text: "Let me see. ", calls: [call("c1", "Rome")] });
  await tab.send("how is it?");
  await tab.shows("user: how is it?", "assistant: Let me see. [weather 18 degrees in Rome]", "assistant: answer 1 to how is it?");
  assert.deepEqual(s.read, ["user: how is it?", 'assistant: Let me see.  [c1 weather {"place":"Rome"}]', "tool c1: 18 degrees in Rome"]);
  await tab.send("thanks");
  await tab.shows("user: how is it?", "assistant: Let me see. [weather 18 degrees in Rome]", "assistant: answer 1 to how is it?", "user: thanks", "assistant: answer 2 to thanks");
  assert.deepEqual(s.read.slice(2), ["tool c1: 18 degrees in Rome", "assistant: answer 1 to how is it?", "user: thanks"]);
  assert.equal((await s.tree(tab)).nodes.length, 6);
});

each("parallel calls and another round", async (s) => {
  const tab = await browser.assistant(s);
  s.upstream.next({ calls: [call("c1", "Rome"), call("c2", "Oslo")] });
  s.upstream.next({ calls: [call("c3", "Bern")] });
  await tab.send("how is it?");
  await tab.shows("user: how is it?", "assistant: [weather 18 degrees in Rome][weather 18 degrees in Oslo]", "assistant: [weather 18 degrees in Bern]", "assistant: answer 1 to how is it?");
  assert.deepEqual(s.read.filter((line) => line.startsWith("tool")), ["tool c1: 18 degrees in Rome", "tool c2: 18 degrees in Oslo", "tool c3: 18 degrees in Bern"]);
  assert.equal(s.reads.length, 3);
});

each("a person answers a call", async (s) => {
  const tab = await browser.assistant(s);
  s.upstream.next({ calls: [call("c1", "Rome", "ask")] });
  await tab.send("may I?");
  await tab.shows("user: may I?", "assistant: [ask]");
  assert.equal((await s.session(tab)).status, "waiting");
  await tab.answer("c1", "yes");
  await tab.shows("user: may I?", "assistant: [ask yes]", "assistant: answer 1 to may I?");
  assert.deepEqual(s.read.slice(2), ["tool c1: yes"]);
});

each("a person says something else in the place of an answer", async (s) => {
  const tab = await browser.assistant(s);
  s.upstream.next({ calls: [call("c1", "Rome"), call("c2", "Oslo", "ask")] });
  await tab.send("may I?");
  await tab.shows("user: may I?", "assistant: [weather 18 degrees in Rome][ask]");
  await tab.send("never mind");
  await asked(s, tab, 2);
  assert.deepEqual(s.read.slice(0, 3), ["user: may I?", 'assistant:  [c1 weather {"place":"Rome"}] [c2 ask {"place":"Oslo"}]', "tool c1: 18 degrees in Rome"]);
  // It answers a call that was left by itself.
  assert.match(s.read[3], /^tool c2: .*Tool call cancelled by user/);
  assert.equal(s.read.at(-1), "user: never mind");
  assert.equal(s.reads.length, 2);
});

each("an edit while a call waits, and back", async (s) => {
  const tab = await browser.assistant(s);
  s.upstream.next({ calls: [call("c1", "Rome", "ask")] });
  await tab.send("may I?");
  await tab.shows("user: may I?", "assistant: [ask]");
  await tab.edit(0, "something else");
  await tab.shows("user: something else", "assistant: answer 1 to something else");
  assert.deepEqual(s.read, ["user: something else"]);
  await tab.switch(0, "previous");
  // It gives a result of its own to a call that was left; that comes too late.
  await tab.shows('assistant: [ask {"error":"Tool call cancelled by user"}]');
  await tab.send("never mind");
  await asked(s, tab, 3);
  assert.equal(s.read[0], "user: may I?");
  assert.equal(s.read[2], "tool c1: Error: This call was interrupted and has no result.");
  assert.equal(s.read.at(-1), "user: never mind");
});
