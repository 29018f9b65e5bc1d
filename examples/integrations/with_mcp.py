"""An elided step seen again over MCP: a server in the agent's own process, and a client that asks.

pip install 'agora-context[mcp]'
python with_mcp.py
"""

import asyncio

from mcp import Client

from agora import Compressor
from agora.integrations.mcp import recall_server

messages = [{"role": "user", "content": "Which room has the key? Look into each."}]
for number in range(1, 10):
    call = {"name": "look", "arguments": f'{{"room": {number}}}'}
    calls = [{"id": f"call_{number}", "type": "function", "function": call}]
    messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    seen = f"Room {number} has a chest, a lamp and a window. " * 40
    messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": seen})

compression = Compressor(schedule="every_call").compress(messages)
gone = [decision.number for decision in compression.decisions if decision.outcome == "elided"]


async def recall(step: int) -> str:
    """Return a step in full, as the agent would be shown it."""
    async with Client(recall_server(lambda: messages)) as client:
        answer = await client.call_tool("agora_recall", {"step": step})
        return answer.content[0].text


print(compression.summary())
print(asyncio.run(recall(gone[0]))[:80])
