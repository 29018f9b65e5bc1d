"""Google ADK: a plugin that shortens each model request; the session's events stay whole.

ADK's contents are Gemini's, and are read and written as such.
"""

import asyncio
from typing import Any

from agora.compressor import Compressor
from agora.core.binding import binds
from agora.core.compression import Compression
from agora.errors import MissingExtraError
from agora.integrations.base import Shortener

try:
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai.types import Content
except ImportError as error:
    raise MissingExtraError(__name__, "google-adk") from error


class AgoraPlugin(BasePlugin):
    """A plugin for `Runner(..., plugins=[AgoraPlugin()])`.

    `agora.savings(plugin)` returns the dollars and tokens that it saved. Requests to a Claude model
    that checks its thinking are left alone while they hold any.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__(name="agora")
        self._shortener = Shortener(compressor)
        self.agora_ledger = self._shortener.ledger

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Put the shorter contents into the request; the choice is made in a thread."""
        compression = await asyncio.to_thread(
            self._shortener.attempt, lambda: self._compressed(llm_request), None
        )
        if compression is None:
            return
        if compression.changed:
            llm_request.contents = list(compression.messages)
        self._shortener.wait(_call_of(callback_context), compression, llm_request.model)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Count the call by the usage in its answer."""
        usage = getattr(llm_response, "usage_metadata", None)
        if getattr(llm_response, "partial", False) or usage is None:
            return
        counts = usage.model_dump(by_alias=True, exclude_none=True)
        self._shortener.came(_call_of(callback_context), counts)

    def _compressed(self, request: Any) -> Compression | None:
        if getattr(request, "previous_interaction_id", None):
            return None  # The provider keeps part of the messages itself.
        thinks = any(part.thought for content in request.contents for part in content.parts or ())
        if thinks and binds(request.model):
            return None
        config = request.config
        tools = [tool.model_dump(mode="json", exclude_none=True) for tool in config.tools or ()]
        system = config.system_instruction
        # A subclass such as ModelContent has its role as a default, which is not written out.
        contents = [
            content if type(content) is Content else Content(role=content.role, parts=content.parts)
            for content in request.contents
        ]
        return self._shortener.shorten(
            contents,
            model=request.model,
            format="gemini",
            system=system if isinstance(system, str) else None,
            tools=tools or None,
        )


def _call_of(context: Any) -> str:
    return f"{context.invocation_id} {context.agent_name}"
