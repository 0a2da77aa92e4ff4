// A real browser: the stock client in a page of another origin, and pages that may not ask.
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { FOREIGN_HOST, useBrowser } from "../lib/browser.js";
import { drawing, pathOf } from "../lib/tree.js";
import { until } from "../lib/until.js";
import { useWorld } from "../lib/world.js";

const { once } = useWorld();
const browser = useBrowser();

/** Once over SSE and once over WebSocket. */
function each(name, scenario) {
  for (const transport of ["sse", "ws"]) once(`in a browser, ${name} (${transport})`, (s) => scenario(s, transport));
}

each("a talk: what the page shows is what the model read, under the nodes' ids", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  await tab.send("hello");
  await tab.shows("user: hello", "assistant: answer 1 to hello");
  await tab.send("more");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: more", "assistant: answer 2 to more");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more"]);
  assert.deepEqual(pathOf(await s.tree(tab)).map((node) => node.id), await tab.ids());
  assert.deepEqual(tab.corsErrors, []);
  // The page sends headers that need leave, and the browser asked for it: for `connect`, and for the run's own address.
  const asked = transport === "sse" ? ["200 /agents/bot/connect", "200 /agents/bot"] : ["200 /agents/bot/connect"];
  assert.deepEqual(tab.preflights, asked);
});

each("a reply appears piece by piece, while the model holds the rest", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  const call = s.upstream.next({ hold: 0, text: "one two three four five" });
  await tab.begin("hello");
  await call.held();
  for (let piece = 1; piece <= 5; piece++) {
    call.step();
    await call.held();
    await tab.shows("user: hello", `assistant: ${call.sent.text}`);
    assert.equal(await tab.status(), "running");
  }
  call.release();
  await tab.is("idle");
  await tab.shows("user: hello", "assistant: one two three four five");
});

each("edit and another reply: branches, and the page shows its own", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  await tab.send("hello");
  await tab.send("more");
  await tab.edit("more", "something else");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: something else"]);
  await tab.regenerate();
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: something else"]);
  await tab.edit("hello", "good morning");
  assert.deepEqual(s.read, ["user: good morning"]);
  await tab.shows("user: good morning", "assistant: answer 5 to good morning");
  assert.equal(await s.drawn(tab), drawing`
    - user: hello
      assistant: answer 1 to hello
      - user: more
        assistant: answer 2 to more
      - user: something else
        - assistant: answer 3 to something else
        - assistant: answer 4 to something else
    - user: good morning
      assistant: answer 5 to good morning (head)`);
});

each("stop by the client's abort: the model's stream is closed, what was said stays and is read next", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  const call = s.upstream.next({ hold: 2 });
  await tab.begin("hello");
  await call.held();
  await tab.shows("user: hello", `assistant: ${call.sent.text}`);
  await tab.stop();
  await tab.is("idle");
  await call.closed();
  await s.idle(tab);
  await tab.shows("user: hello", `assistant: ${call.sent.text}`);
  assert.equal(await s.drawn(tab), drawing`
    user: hello
    assistant: ${call.sent.text} (partial, head)`);
  await tab.send("go on");
  assert.deepEqual(s.read, ["user: hello", `assistant: ${call.sent.text}`, "user: go on"]);
});

each("a reload shows the branch that the talk is on, and the talk goes on", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  await tab.send("hello");
  await tab.send("more");
  await tab.edit("more", "something else");
  const ids = await tab.ids();
  await tab.reload();
  await tab.is("idle");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: something else", "assistant: answer 3 to something else");
  assert.deepEqual(await tab.ids(), ids);
  assert.equal(s.reads.length, 3, "showing it asks no model");
  await tab.send("go on");
  assert.deepEqual(s.read.slice(-2), ["assistant: answer 3 to something else", "user: go on"]);
});

each("a reload in the middle of a reply shows what was said and the rest as it comes", async (s, transport) => {
  const tab = await browser.chat(s, { transport, agent: "continue" });
  const call = s.upstream.next({ hold: 2 });
  await tab.begin("hello");
  await call.held();
  await tab.shows("user: hello", `assistant: ${call.sent.text}`);
  await tab.reload();
  await tab.shows("user: hello", `assistant: ${call.sent.text}`);
  assert.equal(await tab.status(), "joined");
  call.step();
  await call.held();
  await tab.shows("user: hello", `assistant: ${call.sent.text}`);
  call.release();
  await tab.is("idle");
  await tab.shows("user: hello", "assistant: answer 1 to hello");
  await tab.send("go on");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: go on"]);
});

each("a tool of the page: it is carried out there, and the talk goes on with its result", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  s.upstream.next({ text: "I name it. ", calls: [{ id: "c1", name: "set_title", arguments: { title: "Rivers" } }] });
  await tab.send("name the page");
  assert.equal(await tab.page.title(), "Rivers");
  await tab.shows("user: name the page", "assistant: I name it. [set_title]", "tool: The title is Rivers.", "assistant: answer 1 to name the page");
  assert.deepEqual(s.read, ["user: name the page", 'assistant: I name it.  [c1 set_title {"title":"Rivers"}]', "tool c1: The title is Rivers."]);
  assert.deepEqual(pathOf(await s.tree(tab)).map((node) => node.id), await tab.ids());
  await tab.send("thanks");
  assert.deepEqual(s.read.slice(2), ["tool c1: The title is Rivers.", "assistant: answer 1 to name the page", "user: thanks"]);
  await tab.reload();
  await tab.is("idle");
  assert.equal((await tab.lines()).length, 6);
  assert.equal(s.reads.length, 3, "what was carried out isn't done again");
});

