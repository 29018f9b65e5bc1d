"""An agent of the Microsoft Agent Framework that reads a folder, its prompts compressed.

pip install 'agora-context[agent-framework]' agent-framework-openai
python with_agent_framework.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

import asyncio

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient
from reader import Tally, arguments, compressor_for, read_file, task

from agora.integrations.agent_framework import AgoraMiddleware

asked = arguments(__doc__)
tally = Tally()


@tool(name="read_file", approval_mode="never_require")
def read(name: str) -> str:
    """Return the text of a file of the folder."""
    return read_file(asked.folder, name)


agent = Agent(
    client=OpenAIChatCompletionClient(
        model=asked.model, base_url=asked.base_url, api_key=asked.api_key
    ),
    tools=[read],
    middleware=[AgoraMiddleware(compressor_for(asked))],
)
answer = asyncio.run(agent.run(task(asked.folder, asked.files)))
print(answer.messages[-1].text)
print(tally)
print(f"{len(answer.messages)} messages in the answer")
