"""Edits that a provider refuses: who is blamed, who is held back, and what goes on instead."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.gateway.app import App
from agora.gateway.editing.refusals import Refusals
from harness.gateway.histories import chat
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

SIGNATURE = "Invalid `signature` in `thinking` block"
EMPTY = "messages: text content blocks must be non-empty"
HERE = ("anthropic", "claude-opus-5")
BROKEN = "this history is broken"


@dataclass
class Picky(StrictUpstream):
    """Refuses histories that are broken from the start, and edits of some tenants."""

    refuses_edits_of: set[str] = field(default_factory=set)

    async def _answer(self, request: Any, send: Any) -> None:
        key = (request.header("authorization") or "").removeprefix("Bearer ")
        self.refuse_edited_by = EMPTY if key in self.refuses_edits_of else ""
        await super()._answer(request, send)

    def _problem(self, asked: Any, format: str) -> str:
        if BROKEN in json.dumps(asked):
            return SIGNATURE
        return super()._problem(asked, format)


@dataclass
class Parts:
    url: str
    app: App
    upstream: Picky

    def ask(self, body: Any, key: str = "one") -> tuple[int, dict[str, str], bytes]:
        host, port = self.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        headers = {"authorization": f"Bearer {key}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, said

    def total(self, name: str, **labels: str) -> float:
        return self.app.forwarder.meter.snapshot().total(name, **labels)


@pytest.fixture
def parts() -> Iterator[Parts]:
    upstream = Picky()
    with serving(upstream) as upstream_url, gateway(config_for(upstream_url)) as (url, app):
        yield Parts(url, app, upstream)


def broken() -> dict[str, Any]:
    body = chat(40)
    body["messages"][0]["content"] = BROKEN
    return body


def test_an_edit_is_not_blamed_when_its_original_fails_the_same_way(parts: Parts) -> None:
    for _ in range(5):
        status, headers, said = parts.ask(broken())
        assert status == 400
        assert SIGNATURE in json.loads(said)["error"]["message"]
        assert headers["x-agora-untouched"] == "resent"

    assert parts.app.forwarder.rules.open_ones == 0
    for key in ("one", "two"):
        assert "x-agora-tokens-removed" in parts.ask(chat(40), key)[1]
    assert parts.total("agora_resent_total", fault="history") == 5
    assert parts.total("agora_resent_total", fault="edit") == 0


def test_a_refused_edit_holds_back_the_edits_of_its_tenant_and_no_others(parts: Parts) -> None:
    parts.upstream.refuses_edits_of = {"one"}

    first, second = parts.ask(chat(40)), parts.ask(chat(40))
    other = parts.ask(chat(40), "two")

    assert [answer[0] for answer in (first, second, other)] == [200] * 3
    assert first[1]["x-agora-untouched"] == "resent"
    assert second[1]["x-agora-untouched"] == "rule_breaker_open"
    assert int(other[1]["x-agora-tokens-removed"]) > 0
    assert parts.total("agora_resent_total", fault="edit", upstream="test") == 1


def test_edits_of_several_tenants_refused_in_a_row_hold_back_everybodys(parts: Parts) -> None:
    tenants = {"one", "two", "three"}
    parts.upstream.refuses_edits_of = set(tenants)
    for key in tenants:
        parts.ask(chat(40), key)

    assert parts.ask(chat(40), "four")[1]["x-agora-untouched"] == "rule_breaker_open"
    assert parts.total("agora_breakers_open") == 4


def test_what_does_not_fit_the_window_is_edited_by_rule_while_edits_are_held_back(
    parts: Parts,
) -> None:
    # The window of gpt-4 has 8,192 tokens, this prompt about 20,000.
    large = {**chat(40, 1_500), "model": "gpt-4"}
    parts.upstream.refuses_edits_of = {"one"}
    assert parts.ask(large)[1]["x-agora-untouched"] == "resent"
    parts.upstream.refuses_edits_of = set()

    status, headers, _ = parts.ask(large)

    assert status == 200
    assert int(headers["x-agora-tokens-after"]) < 8_192 < int(headers["x-agora-tokens-before"])
    assert len(json.loads(parts.upstream.received[-1].body)["messages"]) < len(large["messages"])
    assert parts.total("agora_requests_total", rung="1") == 1


def test_an_answer_tells_both_counts_and_leaves_the_providers_usage_alone(parts: Parts) -> None:
    status, headers, said = parts.ask(chat(40))
    before, after, removed = (
        int(headers[f"x-agora-tokens-{name}"]) for name in ("before", "after", "removed")
    )
    usage = json.loads(said)["usage"]

    assert status == 200
    assert before - after == removed > 0
    # What the upstream counted is what it got.
    assert usage["prompt_tokens"] < before
    assert set(usage) <= {"prompt_tokens", "completion_tokens", "total_tokens"} | {
        "prompt_tokens_details"
    }


def test_of_what_was_counted_and_left_alone_both_counts_are_the_same(parts: Parts) -> None:
    headers = parts.ask(chat(1, 3_000))[1]

    assert "x-agora-tokens-removed" not in headers
    assert headers["x-agora-tokens-before"] == headers["x-agora-tokens-after"]


def test_what_nobody_counted_has_no_counts(parts: Parts) -> None:
    headers = parts.ask({"model": "gpt-4o", "messages": []})[1]

    assert not [name for name in headers if name.startswith("x-agora-tokens")]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["refused", "accepted"])), max_size=40
)


@settings(deadline=None, max_examples=60)
@given(EVENTS)
def test_everybody_is_held_back_only_after_three_tenants_without_an_accepted_edit_between(
    events: list[tuple[str, str]],
) -> None:
    refusals = Refusals(tenants=3, clock=lambda: 0.0)
    in_a_row: set[str] = set()
    for tenant, event in events:
        getattr(refusals, event)(tenant, HERE)
        in_a_row = in_a_row | {tenant} if event == "refused" else set()

        assert refusals.allows("somebody else", HERE) == (len(in_a_row) < 3)
        assert refusals.allows("somebody else", ("anthropic", "another"))


@settings(deadline=None, max_examples=30)
@given(st.sets(st.text(max_size=3), max_size=30), st.integers(1, 10))
def test_what_is_remembered_of_refusals_is_bounded(names: set[str], most: int) -> None:
    refusals = Refusals(tenants=2, most=most, clock=lambda: 0.0)
    for name in sorted(names):
        for place in (("u", name), HERE):
            refusals.refused(name, place)

    assert refusals.open_ones <= 2 * most


def test_after_a_while_one_edit_is_tried_again_and_its_success_lets_all_through() -> None:
    now = [0.0]
    refusals = Refusals(tenants=2, cool_seconds=60, clock=lambda: now[0])
    for tenant in ("a", "b"):
        refusals.refused(tenant, HERE)
    assert not refusals.allows("c", HERE)
    now[0] = 61.0

    assert [refusals.allows("c", HERE), refusals.allows("d", HERE)] == [True, False]
    refusals.accepted("c", HERE)
    assert refusals.allows("d", HERE)
    assert refusals.open_ones == 2
