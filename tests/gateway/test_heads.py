"""Heads and bodies that are too large, too many or too slow are refused, and nobody waits."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from agora.gateway.config import Limits
from agora.gateway.intake.bodies import Bodies
from agora.gateway.intake.refused import RefusedError
from harness.gateway.histories import chat
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.gateway.test_door import Door

LIMITS = Limits(
    head_bytes=16_384, headers=40, head_seconds=1, body_seconds=1, concurrent=8, connections=64
)
SLOW = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    b"Authorization: Bearer slow\r\n\r\n{"
)
UPLOAD = SLOW.replace(b"/v1/chat/completions", b"/v1/files")


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    upstream = StrictUpstream()
    with (
        serving(upstream) as base,
        gateway(config_for(base, limits=LIMITS)) as (url, app),
    ):
        yield Door(url, app, upstream, base)


@contextmanager
def sockets(door: Door, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    host, port = door.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        links = []
        for _ in range(count):
            link = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            link.sendall(first)
            links.append(link)
        yield links


def answer(link: socket.socket) -> bytes:
    got = b""
    try:
        while piece := link.recv(65_536):
            got += piece
    except ConnectionResetError:
        pass
    return got


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Big: " + b"a" * 20_000,
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Big: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /v1/models?" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: 1\r\n" * 41 + b"\r\n",
        b"GET /v1/models HTTP/1.1\r\n" + b"A" * 20_000,
        b"\r\n" * 20_000,
        b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: 1\r\n" * 3_000,
    ],
    ids=["unfinished", "finished", "target", "number", "name", "nothing", "unfinished number"],
)
def test_a_head_that_is_too_large_is_refused(door: Door, head: bytes) -> None:
    with sockets(door, 1, head) as (link,):
        assert answer(link).startswith(b"HTTP/1.1 431 ")


def test_a_head_within_the_limits_passes(door: Door) -> None:
    few = {f"X-{n}": "a" * 300 for n in range(30)}

    assert door.ask("/v1/models", method="GET", Authorization="Bearer k", **few)[0] == 200


def test_endless_heads_are_ended_in_linear_time_and_others_do_not_notice(door: Door) -> None:
    began = time.monotonic()
    sent = 0
    with sockets(door, 4, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Big: ") as links:
        for link in links:
            try:
                for _ in range(16):
                    link.sendall(b"a" * (1 << 20))
                    sent += 1
            except OSError:
                pass
        asked = time.monotonic()
        assert door.ask("/livez", method="GET")[0] == 200
        assert time.monotonic() - asked < 5
    assert sent < 4 * 16
    assert time.monotonic() - began < 10


def test_a_trailer_cannot_grow_without_end_and_is_no_header(door: Door) -> None:
    chunked = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    with sockets(door, 1, chunked + b"X-Big: " + b"a" * 20_000) as (link,):
        link.sendall(b"a" * 20_000)
        assert b" 200 " not in answer(link)[:20]
    with sockets(door, 1, chunked + b"anthropic-beta: smuggled\r\n\r\n") as (link,):
        answer(link)
    assert door.last.header("anthropic-beta") is None


@pytest.mark.parametrize(
    "head", [b"", b"GET /v1/mod", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"]
)
def test_a_head_that_does_not_come_is_ended(door: Door, head: bytes) -> None:
    began = time.monotonic()
    with sockets(door, 1, head) as (link,):
        said = answer(link)
    assert said.startswith(b"HTTP/1.1 408 ") if head else said == b""
    assert 0.5 < time.monotonic() - began < 5


def test_a_next_head_on_the_same_connection_has_its_own_time(door: Door) -> None:
    host, port = door.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    for pause in (0, 1.6):
        time.sleep(pause)  # longer than a head may take: between two requests none is due
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b"ok\n"
    assert connection.sock is not None
    connection.sock.sendall(b"GET /li")
    assert answer(connection.sock).startswith(b"HTTP/1.1 408 ")
    connection.close()


@pytest.mark.parametrize("head", [SLOW, UPLOAD], ids=["read", "passed on"])
def test_slow_bodies_take_no_slot_and_give_way_to_those_that_come(door: Door, head: bytes) -> None:
    with sockets(door, LIMITS.concurrent * 3, head) as links:
        for _ in range(3):
            assert door.ask("/readyz", method="GET")[0] == 200
            assert door.ask(body=chat(1))[0] == 200
        # Those that did not give way run out of time.
        said = [answer(link) for link in links]
    assert all(text.startswith(b"HTTP/1.1 408 ") for text in said)
    assert door.app.open_requests == 0


def test_readiness_says_no_when_no_slot_is_free() -> None:
    upstream = StrictUpstream(held=True)
    limits = Limits(concurrent=2, concurrent_per_address=2)
    with (
        serving(upstream) as base,
        gateway(config_for(base, limits=limits)) as (url, app),
    ):
        door = Door(url, app, upstream, base)
        body = json.dumps(chat(1)).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        keyed = [
            head % len(body) + b"Authorization: Bearer %d\r\n\r\n" % n + body for n in range(2)
        ]
        with sockets(door, 1, keyed[0]) as (one,), sockets(door, 1, keyed[1]) as (two,):
            until = time.monotonic() + 5
            while app.open_requests < 2:
                assert time.monotonic() < until
                time.sleep(0.01)
            status, _, said = door.ask("/readyz", method="GET")
            live = door.ask("/livez", method="GET")[0]
            over, headers, _ = door.ask(body=body)
            upstream.held = False
            for link in (one, two):
                assert link.recv(12) == b"HTTP/1.1 200"

    assert (status, said, live, over) == (503, b"full\n", 200, 503)
    assert headers["retry-after"] == "1"


def test_the_oldest_waiting_connection_gives_way_when_there_are_too_many(door: Door) -> None:
    with sockets(door, LIMITS.connections + 5) as links:
        assert door.ask("/livez", method="GET")[0] == 200
        assert answer(links[0]) == b""
        # It was not its time that had run out: those that came after it are still heard.
        links[-1].sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert links[-1].recv(12) == b"HTTP/1.1 200"


def test_the_one_who_has_most_bodies_on_their_way_gives_way() -> None:
    reading = Bodies(Limits(concurrent=3, body_bytes=1_024))
    gone: list[str] = []
    with ExitStack() as stack:
        for name in ("a1", "b1", "b2", "b3", "b4", "a2"):
            stack.enter_context(reading.one(name[0], "t", partial(gone.append, name)))
    assert gone == ["b1", "b2", "b3"]


def test_all_bodies_together_are_bounded_and_given_back() -> None:
    reading = Bodies(Limits(concurrent=100, body_bytes=1_024))
    gone: list[str] = []
    with ExitStack() as stack:
        bodies = []
        for n in range(12):
            one = reading.one("a", f"t{n}", partial(gone.append, f"t{n}"))
            bodies.append(stack.enter_context(one))
        for body in bodies:
            body.grow(1_000)
            assert reading.size <= 8 * 1_024
        with pytest.raises(RefusedError, match="more than 1,024"):
            bodies[-1].grow(25)
        # What was sent off and has not heard of it yet takes no room.
        bodies[0].grow(1)
        assert reading.size == 8_000
    assert gone == ["t0", "t1", "t2", "t3"]
    assert reading.size == 0


def test_a_tenant_with_too_many_bytes_on_their_way_makes_room_for_itself_and_no_other() -> None:
    reading = Bodies(Limits(concurrent=100, body_bytes=1_024))
    gone: list[str] = []
    with ExitStack() as stack:
        for name in ("b0", "a0", "a1", "a2", "a3", "a4", "a5", "b1"):
            one = reading.one("a", name[0], partial(gone.append, name))
            stack.enter_context(one).grow(1_000)
            assert reading.size <= 8 * 1_024
    assert gone == ["a0", "a1"]


def test_uploads_that_never_end_hold_a_bounded_memory_and_harm_nobody_else() -> None:
    upstream = StrictUpstream()
    limits = Limits(body_bytes=1 << 20, body_seconds=60)
    with serving(upstream) as base, gateway(config_for(base, limits=limits)) as (url, app):
        host, port = url.removeprefix("http://").split(":")
        with ExitStack() as stack:
            for _ in range(30):
                link = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
                link.sendall(
                    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                    b"Authorization: Bearer stuck\r\nContent-Length: 1000000\r\n\r\n"
                    + bytes(900_000)
                )
            until = time.monotonic() + 20
            while app.forwarder.bodies.size < 3 << 20 and time.monotonic() < until:
                time.sleep(0.01)
            door = Door(url, app, upstream, base)
            asked = door.ask(body=chat(3), Authorization="Bearer other")

            assert asked[0] == 200
            assert 3 << 20 <= app.forwarder.bodies.size <= 4 << 20
