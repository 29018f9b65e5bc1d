"""A fake provider of Claude models that bind thinking: it signs blocks and checks them."""

import json
from dataclasses import dataclass
from typing import Any

from harness.gateway.strict_upstream import Received, StrictUpstream
from harness.signing import Outcome, Signer


@dataclass
class SigningUpstream(StrictUpstream):
    """Signs thinking, and refuses or drops invalid blocks."""

    outcome: Outcome | None = None
    dropped: int = 0

    async def _answer(self, request: Received, send: Any) -> None:
        asked = json.loads(request.body)
        signer = Signer(outcome=self.outcome)
        betas = request.header("anthropic-beta") or ""
        received = signer.receive(asked, betas=betas)
        problem = received.refusal or self._problem(asked, "anthropic")
        if problem:
            await self._refuse(request, send, "anthropic", problem)
            return
        self.dropped += len(received.dropped)
        number = sum(one.status == 200 for one in self.received) + 1
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"n": number}}
        answer = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": [signer.think(asked, f"thought {number}", betas=betas), use],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "output_tokens": 8},
        }
        head = [(b"content-type", b"application/json")]
        await self._say(request, send, 200, head, json.dumps(answer).encode())

    def _problem(self, asked: Any, format: str) -> str:
        return super()._problem({**asked, "thinking": None}, format)

    @property
    def refused(self) -> int:
        return sum(one.status == 400 for one in self.received)
