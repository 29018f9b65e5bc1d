"""What a gateway for one person's agent is set to: every header, every path, and a proxy."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agora.gateway.config import Config, ConfigError, parse_config
from agora.gateway.routing.headers import request_headers
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

UPSTREAM = '[[upstreams]]\nbase_url = "https://a.test"\nformats = ["anthropic"]\n'


def parsed(text: str) -> Config:
    return parse_config(UPSTREAM + text)


def test_a_star_forwards_every_header_but_those_of_one_hop_and_of_the_gateway() -> None:
    headers = [
        (b"X-Unheard-Of", b"1"),
        (b"Cookie", b"a=1"),
        (b"Connection", b"x-hop"),
        (b"X-Hop", b"1"),
        (b"x-agora-bypass", b"1"),
        (b"TE", b"trailers"),
    ]

    assert request_headers(headers, frozenset({b"*"})) == headers[:2]
    assert parsed('[headers]\nforward = ["*"]').forward_headers == ("*",)


@pytest.fixture
def upstream() -> Iterator[tuple[StrictUpstream, str]]:
    made = StrictUpstream()
    with serving(made) as url:
        yield made, url


def asked(url: str, head: bytes) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        link.sendall(head + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        got = b""
        while piece := link.recv(65_536):
            got += piece
        return got


def test_a_path_that_nobody_knows_goes_where_the_configuration_says(
    upstream: tuple[StrictUpstream, str],
) -> None:
    made, url = upstream
    config = config_for(url)
    head = b"GET /api/never/heard?of=it HTTP/1.1"
    with gateway(config) as (door, _):
        assert asked(door, head).startswith(b"HTTP/1.1 404")
    assert not made.received
    with gateway(replace(config, other_paths="anthropic")) as (door, _):
        assert asked(door, head).startswith(b"HTTP/1.1 200")
    assert [one.path for one in made.received] == ["/api/never/heard"]


def test_an_upstream_is_asked_through_its_proxy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        config = config_for("http://a.test")
        behind = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        upstreams = tuple(replace(one, proxy=behind) for one in config.upstreams)
        with gateway(replace(config, upstreams=upstreams)) as (door, _):
            host, _, port = door.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port)), timeout=30) as link:
                link.sendall(
                    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\r\n"
                )
                proxy.settimeout(30)
                came, _ = proxy.accept()
                with came:
                    came.settimeout(30)
                    assert came.recv(65_536).startswith(b"GET http://a.test/v1/models")
                    came.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    assert link.recv(65_536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        ('proxy = "socks5://user:secret@p:1"', "proxy"),
        ('proxy = "http://[p"', "proxy"),
        ('[paths]\nother = "opnai"', "paths.other"),
    ],
)
def test_what_is_meant_otherwise_is_blamed_and_no_password_shown(text: str, blamed: str) -> None:
    with pytest.raises(ConfigError, match=blamed) as error:
        parsed(text)
    assert "secret" not in str(error.value)


def test_left_out_both_say_nothing() -> None:
    config = parsed("[paths]\n")

    assert config.other_paths is None
    assert config.upstreams[0].proxy is None
