// The examples of workers as a person runs them: a server with the example's configuration, and the worker by the command in its README.
import { execFile, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { python } from "./python.js";
import { freePort, Server } from "./server.js";
import { until } from "./until.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==";
const TOKEN = "token-of-the-tests";
let interpreter = process.execPath;

/** How each language is made ready. */
const PREPARE = {
  python: async () => (interpreter = await python("worker", path.join(ROOT, "examples/worker-python/requirements.txt"))),
  typescript: async () => {
    const folder = path.join(ROOT, "examples/worker-typescript");
    if (!fs.existsSync(path.join(folder, "node_modules"))) await promisify(execFile)("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder });
  },
};
export const LANGUAGES = Object.keys(PREPARE);

/** The server as the example's README starts it, on ports of its own, with its secrets. */
export class ExampleServer extends Server {
  static async start(language) {
    await PREPARE[language]();
    const server = new ExampleServer();
    const folder = path.join(ROOT, `examples/worker-${language}`);
    server.directory = fs.mkdtempSync(path.join(os.tmpdir(), "headwater-worker-"));
    server.port = await freePort();
    server.workerPort = await freePort();
    server.config = path.join(server.directory, "headwater.toml");
    server.log = path.join(server.directory, "server.log");
    const text = fs.readFileSync(path.join(folder, "headwater.toml"), "utf8");
    const own = text.replace("127.0.0.1:9000", `127.0.0.1:${server.workerPort}`).replace(/^# (secret|token) =/gm, "$1 =");
    const data = JSON.stringify(path.join(server.directory, "data"));
    fs.writeFileSync(server.config, `${own}\n[server]\nlisten = "127.0.0.1:${server.port}"\n\n[store]\nkind = "sqlite"\npath = ${data}\n`);
    fs.copyFileSync(path.join(folder, "rules.toml"), path.join(server.directory, "rules.toml"));
    await server.spawn();
    return server;
  }

  env(...args) {
    return { ...super.env(...args), HEADWATER_SECRET: SECRET, HEADWATER_TOKEN: TOKEN };
  }
}

/** The command that starts a language's worker, as its README says it: over HTTP, or over a socket. */
function command(language, kind, server) {
  const readme = fs.readFileSync(path.join(ROOT, `examples/worker-${language}/README.md`), "utf8");
  const blocks = [...readme.matchAll(/^```sh\n(.*?)\n```$/gms)].map((match) => match[1]);
  const found = blocks.find((block) => /^(python3|npm) /.test(block) && block.includes("ws://") === (kind === "socket"));
  if (!found) throw new Error(`the README of ${language} has no command for ${kind}`);
  return found.replace(":8080", `:${server.port}`);
}

/** A worker in a process group of its own. */
export class Worker {
  constructor(language, kind, server) {
    Object.assign(this, { language, kind, server, output: "" });
  }

  static async start(language, kind, server) {
    const worker = new Worker(language, kind, server);
    await worker.spawn();
    return worker;
  }

  /** The agent that it decides for. */
  get agent() {
    return this.kind === "socket" ? "expenses-socket" : "expenses";
  }

  async spawn() {
    const PATH = `${path.dirname(interpreter)}:${path.dirname(process.execPath)}:${process.env.PATH}`;
    const env = { HOME: process.env.HOME, PATH, PORT: String(this.server.workerPort), HEADWATER_SECRET: SECRET, HEADWATER_TOKEN: TOKEN };
    const stdio = ["ignore", "pipe", "pipe"];
    const before = this.output.length;
    const child = spawn("bash", ["-c", `exec ${command(this.language, this.kind, this.server)}`], { cwd: ROOT, env, stdio, detached: true });
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (this.output += data));
    this.exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
    await until(() => `the worker is asked: ${this.output}`, () => this.output.slice(before).includes("asked"), { within: 30_000 });
  }

  /** Ends it, by default as a power cut would, or stops it in the middle of what it does. */
  async kill(signal = "SIGKILL") {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return this.exited;
    process.kill(-this.child.pid, signal);
    return signal === "SIGSTOP" ? undefined : this.exited;
  }
}
