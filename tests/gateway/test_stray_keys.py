"""A key goes to its owner's upstream or nowhere, however and wherever it is written."""

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.gateway.routing.headers import FORWARDED_PREFIXES, VENDORS, request_headers
from agora.gateway.routing.keys import keys_of
from harness.gateway.loopback import gateway
from harness.gateway.stray_keys import (
    KEYS,
    Made,
    Recorder,
    config_of,
    numbers,
    over_sockets,
    recording,
    through_the_application,
    through_the_gateway,
)

CANARY = "CAN0000001X"
BASIC = base64.b64encode(f"user:sk-ant-api03-{CANARY}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "header", "value"),
    [
        ("/v1/chat/completions", "Authorization", f"Bearer sk-proj-a, Bearer sk-ant-{CANARY}"),
        ("/v1/models", "Authorization", f"Bearer eyJ.a.b,Bearer sk-ant-{CANARY}"),
        ("/v1/chat/completions", "Authorization", f'Bearer "sk-ant-{CANARY}"'),
        ("/v1/chat/completions", "Authorization", f"Basic {BASIC}"),
        ("/v1/messages", "Authorization", f"Basic {BASIC}"),
        ("/v1/chat/completions", "Authorization", f"Bearer a b c sk-ant-{CANARY}"),
        ("/v1/chat/completions", "Authorization", f"Bearer SK-ANT-{CANARY}"),
        ("/v1/messages", "Authorization", f"Bearer sk-{CANARY}"),
        ("/v1/messages", "x-ms-authorization-auxiliary", f"Bearer eyJ.{CANARY}.s"),
        ("/v1/chat/completions", "x-goog-iam-authorization-token", f"ya29.{CANARY}"),
        ("/v1/messages", "openai-api-key", CANARY),
        ("/v1/chat/completions", "openai-api-key", f"sk-ant-{CANARY}"),
        ("/v1/chat/completions", "User-Agent", f"sk-ant-api03-{CANARY}"),
        ("/v1/messages?KEY=AIza" + CANARY, "Accept", "*/*"),
        ("/v1/messages?a=b;key=" + CANARY, "Accept", "*/*"),
        ("/v1/chat/completions?api_key=" + CANARY, "Accept", "*/*"),
        ("/v1/messages?subscription-key=" + CANARY, "Accept", "*/*"),
        ("/v1/messages?X-Amz-Security-Token=" + CANARY, "Accept", "*/*"),
        ("/v1/messages?x-api-key=sk-ant-" + CANARY, "Accept", "*/*"),
        ("/v1/chat/completions/sk-ant-api03-" + CANARY, "Accept", "*/*"),
    ],
)
def test_what_is_not_known_to_be_an_upstreams_does_not_reach_it(
    path: str, header: str, value: str
) -> None:
    with recording() as upstreams, gateway(config_of(upstreams)) as (url, _):
        status = asyncio.run(over_sockets(url)(Made("POST", path, ((header, value),), {})))

    assert status in (400, 404)
    assert not any(one.requests for one, _ in upstreams)


@pytest.mark.parametrize("way", [through_the_application, through_the_gateway])
def test_of_made_up_keys_none_arrives_where_it_does_not_belong(way: object) -> None:
    figures = way(600)  # type: ignore[operator]

    assert figures["keys_at_an_upstream_that_is_not_theirs"] == 0, figures
    assert set(figures["honest"]) == {"200"}, figures
    assert all(figures["arrived"].values()), figures
    assert not any(status >= "5" for status in figures["statuses"]), figures


def test_a_refusal_names_the_place_and_never_the_key() -> None:
    for headers, query in (
        ([(b"authorization", b"Basic c2VjcmV0LXNlY3JldA==")], b""),
        ([(b"authorization", b"Bearer secret secret")], b""),
        ([(b"x-api-key", b"secret, secret")], b""),
        ([(b"x-api-key", b"secret"), (b"x-api-key", b"secret")], b""),
        ([], b"api_key=secret"),
        ([], b"a=secret&" * 1_000),
    ):
        stray = keys_of(headers, b"/v1/messages", query).stray
        assert stray.startswith("the ")
        assert "secret" not in stray.lower()


@pytest.mark.parametrize(
    "query",
    [
        b"api-version=2024-10-21&alt=sse",
        b"pageToken=abc&pageSize=10",
        b"api_key_ids[]=key_1&group_by[]=api_key_id",
        b"after=file-1&limit=20&order=asc",
        b"beta=true",
        b"key=&api_key=",
    ],
)
def test_what_clients_ask_for_in_a_query_is_no_key(query: bytes) -> None:
    assert not keys_of([], b"/v1/x", query).stray
    assert not keys_of([], b"/v1/x", query).owners


_text = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)
_owned = st.sampled_from([(owner, key) for owner, keys in KEYS.items() for key in keys])


@given(_owned, _text, _text, st.sampled_from([b"authorization", b"x-api-key", b"api-key"]))
def test_a_key_that_tells_its_owner_is_seen_in_any_place_of_a_header(
    owned: tuple[str, str], before: str, after: str, header: bytes
) -> None:
    owner, key = owned
    value = f"{before} {key.format('0123456789')} {after}".encode()

    assert owner in keys_of([(header, value)]).owners


@given(st.sampled_from(VENDORS), _text, st.sampled_from(["openai", "anthropic", "gemini"]))
def test_a_vendors_headers_go_to_its_own_family(
    vendor: tuple[bytes, tuple[str, ...]], end: str, family: str
) -> None:
    prefix, families = vendor
    header = (prefix + end.lower().encode(), b"1")
    sent = request_headers([header], families=(family,))  # type: ignore[arg-type]

    assert (sent == [header]) == (family in families)
    assert prefix in FORWARDED_PREFIXES


def test_numbers_are_found_behind_escapes_and_base64() -> None:
    assert numbers(f"Basic {BASIC}".encode()) == {1}
    assert numbers(b"".join(b"%%%02x" % byte for byte in CANARY.encode())) == {1}
    assert not Recorder("openai").seen
