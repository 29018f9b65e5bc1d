"""A loop of one's own over LiteLLM that reads a folder, its prompts compressed.

pip install '.[litellm]'
python with_litellm.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

import asyncio
import json

import litellm
from reader import arguments, compressor_for, read_file, task

import agora
from agora.integrations.litellm import AgoraLogger

asked = arguments(__doc__)
logger = AgoraLogger(compressor_for(asked))
litellm.callbacks = [logger]
schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
about = {"name": "read_file", "description": "Return the text of a file.", "parameters": schema}


async def run() -> list[dict]:
    """Return the messages of the whole run."""
    messages = [{"role": "user", "content": task(asked.folder, asked.files)}]
    for _ in range(50):
        answer = await litellm.acompletion(
            model=f"openai/{asked.model}",
            api_base=asked.base_url,
            api_key=asked.api_key,
            messages=messages,
            tools=[{"type": "function", "function": about}],
        )
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            break
        for call in said.tool_calls:
            name = json.loads(call.function.arguments).get("name", "")
            text = read_file(asked.folder, name)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    await asyncio.sleep(5)  # LiteLLM counts in the background.
    return messages


messages = asyncio.run(run())
print(messages[-1].get("content"))
print(agora.savings(logger))
print(f"{len(messages)} messages in the caller's list")
