"""An agent that knows nothing of the gateway; where its model is, only the environment says.

pip install 'smolagents[openai]'
OPENAI_BASE_URL=http://127.0.0.1:8484/v1 OPENAI_API_KEY=... python examples/gateway_agent.py
"""

import os
import random

from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def read_page(number: int) -> str:
    """Return a page of the book.

    Args:
        number: which page.
    """
    chance = random.Random(number)
    words = [
        chance.choice(("harbour", "ledger", "invoice", "crate", "captain")) for _ in range(300)
    ]
    return f"This is page {number}. Invoice INV-{1000 + number}. " + " ".join(words)


def main() -> None:
    """Ask the agent, and print what it says."""
    model = OpenAIServerModel(os.environ.get("MODEL", "gpt-4o"))
    agent = ToolCallingAgent(
        tools=[read_page], model=model, max_steps=int(os.environ.get("STEPS", "40"))
    )
    print(agent.run("Read the book page by page and say which invoice names the captain."))


if __name__ == "__main__":
    main()
