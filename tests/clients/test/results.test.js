// Results in every shape in which front ends send them: under ids that they make up, with replies that they renamed, folded, split or
// forgot, in any place. However they come, the model reads each once, right after its call.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { result, tool, user } from "../lib/chat.js";
import { drawing, pathOf } from "../lib/tree.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

const call = (id, place) => ({ id, name: "weather", arguments: { place } });
const question = user("u1", "how is it?");

/** What a page holds of a call. */
const held = ({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: JSON.stringify(given) } });
const C1 = held(call("c1", "Rome"));
const C2 = held(call("c2", "Oslo"));

/** A turn that waits for `c2` in its second round: `u1`, a reply that called `c1`, its result, a reply with words that calls `c2`. */
async function secondRound(s) {
  const chat = s.chat({ tools: [tool("weather")] });
  s.upstream.next({ calls: [call("c1", "Rome")], reasoning: "Rome first" });
  await chat.send("u1", "how is it?");
  s.upstream.next({ calls: [call("c2", "Oslo")], text: "And there?" });
  chat.answer("c1", "18 degrees");
  await chat.run();
  const [a1, a2] = chat.messages.filter((message) => message.role === "assistant");
  return { chat, a1, a2, t1: chat.messages.find((message) => message.toolCallId === "c1") };
}

const READ = [
  "user: how is it?",
  'assistant:  [c1 weather {"place":"Rome"}]',
  "tool c1: 18 degrees",
  'assistant: And there? [c2 weather {"place":"Oslo"}]',
  "tool c2: 2 degrees",
];

const TREE = drawing`
  user: how is it?
  assistant:  [c1 weather]
  tool c1: 18 degrees
  assistant: And there? [c2 weather]
  tool c2: 2 degrees
  assistant: answer 1 to how is it? (head)`;

/** Lists that answer `c2`, by what is odd about them. */
const LISTS = {
  "with a random id, as CopilotKit does": ({ chat }) => [...chat.messages, result("c2", "2 degrees", { id: randomUUID() })],
  "with the call's id and a suffix, as assistant-ui does": ({ a1, t1, a2 }) => [question, a1, { ...t1, id: "c1:tool" }, a2, result("c2", "2 degrees", { id: "c2:tool" })],
  "with the call's id and a prefix, as TanStack does": ({ a1, t1, a2 }) => [question, a1, { ...t1, id: "tool-c1" }, a2, result("c2", "2 degrees", { id: "tool-c2" })],
  "with the call's own id": ({ chat }) => [...chat.messages, result("c2", "2 degrees", { id: "c2" })],
  "with parts in the place of text": ({ chat }) => [...chat.messages, result("c2", [{ type: "text", text: "2 " }, { type: "text", text: "degrees" }])],
  "below replies that are named by their calls": ({ t1 }) => [question, { id: "c1", role: "assistant", toolCalls: [C1] }, t1, { id: "c2", role: "assistant", content: "And there?", toolCalls: [C2] }, result("c2", "2 degrees")],
  "below one reply that both were folded into": ({ a1, t1 }) => [question, { ...a1, content: "And there?", toolCalls: [C1, C2] }, t1, result("c2", "2 degrees")],
  "below one reply under the later one's id": ({ a2, t1 }) => [question, { ...a2, toolCalls: [C1, C2] }, t1, result("c2", "2 degrees")],
  "below a reply that was split in words and a call": ({ a1, t1, a2 }) => [question, a1, t1, { id: a2.id, role: "assistant", content: "And there?" }, { id: "c2", role: "assistant", toolCalls: [C2] }, result("c2", "2 degrees")],
  "below replies that lost their words": ({ a1, t1, a2 }) => [question, { ...a1, content: undefined }, t1, { ...a2, content: undefined }, result("c2", "2 degrees")],
  "with reasoning under an id that the page made up": ({ a1, t1, a2 }) => [question, { id: `${a1.id}:reasoning-9`, role: "reasoning", content: "Rome first" }, a1, t1, a2, result("c2", "2 degrees")],
  "without the replies": ({ t1 }) => [question, t1, result("c2", "2 degrees")],
  "without the replies and the results before": () => [question, result("c2", "2 degrees")],
  "alone": () => [result("c2", "2 degrees")],
  "alone, with the result before": ({ t1 }) => [t1, result("c2", "2 degrees")],
  "before everything else": ({ a1, t1, a2 }) => [result("c2", "2 degrees"), question, a1, t1, a2],
  "before its reply": ({ a1, t1, a2 }) => [question, a1, t1, result("c2", "2 degrees"), a2],
  "in another order than the results before": ({ a1, a2, t1 }) => [question, a1, a2, result("c2", "2 degrees"), t1],
  "without ids": ({ a1, t1, a2 }) => [question, a1, t1, a2, result("c2", "2 degrees")].map(({ id: _, ...rest }) => (rest.role === "tool" ? rest : { id: _, ...rest })),
  "after results of calls that were never made": ({ chat }) => [...chat.messages, result("c9", "nonsense"), result("c2", "2 degrees")],
  "twice": ({ chat }) => [...chat.messages, result("c2", "2 degrees"), result("c2", "30 degrees", { id: "once-more" })],
};

/** The 1.0 client sends nothing over HTTP that has no id. */
const sends = (what) => (combination) => what !== "without ids" || combination.isLegacy || combination.transport === "ws";

for (const [what, list] of Object.entries(LISTS)) {
  each(`a result ${what}`, async (s) => {
    const round = await secondRound(s);
    const shown = list(round);
    round.chat.show(...shown);
    await round.chat.run();
    assert.deepEqual(s.read, READ);
    assert.equal(s.reads.length, 3);
    assert.equal(await s.drawn(round.chat), TREE);
    assert.equal((await s.session(round.chat)).status, "idle");

    // And the same list with the answer goes on from there.
    round.chat.show(...shown, round.chat.last);
    await round.chat.send("u2", "thanks");
    assert.deepEqual(s.read, [...READ, "assistant: answer 1 to how is it?", "user: thanks"]);
    const tree = await s.tree(round.chat);
    assert.equal(pathOf(tree).length, 8);
    assert.equal(tree.nodes.length, 8, "no other branch came of it");
  }, sends(what));
}
