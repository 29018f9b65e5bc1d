"""Steps that must stay, and steps that come back when the agent asks for them."""

import sys
from typing import Any

import agora

COMPRESSOR = agora.Compressor(edits="every_call", budget=agora.Budget(keep_ratio=0.3))


def add(messages: list[dict[str, Any]], name: str, arguments: str, result: str) -> None:
    """Add a step: a call and what came back."""
    key = f"call_{len(messages)}"
    call = {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": key, "content": result})


def main() -> None:
    """Pin a step, elide another, and bring it back."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Rebook my flight."}]
    for n in range(1, 13):
        found = f"reservation R{n}00 on flight HAT{n:03}, gold, paid by card. " * 8
        add(messages, "get_reservation", f'{{"id": "R{n}00"}}', found)
    tools = [agora.recall_tool("openai")]

    compression = COMPRESSOR.compress(messages, tools=tools, pins=[1])
    outcomes = {decision.number: decision.outcome for decision in compression.decisions}
    gone = next(number for number, outcome in outcomes.items() if outcome == "elided")
    sys.stdout.write(f"{compression.summary()}\nstep 1 is {outcomes[1]}, step {gone} is elided\n")

    # The agent calls the tool that its markers mention; the answer is the step in full.
    name = tools[0]["function"]["name"]
    add(messages, name, f'{{"step": {gone}}}', compression.recall(gone))
    again = COMPRESSOR.compress(messages, tools=tools, pins=[1])
    decision = again.decisions[gone - 1]
    sys.stdout.write(f"after recall, step {gone} is {decision.outcome}: {decision.reason}\n")


if __name__ == "__main__":
    main()
