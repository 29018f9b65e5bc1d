"""Where a request goes: by its path, its format and its key, and otherwise nowhere."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.gateway.config import Compression, Config, Limits, Log, Tenants, Upstream
from agora.gateway.routing.headers import FORWARDED, FORWARDED_PREFIXES, request_headers
from agora.gateway.routing.keys import is_bearer, keys_of
from agora.gateway.routing.routes import OTHER, UNKNOWN, by_path, refusal, route_of
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import Received, StrictUpstream
from tests.gateway.test_door import Door

OPENAI, ANTHROPIC, GEMINI = "sk-proj-1234", "sk-ant-api03-1234", "AIza1234"
KEYS = {
    "openai": ("Authorization", f"Bearer {OPENAI}"),
    "anthropic": ("x-api-key", ANTHROPIC),
    "subscription": ("Authorization", "Bearer sk-ant-oat01-1234"),
    "gemini": ("x-goog-api-key", GEMINI),
    "azure": ("api-key", "0123456789abcdef0123456789abcdef"),
    "bedrock": ("Authorization", "Bearer ABSK1234"),
}
FAMILIES = ("openai", "anthropic", "gemini", "azure", "bedrock")


@dataclass
class House:
    """A gateway before an upstream of each family."""

    url: str
    upstreams: dict[str, StrictUpstream]

    def ask(
        self, path: str, body: Any = None, method: str = "POST", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        for upstream in self.upstreams.values():
            upstream.received.clear()
        door = Door(self.url, None, None, "")  # type: ignore[arg-type]
        return door.ask(path, body, method, **headers)

    def reached(self) -> dict[str, Received]:
        return {name: u.received[-1] for name, u in self.upstreams.items() if u.received}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    upstreams = {family: StrictUpstream() for family in FAMILIES}
    from contextlib import ExitStack

    with ExitStack() as stack:
        configured = tuple(
            Upstream(
                name=family,
                base_url=stack.enter_context(serving(upstreams[family])),
                formats=(family,),  # type: ignore[arg-type]
            )
            for family in FAMILIES
        )
        config = Config(
            upstreams=configured,
            compression=Compression(min_tokens=200),
            limits=Limits(compress_deadline_ms=5_000),
            log=Log(requests=False),
        )
        url, _ = stack.enter_context(gateway(config))
        yield House(url, upstreams)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/files", "/v1/usage", "/models"])
def test_a_path_that_several_apis_have_goes_where_its_key_says(house: House, path: str) -> None:
    for whose, (name, value) in KEYS.items():
        assert house.ask(path, method="GET", **{name: value})[0] == 200
        assert list(house.reached()) == ["anthropic" if whose == "subscription" else whose]

    assert house.ask(path, method="GET", anthropic_version="2023-06-01")[0] == 200
    assert list(house.reached()) == ["anthropic"]
    assert house.ask(path, method="GET")[0] == 404
    assert not house.reached()


def test_a_key_never_goes_where_the_path_says_something_else(house: House) -> None:
    paths = {
        "/v1/chat/completions": "openai",
        "/v1/responses": "openai",
        "/v1/embeddings": "openai",
        "/v1/messages": "anthropic",
        "/v1/messages/batches": "anthropic",
        "/v1beta/models/gemini-2.5-pro:generateContent": "gemini",
        "/v1beta/models": "gemini",
        "/openai/deployments/d/chat/completions": "azure",
        "/model/anthropic.claude/converse": "bedrock",
    }
    for path, family in paths.items():
        for whose, (name, value) in KEYS.items():
            owner = "anthropic" if whose == "subscription" else whose
            status, _, said = house.ask(path, {}, **{name: value})
            assert set(house.reached()) <= {family}
            assert (family in house.reached()) == (owner == family), (path, whose)
            if owner != family:
                assert status == 404
                assert b"agora gateway" in said


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/v1/chat/completions?key=AIza1", "openai"),
        ("/v1/chat/completions?%6bey=AIza1", "openai"),
        ("/v1/messages?key=x", "anthropic"),
    ],
)
def test_a_key_in_the_query_is_a_key(house: House, path: str, family: str) -> None:
    assert house.ask(path, {}, Authorization="Bearer word")[0] == 404
    assert not house.reached()
    plain = path.partition("?")[0]
    house.ask(plain, {}, Authorization="Bearer word")
    assert list(house.reached()) == [family]


def test_gemini_clis_requests_go_to_gemini_as_they_are_or_nowhere(house: House) -> None:
    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    assert house.ask(path, {"contents": []}, x_goog_api_key=GEMINI)[0] == 200
    (got,) = house.reached().values()
    assert (list(house.reached()), got.path, got.query) == (["gemini"], path[:-8], b"alt=sse")

    with (
        serving(StrictUpstream()) as upstream,
        gateway(config_for(upstream)) as (url, _),
    ):
        status, _, said = House(url, {}).ask(path, {"contents": []}, x_goog_api_key=GEMINI)
    assert status == 404
    assert json.loads(said)["error"]["status"] == "NOT_FOUND"


def test_errors_have_the_shape_of_the_api_that_was_asked(house: House) -> None:
    openai = json.loads(house.ask("/nowhere", method="GET")[2])["error"]
    anthropic = json.loads(house.ask("/nowhere", method="GET", x_api_key=ANTHROPIC)[2])
    gemini = json.loads(house.ask("/nowhere", method="GET", x_goog_api_key=GEMINI)[2])

    assert openai["type"] == "invalid_request_error"
    assert anthropic["error"]["type"] == "not_found_error"
    assert gemini["error"]["code"] == 404
    assert refusal("bedrock", 404, "no") == {"message": "no"}
    assert refusal("azure", 429, "no")["error"]["code"] == "429"  # type: ignore[index]
    assert not house.reached()


def test_an_upstream_takes_keys_of_others_if_its_configuration_says_so() -> None:
    upstream = StrictUpstream()
    with serving(upstream) as base:
        config = config_for(base)
        one = replace(config.upstreams[0], formats=("openai",), credentials=("gemini",))
        with gateway(replace(config, upstreams=(one,))) as (url, _):
            house = House(url, {"one": upstream})
            path = "/v1/chat/completions"
            assert house.ask(path, chat(1), Authorization=f"Bearer {GEMINI}")[0] == 200
            assert house.ask(path, chat(1), Authorization=f"Bearer {OPENAI}")[0] == 404


@pytest.mark.parametrize(
    ("path", "made", "key"),
    [
        ("/chat/completions", chat, "openai"),
        ("/v1/chat/completions/", chat, "openai"),
        ("/v1//chat/completions", chat, "openai"),
        ("/responses", responses, "openai"),
        ("/v1/responses/", responses, "openai"),
        ("/messages", messages, "anthropic"),
        ("/v1/messages/", messages, "anthropic"),
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", chat, "azure"),
        ("/openai/v1/responses", responses, "azure"),
        ("/openai/responses?api-version=preview", responses, "azure"),
        ("/openai/v1/chat/completions", chat, "azure"),
        ("/v1beta/openai/chat/completions", chat, "gemini"),
    ],
)
def test_paths_written_another_way_are_compressed_as_what_they_are(
    house: House, path: str, made: Any, key: str
) -> None:
    asked = json.dumps(made(40)).encode()
    name, value = KEYS[key]
    _, headers, _ = house.ask(path, asked, **{name: value})

    (got,) = house.reached().values()
    assert int(headers["x-agora-tokens-removed"]) > 0
    assert len(got.body) < len(asked)
    assert (got.path, got.query.decode()) == (path.partition("?")[0], path.partition("?")[2])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "x-gzip"])
def test_a_compressed_body_is_routed_by_its_model_and_edited(encoding: str) -> None:
    asked = json.dumps(chat(40)).encode()
    raw = zlib.compressobj(wbits=-15)
    body = {
        "gzip": gzip.compress(asked),
        "x-gzip": gzip.compress(asked),
        "deflate": zlib.compress(asked),
        "raw deflate": raw.compress(asked) + raw.flush(),
    }[encoding]
    first, second = StrictUpstream(), StrictUpstream()
    with serving(first) as one, serving(second) as two:
        config = config_for(one)
        upstream = config.upstreams[0]
        both = (
            replace(upstream, name="qwen", models=("qwen*",)),
            replace(upstream, name="gpt", base_url=two, models=("gpt*",)),
        )
        with gateway(replace(config, upstreams=both)) as (url, _):
            house = House(url, {"qwen": first, "gpt": second})
            named = {"content-encoding": encoding.removeprefix("raw ")}
            _, headers, _ = house.ask("/v1/chat/completions", body, **named)
            edited = house.reached()
            house.ask("/v1/chat/completions", body, x_agora_bypass="1", **named)
            passed = house.reached()
            house.ask("/v1/embeddings", body, **named)
            unread = house.reached()

    assert int(headers["x-agora-tokens-removed"]) > 0
    assert list(edited) == list(passed) == list(unread) == ["gpt"]
    assert edited["gpt"].header("content-encoding") is None
    assert json.loads(edited["gpt"].body)["model"].startswith("gpt")
    for got in (passed["gpt"], unread["gpt"]):
        assert (got.body, got.header("content-encoding")) == (body, named["content-encoding"])


def test_an_encoded_body_that_is_edited_and_refused_goes_again_as_it_came() -> None:
    refusing = StrictUpstream(refuse_edited_by="messages: text content blocks must be non-empty")
    body = gzip.compress(json.dumps(messages(40)).encode())
    with serving(refusing) as base, gateway(config_for(base)) as (url, _):
        House(url, {}).ask("/v1/messages", body, content_encoding="gzip")
    edited, again = refusing.received

    assert edited.header("content-encoding") is None
    assert (again.body, again.header("content-encoding")) == (body, "gzip")


def test_a_body_that_cannot_be_decompressed_goes_nowhere(house: House) -> None:
    bomb = gzip.compress(b"0" * (40 << 20))
    cases = {
        "br": (b"x" * 100, 415),
        "gzip, gzip": (gzip.compress(gzip.compress(b"{}")), 415),
        "gzip": (b"{}", 400),
        "deflate": (b"\x00\xff\xff", 400),
    }
    for encoding, (body, expected) in cases.items():
        got = house.ask("/v1/chat/completions", body, content_encoding=encoding)
        assert got[0] == expected, encoding
    truncated = gzip.compress(json.dumps(chat(1)).encode())[:-9]
    assert house.ask("/v1/chat/completions", truncated, content_encoding="gzip")[0] == 400
    assert house.ask("/v1/chat/completions", bomb, content_encoding="gzip")[0] == 413
    assert not house.reached()


def test_a_websocket_is_refused_at_once_and_nothing_goes_on(house: House) -> None:
    for upstream in house.upstreams.values():
        upstream.received.clear()
    host, port = house.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as link:
        link.sendall(
            b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer k\r\n\r\n"
        )
        said = b""
        while piece := link.recv(65_536):
            said += piece

    assert said.startswith(b"HTTP/1.1 426 ")
    assert b"upgrade: HTTP/1.1" in said
    assert not house.reached()


def test_the_tenants_header_stays_here_and_added_ones_go_on() -> None:
    upstream = StrictUpstream()
    with serving(upstream) as base:
        config = config_for(
            base,
            tenants=Tenants(header="x-openai-tenant"),
            forward_headers=("x-mine", "cookie"),
        )
        with gateway(config) as (url, _):
            named = {"x-openai-tenant": "acme", "x-mine": "1", "x-other": "1", "Cookie": "a=1"}
            House(url, {}).ask("/v1/chat/completions", {}, **named)
    names = {name for name, _ in upstream.received[-1].headers}

    assert {b"x-mine", b"cookie"} <= names
    assert not {b"x-openai-tenant", b"x-other"} & names


AGENTS = {
    # Headers that real agents were seen to send, by agent.
    "claude code": "accept anthropic-beta anthropic-dangerous-direct-browser-access "
    "anthropic-version authorization x-api-key content-type user-agent x-app "
    "x-claude-code-session-id x-stainless-arch x-stainless-lang x-stainless-os "
    "x-stainless-package-version x-stainless-retry-count x-stainless-runtime "
    "x-stainless-runtime-version x-stainless-timeout accept-encoding x-client-request-id",
    "codex": "authorization content-type accept originator session_id session-id thread-id "
    "conversation_id user-agent version openai-beta openai-organization openai-project "
    "chatgpt-account-id x-codex-turn-metadata x-codex-turn-state x-codex-window-id "
    "x-codex-beta-features x-openai-subagent x-client-request-id "
    "x-responsesapi-include-timing-metrics",
    "gemini cli": "x-goog-api-key x-goog-api-client x-gemini-api-privileged-user-id content-type "
    "user-agent accept accept-encoding accept-language",
    "opencode": "authorization content-type user-agent x-session-affinity x-opencode-session "
    "x-opencode-request x-opencode-project x-opencode-client x-parent-session-id",
    "qwen code": "authorization x-dashscope-cachecontrol x-dashscope-useragent "
    "x-dashscope-authtype x-stainless-lang",
    "azure sdk": "api-key x-ms-client-request-id x-ms-useragent",
    "litellm": "authorization idempotency-key http-referer x-title",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_what_real_agents_send_goes_on(agent: str) -> None:
    sent = [(name.encode(), b"\xe9 v") for name in AGENTS[agent].split()]

    assert request_headers(sent) == sent


_word = st.text("abcdefghijklmnopqrstuvwxyz-_0123456789", min_size=1, max_size=20)


@given(st.lists(st.tuples(_word, st.binary(max_size=8)), max_size=20))
def test_only_listed_headers_go_on_and_in_order(pairs: list[tuple[str, bytes]]) -> None:
    headers = [(name.encode(), value) for name, value in pairs]
    sent = request_headers(headers)

    assert sent == [
        (name, value)
        for name, value in headers
        if name in FORWARDED or name.startswith(FORWARDED_PREFIXES)
    ]


_parts = st.sampled_from(
    [
        *"v1 v1beta openai deployments models chat completions messages responses files".split(),
        *"model converse invoke gemini:generateContent .. %2e admin".split(),
        "",
    ]
)
_keys = st.sampled_from([*KEYS.values(), ("x-nothing", "1"), ("authorization", "Bearer word")])


@given(st.lists(_parts, max_size=6), st.lists(_keys, max_size=3), st.sampled_from(["GET", "POST"]))
def test_whatever_is_asked_a_key_with_an_owner_meets_only_upstreams_that_take_it(
    parts: list[str], keys: list[tuple[str, str]], method: str
) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in keys]
    upstreams = tuple(
        Upstream(name=family, base_url="http://127.0.0.1:9", formats=(family,))  # type: ignore[arg-type]
        for family in FAMILIES
    )
    asked = by_path(method, "/" + "/".join(parts))
    whose = keys_of(headers).owners
    route = route_of(asked, headers, whose, bearer=is_bearer(headers))
    found = Config(upstreams=upstreams).upstream_for(route.family, asked.model, whose)

    if found is not None and route.known:
        assert whose <= set(found.formats)
        assert route.family in found.formats
    assert (route in UNKNOWN.values()) == (not route.known)


def test_without_a_model_nothing_is_guessed_between_upstreams() -> None:
    two = tuple(
        Upstream(name=name, base_url="http://127.0.0.1:9", formats=("openai",), models=(name,))
        for name in ("a", "b")
    )

    assert Config(upstreams=two).upstream_for("openai") is None
    assert Config(upstreams=two[:1]).upstream_for("openai") is two[0]
    assert Config(upstreams=two).upstream_for("openai", "b") is two[1]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"]
)
def test_slashes_too_many_change_nothing_about_what_is_asked(path: str) -> None:
    plain = by_path("POST", path).route

    assert plain is not None
    assert plain.format
    for spelt in (f"{path}/", f"{path}//", f"/{path}", path.replace("/", "//"), f"{path[3:]}/"):
        assert by_path("POST", spelt).route is plain


def test_parameters_of_a_path_do_not_make_it_anothers() -> None:
    assert by_path("POST", "/v1/messages;a=b").route is OTHER["anthropic"]
    assert by_path("POST", "/v1/embeddings;a=b").route is OTHER["openai"]


def test_batches_are_passed_on_unread() -> None:
    assert by_path("POST", "/v1/messages/batches").route is OTHER["anthropic"]
    assert by_path("POST", "/v1/messages/batches/").route is OTHER["anthropic"]
    assert by_path("POST", "/v1/batches").route is OTHER["openai"]


def test_long_and_strange_paths_are_unknown() -> None:
    assert by_path("GET", "/v1/" + "a" * 600).route is UNKNOWN["openai"]
    assert by_path("GET", "").route is UNKNOWN["openai"]
    assert by_path("GET", "/openai/deployments/x/assistants").route is OTHER["azure"]
    assert by_path("GET", "/v1/models/gpt-4o").model == "gpt-4o"
    assert by_path("POST", "/v1/openai/chat/completions").route is None


async def _codex(url: str) -> int:
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{url}/v1/responses")
        return refused.value.status


def test_a_websocket_client_sees_the_status(house: House) -> None:
    import asyncio

    assert asyncio.run(_codex(house.url)) == 426
