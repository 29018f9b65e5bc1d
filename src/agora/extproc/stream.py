"""One HTTP request as Envoy tells it: messages in, one answer to each, whatever happens."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from agora.core.compression import Reason, Rung
from agora.errors import MissingExtraError
from agora.extproc.decide import Decider, Head
from agora.extproc.pieces import Held, cut, told
from agora.gateway.edit import Edited
from agora.gateway.hindsight import Looked, ranges
from agora.gateway.logs import Exchange, log_exchange, model_name
from agora.gateway.route import Header
from agora.gateway.tenants import Billed
from agora.gateway.usage import UsageReader

try:
    from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
    from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
    from envoy.service.ext_proc.v3.external_processor_pb2 import (
        BodyMutation,
        BodyResponse,
        CommonResponse,
        HeaderMutation,
        HeadersResponse,
        ProcessingRequest,
        ProcessingResponse,
        TrailersResponse,
    )
except ImportError as error:
    raise MissingExtraError(__name__, "extproc") from error

_log = logging.getLogger(__name__)
NAMESPACE = "agora"
"""Where Envoy finds what was decided, in its dynamic metadata."""
_REFUSED = frozenset({400, 422})
_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_SENT = ProcessingMode.SEND
_NO_BODY = ProcessingMode(request_body_mode=ProcessingMode.NONE, response_header_mode=_SENT)
_WHAT_FITS = ProcessingMode(
    request_body_mode=ProcessingMode.BUFFERED_PARTIAL, response_header_mode=_SENT
)
"""For a body that says no length: buffered in full, Envoy would refuse one that is too long."""


@dataclass(slots=True)
class Stream:
    """One request on its way through Envoy."""

    decider: Decider
    head: Head | None = None
    decided: Edited | None = None
    """The edit that was made, or in shadow mode the one that would have been."""
    deciding: "asyncio.Task[Edited | str] | None" = None
    reason: str = ""
    status: int = 0
    held: float = 0.0
    reader: UsageReader | None = None
    refused: bool = False
    whole: bool = False
    """Whether the answer was seen to its end."""
    duplex: bool = False
    """Whether the body comes in pieces that only we keep."""
    answer_mode: int = ProcessingMode.NONE
    """How the answer's body comes."""
    came: Held = field(init=False)
    waiting: ProcessingResponse | None = None
    """The answer to the head, which in full duplex is given when the body is decided on."""
    started_ns: int = field(default_factory=time.time_ns)

    def __post_init__(self) -> None:
        self.came = Held(self.decider.room)

    @property
    def shadow(self) -> bool:
        """Whether edits are decided on and not made."""
        return self.decider.config.compression.mode == "shadow"

    async def answers(
        self, requests: AsyncIterator[ProcessingRequest]
    ) -> AsyncIterator[ProcessingResponse]:
        """Yield an answer to each message, to the end of the stream."""
        try:
            async for request in requests:
                kind = request.WhichOneof("request") or ""
                if request.HasField("protocol_config"):
                    modes = request.protocol_config
                    self.duplex = modes.request_body_mode == _DUPLEX
                    self.answer_mode = modes.response_body_mode
                try:
                    if self.duplex and kind in ("request_body", "request_trailers"):
                        answers = await self._on_piece(kind, request)
                    else:
                        answers = [await self._answer(kind, request)]
                except Exception as error:
                    # Whatever went wrong here, the request goes on as it came.
                    _log.warning("%s failed with %s", kind, type(error).__name__)
                    self.reason, self.decided = "failed", None
                    answers = self._as_it_came(kind, request)
                for answer in answers:
                    if answer is not None:
                        yield answer
        finally:
            self.came.take()
            self._end()

    def _as_it_came(self, kind: str, request: ProcessingRequest) -> list[ProcessingResponse]:
        """Return the answers that change nothing, with all that is still held back."""
        if self.duplex and kind in ("request_body", "request_trailers"):
            ends = kind == "request_body" and request.request_body.end_of_stream
            return self._hand_on(kind, self.came.take(), ends=ends)
        if self.answer_mode == _DUPLEX and kind == "response_body":
            body = request.response_body
            return list(told(kind, [body.body], ends=body.end_of_stream))
        return [_continue(kind)]

    async def _answer(self, kind: str, request: ProcessingRequest) -> ProcessingResponse | None:
        if kind == "request_headers":
            return self._on_head(request)
        if kind == "request_body":
            return await self._on_body(request)
        if kind == "response_headers":
            return self._on_answer(request)
        if kind == "response_body":
            self.whole = request.response_body.end_of_stream
            if self.reader is not None:
                self.reader.feed(request.response_body.body)
            return self._as_it_came(kind, request)[0]
        return _continue(kind)

    def _on_head(self, request: ProcessingRequest) -> ProcessingResponse | None:
        self.head = self.decider.head(_headers(request.request_headers.headers.headers))
        self.reason = self.decider.why_not(self.head)
        if request.request_headers.end_of_stream:
            self.reason = self.reason or "no_body"
        answer = _continue("request_headers")
        if self.duplex:
            # Which pieces come cannot be changed here. Whether the head is, the body says.
            self.waiting = None if self.reason or self.shadow else answer
            return answer if self.waiting is None else None
        if self.reason:
            # Where the filter allows it, Envoy then need not send the body here at all.
            answer.mode_override.CopyFrom(_NO_BODY)
        elif not any(name == b"content-length" for name, _ in self.head.headers):
            answer.mode_override.CopyFrom(_WHAT_FITS)
        if answer.HasField("mode_override"):
            # An override has a word for every body: the answer's stays as it is configured.
            answer.mode_override.response_body_mode = self.answer_mode
        return answer

    async def _on_piece(self, kind: str, request: ProcessingRequest) -> list[ProcessingResponse]:
        """Return what answers a piece: nothing yet, the edited body, or all that came so far."""
        ends = kind == "request_trailers" or request.request_body.end_of_stream
        fits = kind == "request_trailers" or self.came.add(request.request_body.body)
        edited: Edited | None = None
        if self.head is not None and not self.reason:
            if self.came.size > self.decider.config.limits.body_bytes:
                self.reason = "too_long"
            elif not fits:
                self.reason = "overloaded"
            elif ends:
                edited = await self._decide(self.came.whole)
            elif not self.shadow:
                return []
        if edited is not None:
            self.came.take()
            return self._hand_on(kind, cut(edited.body), ends=ends)
        # In shadow what was handed on is still wanted, until all of it is there.
        copied = self.shadow and not self.reason and not ends
        return self._hand_on(kind, self.came.pass_on() if copied else self.came.take(), ends=ends)

    def _hand_on(self, kind: str, pieces: list[bytes], *, ends: bool) -> list[ProcessingResponse]:
        """Return the answers with these pieces; before them the head, if it was held back."""
        answers: list[ProcessingResponse] = []
        if self.waiting is not None:
            head, self.waiting = self.waiting, None
            self._tell_envoy(head)
            if self.decided is not None and self.decided.changed:
                # Envoy itself takes `content-length` away.
                mutation = HeaderMutation(remove_headers=["content-encoding"])
                head.request_headers.response.header_mutation.CopyFrom(mutation)
            answers.append(head)
        answers += told("request_body", pieces, ends=ends and kind == "request_body")
        if kind == "request_trailers":
            answers.append(_continue(kind))
        return answers

    async def _decide(self, body: bytes) -> Edited | None:
        """Return the edit of a whole body; in shadow mode only begin to decide on it."""
        assert self.head is not None  # noqa: S101
        began = self.decider.clock()
        if self.shadow:
            self.reason = str(Reason.SHADOW)
            self.deciding = asyncio.ensure_future(self.decider.decide(self.head, body))
            return None
        decide = self.decider.decide_in_time if self.duplex else self.decider.decide
        outcome = await decide(self.head, body)
        self.held = self.decider.clock() - began
        if isinstance(outcome, str):
            self.reason = outcome
            return None
        self.decided, self.reason = outcome, outcome.reason
        return outcome if outcome.changed else None

    async def _on_body(self, request: ProcessingRequest) -> ProcessingResponse:
        answer, body = _continue("request_body"), request.request_body
        if self.head is None or self.reason:
            return answer
        if not body.end_of_stream:
            # Only a part of it: it is longer than Envoy buffers.
            self.reason = "too_long"
            return answer
        edited = await self._decide(body.body)
        if not self.shadow:
            self._tell_envoy(answer)
        if edited is None:
            return answer
        mutation = HeaderMutation(
            set_headers=[_set("content-length", str(len(edited.body)))],
            remove_headers=["content-encoding"],
        )
        changed = CommonResponse(
            status=CommonResponse.CONTINUE,
            header_mutation=mutation,
            body_mutation=BodyMutation(body=edited.body),
        )
        answer.request_body.CopyFrom(BodyResponse(response=changed))
        return answer

    def _tell_envoy(self, answer: ProcessingResponse) -> None:
        """Put what was decided into Envoy's dynamic metadata, for access logs and rate limits."""
        decided = self.decided
        said = answer.dynamic_metadata.get_or_create_struct(NAMESPACE)
        said["reason"] = self.reason.partition(":")[0]
        said["rung"] = int(decided.rung if decided is not None else Rung.UNTOUCHED)
        if decided is not None:
            said["tokens_before"] = decided.tokens_before
            said["tokens_after"] = decided.tokens_after

    def _on_answer(self, request: ProcessingRequest) -> ProcessingResponse:
        answer = _continue("response_headers")
        self.whole = request.response_headers.end_of_stream
        headers = dict(_headers(request.response_headers.headers.headers))
        status = headers.get(b":status", b"0")
        self.status = int(status) if status.isdigit() else 0
        if self.head is not None and self.head.route.format and 200 <= self.status < 300:
            self.reader = UsageReader(headers.get(b"content-encoding", b""))
        decided, said = self.decided, []
        if decided is not None and decided.changed and self.head is not None:
            place = ("envoy", decided.model)
            if self.status in _REFUSED:
                self.refused = True
                self.decider.rules.refused(self.head.tenant, place)
            elif 200 <= self.status < 300:
                self.decider.rules.accepted(self.head.tenant, place)
            removed = decided.tokens_before - decided.tokens_after
            said.append(_set("x-agora-tokens-removed", str(removed)))
            said.append(_set("x-agora-tokens-before", str(decided.tokens_before)))
            said.append(_set("x-agora-tokens-after", str(decided.tokens_after)))
        elif self.reason:
            said.append(_set("x-agora-untouched", self.reason))
        mutation = HeaderMutation(set_headers=said)
        response = HeadersResponse(response=CommonResponse(header_mutation=mutation))
        answer.response_headers.CopyFrom(response)
        return answer

    def _end(self) -> None:
        """Count the request: at once, or in shadow mode when it is decided."""
        if self.head is None:
            return
        if self.deciding is None:
            self._count()
            return
        self.deciding.add_done_callback(self._end_shadow)

    def _end_shadow(self, deciding: "asyncio.Task[Edited | str]") -> None:
        outcome = "failed" if deciding.cancelled() else deciding.result()
        if isinstance(outcome, str):
            self.reason = outcome
        else:
            self.decided = outcome
            self.reason = self.reason if outcome.changed else outcome.reason
        self._count()

    def _count(self) -> None:
        head, decided, meter = self.head, self.decided, self.decider.meter
        assert head is not None  # noqa: S101
        route, made = head.route.name, decided is not None and decided.changed and not self.shadow
        rung = decided.rung if decided is not None and made else Rung.UNTOUCHED
        tokens_in = decided.tokens_before if decided is not None else 0
        tokens_out = decided.tokens_after if decided is not None and made else tokens_in
        if 200 <= self.status < 300:
            # A tenant gets a label of its own with the first answer that was not refused.
            meter.upstream(route, self.status, upstream="envoy", tenant=head.tenant)
        meter.request(route, head.tenant, rung, self.reason, self.held, tokens_in, tokens_out)
        if self.refused:
            meter.resent(route, "envoy", "unknown")
        billed = self.reader.billed() if self.reader is not None else None
        if billed is not None:
            meter.usage(
                route, head.tenant, billed.fresh, billed.read, billed.written, billed.output
            )
        if self.shadow and decided is not None:
            meter.shadow(
                route,
                head.tenant,
                decided.rung,
                decided.reason,
                tokens_in,
                decided.tokens_after,
                0.0,
            )
        self._log(rung, tokens_in, tokens_out, billed, self._looked_back())

    def _looked_back(self) -> Looked:
        talk = self.decided.talk if self.decided is not None else None
        if talk is None:
            return Looked()
        talk.calls, talk.when = talk.calls + 1, self.decider.clock()
        looked = talk.hindsight.take() if talk.hindsight is not None else Looked()
        if looked.steps and self.head is not None:
            mode = "shadow" if self.shadow else "edit"
            self.decider.meter.hindsight(self.head.route.name, self.head.tenant, mode, looked)
        return looked

    def _log(
        self, rung: int, tokens_in: int, tokens_out: int, billed: Billed | None, looked: Looked
    ) -> None:
        reporter = self.decider.reporter
        if self.head is None or (not self.decider.config.log.requests and reporter is None):
            return
        decided = self.decided
        last = decided.talk.hindsight if decided is not None and decided.talk else None
        would = decided.tokens_before - decided.tokens_after if decided is not None else 0
        billed = billed or Billed()
        exchange = Exchange(
            route=self.head.route.name,
            tenant=self.head.tenant,
            upstream="envoy",
            family=self.head.route.family,
            model=model_name(decided.model) if decided is not None else "",
            status=self.status or 200,
            rung=rung,
            reason=self.reason,
            rule=decided.rule if decided is not None else "",
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            fresh=billed.fresh,
            read=billed.read,
            written=billed.written,
            output=billed.output,
            would_remove=would if self.shadow else 0,
            elided=ranges(last.elided) if last and decided and decided.at_epoch else "",
            used_elided=looked.used,
            rereads=looked.again,
            after_edit=looked.steps,
            held_ms=self.held * 1e3,
            started_ns=self.started_ns,
            ended_ns=time.time_ns(),
            traceparent=_traceparent(self.head.headers),
            shadow=self.shadow,
            whole=self.whole,
        )
        log_exchange(exchange, self.decider.config.log)
        if reporter is not None:
            reporter.record(exchange)


def _continue(kind: str) -> ProcessingResponse:
    """Return the answer that changes nothing, of the kind that the message asks for."""
    if kind.endswith("_headers"):
        return ProcessingResponse(**{kind: HeadersResponse()})
    if kind.endswith("_trailers"):
        return ProcessingResponse(**{kind: TrailersResponse()})
    if kind.endswith("_body"):
        return ProcessingResponse(**{kind: BodyResponse()})
    return ProcessingResponse()


def _headers(found: "object") -> list[Header]:
    """Return headers as pairs of bytes; Envoy writes their values as text or as bytes."""
    return [
        (header.key.encode("latin-1", "replace"), header.raw_value or header.value.encode("utf-8"))
        for header in found  # type: ignore[attr-defined]
    ]


def _traceparent(headers: list[Header]) -> str:
    found = (value for name, value in headers if name == b"traceparent")
    return next(found, b"").decode("latin-1")


def _set(name: str, value: str) -> HeaderValueOption:
    return HeaderValueOption(
        header=HeaderValue(key=name, raw_value=value.encode("latin-1", "replace")),
        append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )
