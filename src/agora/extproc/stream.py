"""One HTTP request as Envoy tells it: messages in, one answer to each, whatever happens."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from agora.core.compression import Reason, Rung
from agora.experiment.assignment import Arm, Seat
from agora.experiment.library import CONVERSATION_HEADER
from agora.extproc.decide import Decider, Head
from agora.extproc.messages import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)
from agora.extproc.pieces import Held, cut, told
from agora.gateway.editing.hindsight import Looked
from agora.gateway.editing.job import Edited
from agora.gateway.editing.thinking import BETA_HEADER, with_beta
from agora.gateway.routing.routes import Header
from agora.gateway.watching.bill import Billed
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.redaction import model_name
from agora.gateway.watching.usage import UsageReader

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
    seat: Seat | None = None
    """Its place in an experiment."""
    model: str = ""
    size: int = 0
    """Of its body, in an experiment."""
    sent_at: float | None = None
    first_byte: float = 0.0
    affinity: str = ""
    """The key of its conversation, where it is wanted."""
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

    @property
    def unedited(self) -> bool:
        """Whether this one goes on as it came: in shadow, or in the arm with everything."""
        return self.shadow or (self.seat is not None and self.seat.arm is Arm.EVERYTHING)

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
        # With edits switched off the filter may still be there to name conversations.
        names = self.reason == "disabled" and self.decider.config.tenants.affinity_header
        if self.reason and not names:
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
                self._name(self.came.whole)
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
            changed = self.decided is not None and self.decided.changed
            if changed or self.affinity:
                # Envoy itself takes `content-length` away.
                mutation = HeaderMutation(
                    set_headers=[*(self._betas() if changed else ()), *self._affinity()],
                    remove_headers=["content-encoding"] if changed else [],
                )
                head.request_headers.response.header_mutation.CopyFrom(mutation)
                head.request_headers.response.clear_route_cache = bool(self.affinity)
            answers.append(head)
        answers += told("request_body", pieces, ends=ends and kind == "request_body")
        if kind == "request_trailers":
            answers.append(_continue(kind))
        return answers

    def _betas(self) -> list[HeaderValueOption]:
        """Return the beta header of a body that asks for thinking to be dropped."""
        if self.decided is None or not self.decided.asks or self.head is None:
            return []
        return [
            _set(name.decode("latin-1"), value.decode("latin-1"))
            for name, value in with_beta(self.head.headers)
            if name.lower() == BETA_HEADER
        ]

    def _name(self, body: bytes) -> None:
        """Find out which conversation a whole body is a call of."""
        assert self.head is not None  # noqa: S101
        self.affinity = self.decider.affinity(self.head, body)

    def _affinity(self) -> list[HeaderValueOption]:
        """Return the header that a route may choose a replica by."""
        name = self.decider.config.tenants.affinity_header
        return [_set(name, self.affinity)] if name and self.affinity else []

    async def _decide(self, body: bytes) -> Edited | None:
        """Return the edit of a whole body; in shadow mode only begin to decide on it."""
        assert self.head is not None  # noqa: S101
        began = self.decider.clock()
        self.seat, self.model, self.size = await self.decider.seat(self.head, body)
        if self.unedited:
            self.reason, self.sent_at = str(Reason.SHADOW), began
            self.deciding = asyncio.ensure_future(self.decider.decide(self.head, body, self.seat))
            return None
        decide = self.decider.decide_in_time if self.duplex else self.decider.decide
        outcome = await decide(self.head, body, self.seat)
        self.sent_at = self.decider.clock()
        self.held = self.sent_at - began
        if isinstance(outcome, str):
            self.reason = outcome
            return None
        self.decided, self.reason = outcome, outcome.reason
        return outcome if outcome.changed else None

    async def _on_body(self, request: ProcessingRequest) -> ProcessingResponse:
        answer, body = _continue("request_body"), request.request_body
        if self.head is None:
            return answer
        if body.end_of_stream:
            self._name(body.body)
        if self.affinity:
            response = answer.request_body.response
            response.header_mutation.set_headers.extend(self._affinity())
            # The route was chosen by a head without it.
            response.clear_route_cache = True
        if self.reason:
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
            set_headers=[
                _set("content-length", str(len(edited.body))),
                *self._betas(),
                *self._affinity(),
            ],
            remove_headers=["content-encoding"],
        )
        changed = CommonResponse(
            status=CommonResponse.CONTINUE,
            header_mutation=mutation,
            body_mutation=BodyMutation(body=edited.body),
            clear_route_cache=bool(self.affinity),
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
        if self.sent_at is not None:
            self.first_byte = self.decider.clock() - self.sent_at
        if self.head is not None and self.head.route.format and 200 <= self.status < 300:
            self.reader = UsageReader(headers.get(b"content-encoding", b""))
        decided, said = self.decided, []
        if self.seat is not None:
            said.append(_set(CONVERSATION_HEADER, self.seat.conversation_id))
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
        """Have the request counted and told, now that it is over."""
        head, meter = self.head, self.decider.meter
        assert head is not None  # noqa: S101
        exchange = self._record(head)
        route, model = exchange.route, model_name(exchange.model)
        if 200 <= self.status < 300:
            # A tenant and a model get labels of their own with the first answer not refused.
            meter.upstream(route, self.status, upstream="envoy", model=model, tenant=head.tenant)
        self.decider.record(exchange)
        if self.seat is not None:
            self.decider.note(self.seat, exchange, self.size)
        if self.refused:
            meter.resent(route, "envoy", "unknown")

    def _record(self, head: Head) -> Exchange:
        decided, shadow = self.decided, self.unedited
        made = decided if decided is not None and decided.changed and not shadow else None
        would = decided if shadow else None
        tokens_in = decided.tokens_before if decided is not None else 0
        billed = self.reader.billed() if self.reader is not None else None
        looked = self._looked_back()
        return Exchange(
            route=head.route.name,
            tenant=head.tenant,
            upstream="envoy",
            family=head.route.family,
            model=(decided.model if decided is not None else None) or self.model,
            status=self.status or 200,
            rung=made.rung if made is not None else Rung.UNTOUCHED,
            reason=self.reason,
            rule=decided.rule if decided is not None else "",
            no_steps=decided is not None and bool(decided.hint),
            tokens_in=tokens_in,
            tokens_out=made.tokens_after if made is not None else tokens_in,
            arrived=made.arrived if made is not None else 0,
            billed=billed is not None,
            fresh=billed.fresh if billed else 0,
            read=billed.read if billed else 0,
            written=billed.written if billed else 0,
            output=billed.output if billed else 0,
            dollars=self._dollars(head, billed),
            would_rung=would.rung if would else Rung.UNTOUCHED,
            would_reason=would.reason if would else "",
            would_remove=would.tokens_before - would.tokens_after if would else 0,
            elided=decided.newly_elided if decided is not None else "",
            used_elided=looked.used,
            rereads=looked.again,
            asked_again=looked.asked,
            elided_kinds=looked.elided,
            after_edit=looked.steps,
            held_ms=self.held * 1e3,
            first_byte_ms=self.first_byte * 1e3,
            started_ns=self.started_ns,
            ended_ns=time.time_ns(),
            traceparent=_traceparent(head.headers),
            shadow=shadow,
            whole=self.whole,
        )

    def _dollars(self, head: Head, billed: Billed | None) -> float:
        # Only in an experiment is a body looked at whose model nobody else asks for.
        if billed is None or self.seat is None:
            return 0.0
        return self.decider.dollars(head, self.model, billed)

    def _looked_back(self) -> Looked:
        conversation = self.decided.conversation if self.decided is not None else None
        if conversation is None:
            return Looked()
        conversation.calls, conversation.when = conversation.calls + 1, self.decider.clock()
        return conversation.look_back()


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