each("tools of the page, two at once and again: one turn, each call with its result", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  const title = (id, title) => ({ id, name: "set_title", arguments: { title } });
  s.upstream.next({ calls: [title("c1", "One"), title("c2", "Two")] });
  s.upstream.next({ calls: [title("c3", "Three")] });
  await tab.send("count");
  assert.equal(await tab.page.title(), "Three");
  assert.deepEqual(s.read.filter((line) => line.startsWith("tool")), ["tool c1: The title is One.", "tool c2: The title is Two.", "tool c3: The title is Three."]);
  assert.equal(s.reads.length, 3);
});

once("in a browser, a tab that is closed in the middle of a POST stops its turn", async (s) => {
  const tab = await browser.chat(s);
  const call = s.upstream.next({ hold: 2 });
  await tab.begin("hello");
  await call.held();
  await tab.shows("user: hello", `assistant: ${call.sent.text}`);
  await tab.leave();
  await call.closed();
  await s.idle(tab);
  const again = await browser.chat(s, { threadId: tab.threadId });
  await again.shows("user: hello", `assistant: ${call.sent.text}`);
});

each("a second tab is told that a turn runs, in words that the page can read", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  const other = await browser.chat(s, { transport, threadId: tab.threadId, beside: tab });
  const call = s.upstream.next({ hold: 1 });
  await tab.begin("hello");
  await call.held();
  await other.begin("me too");
  await other.is(transport === "sse" ? /^409 turn_already_active: .+/ : "turn_already_active");
  call.release();
  await tab.is("idle");
  await tab.shows("user: hello", "assistant: answer 1 to hello");
});

each("kill -9 under an open page between two turns: the talk goes on", async (s, transport) => {
  const tab = await browser.chat(s, { transport });
  await tab.send("hello");
  await s.server.restart();
  await tab.send("are you still there?");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: are you still there?", "assistant: answer 2 to are you still there?");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: are you still there?"]);
});

each("kill -9 under an open page in the middle of a reply: the page gets a whole one, and the talk goes on", async (s, transport) => {
  s.wire.cutsAllowed = true;
  const tab = await browser.chat(s, { transport, agent: "retrying" });
  await tab.send("hello");
  const call = s.upstream.next({ hold: 2 });
  const again = s.upstream.next({ hold: 1, text: "here I am again" });
  await tab.begin("more");
  await call.held();
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: more", `assistant: ${call.sent.text}`);
  const torn = (await tab.ids()).at(-1);
  await s.server.kill();
  await tab.is("joining");
  await s.server.spawn();
  await again.held();
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: more", `assistant: ${again.sent.text}`);
  again.release();
  await tab.is("idle");
  await tab.shows("user: hello", "assistant: answer 1 to hello", "user: more", "assistant: here I am again");
  const ids = await tab.ids();
  assert.ok(!ids.includes(torn), "a new attempt has a new id");
  assert.deepEqual(pathOf(await s.tree(tab)).map((node) => node.id), ids);
  await tab.send("go on");
  assert.deepEqual(s.read, ["user: hello", "assistant: answer 1 to hello", "user: more", "assistant: here I am again", "user: go on"]);
});

/** What a page can try with its own hands; run in the page. */
const BY_HAND = {
  /** The answer, or that the page isn't given one. */
  fetch: async ([url, options]) => {
    try {
      const answer = await fetch(url, options);
      return { type: answer.type, status: answer.status, text: await answer.text() };
    } catch (error) {
      return error.message;
    }
  },
  /** `"opened"`, or how the socket closed. */
  socket: (url) =>
    new Promise((resolve) => {
      const socket = new WebSocket(url);
      socket.onopen = () => resolve("opened");
      socket.onclose = ({ code }) => resolve(`closed ${code}`);
    }),
};

/** All the ways to a server at `host` that a page has: what it is, and what the page sees of the answer. */
async function attempts(page, { host, threadId }) {
  const url = `http://${host}/agents/bot`;
  const body = JSON.stringify({ threadId, runId: "run-1", messages: [{ id: "u1", role: "user", content: "let me in" }] });
  const headers = { authorization: "Bearer stolen", "content-type": "application/json" };
  const fetched = (address, options) => page.evaluate(BY_HAND.fetch, [address, options]);
  return {
    run: await fetched(url, { method: "POST", body, headers }),
    "run without a preflight": await fetched(url, { method: "POST", body }),
    "run for its effect": await fetched(url, { method: "POST", body, mode: "no-cors" }),
    history: await fetched(`http://${host}/v1/sessions/${threadId}/tree`),
    socket: await page.evaluate(BY_HAND.socket, `ws://${host}/agents/bot`),
    "socket at /ws": await page.evaluate(BY_HAND.socket, `ws://${host}/agents/bot/ws`),
  };
}

