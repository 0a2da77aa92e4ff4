// Workers that answer late, twice, never; workers and servers that are killed. Whatever happens, each decision was answered once, each call
// has one result, each turn ended once, and nobody waits for anything.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort, Server } from "../lib/server.js";
import { until } from "../lib/until.js";

const WORKER = fileURLToPath(new URL("../lib/stormy.js", import.meta.url));
const LIMIT_MS = 240_000;
const SESSIONS = 8;
const TURNS = 3;
/** So often something is killed; each eighth time the server. */
const ROUNDS = 24;

const RULES = `
[[rule]]
when = { contains = "work", tool_result = false }
tool_calls = [{ name = "work" }, { name = "work" }, { name = "work" }]

[[rule]]
text = "Done: {results}"
`;

const worker = (agent, lines) => `
[agent.${agent}]
llm = "main"

[[agent.${agent}.tool]]
name = "work"
idempotent = true
attempts = 100
attempt_secs = 1

[agent.${agent}.worker]
${lines}
attempt_secs = 1
attempts = 100
within_secs = 200
`;

class StormyServer extends Server {
  static async start() {
    const server = new StormyServer();
    server.directory = fs.mkdtempSync(path.join(os.tmpdir(), "headwater-storm-"));
    [server.port, server.workerPort] = [await freePort(), await freePort()];
    server.config = path.join(server.directory, "headwater.toml");
    server.log = path.join(server.directory, "server.log");
    const http = `kind = "http"\nurl = "http://127.0.0.1:${server.workerPort}"\nbreaker_failures = 100000`;
    const parts = [
      `[server]\nlisten = "127.0.0.1:${server.port}"\n`,
      `[store]\nkind = "sqlite"\npath = ${JSON.stringify(path.join(server.directory, "data"))}\n`,
      `[llm.main]\nkind = "script"\nfile = "rules.toml"\n`,
      worker("stormy-http", http),
      worker("stormy-socket", `kind = "socket"`),
    ];
    fs.writeFileSync(server.config, parts.join("\n"));
    fs.writeFileSync(path.join(server.directory, "rules.toml"), RULES);
    await server.spawn();
    return server;
  }

  /** Sends an input until it is known that it was taken. */
  async send(input) {
    await until(`${input.turn_id} is taken`, async () => {
      const response = await fetch(`${this.url}/v1/inputs`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(input) });
      if (response.status === 409) throw new Error(await response.text());
      return response.ok;
    }, { within: 60_000, every: 20 });
  }

  async records(session) {
    const records = [];
    for (let after = 0; after !== undefined; ) {
      const page = await this.get(`/v1/sessions/${session}/records?after=${after}`);
      records.push(...page.records.map(({ record }) => record));
      after = page.next;
    }
    return records;
  }
}

/** A worker that is killed and started again. */
class StormyWorker {
  constructor(...args) {
    this.args = args;
    this.spawn();
  }

  spawn() {
    this.child = spawn(process.execPath, [WORKER, ...this.args], { stdio: ["ignore", "ignore", "inherit"] });
    this.exited = new Promise((resolve) => this.child.once("exit", resolve));
  }

  async restart() {
    await this.kill();
    this.spawn();
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.exited;
  }
}

/** Everything in a session's log that must not be. */
function faults(records, session) {
  const faults = [];
  const count = (list) => list.reduce((counts, key) => counts.set(key, (counts.get(key) ?? 0) + 1), new Map());
  const of = (type) => records.filter((record) => record.type === type).map(({ data }) => data);
  const answered = count(of("decision.answered").map(({ decision_id }) => decision_id));
  for (const [id, times] of answered) if (times !== 1) faults.push(`${session}: ${id} was answered ${times} times`);
  const marks = count(of("custom").map(({ value }) => value.decision_id));
  for (const id of answered.keys()) if (marks.get(id) !== 1) faults.push(`${session}: of the answers to ${id} ${marks.get(id) ?? 0} were carried out`);
  for (const id of marks.keys()) if (!answered.has(id)) faults.push(`${session}: ${id} was carried out and not answered`);
  const results = count(of("message.new").map(({ message }) => message?.tool_call_id).filter(Boolean));
  for (const [id, times] of results) if (times !== 1) faults.push(`${session}: the call ${id} has ${times} results`);
  const ends = count(records.filter(({ type }) => /^turn\.(completed|failed|cancelled)$/.test(type)).map(({ data }) => data.turn_id));
  for (let turn = 1; turn <= TURNS; turn += 1) if (ends.get(`${session}-${turn}`) !== 1) faults.push(`${session}: turn ${turn} ended ${ends.get(`${session}-${turn}`) ?? 0} times`);
  for (const { code } of of("turn.failed")) if (code !== "owner_lost") faults.push(`${session}: a turn failed with ${code}`);
  return faults;
}

test("a storm", { timeout: LIMIT_MS }, async (t) => {
  const server = await StormyServer.start();
  t.after(() => server.stop());
  const workers = [new StormyWorker("http", String(server.workerPort), server.url), new StormyWorker("socket", server.url), new StormyWorker("socket", server.url)];
  t.after(() => Promise.all(workers.map((worker) => worker.kill())));

  let over = false;
  let kills = 0;
  const storm = async () => {
    for (let round = 1; !over && round <= ROUNDS; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 400));
      if (round % 8 === 0) {
        kills += 1;
        await server.restart();
      } else await workers[round % workers.length].restart();
    }
  };
  const talk = async (agent, session) => {
    for (let turn = 1; turn <= TURNS; turn += 1) {
      const turn_id = `${session}-${turn}`;
      await server.send({ type: "client.message", agent_id: agent, session_id: session, turn_id, message: { id: `u${turn}`, role: "user", content: turn % 2 ? "work" : "talk" } });
      await until(`${turn_id} ends`, async () => (await server.get(`/v1/sessions/${session}`)).status === "idle", { within: 150_000, every: 50 });
    }
  };
  const sessions = ["stormy-http", "stormy-socket"].flatMap((agent) => Array.from({ length: SESSIONS }, (_, n) => [agent, `${agent}-${n}`]));
  const storming = storm();
  try {
    await Promise.all(sessions.map(([agent, session]) => talk(agent, session)));
  } catch (error) {
    t.diagnostic(server.tail());
    throw error;
  } finally {
    over = true;
    await storming;
  }
  const found = [];
  let answered = 0;
  for (const [, session] of sessions) {
    const records = await server.records(session);
    answered += records.filter(({ type }) => type === "decision.answered").length;
    found.push(...faults(records, session));
  }
  assert.deepEqual(found, []);
  assert.ok(answered >= sessions.length * TURNS, `${answered} decisions were answered`);
  t.diagnostic(`${answered} decisions were answered, ${kills} times the server was killed`);
});
