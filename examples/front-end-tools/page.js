// A chat whose model calls tools of the page. A run ends when the model has called one; the page carries it out, adds the result to
// its list, and runs the list again: the same turn goes on.
const asked = new URLSearchParams(location.search);
const agent = asked.get("agent") ?? "http://127.0.0.1:8080/agents/demo";
const threadId = (sessionStorage.thread ??= asked.get("thread") ?? crypto.randomUUID());
const at = (id) => document.getElementById(id);

const text = (description) => ({ type: "string", description });
/** What the page can do: what the model reads of it, and how it is done. What gives nothing waits for a person. */
const tools = {
  set_color: {
    description: "Sets the color of the page",
    parameters: { type: "object", properties: { color: text("a CSS color") }, required: ["color"] },
    run: ({ color }) => {
      if (!CSS.supports("color", color)) throw new Error(`${color} is no color`);
      document.body.style.background = color;
      return `The page is ${color} now.`;
    },
  },
  ask_person: {
    description: "Asks the person who reads the page; the answer is yes or no",
    parameters: { type: "object", properties: { question: text("what is asked") }, required: ["question"] },
    run: () => undefined,
  },
};

let messages = [];
/** The calls for which the turn waits. */
let pending = [];

at("composer").onsubmit = (event) => {
  event.preventDefault();
  // A question that is open is given up by saying something else.
  messages.push({ id: crypto.randomUUID(), role: "user", content: at("text").value });
  at("text").value = "";
  void run(agent);
};
void run(`${agent}/connect`);

/** Runs the list, then carries out what the model has called; when that is all answered, runs it again. */
async function run(url) {
  say("running");
  try {
    await stream(url);
  } catch (error) {
    return say(error.message);
  }
  const calls = open();
  const left = calls.filter((call) => !answer(call, () => tools[call.function.name]?.run(JSON.parse(call.function.arguments || "{}"))));
  if (calls.length && !left.length) return run(agent);
  say(left.length ? "waiting for you" : "idle");
}

/** The calls that are still to be answered. */
function open() {
  const answered = messages.map((message) => message.toolCallId);
  const isOpen = ({ id }) => pending.includes(id) && !answered.includes(id);
  return messages.flatMap((message) => message.toolCalls ?? []).filter(isOpen);
}

/** Adds a call's result, unless there is none yet. */
function answer(call, give) {
  const result = { id: crypto.randomUUID(), role: "tool", toolCallId: call.id };
  try {
    const content = give();
    if (content === undefined) return false;
    messages.push({ ...result, content });
  } catch (error) {
    messages.push({ ...result, content: "", error: error.message });
  }
  draw();
  return true;
}

/** One run: a list out, events in. */
async function stream(url) {
  const declared = Object.entries(tools).map(([name, { description, parameters }]) => ({ name, description, parameters }));
  const body = { threadId, runId: crypto.randomUUID(), protocolVersion: "1.0", messages, tools: declared, context: [], state: {}, forwardedProps: {} };
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!response.ok) throw new Error((await response.json()).message);
  let rest = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + piece).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").find((line) => line.startsWith("data: "));
      if (data) take(JSON.parse(data.slice("data: ".length)));
    }
    draw();
  }
}

/** What an event does to the list. */
function take(event) {
  const reply = (id) => messages.find((message) => message.id === id) ?? messages[messages.push({ id, role: "assistant" }) - 1];
  const call = (id) => messages.flatMap((message) => message.toolCalls ?? []).find((call) => call.id === id);
  switch (event.type) {
    case "MESSAGES_SNAPSHOT":
      messages = event.messages;
      break;
    case "TEXT_MESSAGE_START":
      reply(event.messageId).content ??= "";
      break;
    case "TEXT_MESSAGE_CONTENT":
      reply(event.messageId).content += event.delta;
      break;
    case "TOOL_CALL_START":
      if (call(event.toolCallId)) break;
      (reply(event.parentMessageId).toolCalls ??= []).push({ id: event.toolCallId, type: "function", function: { name: event.toolCallName, arguments: "" } });
      break;
    case "TOOL_CALL_ARGS":
      call(event.toolCallId).function.arguments += event.delta;
      break;
    case "TOOL_CALL_RESULT":
      messages.push({ id: event.messageId, role: "tool", toolCallId: event.toolCallId, content: event.content });
      break;
    case "RUN_FINISHED":
      pending = event.outcome?.pendingToolCallIds ?? [];
      break;
    case "RUN_ERROR":
      throw new Error(event.message);
  }
}

function say(status) {
  at("status").textContent = status;
  draw();
}

function draw() {
  const lines = messages.filter(({ role }) => role !== "reasoning").flatMap(({ role, content, error, toolCalls = [] }) => [
    ...(content || error ? [line(role, error ?? content)] : []),
    ...toolCalls.map((call) => line("call", `${call.function.name} ${call.function.arguments}`)),
  ]);
  const waits = at("status").textContent === "waiting for you" ? open().map(question) : [];
  at("messages").replaceChildren(...lines, ...waits);
}

function line(role, what) {
  const item = document.createElement("li");
  item.dataset.role = role;
  item.textContent = what;
  return item;
}

/** The buttons of a call that waits for a person. */
function question(call) {
  const item = line("question", JSON.parse(call.function.arguments).question);
  for (const choice of ["yes", "no"]) {
    const button = document.createElement("button");
    button.textContent = choice;
    button.onclick = () => {
      answer(call, () => choice);
      if (open().length) draw();
      else void run(agent);
    };
    item.append(" ", button);
  }
  return item;
}
