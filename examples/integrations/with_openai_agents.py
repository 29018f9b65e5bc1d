"""An agent of the OpenAI Agents SDK that reads a folder, its prompts compressed.

pip install '.[openai-agents]'
python with_openai_agents.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI
from reader import arguments, compressor_for, read_file, task

import agora
from agora.integrations.openai_agents import AgoraFilter

asked = arguments(__doc__)


@function_tool(name_override="read_file")
def read(name: str) -> str:
    """Return the text of a file of the folder."""
    return read_file(asked.folder, name)


client = AsyncOpenAI(base_url=asked.base_url, api_key=asked.api_key)
agent = Agent(
    name="reader",
    instructions="You read files.",
    model=OpenAIChatCompletionsModel(model=asked.model, openai_client=client),
    tools=[read],
)
filter_ = AgoraFilter(compressor_for(asked))
config = RunConfig(call_model_input_filter=filter_, tracing_disabled=True)
words = task(asked.folder, asked.files)
result = Runner.run_sync(agent, words, run_config=config, hooks=filter_, max_turns=50)
print(result.final_output)
print(agora.savings(filter_))
print(f"{len(result.to_input_list())} items in the run")
