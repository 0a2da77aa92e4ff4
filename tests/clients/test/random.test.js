// Random talks of two tabs with a model that calls tools now and then: whatever they do, what the model reads is whole, every run ends,
// and what stands at the end can be sent again without changing anything. A seed repeats a talk: `SEED=7 node --test test/random.test.js`.
import assert from "node:assert/strict";
import { tool } from "../lib/chat.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { each } = useWorld();

const SEEDS = process.env.SEED ? [Number(process.env.SEED)] : [1, 2, 3, 4, 5, 6];
const STEPS = 25;

/** Numbers below `n`, the same for the same seed. */
function dice(seed) {
  let state = seed * 0x9e3779b9;
  return (n) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % n;
  };
}

/** Ends that a run may have here. */
const ENDS = /^(finished|cancelled|refused: (turn_already_active|calls_open|queue_full))$/;
const endOf = (run) => (run.refusal ? `refused: ${run.refusal}` : run.outcome);

for (const seed of SEEDS) {
  each(`a random talk, seed ${seed}`, async (s) => {
    const roll = dice(seed);
    const pick = (list) => list[roll(list.length)];
    let made = 0;
    s.upstream.improvise = () => {
      const count = [0, 0, 0, 1, 2][roll(5)];
      const calls = Array.from({ length: count }, () => ({ id: `c${roll(40)}`, name: pick(["weather", "weather", "stocks"]), arguments: pick(["{}", '{"place":"Rome"}', "[]", "{"]) }));
      return { pace: roll(3), ...(count && { calls }), ...(roll(3) === 0 && { text: `words ${made++}` }), ...(roll(4) === 0 && { reasoning: "hm" }) };
    };
    const first = s.chat({ tools: [tool("weather")] });
    const tabs = [first, s.tab(first)];
    const runs = [];
    const history = [];
    const current = new Map();
    /** Waits until the tab's run has ended; false when that waits behind a turn which waits for results. */
    const isFree = async (tab) => {
      const run = current.get(tab);
      await until("a run ends or is stuck", async () => {
        if (!run || run.isOver) return true;
        const { status, queue } = await s.session(first).catch(() => ({}));
        return status === "waiting" && queue.length > 0;
      });
      return !run || run.isOver;
    };

    const start = (tab, forwarded) => {
      const run = tab.start({ forwarded });
      runs.push(run);
      current.set(tab, run);
      void run.settled.then(() => (run.isOver = true));
      return run;
    };
    const queue = () => pick([undefined, undefined, { queue: true }, { queue: "merge" }]);
    const acts = {
      say: (tab) => (tab.say(`u${made++}`, `question ${made}`), start(tab, queue())),
      answer: (tab) => {
        for (const id of tab.openCalls) if (roll(3)) tab.answer(id, `result ${made++}`, { id: `t${made}`, error: roll(5) ? undefined : "broken" });
        return start(tab, queue());
      },
      answerAndSay: (tab) => {
        for (const id of tab.openCalls) if (roll(2)) tab.answer(id, `result ${made++}`, { id: `t${made}` });
        return acts.say(tab);
      },
      edit: (tab) => {
        const users = tab.messages.filter(({ role }) => role === "user");
        if (!users.length) return acts.say(tab);
        tab.show(...tab.before(pick(users).id));
        return acts.say(tab);
      },
      regenerate: (tab) => {
        const users = tab.messages.filter(({ role }) => role === "user");
        if (!users.length) return acts.say(tab);
        tab.show(...tab.upTo(users.at(-1).id));
        return start(tab);
      },
      resend: (tab) => (tab.messages.length ? start(tab, pick([undefined, { run: true }])) : acts.say(tab)),
      older: (tab) => {
        if (!history.length) return acts.say(tab);
        tab.show(...pick(history));
        return roll(2) ? start(tab) : acts.say(tab);
      },
      reload: async (tab) => {
        const joined = s.tab(first).joining();
        await joined.attempt();
        tab.show(...joined.messages);
      },
      stop: async (tab) => void (await tab.postStop()),
    };
    const weights = ["say", "say", "say", "answer", "answer", "answer", "answerAndSay", "edit", "regenerate", "resend", "older", "reload", "stop"];

    for (let step = 0; step < STEPS; step++) {
      const tab = pick(tabs);
      // A stock client runs one thing at a time.
      await acts[(await isFree(tab)) ? pick(weights) : "stop"](tab);
      if (roll(2)) await isFree(tab);
      if (roll(4) === 0) history.push([...tab.messages]);
    }
    while (!(await Promise.all(tabs.map(isFree))).every(Boolean)) await first.postStop();
    for (const run of runs) await run.end();
    await until("nothing runs", async () => ["idle", "waiting"].includes((await s.session(first)).status));

    for (const run of runs) assert.match(endOf(run), ENDS, JSON.stringify(run.failure?.payload ?? run.events.at(-1)));
    const { status, open_calls: open = [], queue: left } = await s.session(first);
    const joined = s.tab(first).joining();
    const run = await joined.run();
    if (status === "idle") assert.deepEqual(left, []);
    else assert.deepEqual(joined.openCalls.filter((id) => open.some((call) => call.id === id)), open.map(({ id }) => id));
    if (!s.combination.isLegacy) assert.deepEqual(run.pending ?? [], open.map(({ id }) => id));

    // The law: what stands there, sent again, changes nothing. (A question without an answer asks for one.)
    const asks = status === "idle" && joined.last && joined.last.role !== "assistant";
    if (!asks) {
      const before = await s.tree(first);
      const reads = s.reads.length;
      await s.tab(first, ...joined.messages).run();
      assert.deepEqual(await s.tree(first), before);
      assert.equal(s.reads.length, reads);
    }
    // And the talk goes on.
    s.upstream.improvise = () => ({});
    await first.postStop();
    await s.idle(first);
    const last = s.tab(first, ...joined.messages);
    await last.send("the-end", "goodbye");
    assert.equal(s.read.at(-1), "user: goodbye");
  });
}
