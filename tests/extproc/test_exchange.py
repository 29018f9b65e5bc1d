"""One request as Envoy tells it, without Envoy: however its body is cut, and whatever fails."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="the extra extproc is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

# Private: one request on a stream, cut anywhere, without Envoy.
from agora.extproc.exchange import Exchange, Shared
from agora.extproc.kept import Kept, Sent, name_of
from agora.extproc.messages import ProcessingMode, ProcessingRequest
from agora.service import Call, Edited, Service, route_of, settings_from
from harness.gateway.histories import chat

LONG = json.dumps(chat(20)).encode()
BODIES = {
    "edited": LONG,
    "zipped": gzip.compress(LONG, mtime=0),
    "small": json.dumps(chat(0)).encode(),
    "cut off": LONG[:-9],
    "empty": b"",
}
DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
LIMITS = {"workers": 0, "deadline_ms": 60_000}


def head(name: str = "", *, answer: int = 0, **more: Any) -> Any:
    request = ProcessingRequest()
    headers = {
        ":method": "POST",
        ":path": "/v1/chat/completions",
        "x-agora-own": "1",
        **{name.replace("_", "-"): str(value) for name, value in more.items()},
    }
    headers |= {"content-encoding": "gzip"} if name == "zipped" else {}
    for key, value in headers.items():
        request.request_headers.headers.headers.add(key=key, raw_value=value.encode())
    request.protocol_config.request_body_mode = DUPLEX
    request.protocol_config.response_body_mode = answer
    return request


def piece(body: bytes, *, ends: bool, kind: str = "request_body") -> Any:
    return ProcessingRequest(**{kind: {"body": body, "end_of_stream": ends}})


TRAILERS = ProcessingRequest(request_trailers={})


@dataclass
class Told:
    """What Envoy would do with the answers to a request."""

    body: bytes = b""
    removed: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    ended: int = 0
    after: list[int] = field(default_factory=list)
    """How many answers there were after each message."""

    def take(self, answer: Any) -> None:
        kind = answer.WhichOneof("response")
        self.kinds.append(kind)
        if kind == "request_headers":
            self.removed += answer.request_headers.response.header_mutation.remove_headers
        if kind in ("request_body", "response_body"):
            streamed = getattr(answer, kind).response.body_mutation.streamed_response
            assert not self.ended, "a piece came behind the last one"
            self.body += streamed.body
            self.ended += streamed.end_of_stream


def through(requests: list[Any], *, fails: bool = False, **tables: Any) -> Told:
    told = Told()

    async def coming() -> AsyncIterator[Any]:
        for request in requests:
            yield request
            told.after.append(len(told.kinds))

    async def run() -> None:
        limits = {**LIMITS, **tables.pop("limits", {})}
        wanted = {"limits": limits, "compression": {"min_tokens": 200}, **tables}
        service = Service(settings_from(wanted))
        if fails:
            service.receive = None  # type: ignore[assignment,method-assign]
        shared = Shared.of(service)
        async for answer in Exchange(shared).answers(coming()):
            told.take(answer)
        assert shared.held_bytes == 0
        await service.close()

    asyncio.run(run())
    return told


def cut(name: str, cuts: list[int], *, trailers: bool) -> list[Any]:
    body = BODIES[name]
    at = [0, *sorted(min(one, len(body)) for one in cuts), len(body)]
    parts = [body[start:end] for start, end in pairwise(at)]
    last = len(parts) - 1
    sent = [piece(part, ends=n == last and not trailers) for n, part in enumerate(parts)]
    return [head(name), *sent, *([TRAILERS] if trailers else [])]


EDITED = through(cut("edited", [], trailers=False)).body


@settings(deadline=None)
@given(
    name=st.sampled_from(sorted(BODIES)),
    cuts=st.lists(st.integers(0, 60_000), max_size=6),
    trailers=st.booleans(),
    fails=st.booleans(),
)
def test_however_a_body_is_cut_it_is_edited_whole_or_goes_on_as_it_came(
    name: str, cuts: list[int], *, trailers: bool, fails: bool
) -> None:
    told = through(cut(name, cuts, trailers=trailers), fails=fails)

    edited = name in ("edited", "zipped") and not fails
    assert told.body == (EDITED if edited else BODIES[name])
    assert len(EDITED) < len(LONG)
    assert told.removed == ["x-agora-own", *(["content-encoding"] if edited else [])]
    assert told.ended == (0 if trailers else 1)
    # Head, body, trailers: Envoy takes them in no other order.
    order = ["request_headers", "request_body", "request_trailers"]
    assert told.kinds == sorted(told.kinds, key=order.index)
    assert told.kinds.count("request_headers") == 1
    assert told.kinds.count("request_trailers") == int(trailers)


def test_what_is_known_from_the_head_is_never_held() -> None:
    body = [piece(LONG[:9], ends=False), piece(LONG[9:], ends=True)]
    long = through([head(content_length=2 << 20), *body], limits={"body_mb": 1})
    off = through([head(), *body], mode="off")

    assert long.after[:2] == off.after[:2] == [1, 2]
    assert long.body == off.body == LONG


def test_beyond_the_limit_all_that_came_goes_on_and_the_rest_at_once() -> None:
    part = b"x" * (600 << 10)
    parts = [piece(part, ends=False), piece(part, ends=False), piece(part, ends=True)]
    told = through([head(), *parts], limits={"body_mb": 1})

    assert told.body == part * 3
    assert (told.after[:2], told.ended) == ([0, 0], 1)


def test_answers_in_pieces_go_on_as_they_come() -> None:
    answer = [b'{"usage":', b" {}}", b""]
    said = [piece(one, ends=n == 2, kind="response_body") for n, one in enumerate(answer)]
    told = through([head(answer=DUPLEX), *said])

    assert (told.body, told.ended) == (b"".join(answer), 1)


def test_what_was_sent_is_kept_for_those_with_the_same_body_and_key() -> None:
    route = route_of("POST", "/v1/messages")
    assert route is not None
    sent = [
        Sent(Call(route=route, body=b"x" * 400), Edited(body=b"y", reason="")) for _ in range(3)
    ]
    kept, own = Kept(most_bytes=4_000), name_of({"x-api-key": "a"}, b"body")
    for one in sent[:2]:
        kept.put(own, one)

    assert kept.take(name_of({"x-api-key": "b"}, b"body")) is None
    assert kept.take(name_of({"x-api-key": "a"}, b"other")) is None
    assert kept.take(own) is sent[1]
    assert not kept.drop(own, sent[1])
    assert kept.drop(own, sent[0])
    assert kept.take(own) is None
    for n, one in enumerate(sent):
        kept.put(b"%d" % n, one)
    assert [kept.take(b"%d" % n) is not None for n in range(3)] == [False, True, True]
