"""The OpenAI and Anthropic clients: every request they build is compressed on its way out."""

import asyncio
import inspect
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from agora.bound_thinking import refused_thinking
from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.request import Request
from agora.errors import SettingError
from agora.formats.refusals import BINDING_RULES, names_history_rule
from agora.formats.thinking import thinks
from agora.integrations.client_requests import asks_a_model, request_in, with_messages
from agora.integrations.compress_chat import FailOpen, logged
from agora.savings import COUNTED, Counted

C = TypeVar("C")
_log = logging.getLogger(__name__)
_WRAPPED = "_agora_wrapped"
"""Where the class of a wrapped client has the class that it was."""


def wrap(
    client: C,
    compressor: Compressor | None = None,
    *,
    shadow: bool = False,
    keep_tools: Collection[str] = (),
    changing_tools: Collection[str] = (),
    reading_tools: Collection[str] = (),
) -> C:
    """Return a client like `client` that compresses chat, responses and messages requests.

    It is of the same type and shares the connections; `client` itself stays as it is. Streaming,
    asynchronous and raw calls, helpers that parse or stream, and clients made from it by
    `with_options` are covered: all of them pass one hook. What goes over a WebSocket does not.

    With `shadow` every request is sent as it is, and the log says what would have been elided.
    A client that was wrapped already gets these settings instead of its own, so that nothing is
    compressed twice. Tools that are named are added to those of the compressor.

    Raises:
        SettingError: it is not a client of openai or anthropic.
        SettingError: tools are no names, or one is said both to change something and to read.
    """
    kind = getattr(client, _WRAPPED, type(client))
    prepare = getattr(kind, "_prepare_options", None)
    if prepare is None or not hasattr(client, "with_options"):
        raise SettingError(
            "client",
            f"a {kind.__module__}.{kind.__qualname__}",
            "a client of the openai or anthropic package",
        )
    compressor = _with_tools(compressor or Compressor(), keep_tools, changing_tools, reading_tools)
    edit = _Edit(replace(compressor, shadow=True) if shadow else compressor)

    def prepare_sync(self: Any, options: Any) -> Any:
        return prepare(self, edit(options))

    async def prepare_async(self: Any, options: Any) -> Any:
        return await prepare(self, await asyncio.to_thread(edit, options))

    # A refusal of thinking that no longer holds is answered once, by the same without it.
    def request_sync(self: Any, cast_to: Any, options: Any, **more: Any) -> Any:
        try:
            return request(self, cast_to, options, **more)
        except Exception as error:
            if not edit.gives_up_thinking(options, error):
                raise
            return request(self, cast_to, options, **more)

    async def request_async(self: Any, cast_to: Any, options: Any, **more: Any) -> Any:
        try:
            return await request(self, cast_to, options, **more)
        except Exception as error:
            if not await asyncio.to_thread(edit.gives_up_thinking, options, error):
                raise
            return await request(self, cast_to, options, **more)

    request: Any = getattr(kind, "request", None)
    waits = inspect.iscoroutinefunction(prepare)
    hooks: dict[str, Any] = {"_prepare_options": prepare_async if waits else prepare_sync}
    hooks |= {_WRAPPED: kind, COUNTED: edit.counted}
    if request is not None:
        hooks["request"] = request_async if waits else request_sync
    # A class of its own: `with_options` makes its copies from the class.
    wrapped_kind = type(kind.__name__, (kind,), hooks)
    wrapped = client.with_options()
    wrapped.__class__ = wrapped_kind
    return wrapped


def _with_tools(
    compressor: Compressor,
    keep: Collection[str],
    changing: Collection[str],
    reading: Collection[str],
) -> Compressor:
    """Return a compressor to which these tools are known besides its own."""
    if not (keep or changing or reading):
        return compressor
    # On their own first: what is no list of names is refused as what was given.
    given = Compressor(keep_tools=keep, changing_tools=changing, reading_tools=reading)
    return replace(
        compressor,
        keep_tools=(*compressor.keep_tools, *given.keep_tools),
        changing_tools=(*compressor.changing_tools, *given.changing_tools),
        reading_tools=(*compressor.reading_tools, *given.reading_tools),
    )


class _Edit:
    """Compresses the body of a request that is about to be sent."""

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor
        self._open = FailOpen(_log)
        self.counted = Counted(shadow=compressor.shadow)

    def __call__(self, options: Any) -> Any:
        return self._open(lambda: self._edited(options), options)

    def gives_up_thinking(self, options: Any, error: Exception) -> bool:
        """Return True if a request was refused for its thinking and is now sent without."""
        said = str(getattr(error, "body", None) or error)
        if names_history_rule(said.encode("utf-8", "replace")) not in BINDING_RULES:
            return False
        request = request_in(options)
        if request is None or not any(map(thinks, request.messages)):
            return False
        refused_thinking(request.messages, self._compressed(request))
        _log.warning("thinking was refused as bound to another conversation; sent without it")
        return True

    def _edited(self, options: Any) -> Any:
        request = request_in(options)
        if request is None:
            return options
        compression = self._compressed(request)
        if asks_a_model(options):
            self.counted.add(compression)
        if not logged(compression).changed:
            return options
        return with_messages(options, request.field, compression.messages)

    def _compressed(self, request: Request) -> Compression:
        return self._compressor.compress(
            request.messages,
            model=request.model,
            format=request.format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )
