"""One HTTP request on Envoy's stream: its messages in, answers out, whatever fails."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agora.extproc.kept import Kept, Sent, name_of
from agora.extproc.messages import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    ProcessingMode,
    ProcessingResponse,
    StreamedBodyResponse,
    TrailersResponse,
)
from agora.service import (
    REFUSED,
    Call,
    Edited,
    Outcome,
    Route,
    Service,
    UsageStream,
    inflate,
    readable_encodings,
    route_of,
)

_log = logging.getLogger(__name__)
RETRY = "x-agora-refused"
"""The header of a refused answer by which Envoy sends the request again (`retriable_headers`)."""
CONVERSATION = "x-agora-conversation"
"""The header with the conversation's name in the log, in an experiment."""
_ATTEMPT = "x-envoy-attempt-count"
"""The header with Envoy's count of attempts; if it is there, a second one is possible."""
_RETRY_SECONDS = 10.0
"""Seconds after which no second attempt comes."""
_UNREAD = frozenset({"off", "too_long", "signed_body"})
"""Reasons, known from the head, that make the body useless."""
_PIECE = 64 << 10
"""The largest piece of a body that Envoy accepts."""
_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_NOTHING_ELSE = ProcessingMode(
    request_body_mode=ProcessingMode.NONE, response_header_mode=ProcessingMode.SKIP
)


@dataclass(slots=True)
class Shared:
    """State that the requests of a process share."""

    service: Service
    kept: Kept
    held_bytes: int = 0
    """Bytes of incomplete bodies in full duplex."""

    @classmethod
    def of(cls, service: Service) -> "Shared":
        """Return the state for a service."""
        return cls(service, Kept(service.settings.limits.memory_mb << 20))


