"""One request of an OpenAI or Anthropic client: its shorter body, a refusal, its usage."""

import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from agora.core.request import Request
from agora.formats import read_request
from agora.formats.refusals import BINDING_RULES, names_history_rule
from agora.formats.usage_stream import UsageStream
from agora.integrations.base import Shortener

REFUSALS = (400, 422)
"""The statuses of an answer that refuses a request for its content."""
_log = logging.getLogger("agora.integrations")
_FORMATS = {
    "/chat/completions": "openai",
    "/responses": "responses",
    "/messages": "anthropic",
    "/messages/count_tokens": "anthropic",
}
_COUNTS = "/count_tokens"


def client_call(shortener: Shortener, method: str, url: str, body: Any) -> "ClientCall | None":
    """Return the call that a request makes, or None if it is not ours to edit."""
    path = url.partition("?")[0].rstrip("/")
    format = next((name for end, name in _FORMATS.items() if path.endswith(end)), None)
    if format is None or method.lower() != "post":
        return None
    fields = json.loads(body) if isinstance(body, bytes) else body
    if not isinstance(fields, dict):
        return None
    request = read_request(fields, format=format)
    if request.server_side:
        return None
    return ClientCall(shortener, request, answers=not path.endswith(_COUNTS))


class ClientCall:
    """A call on its way to the provider."""

    def __init__(self, shortener: Shortener, request: Request, *, answers: bool) -> None:
        self._shortener = shortener
        self._request = request
        self._answers = answers
        """False for a request that only counts tokens."""
        self._compression = shortener.shorten(
            request.messages,
            model=request.model,
            format=request.format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )

    @property
    def body(self) -> Any:
        """The body to send instead, or None if nothing was changed."""
        compression = self._compression
        changed = compression.changed
        return self._request.with_messages(compression.messages) if changed else None

    def body_after_refusal(self, refusal: bytes) -> Any:
        """Return the body to send after a 400 or 422, or None if the refusal is the caller's."""
        return self._shortener.attempt(lambda: self._body_after_refusal(refusal), None)

    def _body_after_refusal(self, refusal: bytes) -> Any:
        about_thinking = names_history_rule(refusal) in BINDING_RULES
        again = self._shortener.refused(self._compression, about_thinking=about_thinking)
        if again is None:
            return None
        how = "without its earlier thinking" if about_thinking else "as it was"
        _log.warning("the provider refused the request; sent again %s", how)
        self._compression = again
        return self._request.with_messages(again.messages)

    def watch(self, response: Any) -> None:
        """Count the call by the usage in its answer, which may not have been read yet."""
        self._shortener.attempt(lambda: self._watch(response), None)

    def _watch(self, response: Any) -> None:
        if not (response.is_success and self._answers):
            return
        if response.is_closed:
            usage = UsageStream()
            usage.feed(response.content)
            self._finish(usage, response.json())
        else:
            usage = UsageStream(response.headers.get("content-encoding", ""))
            response.stream = _tee(response.stream, usage, self._finish)

    def _finish(self, usage: UsageStream, answer: Any = None) -> None:
        answer = usage.words() if answer is None else answer
        self._shortener.answered(
            self._compression, usage.usage(), self._request.model, answer=answer
        )


def library_of(value: Any) -> Any:
    """Return the module that an object's class is of: httpx or httpx2."""
    names = (kind.__module__.partition(".")[0] for kind in type(value).__mro__)
    return sys.modules[next(name for name in names if name.startswith("httpx"))]


def _tee(stream: Any, usage: UsageStream, finish: Callable[[UsageStream], None]) -> Any:
    """Return the stream of an answer, with its usage read while it passes."""
    library = library_of(stream)

    class Tee(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        ended = False

        def __iter__(self) -> Iterator[bytes]:
            for piece in stream:
                usage.feed(piece)
                yield piece

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in stream:
                usage.feed(piece)
                yield piece

        def close(self) -> None:
            stream.close()
            self._end()

        async def aclose(self) -> None:
            await stream.aclose()
            self._end()

        def _end(self) -> None:
            if not self.ended:
                self.ended = True
                finish(usage)

    return Tee()
