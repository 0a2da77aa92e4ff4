// Books expenses; what costs much is approved by a person first. See README.md.
import { Agent, isApproved, s } from "./headwater.js";

const LIMIT = 100;
const agent = new Agent<{ spent?: number }>(["expenses", "expenses-socket"]);

const parameters = { item: s.string("what was bought"), amount: s.number("how much it cost, in euros") };
agent.tool("book", { description: "Book an expense.", parameters }, ({ item, amount }, run) => {
  console.log(`booking ${item} under ${run.key}`);
  return `${item} for ${amount.toFixed(2)} EUR is booked.`;
});

agent.onMessages((turn) => {
  if (turn.text.toLowerCase().includes("how much")) return `${(turn.state.spent ?? 0).toFixed(2)} EUR so far.`;
  return undefined; // as proposed: the model is called
});

agent.onReply((turn) => {
  for (const call of turn.pending) {
    const amount = Number(call.input.amount);
    if (call.name !== "book" || amount <= LIMIT) continue;
    const message = `Book ${call.input.item} for ${amount.toFixed(2)} EUR?`;
    turn.interrupt({ reason: "approval", message, call, response_schema: { type: "object", properties: { approved: { type: "boolean" } } } });
  }
});

agent.onResume((turn) => {
  const refused = turn.trigger.interrupts.filter((answer) => !isApproved(answer)).map(({ interrupt }) => interrupt.tool_call_id);
  for (const call of turn.pending) {
    if (refused.includes(call.id)) turn.toolError(call, "A person said no.");
    else turn.callTool(call);
  }
});

agent.onResults((turn) => {
  for (const { name, ok, input } of turn.calls) {
    if (name === "book" && ok) turn.state.spent = (turn.state.spent ?? 0) + Number(input.amount);
  }
});

const { PORT = "9000", HEADWATER_SECRET: secret, HEADWATER_TOKEN: token } = process.env;
const [url] = process.argv.slice(2);
if (url) await agent.connect(url, { agents: ["expenses-socket"], token });
else await agent.serve({ port: Number(PORT), secret });