class Exchange:
    """One request, or one attempt of it, on its way through Envoy."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._service = shared.service
        self._max_bytes = shared.service.settings.limits.body_mb << 20
        self._headers: Mapping[str, str] = {}
        self._route: Route | None = None
        """The body so far; None if it is not needed."""
        self._duplex = False
        """True if the body comes in pieces that Envoy does not keep (full duplex)."""
        self._head: Any = None
        """In full duplex the answer to the head, sent after the decision on the body."""
        self._pieces: list[bytes] = []
        self._answer_mode = ProcessingMode.NONE
        self._call: Call | None = None
        self._edited: Edited | None = None
        self._name = b""
        """The name under which it is stored for another attempt."""
        self._sent_last: Sent | None = None
        """The stored request, while another attempt may come."""
        self._status = 0
        self._usage: UsageStream | None = None
        self._whole = True
        """True if the answer came to its end, as far as the filter sees it."""
        self._began = self._sent = 0.0
        self._held_seconds = self._first_byte_seconds = 0.0

    async def answers(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the answers to Envoy's messages, to the end of the stream."""
        try:
            async for request in requests:
                kind = request.WhichOneof("request") or ""
                if request.HasField("protocol_config"):
                    modes = request.protocol_config
                    self._duplex = modes.request_body_mode == _DUPLEX
                    self._answer_mode = modes.response_body_mode
                try:
                    answers = await self._answers(kind, request)
                except Exception as error:
                    # On any error the request passes unchanged.
                    _log.warning("%s failed with %s", kind, type(error).__name__)
                    answers = self._fail_open(kind, request)
                for answer in answers:
                    yield answer
        finally:
            self._shared.held_bytes -= sum(map(len, self._pieces))
            if self._call is not None and self._edited is not None:
                self._end(self._call, self._edited)

    async def _answers(self, kind: str, request: Any) -> list[Any]:
        if kind == "request_headers":
            return self._on_head(request.request_headers)
        if kind in ("request_body", "request_trailers"):
            body = request.request_body
            ends = body.end_of_stream or kind == "request_trailers"
            if self._duplex:
                return await self._on_piece(kind, body.body, ends=ends)
            return [await self._on_body(body.body) if body.end_of_stream else _continue(kind)]
        if kind == "response_headers":
            return [await self._on_answer(request.response_headers)]
        if kind == "response_body":
            self._whole = request.response_body.end_of_stream
            if self._usage is not None:
                self._usage.feed(request.response_body.body)
        return self._as_it_came(kind, request)

    def _fail_open(self, kind: str, request: Any) -> list[Any]:
        if self._call is not None and not self._status:
            self._edited = Edited(body=b"", reason="failed")
        if self._duplex and kind in ("request_body", "request_trailers"):
            self._route = None
            ends = kind == "request_body" and request.request_body.end_of_stream
            return self._hand_on(kind, self._take(), ends=ends)
        return self._as_it_came(kind, request)

    def _as_it_came(self, kind: str, request: Any) -> list[Any]:
        if self._answer_mode == _DUPLEX and kind == "response_body":
            return _streamed(kind, [request.response_body.body], ends=self._whole)
        return [_continue(kind)]

    def _on_head(self, message: Any) -> list[Any]:
        self._headers = headers = _headers(message.headers.headers)
        path = headers.get(":path", "").partition("?")[0]
        route = route_of(headers.get(":method", ""), path)
        answer = _continue("request_headers")
        changed = answer.request_headers.response.header_mutation
        changed.remove_headers.extend(name for name in headers if name.startswith("x-agora-"))
        if route is not None and not message.end_of_stream:
            reason = self._service.why_not(route, headers, self._size())
            names = self._service.settings.owners.affinity_header
            if reason not in _UNREAD or (reason == "off" and names):
                self._route = route
            elif reason != "off":
                call = self._service.receive(route, headers, b"")
                self._call = replace(call, untouched=reason)
                self._edited = Edited(body=b"", reason=reason)
                self._sent = time.monotonic()
            if self._answer_mode != ProcessingMode.NONE and "accept-encoding" in headers:
                readable = readable_encodings(headers["accept-encoding"])
                changed.set_headers.append(_set("accept-encoding", readable))
        if self._duplex:
            # The pieces that Envoy sends are fixed. The body decides if the head changes.
            self._head = answer if self._route is not None else None
            return [] if self._head is not None else [answer]
        if self._route is None and self._call is None:
            answer.mode_override.CopyFrom(_NOTHING_ELSE)
        elif self._route is None or "content-length" not in headers:
            # A body without a length is cut to the buffer: Envoy would refuse a longer one.
            mode = ProcessingMode.BUFFERED_PARTIAL if self._route else ProcessingMode.NONE
            answer.mode_override.request_body_mode = mode
            answer.mode_override.response_header_mode = ProcessingMode.SEND
            answer.mode_override.response_body_mode = self._answer_mode
        return [answer]

    def _size(self) -> int:
        """Return the bytes of the body, which may be edited without a length or compressed."""
        length = self._headers.get("content-length", "")
        size = int(length) if length.isdigit() and len(length) < 20 else self._max_bytes
        return max(size, self._max_bytes) if "content-encoding" in self._headers else size

    async def _on_body(self, came: bytes) -> Any:
        """Return the answer to a complete body."""
        answer = _continue("request_body")
        if self._route is None:
            return answer
        body = await self._edit(self._route, came)
        response = answer.request_body.response
        self._name_conversation(self._route, body or came, response)
        if body is not None:
            response.body_mutation.body = body
            response.header_mutation.remove_headers.append("content-encoding")
        length = str(len(came if body is None else body))
        if length != self._headers.get("content-length"):
            # In another attempt the head still has the length of the body that was sent before.
            response.header_mutation.set_headers.append(_set("content-length", length))
        return answer

    async def _on_piece(self, kind: str, piece: bytes, *, ends: bool) -> list[Any]:
        """Return the answers to a piece: none yet, the edited body, or all pieces so far."""
        self._pieces.append(piece)
        self._shared.held_bytes += len(piece)
        if self._route is None:
            return self._hand_on(kind, self._take(), ends=ends)
        most = self._service.settings.limits.memory_mb << 20
        if self._shared.held_bytes > most or sum(map(len, self._pieces)) > self._max_bytes:
            self._route = None
            return self._hand_on(kind, self._take(), ends=ends)
        if not ends:
            return []
        came = b"".join(self._pieces)
        body = await self._edit(self._route, came)
        response = self._head.request_headers.response
        self._name_conversation(self._route, body or came, response)
        if body is None:
            return self._hand_on(kind, self._take(), ends=ends)
        self._take()
        # Envoy itself removes `content-length`.
        response.header_mutation.remove_headers.append("content-encoding")
        pieces = [body[at : at + _PIECE] for at in range(0, len(body), _PIECE)]
        return self._hand_on(kind, pieces or [b""], ends=ends)

    def _take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        self._shared.held_bytes -= sum(map(len, pieces))
        return pieces

    def _hand_on(self, kind: str, pieces: list[bytes], *, ends: bool) -> list[Any]:
        """Return the answers with these pieces, after the head if it was withheld."""
        head, self._head = self._head, None
        answers = [head] if head is not None else []
        answers += _streamed("request_body", pieces, ends=ends and kind == "request_body")
        return [*answers, _continue(kind)] if kind == "request_trailers" else answers

    async def _edit(self, route: Route, came: bytes) -> bytes | None:
        """Return the body to send instead, or None. Sets the call."""
        service, headers = self._service, self._headers
        self._began = time.monotonic()
        self._sent = self._began
        attempt = headers.get(_ATTEMPT, "")
        if attempt:
            self._name = name_of(headers, came)
        if attempt not in ("", "1"):
            sent = self._shared.kept.take(self._name)
            if sent is not None:
                self._call, self._edited = sent.call, sent.edited
                self._keep(sent.call, sent.edited)
                return sent.edited.body
        body = inflate(came, headers.get("content-encoding", ""), self._max_bytes)
        if body is None or service.settings.mode == "off":
            return None
        self._call = call = service.receive(route, headers, body)
        self._edited = edited = await service.edit(call)
        self._sent = time.monotonic()
        self._held_seconds = self._sent - self._began
        if attempt:
            self._keep(call, edited)
        return edited.body if edited.changed else None

    def _name_conversation(self, route: Route, body: bytes, response: Any) -> None:
        """Name the conversation in a header, for a route that chooses a replica by it."""
        header = self._service.settings.owners.affinity_header
        key = self._service.affinity(route, self._headers, body) if header else ""
        if header and key:
            response.header_mutation.set_headers.append(_set(header, key))
            # Envoy chose the route before the head had this key.
            response.clear_route_cache = True

    async def _on_answer(self, message: Any) -> Any:
        """Answer the head of the provider's answer. A refused edit is withheld from the client."""
        answer = _continue("response_headers")
        self._whole = message.end_of_stream or self._answer_mode == ProcessingMode.NONE
        call, edited = self._call, self._edited
        if call is None or edited is None:
            return answer
        headers = _headers(message.headers.headers)
        self._status = status = int(headers.get(":status", "0"))
        self._first_byte_seconds = time.monotonic() - self._sent
        said = answer.response_headers.response.header_mutation.set_headers
        said.extend(_set(name, value) for name, value in edited.headers.items())
        if call.arm is not None:
            said.append(_set(CONVERSATION, call.conversation))
        again = await self._service.rescue(call, edited, status) if status in REFUSED else None
        if again is not None and self._sent_last is not None:
            self._shared.kept.drop(self._name, self._sent_last)
            self._keep(call, again)
            said.append(_set(RETRY, "1"))
        else:
            if self._sent_last is not None:
                self._shared.kept.drop(self._name, self._sent_last)
            self._sent_last = None
            if again is not None:
                self._service.hold(again)
        if 200 <= status < 300:
            self._usage = UsageStream(headers.get("content-encoding", ""))
            self._let_go(call, edited)
        return answer

    def _let_go(self, call: Call, edited: Edited) -> None:
        """Free the bodies, because an answer can take minutes. A shadow still needs its own."""
        if edited.reason != "shadow":
            self._call, self._edited = replace(call, body=b""), edited.without_bodies()

    def _end(self, call: Call, edited: Edited) -> None:
        """Account for the request: at once, or when no other attempt can come."""
        if self._sent_last is None:
            self._finish(call, edited)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(_RETRY_SECONDS, self._give_up, call, edited, self._sent_last)

    def _give_up(self, call: Call, edited: Edited, sent: Sent) -> None:
        """Account for an attempt that Envoy has not followed by another."""
        if not self._shared.kept.drop(self._name, sent):
            return
        if sent.edited.retried:
            self._service.hold(sent.edited)
        self._finish(call, edited)

    def _keep(self, call: Call, edited: Edited) -> None:
        self._sent_last = Sent(call, edited)
        self._shared.kept.put(self._name, self._sent_last)

    def _finish(self, call: Call, edited: Edited) -> None:
        error = ""
        if not self._status:
            error = "no_answer"
        elif not self._whole and not (self._usage and self._usage.ended):
            error = "cut_short"
        usage = self._usage.usage() if self._usage is not None and call.model else None
        outcome = Outcome(
            status=self._status,
            usage=usage,
            answer=self._usage.words() if self._usage is not None else (),
            error=error,
            held_seconds=self._held_seconds,
            first_byte_seconds=self._first_byte_seconds,
        )
        self._service.finish(call, edited, outcome)


