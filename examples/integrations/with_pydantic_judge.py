"""The steps of a conversation judged by a local model of Pydantic AI, which asks nobody.

pip install 'agora-context[pydantic-ai]'
python with_pydantic_judge.py
python with_pydantic_judge.py http://127.0.0.1:8484    # a gateway judges instead
"""

import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent

from agora.integrations.pydantic_judge import AgoraJudge


class Needed(BaseModel):
    """How much each step is still needed, from 0 to 1."""

    scores: list[float]


messages = [{"role": "user", "content": "Which room has the key? Look into each."}]
for room in ("hall", "kitchen", "cellar", "attic"):
    call = {"name": "look", "arguments": json.dumps({"room": room})}
    calls = [{"id": f"call_{room}", "type": "function", "function": call}]
    messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    seen = f"The {room} has a chest, {room}_chest, and a lamp, {room}_lamp."
    messages.append({"role": "tool", "tool_call_id": f"call_{room}", "content": seen})

judge = Agent(AgoraJudge(url=sys.argv[1] if len(sys.argv) > 1 else None), output_type=Needed)
result = judge.run_sync(json.dumps({"messages": messages}))
for number, score in enumerate(result.output.scores, start=1):
    print(f"step {number}: {score:.3f}")
