"""A react agent of Inspect AI that reads a folder, its input compacted by whole steps.

pip install 'agora-context[inspect-ai]' openai
python with_inspect_ai.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.tool import tool
from reader import Tally, arguments, compressor_for, read_file, task

from agora.integrations.inspect_ai import AgoraCompaction

asked = arguments(__doc__)
tally = Tally()


@tool(name="read_file")
def reader():
    """Return the tool."""

    async def execute(name: str) -> str:
        """Return the text of a file of the folder.

        Args:
            name: The file's name.
        """
        return read_file(asked.folder, name)

    return execute


# Inspect asks for a compaction once its own count is above the threshold.
threshold = 1_000_000 if asked.plain else 4 * asked.min_tokens
compaction = AgoraCompaction(compressor_for(asked), threshold=threshold)
samples = [Sample(input=task(asked.folder, asked.files))]
logs = evaluate(
    Task(dataset=samples, solver=react(tools=[reader()], submit=False, compaction=compaction)),
    model=get_model(f"openai-api/local/{asked.model}", base_url=asked.base_url, api_key="none"),
    display="none",
    message_limit=100,
)
sample = logs[0].samples[0]
print(sample.output.completion)
print(tally)
print(f"{len(sample.messages)} messages in the sample's log")
