"""A strict fake provider: keeps every rule of the catalogue and refuses in the provider's words."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agora import EstimatedTokens
from agora.core.prefix_cache import Bill
from agora.formats import validate
from harness.agents import speech
from harness.agents.script import Turn
from harness.shortened import is_edited

Message = dict[str, Any]
_FORMATS = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
}
_TEXT = 'The answer is "42", 世界 🙂.'


@dataclass
class Received:
    """One request as received."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    status: int = 0
    disconnected: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    def header(self, name: str) -> str | None:
        for key, value in self.headers:
            if key.lower() == name.encode():
                return value.decode("latin-1")
        return None


@dataclass
class StrictUpstream:
    """An ASGI application that speaks three APIs, streaming and not."""

    received: list[Received] = field(default_factory=list)
    pause_seconds: float = 0.0
    """Between two events of a stream, and before a body."""
    held: bool = False
    """While True, no body is sent."""
    refuse_edited_by: str = ""
    """If set, refuses requests with a marker, with this message."""
    answers: dict[str, tuple[int, list[tuple[bytes, bytes]], bytes]] = field(default_factory=dict)
    """Fixed answers by path, for requests outside the three APIs."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = Received(
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            scope["query_string"],
            scope["headers"],
            body,
        )
        self.received.append(request)
        watch = asyncio.ensure_future(self._watch(receive, request))
        try:
            await self._answer(request, send)
        finally:
            watch.cancel()

    async def _watch(self, receive: Any, request: Received) -> None:
        await receive()
        request.disconnected = True

    async def _answer(self, request: Received, send: Any) -> None:
        path = request.path
        if path in self.answers:
            await self._say(request, send, *self.answers[path])
            return
        format = _FORMATS.get(path)
        if format is None:
            echo = json.dumps({"path": path, "sha256": request.sha256}).encode()
            await self._say(request, send, 200, [(b"content-type", b"application/json")], echo)
            return
        try:
            asked = json.loads(request.body)
        except ValueError:
            await self._refuse(request, send, format, "We could not parse the JSON body")
            return
        problem = self._problem(asked, format)
        if problem:
            await self._refuse(request, send, format, problem)
            return
        if path.endswith("count_tokens"):
            counted = json.dumps({"input_tokens": _tokens(asked)}).encode()
            await self._say(request, send, 200, [(b"content-type", b"application/json")], counted)
            return
        if asked.get("stream"):
            await self._stream(request, send, format, asked)
        else:
            await asyncio.sleep(self.pause_seconds)
            while self.held:
                await asyncio.sleep(0.005)
            answer = json.dumps(whole(format, asked)).encode()
            await self._say(request, send, 200, [(b"content-type", b"application/json")], answer)

    def _problem(self, asked: Any, format: str) -> str:
        if not isinstance(asked, dict):
            return "the body is no object"
        field = "input" if format == "responses" else "messages"
        messages = asked.get(field)
        if format == "responses" and isinstance(messages, str):
            return ""
        thinking = asked.get("thinking")
        broken = validate(
            messages,
            format=format,
            system=asked.get("system") if format == "anthropic" else asked.get("instructions"),
            tools=asked.get("tools"),
            thinking=thinking.get("type") != "disabled" if isinstance(thinking, dict) else None,
        )
        if broken:
            return broken[0].error
        if self.refuse_edited_by and is_edited(messages):
            return self.refuse_edited_by
        return ""

    async def _refuse(self, request: Received, send: Any, format: str, text: str) -> None:
        if format == "anthropic":
            said: Any = {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": text},
            }
        else:
            said = {"error": {"message": text, "type": "invalid_request_error", "code": None}}
        kind = [(b"content-type", b"application/json"), (b"x-request-id", b"req_refused")]
        await self._say(request, send, 400, kind, json.dumps(said).encode())

    async def _say(
        self,
        request: Received,
        send: Any,
        status: int,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        request.status = status
        sized = [*headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": sized})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, request: Received, send: Any, format: str, asked: Any) -> None:
        request.status = 200
        headers = [(b"content-type", b"text/event-stream"), (b"x-request-id", b"req_stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in self._events(format, asked):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, format: str, asked: Any) -> AsyncIterator[bytes]:
        for event in events(format, asked):
            yield event
            if self.pause_seconds:
                await asyncio.sleep(self.pause_seconds)


def events(format: str, asked: Any) -> list[bytes]:
    """Return the events of a streamed answer."""
    return list(_SPEECH[format][1](_reply(asked)))


def whole(format: str, asked: Any) -> Message:
    """Return an answer that is not streamed."""
    return _SPEECH[format][0](_reply(asked))


_SPEECH: Mapping[
    str, tuple[Callable[[speech.Reply], Message], Callable[[speech.Reply], Iterable[bytes]]]
] = {
    "openai": (speech.chat, partial(speech.chat_events, with_usage=True)),
    "responses": (speech.responses, speech.responses_events),
    "anthropic": (speech.anthropic, speech.anthropic_events),
}


def _reply(asked: Any) -> speech.Reply:
    prompt = _tokens(asked)
    usage = Bill(uncached=3, read=prompt - prompt // 4, written=prompt // 4, dollars=0.0)
    model = asked.get("model", "m")
    return speech.Reply(turn=Turn(_TEXT), model=model, number=1, usage=usage)


def _tokens(asked: Any) -> int:
    return EstimatedTokens().count(json.dumps(asked, ensure_ascii=False))
