from dataclasses import replace

import pytest

from agora import Compression, Decision, FallbackLevel, Reason, Step, Trajectory
from agora.errors import RecallError


def make_steps(*texts: tuple[str, str]) -> tuple[Step, ...]:
    return tuple(
        Step(number=n + 1, action=action, observation=observation, tokens=9)
        for n, (action, observation) in enumerate(texts)
    )


def make_compression(rung: FallbackLevel = FallbackLevel.NONE, detail: str = "") -> Compression:
    steps = make_steps(("look", "a key"), ("take key", "taken"))
    return Compression(
        messages=[],
        reason=Reason.COMPRESSED,
        fallback_level=rung,
        tokens_before=2_000,
        tokens_after=500,
        detail=detail,
        decisions=(
            Decision(1, "elided", "no room left", 9),
            Decision(2, "protected", "current observation", 9),
        ),
        trajectory=Trajectory(task="t", preamble="t", preamble_tokens=1, steps=steps),
    )


def test_the_summary_says_what_was_kept_and_what_it_saved() -> None:
    assert make_compression().summary() == "1 of 2 steps kept, 2,000 -> 500 tokens, 75% less"


@pytest.mark.parametrize("reason", list(Reason))
def test_printed_it_is_one_short_line_without_the_prompt(reason: Reason) -> None:
    compression = replace(make_compression(), messages=["a prompt " * 900], reason=reason)

    for printed in (
        str(compression),
        repr(compression),
        repr(replace(compression, tokens_before=0)),
    ):
        assert printed.startswith(f"<Compression {reason}: ")
        assert len(printed) < 120
        assert "\n" not in printed
        assert "a prompt" not in printed


def test_the_summary_says_when_the_rule_stood_in_for_the_scorer() -> None:
    summary = make_compression(FallbackLevel.PARTIAL, "the model file is missing").summary()

    assert summary.endswith("75% less, newest first: the model file is missing")


def test_the_summary_of_an_unchanged_prompt_says_why() -> None:
    compression = Compression(
        messages=[],
        reason=Reason.ILLEGAL_INPUT,
        fallback_level=FallbackLevel.UNTOUCHED,
        tokens_before=0,
        tokens_after=0,
        detail="O1 at message 3",
    )

    assert compression.summary() == "unchanged: 0 tokens, illegal input (O1 at message 3)"
    assert not compression.changed


def test_a_recalled_step_comes_back_in_full() -> None:
    assert make_compression().recall(1) == "step 1\nlook\na key"


def test_a_step_that_was_not_parsed_yet_is_parsed_to_be_recalled() -> None:
    known = make_compression()
    trajectory = known.trajectory
    assert trajectory is not None

    later = replace(known, trajectory=None, parse=lambda: trajectory)

    assert later.recall(1) == known.recall(1)


@pytest.mark.parametrize("number", [0, 3, -1, True])
def test_a_step_that_is_not_there_cannot_be_recalled(number: int) -> None:
    with pytest.raises(RecallError, match="the steps are 1 to 2"):
        make_compression().recall(number)


def test_what_was_never_parsed_has_no_step_to_recall() -> None:
    with pytest.raises(RecallError, match="there are no steps"):
        replace(make_compression(), trajectory=None).recall(1)


def test_reasons_are_the_words_that_logs_and_metrics_have() -> None:
    assert {reason.name.lower() for reason in Reason} == {str(reason.value) for reason in Reason}
