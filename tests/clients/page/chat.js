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

/** Runs what is shown. */
async function run() {
  say("running");
  const failure = await attempt(agent);
  if (failure?.isLost) await join();
  else say(failure?.code ?? "idle");
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
    await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void (code = event.code) });
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

function item({ id, role, content }) {
  const line = document.createElement("li");
  Object.assign(line.dataset, { id, role });
  const text = document.createElement("span");
  text.textContent = content;
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
