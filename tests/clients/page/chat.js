// A chat page as small as one can be, around the stock client: a list, a place to write, and what a person does with them. When the
// connection breaks it asks for the conversation again until it is answered, as front ends do.
import { HttpAgent } from "@ag-ui/client";
import { WebSocketAgent } from "./socket.js";

const RETRY_MS = 50;

const asked = new URLSearchParams(location.search);
const [url, threadId, transport] = ["agent", "thread", "transport"].map((name) => asked.get(name));
const headers = { authorization: "Bearer a-token-of-the-page", "x-run-id": `page-${crypto.randomUUID()}` };
const agent =
  transport === "ws" ? new WebSocketAgent({ url: url.replace(/^http/, "ws"), threadId }) : new HttpAgent({ url, threadId, headers });
const at = (id) => document.getElementById(id);

/** What the page carries out when the model calls it. */
const tools = [{ name: "set_title", description: "Names the page", parameters: { type: "object", properties: { title: { type: "string" } } } }];
const setTitle = ({ title }) => {
  document.title = title;
  return `The title is ${title}.`;
};

/** The message that is being edited. */
let edited;

agent.subscribe({ onMessagesChanged: ({ messages }) => draw(messages) });

at("composer").onsubmit = (event) => {
  event.preventDefault();
  const before = edited === undefined ? agent.messages : upTo(edited).slice(0, -1);
  agent.setMessages([...before, { id: crypto.randomUUID(), role: "user", content: at("text").value }]);
  at("text").value = "";
  edited = undefined;
  void run();
};
at("regenerate").onclick = () => {
  agent.setMessages(upTo(agent.messages.findLast(({ role }) => role === "user").id));
  void run();
};
at("stop").onclick = () => agent.abortRun();
void join();

function upTo(id) {
  return agent.messages.slice(0, agent.messages.findIndex((message) => message.id === id) + 1);
}

/** Runs what is shown, and again with what the page has carried out. */
async function run() {
  say("running");
  const failure = await attempt(agent);
  if (failure?.isLost) return join();
  if (failure) return say(failure.code);
  const calls = open();
  if (!calls.length) return say("idle");
  for (const { id, function: called } of calls) {
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: setTitle(JSON.parse(called.arguments)) });
  }
  return run();
}

/** The calls of the last reply that nobody has answered. */
function open() {
  const answered = agent.messages.map((message) => message.toolCallId);
  const reply = agent.messages.findLast(({ role }) => role === "assistant");
  return (reply?.toolCalls ?? []).filter((call) => !answered.includes(call.id));
}

/** Shows the whole conversation, and what is being said in it until that ends. */
async function join() {
  for (;;) {
    say("joining");
    const joining = new HttpAgent({ url: `${url}/connect`, threadId, headers });
    joining.subscribe({
      onMessagesChanged: ({ messages }) => {
        agent.setMessages(messages);
        say("joined");
      },
    });
    const failure = await attempt(joining);
    if (!failure?.isLost) return say(failure?.code ?? "idle");
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** One run: why it failed, or nothing. Being stopped by the person is no failure. */
async function attempt(agent) {
  let code;
  try {
    await agent.runAgent({ tools }, { onRunErrorEvent: ({ event }) => void (code = event.code) });
  } catch (error) {
    if (error.status) return { code: `${error.status} ${error.payload?.error}: ${error.payload?.message}` };
    return { isLost: true };
  }
  return code === undefined || code === "abort" ? undefined : { code };
}

function say(status) {
  at("status").textContent = status;
}

function draw(messages) {
  at("messages").replaceChildren(...messages.map(item));
}

function item({ id, role, content, toolCalls = [] }) {
  const line = document.createElement("li");
  Object.assign(line.dataset, { id, role });
  const text = document.createElement("span");
  text.textContent = (content ?? "") + toolCalls.map((call) => `[${call.function.name}]`).join("");
  line.append(text);
  if (role === "user") line.append(editButton(id, content));
  return line;
}

function editButton(id, content) {
  const button = document.createElement("button");
  button.textContent = "Edit";
  button.onclick = () => {
    edited = id;
    at("text").value = content;
  };
  return button;
}
