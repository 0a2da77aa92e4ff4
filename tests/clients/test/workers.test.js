// Workers in the languages that people write agents in, as their READMEs start them, and a stock client that talks to their agents.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { COMBINATIONS } from "../lib/agents.js";
import { Chat } from "../lib/chat.js";
import { until } from "../lib/until.js";
import { Wire } from "../lib/wire.js";
import { ExampleServer, LANGUAGES, Worker } from "../lib/worker.js";

const LIMIT_MS = 90_000;

for (const language of LANGUAGES) {
  describe(`an agent in ${language}`, () => {
    let server;
    before(async () => (server = await ExampleServer.start(language)));
    after(() => server?.stop());
    for (const kind of ["http", "socket"]) {
      describe(`over ${kind}`, () => {
        let worker;
        before(async () => (worker = await Worker.start(language, kind, server)));
        after(() => worker?.kill());

        /** A person's tab, which is closed with the test. */
        const person = (t) => {
          const wire = new Wire();
          const tab = new Chat({ combination: COMBINATIONS[0], server, wire, agent: worker.agent, threadId: `thread-${randomUUID()}` });
          t.after(() => {
            assert.deepEqual(wire.faults(), [], "what came over the wire");
            return tab.leave();
          });
          return tab;
        };
        const shows = (tab) => tab.messages.map(({ role, content }) => `${role}: ${content ?? ""}`);
        const interrupts = (run) => run.of("RUN_FINISHED")[0].outcome.interrupts ?? [];
        const answers = (run, approved) => interrupts(run).map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved } }));
        const play = (name, scenario) =>
          test(name, { timeout: LIMIT_MS }, async (t) => {
            try {
              await scenario(person(t), t);
            } catch (error) {
              t.diagnostic(`the worker: ${worker.output}\nthe server: ${server.tail()}`);
              throw error;
            }
          });

        play("a tool is carried out, and the state arrives", async (tab) => {
          const run = await tab.send("u1", "A coffee, please");
          assert.deepEqual(shows(tab), ["user: A coffee, please", "assistant: ", "tool: coffee for 4.20 EUR is booked.", "assistant: coffee for 4.20 EUR is booked."]);
          assert.deepEqual(tab.agent.state, { spent: 4.2 });
          assert.equal(run.of("STATE_SNAPSHOT").length + run.of("STATE_DELTA").length, 1);
          await tab.send("u2", "How much is it?");
          assert.equal(tab.last.content, "4.20 EUR so far.");
        });

        play("a person is asked, says yes, and the turn goes on", async (tab) => {
          const run = await tab.send("u1", "A laptop");
          const [question, ...more] = interrupts(run);
          assert.deepEqual([question.reason, question.message, more.length], ["approval", "Book laptop for 1800.00 EUR?", 0]);
          await tab.run({ resume: answers(run, true) });
          assert.equal(tab.last.content, "laptop for 1800.00 EUR is booked.");
          assert.deepEqual(tab.agent.state, { spent: 1800 });
        });

        play("of two calls one is refused by a person, and the other carried out", async (tab) => {
          const run = await tab.send("u1", "both");
          await tab.run({ resume: answers(run, false) });
          assert.equal(tab.last.content, "coffee for 4.20 EUR is booked. | A person said no.");
          assert.deepEqual(tab.agent.state, { spent: 4.2 });
        });

        play("a question survives the worker and the server", async (tab, t) => {
          tab.wire.cutsAllowed = true;
          const run = await tab.send("u1", "A laptop");
          await worker.kill();
          await server.restart();
          await worker.spawn();
          await tab.run({ resume: answers(run, true) });
          assert.deepEqual(tab.agent.state, { spent: 1800 });
        });

        play("a worker that is killed in the middle of a decision is asked again once it is back", async (tab) => {
          await worker.kill("SIGSTOP");
          const run = tab.begin("u1", "coffee");
          await until("it is asked", async () => (await server.get(`/v1/sessions/${tab.threadId}`)).status === "running");
          await worker.kill();
          await worker.spawn();
          await run.end();
          assert.equal(run.outcome, "finished");
          assert.deepEqual(tab.agent.state, { spent: 4.2 });
        });

        play("a worker that is told to stop ends well, and the next one goes on", async (tab) => {
          await worker.kill("SIGTERM");
          await until("it says that it ended well", () => /stopped\s*$/.test(worker.output));
          await worker.spawn();
          await tab.send("u1", "coffee");
          assert.deepEqual(tab.agent.state, { spent: 4.2 });
        });
      });
    }
  });
}
