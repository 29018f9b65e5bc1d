"""LiteLLM: the one hook that runs on every asynchronous path, of the SDK and of the proxy.

`async_pre_call_hook` runs in the proxy alone, before a deployment is chosen. The deployment hook
runs for `acompletion`, `aresponses` and `anthropic_messages`, and so for the proxy's routes.
Synchronous `litellm.completion` runs no hook at all: call the callback's own `completion`.
"""

import asyncio
import logging
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.request import Request
from agora.errors import MissingExtraError
from agora.formats import read_request
from agora.formats.anthropic import REMOVED
from agora.formats.thinking import is_thinking, without_thinking
from agora.integrations.compress_chat import (
    FailOpen,
    Kept,
    compress_chat,
    is_bound,
    logged,
    with_text,
)
from agora.integrations.wire import ASIDE, thoughts_aside

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

    What was saved stands in the request's metadata as `compression_savings`, where LiteLLM's spend
    logs and its dashboard count it.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__()
        self._compressor = compressor or Compressor()
        self._open = FailOpen(logging.getLogger(__name__))

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Return the request with compressed messages, or None to leave it as it is."""
        kind = str(getattr(call_type, "value", call_type))
        return await asyncio.to_thread(self._edited, kwargs, kind)

    def completion(self, **request: Any) -> Any:
        """Return `litellm.completion`, which runs no hook, of the compressed messages."""
        return litellm.completion(**(self._edited(request, "completion") or request))

    def _edited(self, kwargs: dict[str, Any], kind: str) -> dict[str, Any] | None:
        return self._open(
            lambda: edited(self._compressor, kwargs, kind),
            None,
            lambda: _without_thinking(self._compressor, kwargs, kind),
        )


def edited(compressor: Compressor, kwargs: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """Return a copy of the call's arguments with fewer steps, or None when nothing is elided."""
    dicts = [kwargs[name] for name in _METADATA if isinstance(kwargs.get(name), dict)]
    noted: dict[str, Any] = dicts[0] if dicts else {}
    done = noted.get("compression_savings") or {}
    if kind not in _FORMATS or (done and done.get("call") == kwargs.get("litellm_call_id")):
        return None  # One call may pass two wrappers on its way: it is edited once.
    request = read_request(kwargs, format=_FORMATS[kind])
    messages = request.messages
    if request.server_side or not isinstance(messages, list):
        return None
    found = _shortened(compressor, kwargs, request, messages)
    if found is None:
        return None
    shorter, compression = found
    savings = {
        "tokens_before": compression.tokens_before,
        "tokens_after": compression.tokens_after,
        "tokens_saved": compression.tokens_before - compression.tokens_after,
        "source": "agora",
        "call": kwargs.get("litellm_call_id"),
    }
    noted["compression_savings"] = savings  # In place: the proxy's logs hold this very dict.
    return {**request.with_messages(shorter), **({} if dicts else {_METADATA[0]: noted})}


def _shortened(
    compressor: Compressor, kwargs: dict[str, Any], request: Request, messages: list[Any]
) -> tuple[list[Any], Compression] | None:
    """Return the messages to send and the account of it, or None when they stay as they are."""
    bound = is_bound(compressor, request.model)
    format, system, tools = request.format, request.system, kwargs.get("tools") or ()
    if format == "responses" and bound:
        # LiteLLM writes them as Anthropic's messages, with thinking that an edit would invalidate.
        return None
    if format == "openai" and (bound or any(m.get("thinking_blocks") for m in messages)):
        # Anthropic's thinking in chat completions: its own rules say what may go.
        chat = [{**message, "thoughts": thoughts_aside(message)} for message in messages]
        compressed = compress_chat(compressor, chat, model=request.model, tools=tools)
        if compressed is None:
            return None
        return compressed.rebuild(messages, _edit, _bare), compressed.compression
    compression = compressor.compress(
        messages,
        model=request.model,
        format=format,
        system=system,
        tools=request.tools,
        thinking=request.thinking,
    )
    return (compression.messages, compression) if logged(compression).changed else None


def _edit(message: dict[str, Any], kept: Kept) -> list[dict[str, Any]]:
    if kept.how == "after":
        return [{"role": "user", "content": "\n\n".join(kept.texts)}]
    return [{**message, "content": with_text(message.get("content") or "", kept)}]


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """Return a chat message without signed thinking.

    Its `reasoning_content` stays: that is the same text without a signature, which LiteLLM keeps
    for the caller and does not send to Anthropic.
    """
    bare = {name: value for name, value in message.items() if name not in ASIDE}
    if isinstance(bare.get("content"), list):
        bare["content"] = [block for block in bare["content"] if not is_thinking(block)]
    return bare


def _without_thinking(
    compressor: Compressor, kwargs: dict[str, Any], kind: str
) -> dict[str, Any] | None:
    """Return a call without signed thinking, where it is not known which of it still holds."""
    if kind not in _FORMATS:
        return None
    request = read_request(kwargs, format=_FORMATS[kind])
    messages = request.messages
    if not isinstance(messages, list) or not is_bound(compressor, request.model):
        return None
    if request.format == "responses":
        return None  # Never edited, so all of it still holds.
    if request.format == "anthropic":
        return request.with_messages(without_thinking(messages).messages)
    bare = [_bare(message) for message in messages]
    return request.with_messages(
        [m if m.get("content") or m.get("tool_calls") else {**m, "content": REMOVED} for m in bare]
    )


agora_logger = AgoraLogger()
"""For a proxy: `from agora.integrations.litellm import agora_logger` in a file `agora_callback.py`
next to its configuration, and `callbacks: agora_callback.agora_logger` in the configuration."""
