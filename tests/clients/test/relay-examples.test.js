// The examples with agents that are there already, as a person runs them: after an edit and a regenerate each reads exactly the branch.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { COMBINATIONS } from "../lib/agents.js";
import { Chat } from "../lib/chat.js";
import { python } from "../lib/python.js";
import { binary, freePort } from "../lib/server.js";
import { until } from "../lib/until.js";
import { Wire } from "../lib/wire.js";

const EXAMPLES = fileURLToPath(new URL("../../../examples/", import.meta.url));
/** Installing takes what the network takes. */
const LIMIT_MS = 400_000;

/** The example's agent, and Headwater with the example's configuration, on free ports. */
async function running(t, folder) {
  const example = path.join(EXAMPLES, folder);
  const interpreter = await python(folder, path.join(example, "requirements.txt"));
  const [agentPort, port] = [await freePort(), await freePort()];
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "headwater-relay-"));
  const agent = spawn(interpreter, [path.join(example, "agent.py"), String(agentPort)], { cwd: directory, stdio: ["ignore", "ignore", "inherit"] });
  const env = { PATH: process.env.PATH, RUST_LOG: "warn", HEADWATER__AGENT__WEATHER__WORKER__URL: `http://127.0.0.1:${agentPort}/` };
  const args = ["serve", "--config", path.join(example, "headwater.toml"), "--listen", `127.0.0.1:${port}`];
  const server = { url: `http://127.0.0.1:${port}`, child: spawn(binary(), args, { cwd: directory, env, stdio: ["ignore", "ignore", "inherit"] }) };
  t.after(() => {
    agent.kill();
    server.child.kill();
    fs.rmSync(directory, { recursive: true, force: true });
  });
  const answers = (url) => async () => (await fetch(url)).status > 0;
  await until("the agent answers", answers(`http://127.0.0.1:${agentPort}/`), { every: 50, within: 60_000 });
  await until("the server answers", answers(`${server.url}/healthz`), { every: 20 });
  return server;
}

for (const folder of ["relay-pydantic-ai", "relay-langgraph"]) {
  test(`${folder}: after an edit and a regenerate the agent reads exactly the branch`, { timeout: LIMIT_MS }, async (t) => {
    const server = await running(t, folder);
    const chat = new Chat({ combination: COMBINATIONS[0], server, wire: new Wire(), agent: "weather", threadId: "a-talk" });
    await chat.send("u1", "hello");
    assert.equal(chat.last.content, "I was sent user: hello");
    const run = await chat.send("u2", "the weather?");
    assert.deepEqual(run.of("TOOL_CALL_RESULT").map(({ content }) => content), ["sunny in Bern"]);
    assert.equal(chat.last.content, "It is sunny in Bern.");
    const before = "I was sent user: hello | assistant: I was sent user: hello | user: the weather? | call: weather | result: sunny in Bern | assistant: It is sunny in Bern. | ";
    await chat.send("u3", "and?");
    assert.equal(chat.last.content, `${before}user: and?`);
    await chat.regenerate();
    assert.equal(chat.last.content, `${before}user: and?`);
    await chat.edit("u2", "u2b", "something else");
    assert.equal(chat.last.content, "I was sent user: hello | assistant: I was sent user: hello | user: something else");
    await chat.regenerate();
    await chat.send("u4", "go on");
    assert.equal(
      chat.last.content,
      "I was sent user: hello | assistant: I was sent user: hello | user: something else | assistant: I was sent user: hello | assi | user: go on",
    );
  });
}
