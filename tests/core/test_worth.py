import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest

from agora.core.past import Past
from agora.core.trajectory import Step, Trajectory, Utterance
from agora.core.worth import StepWorth, Worth, worth_of
from agora.errors import ScoreError
from agora.scorers.built_in import BUILT_IN, default_scorer
from agora.scorers.recency import RecencyScorer
from agora.scorers.rule import RuleWorth


def make_past(*observations: str) -> Past:
    steps = tuple(
        Step(number=n, action="look", observation=text, tokens=len(text) + 10, action_tokens=10)
        for n, text in enumerate(observations, start=1)
    )
    said = (Utterance(after=0, text="hello", tokens=1, by_user=True),)
    trajectory = Trajectory(
        task="go", preamble="go", preamble_tokens=1, steps=steps, utterances=said
    )
    return Past.of(trajectory, len(steps), newest=True)


@dataclass
class Given:
    found: Sequence[StepWorth]

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        return self.found


def test_a_scorer_is_worth_its_score_for_both_parts() -> None:
    past = make_past("a", "b", "c")

    assert worth_of(RecencyScorer(), past, ()) == [
        StepWorth(0.25, 0.25),
        StepWorth(0.5, 0.5),
        StepWorth(0.75, 0.75),
    ]


@pytest.mark.parametrize(
    "found",
    [
        [],
        [StepWorth(-0.1, 0.5)],
        [StepWorth(0.5, math.nan)],
        [StepWorth(0.5, math.inf)],
        [StepWorth(0.5, 0.5, 1.5)],
    ],
)
def test_what_is_no_worth_per_step_is_refused(found: list[StepWorth]) -> None:
    with pytest.raises(ScoreError, match="Given returned"):
        worth_of(Given(found), make_past("a"), ())


def test_a_worth_may_be_above_one() -> None:
    assert worth_of(Given([StepWorth(3.0, 0.0)]), make_past("a"), ()) == [StepWorth(3.0, 0.0)]


def test_the_default_scorer_says_what_parts_are_worth() -> None:
    assert isinstance(default_scorer(), Worth)


def test_the_lexical_scorer_says_by_rule_what_parts_are_worth() -> None:
    scorer = BUILT_IN["lexical"]()

    assert isinstance(scorer, Worth)
    past = make_past('{"id": "A-11"}', "nothing")
    assert scorer.worth(past, {2}) == RuleWorth().worth(past, {2})


def test_by_rule_news_is_worth_more_and_so_is_what_is_newer() -> None:
    news, stale, same = (RuleWorth().worth(make_past(*texts), {3}) for texts in _TRIALS)

    assert news[0].observation > stale[0].observation
    assert same[1].observation > same[0].observation
    assert same[1].action > same[0].action
    assert news[0].named > same[0].named


_TRIALS = (
    ('{"id": "A-1111"}', "nothing more", "here"),
    ('{"id": "A-1111"}', "nothing more", "A-1111 is here"),
    ("nothing at all", "nothing at all", "here"),
)
