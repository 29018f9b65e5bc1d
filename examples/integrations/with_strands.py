"""An agent of Strands that reads a folder, its prompts compressed.

pip install '.[strands]' 'strands-agents[openai]'
python with_strands.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

from reader import arguments, compressor_for, read_file, task
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.openai import OpenAIModel

import agora
from agora.integrations.strands import AgoraModel

asked = arguments(__doc__)


@tool(name="read_file")
def read(name: str) -> str:
    """Return the text of a file of the folder.

    Args:
        name: The file's name.
    """
    return read_file(asked.folder, name)


client = {"base_url": asked.base_url, "api_key": asked.api_key}
own = OpenAIModel(client_args=client, model_id=asked.model)
model = AgoraModel(own, compressor_for(asked))
agent = Agent(
    model=model,
    tools=[read],
    callback_handler=None,
    conversation_manager=NullConversationManager(),
)
print(agent(task(asked.folder, asked.files)))
print(agora.savings(model))
print(f"{len(agent.messages)} messages in the agent")
