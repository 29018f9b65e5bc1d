"""A tool-calling agent of smolagents that reads a folder, its prompts compressed.

pip install '.[smolagents]' 'smolagents[openai]'
python with_smolagents.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

from reader import arguments, compressor_for, read_file, task
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

import agora
from agora.integrations.smolagents import wrap_model

asked = arguments(__doc__)


@tool
def read(name: str) -> str:
    """Return the text of a file of the folder.

    Args:
        name: The file's name.
    """
    return read_file(asked.folder, name)


read.name = "read_file"
own = OpenAIServerModel(asked.model, asked.base_url, api_key=asked.api_key)
model = wrap_model(own, compressor_for(asked))
agent = ToolCallingAgent([read], model, max_steps=50, verbosity_level=0)
print(agent.run(task(asked.folder, asked.files)))
print(agora.savings(model))
print(f"{len(agent.memory.steps)} steps in the agent's memory")
