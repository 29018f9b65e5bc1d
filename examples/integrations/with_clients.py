"""A loop of one's own over the OpenAI client that reads a folder, its prompts compressed.

pip install . openai
python with_clients.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

import json

from openai import OpenAI
from reader import arguments, compressor_for, read_file, task

import agora

asked = arguments(__doc__)
own = OpenAI(base_url=asked.base_url, api_key=asked.api_key)
client = agora.wrap(own, compressor_for(asked))
schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
about = {"name": "read_file", "description": "Return the text of a file.", "parameters": schema}
messages = [{"role": "user", "content": task(asked.folder, asked.files)}]
for _ in range(50):
    answer = client.chat.completions.create(
        model=asked.model,
        messages=messages,
        tools=[{"type": "function", "function": about}],
    )
    said = answer.choices[0].message
    messages.append(said.model_dump(exclude_none=True))
    if not said.tool_calls:
        break
    for call in said.tool_calls:
        text = read_file(asked.folder, json.loads(call.function.arguments).get("name", ""))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
print(messages[-1].get("content"))
print(agora.savings(client))
print(f"{len(messages)} messages in the caller's list")
