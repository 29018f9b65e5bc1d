"""Steps judged over HTTP: the compressor's own scores, and an error that says what was found."""

import json
import math
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Rung
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Anchor, Step
from agora.gateway.config import Limits
from agora.gateway.editing.score import PATH, Judge, Question, identity
from agora.scorers import load_scorer
from agora.scorers.bundle import Bundle
from agora.scorers.features import SHIPPED, SHIPPED_SHA256, FeaturesScorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.testing import FailingScorer, FixedScorer, histories
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.odd_bodies import body_of
from harness.gateway.strict_upstream import StrictUpstream
from tests.gateway.test_door import Door


class Short:
    """A scorer that forgets the newest step."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        return [0.5] * (len(steps) - 1)


class Wedged:
    """A scorer whose native code gives up."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        raise SystemExit


JUDGE = Judge(scorer=FeaturesScorer(), counter=EstimatedTokens())


def judged(body: Any, judge: Judge = JUDGE) -> dict[str, Any]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = judge(Question(body=text))
    assert not found.problem, found.problem
    answer: dict[str, Any] = json.loads(found.body)
    return answer


def problem(body: Any, judge: Judge = JUDGE) -> str:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return judge(Question(body=text)).problem


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_scores_and_floor_are_those_the_compressor_goes_by(
    format: str, data: st.DataObject
) -> None:
    history = data.draw(histories(format))
    body = json.loads(body_of(history))
    answer = judged({**body, "format": format})
    compression = Compressor(
        scorer=FeaturesScorer(),
        schedule="every_call",
        min_tokens=0,
        budget=Budget(keep_ratio=0.01, min_ratio=0.0),
        forms=None,
    ).compress(
        history.messages,
        format=format,
        system=history.system,
        tools=history.tools,
        thinking=history.thinking or None,
    )
    steps = answer["steps"]

    assert [step["number"] for step in steps] == [d.number for d in compression.decisions]
    assert [step["tokens"] for step in steps] == [d.tokens for d in compression.decisions]
    assert answer["tokens"] == compression.tokens_before
    if compression.changed:
        assert [step["score"] for step in steps] == [d.score for d in compression.decisions]
        assert [step["floor"] for step in steps] == [
            d.outcome == "floor" for d in compression.decisions
        ]
    places = [place for step in steps for place in step["messages"]]
    assert len(places) == len(set(places))
    assert all(0 <= place < len(history.messages) for place in places)


@settings(max_examples=60, deadline=None)
@given(
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["messages", "input", "format", "pins", "role", "content", "type"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_is_asked_is_answered_with_scores_or_a_problem(body: Any) -> None:
    found = JUDGE(Question(body=json.dumps(body).encode()))

    assert bool(found.body) != bool(found.problem)


def test_text_formats_and_aliases_are_read() -> None:
    text = "[USER] Find it.\n[ASSISTANT] open box 1\n[USER] In it: key 7.\n"
    answer = judged({"messages": text})

    assert answer["format"] == "transcript"
    assert [step["number"] for step in answer["steps"]] == [1]
    assert judged({**chat(3), "format": "chat"})["format"] == "openai"


def test_a_prompt_without_steps_has_no_scores() -> None:
    assert judged({"messages": [{"role": "user", "content": "Go."}]})["steps"] == []


def test_pins_and_observations_are_heard() -> None:
    pinned = judged({**chat(9), "pins": [3]})["steps"]
    said = [
        {"role": role, "content": f"{role} {n}"} for n in range(6) for role in ("user", "assistant")
    ]

    assert [(step["floor"], step["why"]) for step in pinned[1:4]] == [
        (False, ""),
        (True, "pinned"),
        (False, ""),
    ]
    assert judged({"messages": said})["steps"] == []
    assert len(judged({"messages": said, "observations": "user"})["steps"]) == 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100 + b"]" * 100, "64 deep"),
        ([1], "is a list"),
        ({}, "neither messages nor input"),
        ({"messages": 7}, "messages"),
        ({"messages": [7]}, "refused as they are"),
        ({"messages": [], "format": 7}, "format is a int"),
        ({"messages": [], "format": "odd"}, "'odd'"),
        ({"input": [], "previous_response_id": "r"}, "holds the history"),
        ({**chat(1), "pins": "1"}, "pins"),
        ({**chat(1), "pins": [True]}, "pins"),
        ({**chat(1), "observations": "all"}, "observations"),
        ({"messages": [{"role": "tool", "tool_call_id": "a", "content": ""}]}, "refused"),
    ],
)
def test_a_problem_says_what_was_found(body: Any, said: str) -> None:
    assert said in problem(body)


