"""LiteLLM: the hook that runs on every asynchronous path, of the SDK and of the proxy.

`async_pre_call_hook` runs in the proxy alone, before a deployment is chosen. The deployment hook
runs for `acompletion`, `aresponses` and `anthropic_messages`, and so for the proxy's routes.
Synchronous `litellm.completion` runs no hook: call the logger's own `completion`.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.errors import MissingExtraError
from agora.formats import read_request
from agora.integrations.base import Shortener

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise MissingExtraError(__name__, "litellm") from error

_METADATA = ("litellm_metadata", "metadata")
_FORMATS = {
    "completion": "openai",
    "acompletion": "openai",
    "responses": "responses",
    "aresponses": "responses",
    "anthropic_messages": "anthropic",
}


class AgoraLogger(CustomLogger):
    """A callback for `litellm.callbacks = [AgoraLogger()]`, or for a proxy's `callbacks`.

    `agora.savings(logger)` returns the dollars and tokens that it saved. Each request's metadata
    has its tokens as `compression_savings`, for LiteLLM's spend logs and dashboard.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__()
        self._shortener = Shortener(compressor)
        self.agora_ledger = self._shortener.ledger

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Return the request with shorter messages, or None to leave it as it is."""
        kind = str(getattr(call_type, "value", call_type))
        return await asyncio.to_thread(self._shortened, kwargs, kind)

    async def async_log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Count the call by the usage in its answer."""
        self._answered(str(kwargs.get("litellm_call_id")), response_obj)

    def completion(self, **request: Any) -> Any:
        """Return the answer of `litellm.completion`, which runs no hook, to shorter messages."""
        call = f"own {id(request)}"
        request = {**request, "litellm_call_id": call}
        answer = litellm.completion(**(self._shortened(request, "completion") or request))
        if request.get("stream"):
            return self._counted(answer, call)
        self._answered(call, answer)
        return answer

    def _counted(self, stream: Any, call: str) -> Iterator[Any]:
        yield from stream
        # Its pieces show usage only to a caller who asked for it; LiteLLM's own copies do.
        whole = self._shortener.attempt(lambda: litellm.stream_chunk_builder(stream.chunks), None)
        self._answered(call, whole)

    def _answered(self, call: str, response: Any) -> None:
        if not self._shortener.waits(call):
            return
        fields = response if isinstance(response, dict) else {}
        usage: Any = fields.get("usage") or getattr(response, "usage", None)
        counts = usage.model_dump() if hasattr(usage, "model_dump") else usage
        answer = response.model_dump() if hasattr(response, "model_dump") else fields
        self._shortener.came(call, counts, answer=answer or None)

    def _shortened(self, kwargs: dict[str, Any], kind: str) -> dict[str, Any] | None:
        return self._shortener.attempt(lambda: self._edited(kwargs, kind), None)

    def _edited(self, kwargs: dict[str, Any], kind: str) -> dict[str, Any] | None:
        """Return a copy of the call's arguments with fewer steps, or None to leave them."""
        call = str(kwargs.get("litellm_call_id"))
        if kind not in _FORMATS or self._shortener.waits(call):
            return None  # A call may pass two wrappers on its way: it is edited once.
        request = read_request(kwargs, format=_FORMATS[kind])
        if request.server_side or not isinstance(request.messages, list):
            return None
        if request.format == "responses" and request.is_bound:
            # LiteLLM writes them as Anthropic's messages, with thinking that an edit would break.
            return None
        compression = self._shortener.shorten(
            request.messages,
            model=request.model,
            format=request.format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )
        self._shortener.wait(call, compression, request.model)
        if not compression.changed:
            return None
        return {**request.with_messages(compression.messages), **_noted(kwargs, compression)}


def _noted(kwargs: dict[str, Any], compression: Compression) -> dict[str, Any]:
    """Write the tokens into the request's metadata; return it if there was none."""
    present = [kwargs[name] for name in _METADATA if isinstance(kwargs.get(name), dict)]
    metadata: dict[str, Any] = present[0] if present else {}
    # In place: the proxy's logs hold this very dict.
    metadata["compression_savings"] = {
        "tokens_before": compression.tokens_before,
        "tokens_after": compression.tokens_after,
        "tokens_saved": compression.tokens_before - compression.tokens_after,
        "source": "agora",
    }
    return {} if present else {_METADATA[0]: metadata}


agora_logger = AgoraLogger()
"""For a proxy: `from agora.integrations.litellm import agora_logger` in a file `agora_callback.py`
next to its configuration, and `callbacks: agora_callback.agora_logger` in the configuration."""
