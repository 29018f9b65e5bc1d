import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agora.testing
from agora.core.schedule import Sizes
from agora.core.trajectory import Anchor, Step
from agora.testing import EveryNth, RandomScorer


def make_step(number: int, text: str) -> Step:
    return Step(number=number, action="look", observation=text, tokens=1)


@given(st.text(), st.integers(0, 99))
def test_a_random_score_depends_on_the_step_and_the_seed_alone(text: str, seed: int) -> None:
    step = make_step(1, text)
    scores = [
        RandomScorer(seed).score(Anchor(task, ""), [step, make_step(2, "x")])[0]
        for task in ("a", "b")
    ]

    assert scores[0] == scores[1]
    assert RandomScorer(seed).score(Anchor("", ""), [step])[0] == scores[0]
    assert RandomScorer(seed + 1).score(Anchor("", ""), [step])[0] != scores[0]


@given(st.integers(0, 50), st.integers(1, 9))
def test_the_epoch_is_the_last_multiple_of_n(steps: int, n: int) -> None:
    sizes = Sizes(preamble=1, steps=(3,) * steps, said=(0,) * steps, residues=(0,) * steps)
    epoch = EveryNth(n).edit(sizes).epoch

    assert epoch % n == 0
    assert epoch <= steps < epoch + n


def test_only_the_strategies_need_hypothesis() -> None:
    code = """
import sys
sys.modules["hypothesis"] = None
import agora.testing
from agora.errors import MissingExtraError
agora.testing.check_scorer(agora.testing.FixedScorer(()))
agora.testing.check_adapter(__import__("agora.adapters").adapters.ADAPTERS["openai"])
try:
    agora.testing.histories
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "agora.testing needs an extra: pip install 'agora-context[testing]'\n"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        agora.testing.nothing  # noqa: B018
