// A real browser: Debian's chromium, driven by playwright. Its tabs show the pages of `page/`, and a test does with them what a person does.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { chromium } from "playwright-core";
import { Pages } from "./pages.js";
import { until } from "./until.js";

const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** A name that isn't this machine's and yet leads here, as one of an attacker can. */
export const FOREIGN_HOST = "evil.example";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  `--host-resolver-rules=MAP ${FOREIGN_HOST} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
];

/** Starts the browser and the pages' server before the file's tests and ends them after. */
export function useBrowser() {
  const browser = new Browser();
  before(() => browser.start());
  after(() => browser.stop());
  return browser;
}

class Browser {
  async start() {
    if (!fs.existsSync(EXECUTABLE)) throw new Error(`no browser at ${EXECUTABLE}: install chromium, or set CHROMIUM`);
    this.pages = await Pages.start();
    // Whatever it writes goes here or into a profile that playwright throws away, not into the home of who runs the tests.
    this.directory = fs.mkdtempSync(path.join(os.tmpdir(), "headwater-browser-"));
    const home = { HOME: this.directory, XDG_CONFIG_HOME: this.directory, XDG_CACHE_HOME: this.directory, TMPDIR: this.directory };
    this.process = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS, headless: true, env: { ...process.env, ...home } });
  }

  async stop() {
    await this.process?.close();
    await this.pages?.stop();
    if (this.directory) fs.rmSync(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }

  /** A tab with the chat page on a new conversation, or on that of another tab. It is a person's only tab, or stands `beside` another one. */
  async chat(s, { agent = "bot", transport = "sse", threadId = `thread-${randomUUID()}`, beside } = {}) {
    const query = new URLSearchParams({ agent: `${s.server.url}/agents/${agent}`, thread: threadId, transport });
    const tab = new ChatTab(s, await this.#page(beside), threadId);
    await tab.watch();
    await tab.page.goto(this.pages.at(`/chat.html?${query}`));
    return tab;
  }

  /** A tab with assistant-ui on a new conversation. */
  async assistant(s, { agent = "bot", threadId = `thread-${randomUUID()}` } = {}) {
    const query = new URLSearchParams({ agent: `${s.server.url}/agents/${agent}`, thread: threadId });
    const tab = new AssistantTab(s, await this.#page(), threadId);
    await tab.page.goto(this.pages.at(`/assistant.html?${query}`));
    await tab.page.waitForFunction(() => window.thread);
    return tab;
  }

  /** A tab with whatever is at `address`, that has something in mind with a conversation. */
  async tab(s, address) {
    const tab = new Tab(s, await this.#page(), `thread-${randomUUID()}`);
    await tab.watch();
    tab.answer = await tab.page.goto(address);
    return tab;
  }

  /** A page of a person whose browser has seen nothing yet. */
  async #page(beside) {
    const context = beside?.page.context() ?? (await this.process.newContext());
    return context.newPage();
  }
}

/** One tab, and what the browser tells about it. */
class Tab {
  constructor(s, page, threadId) {
    Object.assign(this, { page, threadId, preflights: [], corsErrors: [] });
    s.tabs.push(this);
    page.on("pageerror", (error) => {
      // The stock client lets the failure of a broken stream go once more, unhandled.
      if (!(s.wire.cutsAllowed && error.message === "network error")) s.warnings.push(`the page failed: ${error.message}`);
    });
    page.on("console", (message) => {
      // What can't be loaded the browser tells as an error; the tests look at that themselves.
      if (message.type() === "warning") s.warnings.push(message.text());
    });
  }

  /** Follows what pages aren't told: preflights, and why CORS refused an answer. */
  async watch() {
    const session = await this.page.context().newCDPSession(this.page);
    session.on("Network.responseReceived", ({ type, response }) => {
      if (type === "Preflight") this.preflights.push(`${response.status} ${new URL(response.url).pathname}`);
    });
    session.on("Network.loadingFailed", ({ corsErrorStatus }) => {
      if (corsErrorStatus) this.corsErrors.push(corsErrorStatus.corsError);
    });
    await session.send("Network.enable");
  }

  /** A frame in the page that may run scripts and has no origin. */
  async sandbox() {
    await this.page.evaluate(() => {
      const frame = document.createElement("iframe");
      frame.sandbox = "allow-scripts";
      frame.src = location.href;
      document.body.append(frame);
    });
    const frame = await until("the frame is there", () => this.page.frames()[1]);
    await frame.waitForLoadState();
    return frame;
  }

  async leave() {
    const context = this.page.context();
    await this.page.close();
    if (context.pages().length === 0) await context.close();
  }
}

/** A tab with assistant-ui, by its runtime. */
class AssistantTab extends Tab {
  /** What it shows, as lines: after a reply the calls in it and their results. */
  lines() {
    return this.page.evaluate(() => {
      const part = ({ type, text, toolName, result }) => (type === "text" ? text : type === "tool-call" ? `[${toolName}${result === undefined ? "" : ` ${typeof result === "string" ? result : JSON.stringify(result)}`}]` : "");
      return window.thread.getState().messages.map(({ role, content }) => `${role}: ${content.map(part).join("")}`);
    });
  }

  /** Waits until it shows exactly these lines and does nothing any more. */
  async shows(...lines) {
    let seen;
    await until(
      () => `assistant-ui shows ${JSON.stringify(lines)}, it shows ${JSON.stringify(seen)}`,
      async () => isDeepStrictEqual((seen = await this.lines()), lines) && !(await this.page.evaluate(() => window.thread.getState().isRunning)),
    );
    assert.deepEqual(await this.page.evaluate(() => window.failures), []);
  }

  send(text) {
    return this.page.evaluate((text) => void window.thread.append(text), text);
  }

  /** Puts something in the place of the person's message at `place`. */
  edit(place, text) {
    return this.page.evaluate(
      ([place, text]) => {
        const { composer } = window.thread.getMessageByIndex(place);
        composer.beginEdit();
        composer.setText(text);
        composer.send();
      },
      [place, text],
    );
  }

  /** Asks for another reply in the place of the one at `place`. */
  reload(place) {
    return this.page.evaluate((place) => void window.thread.getMessageByIndex(place).reload(), place);
  }

  /** Shows the branch before or after the one that the message at `place` is on. */
  switch(place, position) {
    return this.page.evaluate(([place, position]) => void window.thread.getMessageByIndex(place).switchToBranch({ position }), [place, position]);
  }

  /** The person answers the call of a tool that asks. */
  answer(toolCallId, result) {
    return this.page.evaluate(
      ([toolCallId, result]) => {
        const place = window.thread.getState().messages.findIndex(({ content }) => content.some((part) => part.toolCallId === toolCallId));
        window.thread.getMessageByIndex(place).getMessagePartByToolCallId(toolCallId).addToolResult(result);
      },
      [toolCallId, result],
    );
  }
}

/** A tab with the chat page. */
class ChatTab extends Tab {
  /** The messages that stand in the page, as lines `role: text`. */
  lines() {
    return this.page.locator("#messages li").evaluateAll((items) => items.map((item) => `${item.dataset.role}: ${item.querySelector("span").textContent}`));
  }

  /** Their ids. */
  ids() {
    return this.page.locator("#messages li").evaluateAll((items) => items.map((item) => item.dataset.id));
  }

  /** `loading`, `joining`, `joined`, `running`, `idle`, or why the last run failed. */
  status() {
    return this.page.locator("#status").textContent();
  }

  /** Waits until exactly these lines stand in the page. */
  async shows(...lines) {
    let seen;
    await until(
      () => `the page shows ${JSON.stringify(lines)}, it shows ${JSON.stringify(seen)}`,
      async () => isDeepStrictEqual((seen = await this.lines()), lines),
    );
  }

  /** Waits for that status. */
  async is(status) {
    let seen;
    const fits = () => (status instanceof RegExp ? status.test(seen) : status === seen);
    await until(
      () => `the page says ${status}, it says ${seen}`,
      async () => ((seen = await this.status()), fits()),
    );
  }

  /** Writes something and sends it; the run goes on. */
  async begin(text) {
    await this.is("idle");
    await this.page.fill("#text", text);
    await this.page.click("#send");
  }

  /** Writes something and waits for the answer. */
  async send(text) {
    await this.begin(text);
    await this.is("idle");
  }

  /** Puts something in the place of the message that says `old`, and waits for the answer. */
  async edit(old, text) {
    await this.page.locator("#messages li", { hasText: old }).getByRole("button").click();
    assert.equal(await this.page.inputValue("#text"), old);
    await this.send(text);
  }

  /** Asks for another reply to the last message, and waits for it. */
  async regenerate() {
    await this.is("idle");
    await this.page.click("#regenerate");
    await this.is("idle");
  }

  stop() {
    return this.page.click("#stop");
  }

  reload() {
    return this.page.reload();
  }
}
