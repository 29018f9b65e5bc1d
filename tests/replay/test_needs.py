from dataclasses import replace

import pytest

from agora import Step, Trajectory, sheet_for
from agora.core import Utterance
from agora.logs import Usage
from agora.replay import Policy, Pricing, Report, run

# Private: which names an action needs, step by step.
from agora.replay.needs import Needs
from tests.replay.recordings import recording, replay


def trajectory(*pairs: tuple[str, str], said: tuple[Utterance, ...] = ()) -> Trajectory:
    steps = tuple(
        Step(number=n, action=action, observation=observation, tokens=5)
        for n, (action, observation) in enumerate(pairs, start=1)
    )
    return Trajectory(
        task="Open door-12.",
        preamble="Open door-12.",
        preamble_tokens=5,
        steps=steps,
        utterances=said,
    )


def test_an_action_needs_what_only_an_earlier_observation_brought() -> None:
    needs = Needs(trajectory(("look", "there is key_7"), ("wait", "ok"), ("take key_7", "taken")))

    assert [needs.of(n) for n in (1, 2, 3)] == [(), (), ("key_7",)]


def test_what_the_task_or_the_user_says_is_not_needed_of_a_step() -> None:
    said = (Utterance(after=1, text="Take key_7 please.", tokens=5, by_user=True),)
    needs = Needs(
        trajectory(("look", "key_7 and door-12"), ("take key_7 to door-12", "done"), said=said)
    )

    assert needs.of(2) == ()


def test_what_an_agent_wrote_itself_is_not_needed() -> None:
    needs = Needs(trajectory(("write plan_3", "wrote plan_3"), ("read plan_3", "…")))

    assert needs.of(2) == ()


def test_a_need_is_met_by_another_step_or_by_a_line() -> None:
    needs = Needs(
        trajectory(("look", "key_7"), ("look again", "key_7 still"), ("take key_7", "taken"))
    )

    assert needs.met(3, [(1, "", False)])
    assert not needs.met(3, [(1, "", False), (2, "", False)])
    assert needs.met(3, [(1, "look -> ok id=key_7; +1", False), (2, "", False)])
    assert not needs.met(3, [(1, "look -> key_77", False), (2, "", False)])


def test_sending_everything_meets_every_need_and_forgetting_shows() -> None:
    rows = replay(recording("long", 60), sheet_for("gpt-4o")).bills

    was = rows[Policy.AS_IT_WAS]
    assert was.met == was.needing
    for policy in Policy:
        assert rows[policy].met <= rows[policy].needing


def test_bills_are_scaled_to_the_tokens_that_were_billed() -> None:
    one = recording("billed", 20, model="gemini-3-pro-preview")
    plain = replay(one, sheet_for("gemini-3-pro-preview"))
    tokens = [
        call.uncached + call.read + call.written for call in plain.bills[Policy.AS_IT_WAS].calls
    ]
    usage = tuple(Usage(count, count) for count in tokens)

    billed = replay(replace(one, usage=usage), sheet_for("gemini-3-pro-preview"))

    for policy in Policy:
        assert billed.bills[policy].tokens == pytest.approx(
            2 * plain.bills[policy].tokens, rel=0.01
        )
    [outcome] = run([replace(one, usage=usage)], Pricing())
    report = Report(Pricing())
    report.add(outcome)
    assert report.billed.calls == len(tokens)
    assert report.billed.prompt == 2 * sum(tokens)
    assert report.billed.read == sum(tokens)


def test_usage_of_other_calls_than_those_replayed_is_not_used() -> None:
    one = replace(recording("other", 5), usage=(Usage(10),))

    assert replay(one, sheet_for("gpt-4o")).usage == ()
