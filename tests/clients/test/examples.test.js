// The examples as a person runs them: the server as it is without a configuration, the example's one command, and a browser.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { useBrowser } from "../lib/browser.js";
import { binary, freePort } from "../lib/server.js";
import { draw, readTree } from "../lib/tree.js";
import { until } from "../lib/until.js";

const browser = useBrowser();
const EXAMPLES = fileURLToPath(new URL("../../../examples/", import.meta.url));

let directory;
let server;

before(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "headwater-examples-"));
  const port = await freePort();
  const env = { PATH: process.env.PATH, HEADWATER__STORE__KIND: "memory", RUST_LOG: "warn" };
  server = { url: `http://127.0.0.1:${port}`, child: spawn(binary(), ["serve", "--listen", `127.0.0.1:${port}`], { cwd: directory, env, stdio: "ignore" }) };
  server.get = async (route) => (await fetch(server.url + route)).json();
  await until("the server answers", async () => (await fetch(`${server.url}/healthz`)).ok, { every: 20 });
});

after(() => {
  server?.child.kill();
  fs.rmSync(directory, { recursive: true, force: true });
});

/** Runs an example's command; resolves to what it says first, and ends with the test. */
async function running(t, folder, args) {
  const child = spawn(process.execPath, args, { cwd: path.join(EXAMPLES, folder), stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill());
  return new Promise((resolve) => child.stdout.once("data", (data) => resolve(data.toString().trim())));
}

/** The page of `front-end-tools`, and what a person does with it. */
async function toolsPage(t) {
  const address = await running(t, "front-end-tools", ["serve.js", "0"]);
  const context = await browser.process.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  const failures = [];
  page.on("pageerror", (error) => failures.push(error.message));
  await page.goto(`${address}?agent=${server.url}/agents/demo`);
  const lines = () => page.locator("#messages li").evaluateAll((items) => items.map((item) => `${item.dataset.role}: ${item.firstChild.textContent}`));
  const tab = {
    page,
    failures,
    threadId: () => page.evaluate(() => sessionStorage.thread),
    async is(status) {
      await until(() => `the page is ${status}`, async () => (await page.locator("#status").textContent()) === status);
    },
    async say(text, status) {
      await page.fill("#text", text);
      await page.click("#composer button");
      await tab.is(status);
    },
    async shows(...expected) {
      let seen;
      await until(() => `the page shows ${JSON.stringify(expected)}, it shows ${JSON.stringify(seen)}`, async () => JSON.stringify((seen = await lines())) === JSON.stringify(expected));
    },
    color: () => page.evaluate(() => document.body.style.background),
    press: (choice) => page.getByRole("button", { name: choice }).click(),
  };
  await tab.is("idle");
  return tab;
}

test("front-end-tools: the page carries a call out, and the turn goes on with its result", async (t) => {
  const tab = await toolsPage(t);
  await tab.say("color", "idle");
  assert.equal(await tab.color(), "teal");
  await tab.shows("user: color", 'call: set_color {"color":"teal"}', "tool: The page is teal now.", "assistant: The tool answered: The page is teal now.");
  const tree = await readTree(server, await tab.threadId());
  assert.match(draw(tree), /^user: color\nassistant:  \[\S+ set_color\]\ntool \S+: The page is teal now\.\nassistant: The tool answered: The page is teal now\. \(head\)$/);
  assert.deepEqual(tab.failures, []);
});

test("front-end-tools: a person is asked, also after a reload, and answers", async (t) => {
  const tab = await toolsPage(t);
  await tab.say("ask", "waiting for you");
  await tab.shows("user: ask", "assistant: I had better ask. ", 'call: ask_person {"question":"Shall I go on?"}', "question: Shall I go on?");
  await tab.page.reload();
  await tab.is("waiting for you");
  await tab.shows("user: ask", "assistant: I had better ask. ", 'call: ask_person {"question":"Shall I go on?"}', "question: Shall I go on?");
  await tab.press("yes");
  await tab.is("idle");
  await tab.shows("user: ask", "assistant: I had better ask. ", 'call: ask_person {"question":"Shall I go on?"}', "tool: yes", "assistant: The tool answered: yes");
  assert.deepEqual(tab.failures, []);
});

test("front-end-tools: of two calls one is done at once, the other by a person; the model reads both", async (t) => {
  const tab = await toolsPage(t);
  await tab.say("both", "waiting for you");
  assert.equal(await tab.color(), "gold");
  await tab.press("no");
  await tab.is("idle");
  const lines = ["user: both", 'call: set_color {"color":"gold"}', 'call: ask_person {"question":"Is this better?"}', "tool: The page is gold now.", "tool: no"];
  await tab.shows(...lines, "assistant: The tool answered: The page is gold now. | no");
  assert.deepEqual(tab.failures, []);
});

test("front-end-tools: a question is given up by saying something else", async (t) => {
  const tab = await toolsPage(t);
  await tab.say("ask", "waiting for you");
  await tab.say("never mind", "idle");
  const reply = "assistant: You said: never mind\n\nI have read 4 messages of this conversation.";
  await tab.shows("user: ask", "assistant: I had better ask. ", 'call: ask_person {"question":"Shall I go on?"}', "user: never mind", reply);
  await tab.page.reload();
  await tab.is("idle");
  await tab.shows("user: ask", "assistant: I had better ask. ", 'call: ask_person {"question":"Shall I go on?"}', "user: never mind", reply);
  assert.deepEqual(tab.failures, []);
});
