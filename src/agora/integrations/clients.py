"""The OpenAI and Anthropic clients: every request they build is compressed on its way out."""

import asyncio
import copy
import inspect
import logging
from dataclasses import replace
from typing import Any, TypeVar

from agora.adapters import read_request
from agora.compressor import Compressor
from agora.errors import UnknownClientError
from agora.integrations.compress_chat import FailOpen, logged

C = TypeVar("C")
_FORMATS = {
    "/chat/completions": "openai",
    "/responses": "responses",
    "/messages": "anthropic",
    "/messages/count_tokens": "anthropic",
}


def wrap(client: C, compressor: Compressor | None = None, *, shadow: bool = False) -> C:
    """Return a client like `client` that compresses chat, responses and messages requests.

    It is of the same type and shares the connections; `client` itself stays as it is. Streaming,
    asynchronous and raw calls, helpers that parse or stream, and clients made from it by
    `with_options` are covered: all of them pass one hook. What goes over a WebSocket does not.

    With `shadow` every request is sent as it is, and the log says what would have been elided.

    Raises:
        UnknownClientError: it is not a client of openai or anthropic.
    """
    kind = type(client)
    prepare = getattr(kind, "_prepare_options", None)
    if prepare is None or not hasattr(client, "with_options"):
        raise UnknownClientError(f"a {kind.__module__}.{kind.__qualname__}")
    compressor = compressor or Compressor()
    edit = _Edit(replace(compressor, shadow=True) if shadow else compressor)

    def prepare_sync(self: Any, options: Any) -> Any:
        return prepare(self, edit(options))

    async def prepare_async(self: Any, options: Any) -> Any:
        return await prepare(self, await asyncio.to_thread(edit, options))

    hook = prepare_async if inspect.iscoroutinefunction(prepare) else prepare_sync
    # A class of its own: `with_options` makes its copies from the class.
    wrapped_kind = type(kind.__name__, (kind,), {"_prepare_options": hook})
    wrapped = client.with_options()
    wrapped.__class__ = wrapped_kind
    return wrapped


class _Edit:
    """Compresses the body of a request that is about to be sent."""

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor
        self._open = FailOpen(logging.getLogger(__name__))

    def __call__(self, options: Any) -> Any:
        return self._open(lambda: self._edited(options), options)

    def _edited(self, options: Any) -> Any:
        path = str(options.url).partition("?")[0]
        format = next((f for end, f in _FORMATS.items() if path.endswith(end)), None)
        body = options.json_data
        if format is None or options.method.lower() != "post" or not isinstance(body, dict):
            return options
        request = read_request(body, format=format)
        if request.server_side:
            return options
        compression = self._compressor.compress(
            request.messages,
            model=request.model,
            format=format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )
        if not logged(compression).changed:
            return options
        edited = copy.copy(options)
        edited.json_data = request.with_messages(compression.messages)
        return edited
