"""An agent of Pydantic AI that reads a folder, its prompts compressed.

pip install '.[pydantic-ai]' 'pydantic-ai-slim[openai]'
python with_pydantic_ai.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from reader import arguments, compressor_for, read_file, task

import agora
from agora.integrations.pydantic_ai import Agora

asked = arguments(__doc__)
provider = OpenAIProvider(base_url=asked.base_url, api_key=asked.api_key)
capability = Agora(compressor_for(asked))
agent = Agent(
    OpenAIChatModel(asked.model, provider=provider),
    instructions="You read files.",
    capabilities=[capability],
)


@agent.tool_plain(name="read_file")
def read(name: str) -> str:
    """Return the text of a file of the folder."""
    return read_file(asked.folder, name)


result = agent.run_sync(task(asked.folder, asked.files))
print(result.output)
print(agora.savings(capability))
print(f"{len(result.all_messages())} messages in the history")
