// What a test file runs in: one model and one server for all its scenarios, and each scenario once for every client and transport.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { Agent, aimockAgent } from "./agent.js";
import { COMBINATIONS } from "./agents.js";
import { Chat } from "./chat.js";
import { Server } from "./server.js";
import { draw, readTree } from "./tree.js";
import { Upstream } from "./upstream.js";
import { inTime, until } from "./until.js";
import { Wire } from "./wire.js";

const SCENARIO_LIMIT_MS = 60_000;

/** Starts the model and the server before the file's tests and ends them after. `more` gives what the server is configured besides. */
export function useWorld({ relay = false, more = () => "" } = {}) {
  const world = {};
  before(async () => {
    world.upstream = await Upstream.start();
    if (relay) Object.assign(world, { agent: await Agent.start(), aimock: await aimockAgent() });
    world.server = await Server.start({ baseUrls: world.upstream.baseUrls, more: (relay ? relays(world) : "") + more() });
  });
  after(async () => {
    await world.server?.stop();
    await world.upstream?.stop();
    await world.agent?.stop();
    await world.aimock?.stop();
  });
  return {
    /** Registers `scenario` once for each combination that `where` takes. */
    each: (name, scenario, where = () => true) => {
      for (const combination of COMBINATIONS.filter(where)) {
        test(`${name} (${combination.name})`, { timeout: SCENARIO_LIMIT_MS }, (t) => play(t, world, combination, scenario));
      }
    },
    /** Registers `scenario` once, for one combination. */
    once: (name, scenario, combination = COMBINATIONS[0]) => {
      test(name, { timeout: SCENARIO_LIMIT_MS }, (t) => play(t, world, combination, scenario));
    },
  };
}

/** Agents that other agents answer for. */
const relays = ({ agent, aimock }) => `
[agent.relayed]
system = "You are relayed."

[agent.relayed.worker]
kind = "agui"
url = "${agent.url}"
headers = { x-relayed = "yes" }
attempts = 2

[agent.aimock.worker]
kind = "agui"
url = "${aimock.url}"
`;

async function play(t, world, combination, scenario) {
  // A scenario before may have left it dead.
  if (!world.server.isRunning) await world.server.spawn();
  const s = new Scenario(world, combination);
  const warn = console.warn;
  console.warn = (...words) => void s.warnings.push(words.map(String).join(" "));
  try {
    await scenario(s);
    await s.settle();
  } catch (error) {
    t.diagnostic(s.story());
    throw error;
  } finally {
    await s.end();
    console.warn = warn;
  }
  assert.deepEqual(s.wire.faults(), [], "what came over the wire");
  assert.deepEqual(s.upstream.misread(), [], "what the model read");
  assert.deepEqual(s.warnings, [], "what the client warned about");
  assert.equal(s.upstream.planned.length, 0, "planned calls that were never made");
}

/** One scenario: its tabs, its model, its server. */
class Scenario {
  constructor({ server, upstream, agent }, combination) {
    Object.assign(this, { server, upstream, agent, combination, wire: new Wire(), tabs: [], warnings: [] });
    upstream.reset();
    agent?.reset();
  }

  /** A tab on a new conversation. Its page carries out `tools`. */
  chat({ agent = "bot", threadId = `thread-${randomUUID()}`, tools } = {}) {
    const { server, wire, combination } = this;
    const tab = new Chat({ combination, server, wire, agent, threadId, tools });
    this.tabs.push(tab);
    return tab;
  }

  /** Another tab on the same conversation, with its own list of messages. */
  tab(chat, ...messages) {
    const tab = this.chat({ agent: chat.agentName, threadId: chat.threadId, tools: chat.tools });
    tab.show(...messages);
    return tab;
  }

  /** The tree of `chat`'s conversation. */
  tree(chat) {
    return readTree(this.server, chat.threadId);
  }

  /** The tree of `chat`'s conversation as a drawing. */
  async drawn(chat) {
    return draw(await this.tree(chat));
  }

  session(chat) {
    return this.server.get(`/v1/sessions/${encodeURIComponent(chat.threadId)}`);
  }

  /** What the model read, call by call. */
  get reads() {
    return this.upstream.reads();
  }

  /** The tools that the model was offered last. */
  get offered() {
    return this.upstream.offers().at(-1);
  }

  /** What the model read last. */
  get read() {
    return this.reads.at(-1);
  }

  /** Waits until `chat`'s session does nothing. A session that was never made does nothing. */
  async idle(chat) {
    await this.#settled(chat, ["idle"]);
  }

  /** Waits until `chat`'s session runs nothing; a turn may wait for results. */
  async #settled(chat, statuses) {
    let seen;
    await until(
      () => `session ${chat.threadId} is ${statuses.join(" or ")}, it is ${JSON.stringify(seen)}`,
      async () => {
        try {
          seen = await this.session(chat);
        } catch (error) {
          if (error.status === 404) return true;
          throw error;
        }
        return statuses.includes(seen.status);
      },
    );
  }

  /** Waits until nothing that the scenario began is under way. */
  async settle() {
    for (const call of this.upstream.calls) call.release();
    for (const threadId of new Set(this.tabs.map((tab) => tab.threadId))) await this.#settled({ threadId }, ["idle", "waiting"]);
    await until("no stream of the model is open", () => this.upstream.open.length === 0);
  }

  async end() {
    for (const call of this.upstream.calls) call.release();
    for (const tab of this.tabs) await inTime("a tab closes", tab.leave()).catch(() => {});
  }

  /** What happened, for a person who reads a failure. */
  story() {
    const exchanges = this.wire.exchanges.map((exchange) => `${exchange.name}\n${exchange.text.trimEnd().replace(/^/gm, "    ")}`);
    return ["what came over the wire:", ...exchanges, "what the model read:", JSON.stringify(this.reads, null, 1), "the server's log:", this.server.tail()].join("\n");
  }
}
