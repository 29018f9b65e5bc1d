"""Strands Agents: the model is sent shorter messages, the agent's messages stay whole.

Strands' messages are Bedrock Converse's. A conversation manager would edit `agent.messages`, the
agent's own memory, so the edit is made around the model.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.base import Shortener

try:
    from strands.models import Model
except ImportError as error:
    raise MissingExtraError(__name__, "strands") from error


class AgoraModel(Model):
    """A model for `Agent(model=AgoraModel(BedrockModel()))`, around any model of Strands.

    `agora.savings(model)` returns the dollars and tokens that it saved.
    """

    def __init__(self, model: Model, compressor: Compressor | None = None) -> None:
        self._model = model
        self._shortener = Shortener(compressor)
        self.agora_ledger = self._shortener.ledger

    def __getattr__(self, name: str) -> Any:
        # Asked only for names that this class does not have.
        return getattr(self.__dict__["_model"], name)

    def update_config(self, **config: Any) -> None:
        """Change the settings of the model within."""
        self._model.update_config(**config)

    def get_config(self) -> Any:
        """Return the settings of the model within."""
        return self._model.get_config()

    def structured_output(self, *args: Any, **options: Any) -> Any:
        """Ask the model within; this request is not shortened."""
        return self._model.structured_output(*args, **options)

    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: str | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Stream the model's answer to the shorter messages; the choice is made in a thread."""
        name = self.get_config().get("model_id")
        compression = await asyncio.to_thread(
            self._shortener.attempt,
            lambda: self._shortener.shorten(
                messages,
                model=name,
                format="bedrock",
                system=system_prompt and [{"text": system_prompt}],
                tools=tool_specs and {"tools": [{"toolSpec": spec} for spec in tool_specs]},
            ),
            None,
        )
        if compression is not None and compression.changed:
            messages = compression.messages
        usage = None
        async for event in self._model.stream(messages, tool_specs, system_prompt, **options):
            usage = (event.get("metadata") or {}).get("usage") or usage
            yield event
        if compression is not None:
            self._shortener.answered(compression, _as_converse(usage), name)


def _as_converse(usage: Any) -> Any:
    """Return usage with the cached tokens apart from `inputTokens`, as Bedrock counts them."""
    if not usage:
        return None
    cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    included = usage["inputTokens"] + usage["outputTokens"] == usage.get("totalTokens")
    return {**usage, "inputTokens": usage["inputTokens"] - cached} if included else usage