/** What a page sees that is given nothing. That the browser sent it and the server refused is asked of the server. */
const NOTHING = {
  run: "Failed to fetch",
  "run without a preflight": "Failed to fetch",
  "run for its effect": { type: "opaque", status: 0, text: "" },
  history: "Failed to fetch",
  socket: "closed 1006",
  "socket at /ws": "closed 1006",
};

/** What the server has refused for its origin and logged, as `method route`. What browsers ask for by themselves is left out. */
const refusals = (s) => s.server.logged().map((line) => REFUSAL.exec(line)).filter(Boolean).map(([, method, route]) => `${method} ${route}`);
const REFUSAL = /method=(\w+) route="(\/(?:agents|v1).*)" status=403 error="origin_refused"/;

/** A scenario in which `attempts` are refused from a page at one place and do nothing; the scenario says which tab's they are. */
function refusing(name, scenario, preflight = "OPTIONS") {
  once(`in a browser, ${name}`, async (s) => {
    const before = refusals(s).length;
    const { threadId } = await scenario(s);
    const expected = [
      `${preflight} /agents/{agent}`,
      "POST /agents/{agent}",
      "POST /agents/{agent}",
      "GET /v1/sessions/{session}/tree",
      "GET /agents/{agent}",
      "GET /agents/{agent}/ws",
    ];
    const seen = () => refusals(s).slice(before);
    await until(() => `the server refuses each, it refused ${JSON.stringify(seen())}`, () => isDeepStrictEqual(seen(), expected));
    await assert.rejects(s.session({ threadId }), { status: 404 });
  });
}

/** Where the server is, as pages write it. */
const hostOf = (s) => new URL(s.server.url).host;

once("in a browser, a page of this machine may do all that the pages below may not", async (s) => {
  const tab = await browser.tab(s, browser.pages.at("/empty.html"));
  const seen = await attempts(tab.page, { host: hostOf(s), threadId: tab.threadId });
  for (const way of ["run", "run without a preflight", "history"]) {
    assert.equal(seen[way].status, 200, way);
    assert.match(seen[way].text, /let me in/, way);
  }
  assert.deepEqual(seen["run for its effect"], NOTHING["run for its effect"]);
  assert.deepEqual([seen.socket, seen["socket at /ws"]], ["opened", "opened"]);
  assert.deepEqual(s.reads, [["user: let me in"]]);
});

refusing("a foreign page is refused", async (s) => {
  const tab = await browser.tab(s, browser.pages.at("/empty.html", FOREIGN_HOST));
  assert.deepEqual(await attempts(tab.page, { host: hostOf(s), threadId: tab.threadId }), NOTHING);
  assert.deepEqual(tab.corsErrors, ["PreflightMissingAllowOriginHeader", "MissingAllowOriginHeader", "MissingAllowOriginHeader"]);
  return tab;
});

refusing("a page without an origin (`Origin: null`) is refused", async (s) => {
  const tab = await browser.tab(s, browser.pages.at("/empty.html"));
  const frame = await tab.sandbox();
  assert.equal(await frame.evaluate(() => self.origin), "null");
  assert.deepEqual(await attempts(frame, { host: hostOf(s), threadId: tab.threadId }), NOTHING);
  return tab;
});

refusing("a foreign name that was bound to this machine (DNS rebinding) is refused", async (s) => {
  const host = `${FOREIGN_HOST}:${s.server.port}`;
  const tab = await browser.tab(s, `http://${host}/healthz`);
  assert.equal(tab.answer.status(), 403);
  assert.equal(await tab.page.evaluate(() => self.origin), `http://${host}`);
  // To the browser it is the page's own server: the page sees all answers, and each is the refusal.
  const { socket, "socket at /ws": other, ...answers } = await attempts(tab.page, { host, threadId: tab.threadId });
  for (const [way, answer] of Object.entries(answers)) {
    assert.deepEqual([answer.type, answer.status, JSON.parse(answer.text).error], ["basic", 403, "origin_refused"], way);
  }
  assert.deepEqual([socket, other], ["closed 1006", "closed 1006"]);
  return tab;
}, "POST");

refusing("listed origins may ask, and no other page, of this machine neither", async (s) => {
  const listed = await browser.tab(s, browser.pages.at("/empty.html", FOREIGN_HOST));
  const local = await browser.tab(s, browser.pages.at("/empty.html"));
  await s.server.restart({ origins: [new URL(listed.page.url()).origin] });
  try {
    const seen = await attempts(listed.page, { host: hostOf(s), threadId: listed.threadId });
    assert.deepEqual([seen.run.status, seen.history.status, seen.socket], [200, 200, "opened"]);
    assert.deepEqual(s.reads, [["user: let me in"]]);
    assert.deepEqual(await attempts(local.page, { host: hostOf(s), threadId: local.threadId }), NOTHING);
  } finally {
    await s.server.restart();
  }
  return local;
});
