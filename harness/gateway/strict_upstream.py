"""A strict fake provider: keeps every rule of the catalogue and refuses in the provider's words."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from agora.core.tokens import EstimatedTokens
from agora.formats import validate
from harness.shortened import is_edited

Message = dict[str, Any]
_FORMATS = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
}
_WORDS = ("The", " answer", " is", ' "42"', ",", " 世界", " 🙂", ".")


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
            answer = json.dumps(_whole(format, asked)).encode()
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
    return {"openai": _chat_events, "responses": _response_events, "anthropic": _message_events}[
        format
    ](asked)


def _tokens(asked: Any) -> int:
    return EstimatedTokens().count(json.dumps(asked, ensure_ascii=False))


def _chat_usage(asked: Any) -> Message:
    prompt = _tokens(asked)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": 8,
        "total_tokens": prompt + 8,
        "prompt_tokens_details": {"cached_tokens": prompt // 2},
    }


def _message_usage(asked: Any) -> Message:
    prompt = _tokens(asked)
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": prompt // 4,
        "cache_read_input_tokens": prompt - prompt // 4,
        "output_tokens": 8,
    }


def _response_usage(asked: Any) -> Message:
    prompt = _tokens(asked)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": prompt // 2},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + 8,
    }


def _data(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _chat_events(asked: Any) -> list[bytes]:
    def chunk(delta: Message, finish: str | None = None, **more: Any) -> bytes:
        return _data(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": asked.get("model", "m"),
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
                **more,
            }
        )

    out = [chunk({"role": "assistant", "content": ""})]
    out += [chunk({"content": word}) for word in _WORDS]
    out.append(chunk({}, "stop"))
    last = json.loads(chunk({})[6:])
    out.append(_data({**last, "choices": [], "usage": _chat_usage(asked)}))
    return [*out, b"data: [DONE]\n\n"]


def _message_events(asked: Any) -> list[bytes]:
    def event(kind: str, **more: Any) -> bytes:
        return b"event: " + kind.encode() + b"\n" + _data({"type": kind, **more})

    message = _whole("anthropic", asked)
    opening = {**message, "content": [], "stop_reason": None}
    out = [
        event("message_start", message=opening),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        event("ping"),
    ]
    out += [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        for word in _WORDS
    ]
    return [
        *out,
        event("content_block_stop", index=0),
        event(
            "message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={"output_tokens": 8},
        ),
        event("message_stop"),
    ]


def _response_events(asked: Any) -> list[bytes]:
    number = iter(range(1_000))

    def event(kind: str, **more: Any) -> bytes:
        body = _data({"type": kind, "sequence_number": next(number), **more})
        return b"event: " + kind.encode() + b"\n" + body

    done = _whole("responses", asked)
    begun = {**done, "status": "in_progress", "output": [], "usage": None}
    item = done["output"][0]
    part = item["content"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    out = [
        event("response.created", response=begun),
        event("response.output_item.added", output_index=0, item={**item, "content": []}),
        event("response.content_part.added", **place, part={**part, "text": ""}),
    ]
    out += [
        event("response.output_text.delta", **place, delta=word, logprobs=[]) for word in _WORDS
    ]
    return [
        *out,
        event("response.output_text.done", **place, text="".join(_WORDS), logprobs=[]),
        event("response.content_part.done", **place, part=part),
        event("response.output_item.done", output_index=0, item=item),
        event("response.completed", response=done),
    ]


def _whole(format: str, asked: Any) -> Message:
    text = "".join(_WORDS)
    model = asked.get("model", "m")
    if format == "openai":
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": _chat_usage(asked),
        }
    if format == "anthropic":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": _message_usage(asked),
        }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _response_usage(asked),
    }
