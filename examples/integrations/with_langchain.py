"""An agent of LangChain that reads a folder, its prompts compressed.

pip install '.[langchain]' langchain-openai
python with_langchain.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from reader import arguments, compressor_for, read_file, task

import agora
from agora.integrations.langchain import AgoraMiddleware

asked = arguments(__doc__)


@tool("read_file")
def read(name: str) -> str:
    """Return the text of a file of the folder."""
    return read_file(asked.folder, name)


middleware = AgoraMiddleware(compressor_for(asked))
agent = create_agent(
    ChatOpenAI(model=asked.model, base_url=asked.base_url, api_key=asked.api_key, temperature=0),
    [read],
    middleware=[middleware],
)
given = {"messages": [{"role": "user", "content": task(asked.folder, asked.files)}]}
result = agent.invoke(given, {"recursion_limit": 100})
print(result["messages"][-1].text)
print(agora.savings(middleware))
print(f"{len(result['messages'])} messages in the agent's state")
