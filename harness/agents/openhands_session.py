"""One OpenHands session, run by the interpreter that OpenHands is installed for.

LLM_API_KEY=KEY LLM_BASE_URL=URL LLM_MODEL=MODEL python openhands_session.py TASK
"""

import os
import sys
from pathlib import Path

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr

_MOST_STEPS = 120


def main() -> None:
    """Let the agent work in the current folder until it says that it is done."""
    llm = LLM(
        model=os.environ["LLM_MODEL"],
        api_key=SecretStr(os.environ["LLM_API_KEY"]),
        base_url=os.environ["LLM_BASE_URL"],
        usage_id="agent",
        num_retries=1,
    )
    agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name)])
    conversation = Conversation(
        agent=agent,
        workspace=str(Path.cwd()),
        persistence_dir=str(Path.home() / ".openhands"),
        max_iteration_per_run=_MOST_STEPS,
    )
    conversation.send_message(sys.argv[1])
    conversation.run()


if __name__ == "__main__":
    main()