@pytest.mark.parametrize(
    "scorer",
    [FailingScorer(ValueError("no")), Short(), FixedScorer((2.0,) * 9), FixedScorer((math.nan,))],
)
def test_a_scorer_that_fails_gives_way_to_the_rule(scorer: Any) -> None:
    answer = judged(chat(9), Judge(scorer=scorer, counter=EstimatedTokens()))

    assert answer["rung"] == Rung.RULE
    assert answer["scorer"]["name"] == "features"
    assert [s["score"] for s in answer["steps"]] == [s["score"] for s in judged(chat(9))["steps"]]


def test_the_rule_is_taken_when_time_is_up() -> None:
    body = json.dumps(chat(9)).encode()

    assert JUDGE(Question(body=body, until=0.0)).rung is Rung.RULE


def test_a_scorer_is_told_by_name_and_version() -> None:
    def version(sha256: str) -> str:
        bundle = Bundle(folder=Path(SHIPPED), scorer="features", files={"weights.json": sha256})
        named = identity(FeaturesScorer(bundle))
        assert named["name"] == "features"
        return named["version"]

    assert identity(FeaturesScorer()) == {"name": "features", "version": SHIPPED_SHA256[:12]}
    assert identity(RecencyScorer())["name"] == "recency"
    assert identity(LexicalScorer())["name"] == "lexical"
    assert version("0" * 64) == version("0" * 64) != version("1" * 64)


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    upstream = StrictUpstream()
    with serving(upstream) as upstream_url:
        config = config_for(upstream_url, limits=Limits(body_bytes=200_000))
        with gateway(config) as (url, app):
            yield Door(url, app, upstream, upstream_url)


@pytest.mark.parametrize("body", [chat(9), responses(9), messages(9)])
def test_the_gateway_judges_without_asking_an_upstream(door: Door, body: dict[str, Any]) -> None:
    status, headers, said = door.ask(PATH, body)

    assert status == 200
    assert headers["content-type"] == "application/json"
    assert json.loads(said) == judged(body, replace(JUDGE, scorer=load_scorer()))
    assert not door.upstream.received
    reported = door.app.forwarder.meter.snapshot()
    assert reported.total("agora_requests_total", route="score", reason="judged") >= 1


def test_the_caps_of_the_gateway_hold_for_judging(door: Door) -> None:
    long = {"messages": [{"role": "user", "content": "x" * 300_000}]}

    assert door.ask(PATH, long)[0] == 413
    assert door.ask(PATH, chat(1), Host="evil.test")[0] == 421
    assert door.ask(PATH, method="GET")[0] == 405
    status, _, said = door.ask(PATH, {"messages": [7]})
    assert (status, json.loads(said)["error"]["type"]) == (400, "invalid_request_error")
    assert not door.upstream.received


def test_judging_counts_as_one_of_the_requests_at_a_time(door: Door) -> None:
    door.app.gate.open += door.app.config.limits.concurrent
    try:
        status, headers, _ = door.ask(PATH, chat(1))
    finally:
        door.app.gate.open -= door.app.config.limits.concurrent

    assert (status, headers["retry-after"]) == (503, "1")


def test_a_client_that_leaves_before_the_end_is_no_error(door: Door) -> None:
    host, port = door.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(b"POST /v1/agora/score HTTP/1.1\r\nHost: localhost\r\n")
        link.sendall(b"Content-Length: 9\r\n\r\n{")
    meter, until = door.app.forwarder.meter, time.monotonic() + 10
    while not meter.snapshot().total("agora_requests_total", reason="client_left"):
        assert time.monotonic() < until, "nobody heard that the client left"
        time.sleep(0.01)


def test_without_scores_the_answer_is_503(door: Door) -> None:
    with gateway(door.app.config, scorer=Wedged()) as (url, app):
        status, headers, said = Door(url, app, door.upstream, door.upstream_url).ask(PATH, chat(3))

    assert (status, headers["retry-after"]) == (503, "1")
    assert "no scores (failed)" in json.loads(said)["error"]["message"]
