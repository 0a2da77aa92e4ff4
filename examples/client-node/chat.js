// Sends, edits, regenerates and switches back, with the stock AG-UI client over SSE. Nothing here is special to Headwater but
// the last step, which shows the tree that came of it.
import { HttpAgent } from "@ag-ui/client";

const url = process.argv[2] ?? "http://127.0.0.1:8080/agents/demo";
const agent = new HttpAgent({ url, threadId: crypto.randomUUID() });
const message = (content) => ({ id: crypto.randomUUID(), role: "user", content });
const isFailed = [];

/** Runs the agent on a list of messages and shows the reply. */
async function run(what, messages) {
  agent.setMessages(messages);
  await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void isFailed.push(event.message) });
  console.log(`${what}\n  > ${messages.findLast((m) => m.role === "user").content}\n  < ${agent.messages.at(-1).content}\n`);
  return agent.messages;
}

const first = message("Where does the river begin?");
const sent = await run("send", [first]);

// An edit is the list up to there, and the message again under a new id.
await run("edit", [message("Where does the river end?")]);

// Regenerating is the list without the reply.
await run("regenerate", agent.messages.slice(0, -1));

// The first branch is still there: its messages, and a new one.
await run("switch back and go on", [...sent, message("And then?")]);

const { origin } = new URL(url);
const tree = await (await fetch(`${origin}/v1/sessions/${agent.threadId}/tree`)).json();
const draw = (parent, indent) => {
  for (const node of tree.nodes.filter((n) => (n.parent_id ?? null) === parent)) {
    const { role, content } = node.message;
    const text = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
    console.log(`${indent}${node.id === tree.head_id ? "*" : "-"} ${role}: ${text.split("\n")[0]}`);
    draw(node.id, `${indent}  `);
  }
};
console.log("the tree (* is the head)");
draw(null, "  ");
process.exitCode = isFailed.length || tree.nodes.length !== 7 ? 1 : 0;
