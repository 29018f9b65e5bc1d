"""A strict fake provider that has an agent read page after page, by tool calls, to a set end.

python -m harness.gateway.scripted_upstream PORT [STEPS]
"""

import json
import re
import sys
from dataclasses import dataclass
from typing import Any

import uvicorn

from harness.gateway.strict_upstream import Message, Received, StrictUpstream, _chat_usage

_PAGE = re.compile(r"This is page ([0-9]{1,4})\b")


@dataclass
class ScriptedUpstream(StrictUpstream):
    """Answers chat completions: the tool `read_page` for the next page, at the end an answer.

    Where it is in its script it reads from the newest message, as a model would: what
    came before may be elided.
    """

    steps: int = 30

    async def _answer(self, request: Received, send: Any) -> None:
        if request.path != "/v1/chat/completions":
            await super()._answer(request, send)
            return
        asked = json.loads(request.body)
        problem = self._problem(asked, "openai")
        if problem:
            await self._refuse(request, send, "openai", problem)
            return
        answer = json.dumps(self._next(asked)).encode()
        await self._say(request, send, 200, [(b"content-type", b"application/json")], answer)

    def _next(self, asked: Message) -> Message:
        last = asked["messages"][-1]
        pages = _PAGE.findall(json.dumps(last.get("content")))
        page = int(pages[-1]) if pages else 0
        tools = [tool["function"]["name"] for tool in asked.get("tools") or ()]
        message: Message = {"role": "assistant", "content": None}
        if page < self.steps:
            message["tool_calls"] = [_call(page + 1, "read_page", {"number": page + 1})]
        elif "final_answer" in tools:
            message["tool_calls"] = [_call(page + 1, "final_answer", {"answer": "42"})]
        else:
            message["content"] = "42"
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        return {
            "id": f"chatcmpl-{page}",
            "object": "chat.completion",
            "created": 1,
            "model": asked.get("model", "m"),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": _chat_usage(asked),
        }


def _call(number: int, name: str, arguments: Message) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def main() -> None:
    """Serve it until it is ended."""
    port, steps = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30
    app = ScriptedUpstream(steps=steps)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
