"""Requests that nobody sends by accident: other methods, two hosts, brackets without end."""

import time
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.gateway.body import deeper_than
from agora.gateway.config import Config, Limits
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.gateway.test_door import Door, door

__all__ = ["door"]
MILLION = 1_000_000
KEY = "x-api-key: sk-ant-api03-odd\r\n"


@pytest.mark.parametrize(
    ("line", "hosts", "status"),
    [
        ("CONNECT /v1/messages", ("localhost",), 405),
        ("TRACE /v1/messages", ("localhost",), 405),
        ("POST /v1/messages", ("localhost", "evil.test"), 400),
        ("POST /v1/messages", ("evil.test", "localhost"), 400),
        ("POST /v1/messages", ("localhost", "localhost"), 400),
        ("POST /v1/messages", ("localhost:8484@evil.test",), 421),
        ("POST /v1/messages", ("localhost@evil.test",), 421),
        ("POST /v1/messages", ("localhost/evil",), 421),
        ("POST /v1/messages", ("localhost:port",), 421),
    ],
)
def test_an_odd_head_is_refused_and_its_key_stays_here(
    door: Door, line: str, hosts: tuple[str, ...], status: int
) -> None:
    before = len(door.upstream.received)
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    said = door.raw(
        f"{line} HTTP/1.1\r\n{lines}{KEY}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )

    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    assert len(door.upstream.received) == before


def test_even_where_any_host_is_taken_it_has_to_be_one() -> None:
    config = Config(upstreams=(), hosts=("*",))

    assert config.takes_host("anything.test:1")
    assert config.takes_host("")
    assert not config.takes_host("a@b")


@pytest.mark.parametrize(
    "deep",
    [
        b"[" * 90_000 + b"]" * 90_000,
        b'{"a":' * 25_000 + b"1" + b"}" * 25_000,
        b"[[]," * 30_000 + b"1" + b"]" * 30_000,
    ],
)
def test_nesting_without_end_is_refused_like_nesting_beyond_the_limit(
    door: Door, deep: bytes
) -> None:
    before = len(door.upstream.received)
    for path, field in (("/v1/chat/completions", b"messages"), ("/v1/messages", b"x")):
        status, _, said = door.ask(path, b'{"%b": %b}' % (field, deep))
        assert (status, b"64 deep" in said) == (400, True)
    assert len(door.upstream.received) == before


def test_nesting_without_end_is_refused_also_where_there_is_no_time_to_read_it() -> None:
    upstream = StrictUpstream()
    hurried = Limits(compress_deadline_ms=1, restore_deadline_ms=1)
    body = b'{"model": "m", "messages": %b}' % (b"[" * MILLION + b"]" * MILLION)
    with serving(upstream) as base, gateway(config_for(base, limits=hurried)) as (url, app):
        status, _, said = Door(url, app, upstream, base).ask(body=body, Authorization="Bearer k")

    assert (status, b"64 deep" in said) == (400, True)
    assert not upstream.received


@pytest.mark.parametrize(
    "text",
    [
        b"[" * MILLION + b"]" * MILLION,
        b'{"a":' * MILLION + b"}" * MILLION,
        b"[[]," * MILLION + b"]" * MILLION,
        (b"[" * 63 + b"]" * 63 + b",") * (MILLION // 63),
    ],
    ids=["lists", "objects", "a comb", "just below"],
)
def test_a_million_brackets_are_counted_in_less_than_a_second(text: bytes) -> None:
    began = time.process_time()
    deep = deeper_than(text, 64)

    assert deep == (not text.startswith(b"[" * 63 + b"]"))
    assert time.process_time() - began < 1


@given(st.text("[]{}", max_size=60), st.integers(1, 20))
def test_what_is_balanced_is_as_deep_as_its_brackets_say(shape: str, depth: int) -> None:
    closing = {"]": "[", "}": "{"}
    kept: list[str] = []
    text = ""
    for char in shape:
        if char in closing:
            if not kept or kept[-1] != closing[char]:
                continue
            kept.pop()
        else:
            kept.append(char)
        text += char
    text += "".join("]" if char == "[" else "}" for char in reversed(kept))
    deepest = max(accumulate(1 if char in "[{" else -1 for char in text), default=0)

    assert deeper_than(text.encode(), depth) == (deepest > depth)