def _continue(kind: str) -> Any:
    """Return the answer to a message that changes nothing."""
    if kind.endswith("_headers"):
        return ProcessingResponse(**{kind: HeadersResponse()})
    if kind.endswith("_trailers"):
        return ProcessingResponse(**{kind: TrailersResponse()})
    if kind.endswith("_body"):
        return ProcessingResponse(**{kind: BodyResponse()})
    return ProcessingResponse()


def _streamed(kind: str, pieces: list[bytes], *, ends: bool) -> list[Any]:
    """Return the answers that forward pieces; `ends` if nothing follows, not even trailers."""
    last = len(pieces) - 1
    answers = []
    for number, piece in enumerate(pieces):
        streamed = StreamedBodyResponse(body=piece, end_of_stream=ends and number == last)
        changed = CommonResponse(body_mutation=BodyMutation(streamed_response=streamed))
        answers.append(ProcessingResponse(**{kind: BodyResponse(response=changed)}))
    return answers


def _headers(found: Any) -> dict[str, str]:
    """Return headers by name; Envoy writes values as text or as bytes."""
    headers: dict[str, str] = {}
    for header in found:
        value = header.raw_value.decode("latin-1") or header.value
        headers[header.key] = f"{headers[header.key]}, {value}" if header.key in headers else value
    return headers


def _set(name: str, value: str) -> Any:
    return HeaderValueOption(
        header=HeaderValue(key=name, raw_value=value.encode("latin-1", "replace")),
        append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )
