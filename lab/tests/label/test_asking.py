import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from lab.tests.agents.provider import Provider
from lab.tests.label.serving import backbone, fail_next, made_plan, serving

from agora_lab.agents import BackboneError
from agora_lab.label.answers import Answered
from agora_lab.label.asking import Backbone, ask
from agora_lab.label.plan import Plan, request
from agora_lab.label.progress import Counts, Pace, Progress, clock, total


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return made_plan(tmp_path_factory.mktemp("asking") / "plan", pairs=45, both=True)


def answered(plan: Plan, where: Backbone, *, kind: str) -> Answered:
    one = next(found for found in plan.asks() if found.kind == kind)
    wanted = request(one, plan.cases()[one.case], plan.settings)

    async def go() -> Answered:
        async with where.connect(plan.settings, 4) as client:
            return await ask(one, wanted, client)

    return asyncio.run(go())


def test_a_sample_holds_as_many_texts_as_the_plan_wants(plan: Plan, server: str) -> None:
    found = answered(plan, backbone(server), kind="sample")

    assert len(found.texts) == plan.settings.samples
    assert found.input_tokens > 0
    assert found.attempts == 1
    assert not found.error


def test_a_score_adds_up_the_tokens_of_what_was_done(plan: Plan, server: str) -> None:
    found = answered(plan, backbone(server), kind="score")

    assert found.logprob < 0
    assert found.logprob_tokens > 0
    # Scores come without a bill: the prompt is counted as it is sent.
    assert found.input_tokens > found.logprob_tokens
    assert not found.texts


def test_a_call_that_had_to_be_made_again_is_told(plan: Plan, server: str) -> None:
    fail_next(server, 2)

    assert answered(plan, backbone(server), kind="sample").attempts == 3


def test_what_failed_too_often_is_an_error_and_no_answer(plan: Plan, server: str) -> None:
    fail_next(server, 3)

    with pytest.raises(BackboneError, match="503"):
        answered(plan, backbone(server), kind="sample")
    fail_next(server, 0)


def test_the_key_stands_in_the_environment_and_not_in_the_settings(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-canary")
    with Provider(keys={"sk-canary"}) as provider:
        where = Backbone(address=provider.base_url, model="m", key_variable="SOME_KEY")
        answered(plan, where, kind="sample")

    assert "canary" not in repr(where)


def test_what_askers_tell_is_added_up() -> None:
    one = Counts(answered=3, failed=1, input_tokens=100, cached_tokens=40, output_tokens=7)

    assert total([one, one]) == Counts(
        answered=6, failed=2, input_tokens=200, cached_tokens=80, output_tokens=14
    )


def test_the_rate_is_that_of_the_last_minute() -> None:
    pace = Pace(over_s=60)
    for second in range(0, 600, 10):
        slow = pace.at(second, second)
    for second in range(600, 700, 10):
        fast = pace.at(second, 600 + (second - 600) * 5)

    assert slow == pytest.approx(1)
    assert fast == pytest.approx(5, rel=0.2)


def test_the_time_left_is_told_from_the_rate_and_is_unknown_without_one() -> None:
    at = Progress(
        planned=100,
        before=20,
        counts=Counts(answered=30, found=10),
        sealed=50,
        seconds=10,
        rate=4,
        dollars=0.5,
    )

    assert at.done == 60
    assert at.seconds_left == 10
    assert "60 of 100 answers (50 written)" in str(at)
    assert clock(10) in str(at)
    assert "? left" in str(replace(at, rate=0.0))
