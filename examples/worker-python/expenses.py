"""Books expenses; what costs much is approved by a person first. See README.md."""

import os
import sys

from headwater import Agent, ToolRun, Turn

LIMIT = 100
agent = Agent("expenses", "expenses-socket")


@agent.tool
def book(item: str, amount: float, run: ToolRun) -> str:
    """Book an expense.

    item: what was bought
    amount: how much it cost, in euros
    """
    print(f"booking {item} under {run.key}", flush=True)
    return f"{item} for {amount:.2f} EUR is booked."


@agent.on_messages
def answer(turn: Turn) -> str | None:
    if "how much" in turn.text.lower():
        return f"{turn.state.get('spent', 0):.2f} EUR so far."
    return None  # as proposed: the model is called


@agent.on_reply
def ask_first(turn: Turn) -> None:
    for call in turn.pending:
        if call.name == "book" and call.input["amount"] > LIMIT:
            question = f"Book {call.input['item']} for {call.input['amount']:.2f} EUR?"
            turn.interrupt("approval", question, call=call, response_schema={"type": "object", "properties": {"approved": {"type": "boolean"}}})


@agent.on_resume
def go_on(turn: Turn) -> None:
    refused = {answer.tool_call_id for answer in turn.resumed if not answer.approved}
    for call in turn.pending:
        if call.id in refused:
            turn.tool_error(call, "A person said no.")
        else:
            turn.call_tool(call)


@agent.on_results
def add_up(turn: Turn) -> None:
    for call in turn.calls:
        if call.name == "book" and call.ok:
            turn.state["spent"] = turn.state.get("spent", 0) + call.input["amount"]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        agent.connect(sys.argv[1], agents=["expenses-socket"], token=os.environ.get("HEADWATER_TOKEN"))
    else:
        agent.serve(port=int(os.environ.get("PORT", "9000")), secret=os.environ.get("HEADWATER_SECRET"))
