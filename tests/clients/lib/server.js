// The server under test: a child process on a free loopback port, with a configuration and a data directory of its own.
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { KEY } from "./upstream.js";
import { inTime, until } from "./until.js";

const CLIENTS = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** `HEADWATER_BIN`, else what cargo built: debug, then release. */
export function binary() {
  const built = ["debug", "release"].map((profile) => path.resolve(CLIENTS, "../../target", profile, "headwater"));
  const candidates = process.env.HEADWATER_BIN ? [path.resolve(process.env.HEADWATER_BIN)] : built;
  const found = candidates.find((candidate) => fs.existsSync(candidate));
  if (!found) throw new Error(`no server to test: build it (cargo build) or set HEADWATER_BIN; looked for ${candidates.join(", ")}`);
  return found;
}

/** Each kind of service, with the name of a model that thinks; an agent is called after it. */
export const KINDS = { openai: "o3-mock", anthropic: "claude-sonnet-4-mock", gemini: "gemini-3-mock" };

/** What a model is told that writes a summary for the agents `summing` and `foresighted`. */
export const SUMMARY_PROMPT = "VKWJ: sum up what was said.";

/**
 * The agents that the scenarios talk to. `retrying` and those of that name have a second attempt, the others have one, so that each
 * failure is seen.
 */
function configuration({ port, data, baseUrls }) {
  const llm = (name, attempts, kind = "openai", model = "mock") => `
[llm.${name}]
kind = "${kind}"
base_url = "${baseUrls[kind]}"
model = "${model}"
api_key = { env = "HEADWATER_TEST_KEY" }
attempts = ${attempts}
`;
  const asked = ([kind, model]) => `${llm(kind, 1, kind, model)}${llm(`${kind}-retrying`, 2, kind, model)}
[agent.${kind}]
llm = "${kind}"
system = "You are ${kind}."

[agent.${kind}-retrying]
llm = "${kind}-retrying"
`;
  return `
[server]
listen = "127.0.0.1:${port}"
queue_turns_max = 6

[store]
kind = "sqlite"
path = ${JSON.stringify(data)}
${llm("mock", 1)}${llm("again", 2)}${Object.entries(KINDS).map(asked).join("")}
[agent.bot]
llm = "mock"

[agent.retrying]
llm = "again"

[agent.append]
llm = "mock"
partial_view = "append"

[agent.fork]
llm = "mock"
same_id_edit = "fork"

[agent.continue]
llm = "mock"
on_disconnect = "continue"

[agent.cancel]
llm = "mock"
on_disconnect = "cancel"

[agent.queueing]
llm = "mock"
on_busy = "queue"

[agent.merging]
llm = "mock"
on_busy = "merge"

[agent.stopping]
llm = "mock"
on_busy = "cancel"

[agent.summing]
llm = "mock"

[agent.summing.context]
window = 200000

[[agent.summing.context.strategy]]
use = "summarize"
keep_turns = 1
prompt = "${SUMMARY_PROMPT}"

[agent.foresighted]
llm = "mock"

[agent.foresighted.context]
window = 200000

[[agent.foresighted.context.strategy]]
use = "summarize"
background = true
over_tokens = 100000
keep_turns = 1
prompt = "${SUMMARY_PROMPT}"

[agent.forgetful]
llm = "mock"

[[agent.forgetful.context.strategy]]
use = "reset"
idle_secs = 1

[agent.critic]
llm = "mock"
system = "You are a critic."
`;
}

/** A running server; `stop` takes it and its directory away. */
export class Server {
  static async start({ baseUrls, key = KEY, more = "" }) {
    const server = new Server();
    server.directory = fs.mkdtempSync(path.join(os.tmpdir(), "headwater-clients-"));
    server.port = await freePort();
    server.config = path.join(server.directory, "headwater.toml");
    server.log = path.join(server.directory, "server.log");
    fs.writeFileSync(server.config, configuration({ port: server.port, data: path.join(server.directory, "data"), baseUrls }) + more);
    await server.spawn({ key });
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the process, on the same port and data as before, and waits until it is healthy. `origins` are those that may ask. */
  async spawn({ key = KEY, origins } = {}) {
    const log = fs.openSync(this.log, "a");
    const stdio = ["ignore", log, log];
    this.child = spawn(binary(), ["serve", "--config", this.config], { cwd: this.directory, env: this.env(key, origins), stdio });
    fs.closeSync(log);
    const child = this.child;
    this.exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
      child.once("error", (error) => resolve({ error }));
    });
    let ended;
    void this.exited.then((how) => (ended = how));
    try {
      await until("the server answers /healthz", async () => ended ?? (await fetch(`${this.url}/healthz`)).ok, { every: 20 });
    } catch (error) {
      throw new Error(`${error.message}\n${this.tail()}`, { cause: error });
    }
    if (ended) throw new Error(`the server ended at once (${JSON.stringify(ended)})\n${this.tail()}`);
  }

  /** Ends the process, by default as a power cut would. */
  async kill(signal = "SIGKILL") {
    if (this.isRunning) this.child.kill(signal);
    return this.exited;
  }

  get isRunning() {
    return this.child.exitCode === null && this.child.signalCode === null && this.child.pid !== undefined;
  }

  /** `kill -9` and a new process on the same data. */
  async restart(options) {
    await this.kill();
    await this.spawn(options);
  }

  /** Starts a second process on the same configuration and data (another address): how it ended, and what it said. */
  async rival() {
    const port = await freePort();
    const args = ["serve", "--config", this.config, "--listen", `127.0.0.1:${port}`];
    const child = spawn(binary(), args, { cwd: this.directory, env: this.env(KEY), stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += data));
    const ended = new Promise((resolve) => child.once("close", (code) => resolve({ code, output })));
    try {
      return await inTime("the second process ends", ended);
    } finally {
      if (child.exitCode === null) child.kill("SIGKILL");
    }
  }

  /** What the process is told by its environment. */
  env(key, origins) {
    const listed = origins && { HEADWATER__SERVER__ORIGINS: JSON.stringify(origins) };
    return { ...listed, PATH: process.env.PATH, HEADWATER_TEST_KEY: key, RUST_LOG: process.env.RUST_LOG ?? "info", RUST_BACKTRACE: "1" };
  }

  async stop() {
    await this.kill();
    if (process.env.HEADWATER_KEEP) console.error(`kept: ${this.directory}`);
    else fs.rmSync(this.directory, { recursive: true, force: true });
  }

  /** The last lines that the server logged. */
  tail(lines = 40) {
    return this.logged().slice(-lines).join("\n");
  }

  /** All the lines that the server logged. */
  logged() {
    return fs.readFileSync(this.log, "utf8").trimEnd().split("\n");
  }

  /** `GET path` as JSON; fails unless it is 200. */
  async get(route) {
    const response = await fetch(`${this.url}${route}`);
    const text = await response.text();
    if (response.status !== 200) throw Object.assign(new Error(`GET ${route}: ${response.status} ${text}`), { status: response.status });
    return JSON.parse(text);
  }
}

export async function freePort() {
  const probe = net.createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
