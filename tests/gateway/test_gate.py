"""Who may come in: tokens, and how much of the gateway one client may take."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.gateway.config import Client, Config, ConfigError, Limits, Tenants, parse_config
from agora.gateway.intake.gate import Gate, Visit
from agora.gateway.intake.refused import RefusedError
from harness.gateway.histories import chat, messages
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.gateway.test_door import Door

TOKEN = "a-long-random-token"  # noqa: S105
ANA = Client(name="ana", sha256=hashlib.sha256(TOKEN.encode()).hexdigest(), requests_per_minute=60)
BEN = Client(name="ben", sha256=hashlib.sha256(b"another").hexdigest(), concurrent=1)


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    upstream = StrictUpstream()
    with serving(upstream) as base:
        config = config_for(base, clients=(ANA, BEN), tenants=Tenants(burst=2))
        with gateway(config, clock=lambda: 0.0) as (url, app):
            yield Door(url, app, upstream, base)


def test_without_a_token_that_is_known_nothing_goes_on(door: Door) -> None:
    before = len(door.upstream.received)
    for headers in ({}, {"x-agora-token": "wrong"}, {"x-agora-token": ANA.sha256}):
        status, _, said = door.ask("/v1/messages", messages(1), x_api_key="k", **headers)
        assert status == 401
        assert json.loads(said)["error"]["type"] == "authentication_error"
        assert door.ask("/v1/agora/score", chat(2), **headers)[0] == 401
    assert len(door.upstream.received) == before
    assert door.ask("/livez", method="GET")[0] == 200


def test_a_token_opens_names_the_tenant_and_stays_here(door: Door) -> None:
    assert door.ask(body=chat(1), x_agora_token="another")[0] == 200  # noqa: S106
    assert all(b"another" not in value for _, value in door.last.headers)
    tenants = door.app.forwarder.meter.snapshot().by("agora_requests_total", "tenant")
    assert "ben" in tenants


def test_a_rate_that_is_used_up_is_answered_in_the_apis_own_words(door: Door) -> None:
    asked = [
        door.ask("/v1/messages", messages(1), x_agora_token=TOKEN, x_api_key="k") for _ in range(3)
    ]
    _, headers, said = asked[-1]

    assert [status for status, _, _ in asked] == [200, 200, 429]
    assert headers["retry-after"] == "1"
    assert json.loads(said)["error"]["type"] == "rate_limit_error"
    assert door.ask(body=chat(1), x_agora_token="another")[0] == 200  # noqa: S106


def gate_with(now: list[float], **changes: object) -> Gate:
    config = replace(Config(upstreams=(), limits=Limits(concurrent=8)), **changes)  # type: ignore[arg-type]
    return Gate(config=config, clock=lambda: now[0])


def test_one_tenant_and_one_address_leave_slots_for_others() -> None:
    gate = gate_with([0.0])
    same_tenant = [Visit(gate, "t", str(n)) for n in range(8)]
    for visit in same_tenant[:7]:
        visit.take()
    with pytest.raises(RefusedError) as refused:
        same_tenant[7].take()
    assert (refused.value.status, refused.value.reason) == (429, "tenant_slots")
    for visit in same_tenant:
        visit.leave()

    same_address = [Visit(gate, str(n), "10.0.0.1") for n in range(8)]
    for visit in same_address[:7]:
        visit.take()
    with pytest.raises(RefusedError) as refused:
        same_address[7].take()
    assert (refused.value.status, refused.value.reason) == (429, "address_slots")
    others = [Visit(gate, f"o{n}", f"o{n}") for n in range(3)]
    for visit in others[:1]:
        visit.take()
    assert gate.full
    with pytest.raises(RefusedError) as refused:
        others[2].take()
    assert refused.value.status == 503
    for visit in (*same_address, *others):
        visit.leave()
    assert gate.open == 0
    assert not gate._tenants
    assert not gate._addresses


def test_a_client_has_slots_of_its_own_number() -> None:
    gate = gate_with([0.0])
    first, second = Visit(gate, "ben", "a", BEN), Visit(gate, "ben", "a", BEN)
    first.take()
    first.take()  # once is enough
    with pytest.raises(RefusedError, match="more than 1 concurrent requests"):
        second.take()


@given(st.lists(st.floats(0, 30), min_size=1, max_size=60), st.integers(1, 600), st.integers(1, 10))
def test_no_tenant_gets_more_than_its_rate_and_its_burst(
    gaps: list[float], rate: int, burst: int
) -> None:
    now = [0.0]
    gate = gate_with(now, tenants=Tenants(requests_per_minute=rate, burst=burst))
    admitted = 0
    for gap in gaps:
        now[0] += gap
        try:
            gate.admit(Visit(gate, "t", "a"))
            admitted += 1
        except RefusedError as refused:
            wait = refused.retry_after or 0.0
            now[0] += wait + 1e-6
            gate.admit(Visit(gate, "t", "a"))  # after the Retry-After it may come again
            admitted += 1
    assert admitted <= burst + now[0] * rate / 60 + 1e-6


def test_many_tenants_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agora.gateway.intake.gate._MAX_BUCKETS", 5)
    gate = gate_with([0.0], tenants=Tenants(requests_per_minute=1))
    for n in range(50):
        gate.admit(Visit(gate, str(n), "a"))

    assert len(gate._buckets) == 5


BASE = '[[upstreams]]\nbase_url = "https://a.test"\nformats = ["anthropic"]\n'


def test_clients_and_headers_are_read_from_the_file() -> None:
    config = parse_config(
        BASE
        + f"""
        [[clients]]
        name = "ana"
        sha256 = "{ANA.sha256.upper()}"
        requests_per_minute = 60
        [headers]
        forward = ["Traceparent"]
        [limits]
        concurrent_per_address = 5
        """
    )

    assert config.clients == (ANA,)
    assert config.forward_headers == ("traceparent",)
    assert (config.limits.per_address, config.per_tenant) == (5, 224)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[clients]]\nname = "ana"\n', "clients[0].sha256 is missing"),
        ('[[clients]]\nname = "ana"\nsha256 = "hunter2"\n', "the token, not the token"),
        (f'[[clients]]\nsha256 = "{ANA.sha256}"\n', "clients[0].name is missing"),
        (f'[[clients]]\nname = "a b"\nsha256 = "{ANA.sha256}"\n', "letters, digits"),
        (
            f'[[clients]]\nname = "a"\nsha256 = "{ANA.sha256}"\n' * 2,
            "another client has the same",
        ),
        ('[headers]\nforward = ["x y"]\n', "not a valid header name"),
        ('[headers]\nforward = ["Host"]\n', "never forwarded"),
        ('[headers]\nforward = ["x-agora-token"]\n', "never forwarded"),
        (BASE.replace("a.test", "b.test") + 'credentials = ["me"]\n', "it must be one of"),
    ],
)
def test_what_is_wrong_with_them_is_said(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(BASE + text)

    assert said in str(error.value)
    assert "hunter2" not in str(error.value)
