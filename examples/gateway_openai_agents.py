"""Another agent that knows nothing of the gateway, with OpenAI's own framework.

pip install openai-agents
OPENAI_BASE_URL=http://127.0.0.1:8484/v1 OPENAI_API_KEY=... \
        python examples/gateway_openai_agents.py
"""

import os
import random

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled


@function_tool
def read_page(number: int) -> str:
    """Return a page of the book."""
    chance = random.Random(number)
    words = [
        chance.choice(("harbour", "ledger", "invoice", "crate", "captain")) for _ in range(300)
    ]
    return f"This is page {number}. Invoice INV-{1000 + number}. " + " ".join(words)


def main() -> None:
    """Ask the agent, and print what it says."""
    set_tracing_disabled(True)
    set_default_openai_api("chat_completions")
    agent = Agent(
        name="reader",
        instructions="Read the book page by page.",
        tools=[read_page],
        model=os.environ.get("MODEL", "gpt-4o"),
    )
    steps = int(os.environ.get("STEPS", "40"))
    answer = Runner.run_sync(agent, "Which invoice names the captain?", max_turns=steps)
    print(answer.final_output)


if __name__ == "__main__":
    main()
