"""Bodies in pieces: whatever the cuts, the bytes are those of a whole body."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.core.prices import sheet_for
from agora.extproc.decide import Decider
from agora.extproc.messages import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
)
from agora.extproc.pieces import PIECE
from agora.extproc.stream import Stream
from agora.gateway.config import Config, Limits, Log, parse_config
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Edited, Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT
from agora.gateway.watching.exchange import Exchange
from agora.scorers.load import load_scorer
from harness.gateway.histories import chat

CONFIG = replace(
    parse_config("upstreams = []\n[compression]\nmin_tokens = 200\n"),
    limits=Limits(compress_deadline_ms=60_000, restore_deadline_ms=60_000),
    log=Log(requests=False),
)
LONG = json.dumps(chat(40)).encode()
PLAIN: dict[str, bytes] = {
    "edited": LONG,
    "small": json.dumps(chat(0)).encode(),
    "cut off": LONG[:-9],
    "no JSON": b"{" + b"x" * 5_000,
    "empty": b"",
}
ZIPPED = {
    "zipped": gzip.compress(LONG, mtime=0),
    "zipped and cut off": gzip.compress(LONG, mtime=0)[:-9],
}
BODIES = PLAIN | ZIPPED
BYPASS = {"x-agora-bypass": "1"}
DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED


def by_library(body: bytes) -> bytes:
    editor = Editor(EditorSettings(scorer=load_scorer("default"), min_tokens=200))
    return editor(Job(body=body, route=CHAT, sheet_of=lambda name: sheet_for(name or ""))).body


EDITED = by_library(LONG)


@contextmanager
def deciding(config: Config = CONFIG) -> Iterator[Decider]:
    decider = Decider.of(config)
    decider.start()
    try:
        yield decider
    finally:
        decider.stop()


@pytest.fixture(scope="module")
def decider() -> Iterator[Decider]:
    with deciding() as made:
        yield made


def head(
    name: str = "", more: dict[str, str] | None = None, *, answer: int = ProcessingMode.NONE
) -> ProcessingRequest:
    headers = {":method": "POST", ":path": "/v1/chat/completions", **(more or {})}
    headers |= {"content-encoding": "gzip"} if name in ZIPPED else {}
    pairs = [HeaderValue(key=key, raw_value=value.encode()) for key, value in headers.items()]
    request = ProcessingRequest(request_headers=HttpHeaders(headers=HeaderMap(headers=pairs)))
    request.protocol_config.request_body_mode = DUPLEX
    request.protocol_config.response_body_mode = answer
    return request


def piece(body: bytes, *, ends: bool) -> ProcessingRequest:
    return ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=ends))


TRAILERS = ProcessingRequest(request_trailers=HttpTrailers())


def messages(name: str, cuts: list[int], *, trailers: bool) -> list[ProcessingRequest]:
    body = BODIES[name]
    at = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    parts = [body[start:end] for start, end in pairwise(at)]
    last = len(parts) - 1
    sent = [piece(part, ends=n == last and not trailers) for n, part in enumerate(parts)]
    return [head(name), *sent, *([TRAILERS] if trailers else [])]


@dataclass
class Sent:
    """What Envoy would do with the answers to a request."""

    body: bytes = b""
    removed: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    ended: int = 0
    after: list[int] = field(default_factory=list)
    """How many answers there were after each message."""
    longest: int = 0


def through(decider: Decider, requests: list[ProcessingRequest]) -> Sent:
    sent, stream = Sent(), Stream(decider)

    async def coming() -> AsyncIterator[ProcessingRequest]:
        for request in requests:
            yield request
            sent.after.append(len(sent.kinds))

    async def run() -> None:
        async for answer in stream.answers(coming()):
            take(sent, answer)
        if stream.deciding is not None:
            await stream.deciding
            await asyncio.sleep(0)

    asyncio.run(run())
    return sent


def take(sent: Sent, answer: ProcessingResponse) -> None:
    kind = answer.WhichOneof("response")
    sent.kinds.append(kind)
    if kind == "request_headers":
        sent.removed += answer.request_headers.response.header_mutation.remove_headers
    if kind in ("request_body", "response_body"):
        mutation = getattr(answer, kind).response.body_mutation
        assert mutation.WhichOneof("mutation") == "streamed_response"
        assert not sent.ended, "a piece came behind the last one"
        sent.body += mutation.streamed_response.body
        sent.ended += mutation.streamed_response.end_of_stream
        sent.longest = max(sent.longest, len(mutation.streamed_response.body))


@given(
    name=st.sampled_from(sorted(BODIES)),
    cuts=st.lists(st.integers(0, 200_000), max_size=12),
    trailers=st.booleans(),
)
def test_however_a_body_is_cut_the_bytes_are_those_of_the_library(
    name: str, cuts: list[int], *, trailers: bool
) -> None:
    with deciding() as decider:
        sent = through(decider, messages(name, cuts, trailers=trailers))

    edited = name in ("edited", "zipped")
    assert sent.body == (EDITED if edited else BODIES[name])
    assert sent.removed == (["content-encoding"] if edited else [])
    assert sent.ended == (0 if trailers else 1)
    # Head, body, trailers: Envoy takes them in no other order.
    order = ["request_headers", "request_body", "request_trailers"]
    assert sent.kinds == sorted(sent.kinds, key=order.index)
    assert sent.kinds.count("request_headers") == 1
    assert sent.kinds.count("request_trailers") == int(trailers)
    assert decider.room.used == 0


def test_nothing_is_answered_before_the_body_is_whole_and_then_in_small_pieces(
    decider: Decider,
) -> None:
    sent = through(decider, messages("edited", [10, 20_000], trailers=False))

    assert sent.after[:3] == [0, 0, 0]
    assert sent.longest <= PIECE


def test_beyond_the_limit_all_that_came_goes_on_and_the_rest_at_once() -> None:
    limits = replace(CONFIG.limits, body_bytes=30_000)
    with deciding(replace(CONFIG, limits=limits)) as decider:
        sent = through(decider, messages("edited", [10_000, 20_000, 40_000], trailers=False))

    assert sent.body == LONG
    assert sent.removed == []
    # Two pieces wait; the third is too much, and from there on each is answered as it comes.
    assert sent.after[:5] == [0, 0, 0, 4, 5]


def test_more_bodies_than_there_is_room_for_pass_unread(decider: Decider) -> None:
    most, decider.room.most = decider.room.most, 15_000
    try:
        sent = through(decider, messages("edited", [10_000, 20_000], trailers=True))
    finally:
        decider.room.most = most

    assert sent.body == LONG
    assert decider.room.used == 0


def test_in_shadow_every_piece_is_handed_on_as_it_comes() -> None:
    compression = replace(CONFIG.compression, mode="shadow")
    with deciding(replace(CONFIG, compression=compression)) as decider:
        sent = through(decider, messages("edited", [10_000, 20_000], trailers=False))
        removed = decider.meter.snapshot().total("agora_shadow_tokens_removed_total")

    assert sent.after[:3] == [1, 2, 3]
    assert sent.body == LONG
    assert removed > 0
    assert decider.room.used == 0


def test_what_is_known_from_the_head_is_never_held(decider: Decider) -> None:
    sent = through(
        decider,
        [head(more=BYPASS), piece(LONG[:9], ends=False), piece(LONG[9:], ends=True)],
    )

    assert sent.after[:2] == [1, 2]
    assert sent.body == LONG


def test_a_decision_that_hangs_is_given_up() -> None:
    limits = replace(CONFIG.limits, compress_deadline_ms=10, restore_deadline_ms=10)

    class Hanging(Decider):
        async def decide(self, head: Any, came: bytes, seat: Any = None) -> Edited | str:
            await asyncio.Event().wait()
            raise AssertionError

    with deciding(replace(CONFIG, limits=limits)) as made:
        hanging = Hanging(
            config=made.config, editing=made.editing, meter=made.meter, secret=made.secret
        )
        sent = through(hanging, messages("edited", [10_000], trailers=False))
        late = made.meter.snapshot().by("agora_requests_total", "reason")

    assert sent.body == LONG
    assert late == {"deadline": 1.0}


def test_a_decision_that_fails_sends_everything_as_it_came() -> None:
    class Failing(Decider):
        async def decide(self, head: Any, came: bytes, seat: Any = None) -> Edited | str:
            raise RuntimeError("a defect")

    with deciding() as made:
        failing = Failing(
            config=made.config, editing=made.editing, meter=made.meter, secret=made.secret
        )
        for trailers in (False, True):
            sent = through(failing, messages("zipped", [100], trailers=trailers))
            assert sent.body == BODIES["zipped"]
            assert sent.removed == []
            assert sent.ended == (0 if trailers else 1)


def test_answers_in_pieces_go_on_as_they_come(decider: Decider) -> None:
    answer = [b'{"usage":', b" {}}", b""]
    told = [
        ProcessingRequest(response_body=HttpBody(body=body, end_of_stream=n == 2))
        for n, body in enumerate(answer)
    ]
    request = head(more=BYPASS, answer=DUPLEX)
    sent = through(decider, [request, *told])

    assert sent.body == b"".join(answer)
    assert sent.ended == 1


def test_an_override_leaves_the_answers_body_as_it_is_configured(decider: Decider) -> None:
    request = head(more=BYPASS, answer=ProcessingMode.STREAMED)
    request.protocol_config.request_body_mode = ProcessingMode.BUFFERED

    async def run() -> ProcessingResponse:
        async def coming() -> AsyncIterator[ProcessingRequest]:
            yield request

        async for answer in Stream(decider).answers(coming()):
            return answer
        raise AssertionError

    answer = asyncio.run(run())

    assert answer.mode_override.request_body_mode == ProcessingMode.NONE
    assert answer.mode_override.response_body_mode == ProcessingMode.STREAMED


def test_the_collector_hears_of_requests_through_envoy_too() -> None:
    class Told:
        def __init__(self) -> None:
            self.exchanges: list[Exchange] = []

        def record(self, exchange: Exchange) -> None:
            self.exchanges.append(exchange)

        def close(self) -> None:
            self.exchanges.append(Exchange(route="closed", tenant=""))

    told = Told()
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with deciding() as decider:
        decider.reporter = told  # type: ignore[assignment]
        request = head(more={"traceparent": parent})
        through(decider, [request, piece(LONG, ends=True)])

    call, closed = told.exchanges
    assert call.route == "chat"
    assert call.tokens_in > call.tokens_out > 0
    assert call.traceparent == parent
    # Envoy did not show the answer, so that nobody knows how long it took.
    assert not call.whole
    assert closed.route == "closed"
