"""Confidence sequences: sums that say what lists would, and intervals that hold at every look."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

# Private: coverage of the intervals, over thousands of experiments.
from agora.experiment.sequences import WARM_UP, Comparison, Interval, threshold

figures = st.lists(st.tuples(st.floats(0, 1e6), st.booleans()), min_size=0, max_size=80)


def compared(pairs: list[tuple[float, bool]]) -> Comparison:
    found = Comparison()
    for value, treated in pairs:
        found.observe(value, treated=treated)
    return found


def drawn(count: int, ratio: float, seed: int) -> list[tuple[float, bool]]:
    chance = random.Random(seed)
    coins = [chance.random() < 0.5 for _ in range(count)]
    return [(chance.lognormvariate(0, 1) * (ratio if coin else 1), coin) for coin in coins]


@given(figures, st.floats(0.2, 5))
def test_the_sums_say_what_the_conversations_themselves_would(
    pairs: list[tuple[float, bool]], ratio: float
) -> None:
    found = compared(pairs)
    terms, usual, untreated, scaled = [], 0.0, 0, Comparison()
    for value, treated in pairs:
        if scaled.scale:
            terms.append((value / ratio - usual) if treated else (usual - value))
        scaled.observe(value, treated=treated)
        if not treated:
            untreated += 1
            usual += (value - usual) / untreated

    if found.scale:
        squares = math.fsum(x * x for x in terms)
        wanted = math.fsum(terms) ** 2 / threshold(squares, found.scale, 0.05)
        if abs(wanted - 1) > 1e-6:
            assert found.rejects_ratio(ratio, 0.05) == (wanted >= 1)
    else:
        assert not found.rejects_ratio(ratio, 0.05)
        assert found.ratio(0.05) is found.difference(0.05) is None


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0, 1.3])
def test_an_interval_has_its_estimate_and_the_truth_in_it(ratio: float) -> None:
    found = compared(drawn(4_000, ratio, seed=int(ratio * 10))).ratio(0.05)

    assert found is not None
    assert found.low < found.estimate < found.high
    assert found.low < ratio < found.high
    assert found.high / found.low < 1.5


def test_the_ends_of_an_interval_are_where_rejecting_begins() -> None:
    pair = compared(drawn(3_000, 0.8, seed=5))
    for found, rejects in (
        (pair.ratio(0.05), pair.rejects_ratio),
        (pair.difference(0.05), pair.rejects_difference),
    ):
        assert isinstance(found, Interval)
        width = found.high - found.low
        assert rejects(found.low - width / 1e6, 0.05)
        assert rejects(found.high + width / 1e6, 0.05)
        assert not rejects(found.low + width / 1e6, 0.05)
        assert not rejects(found.high - width / 1e6, 0.05)


def test_a_smaller_alpha_gives_a_wider_interval() -> None:
    pair = compared(drawn(3_000, 1.0, seed=6))
    wide, narrow = pair.difference(0.001), pair.difference(0.05)

    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_little_is_known_after_few_conversations() -> None:
    assert compared(drawn(WARM_UP, 1.0, seed=1)).ratio(0.05) is None
    early = compared(drawn(WARM_UP + 4, 1.0, seed=2))
    assert early.ratio(0.05) is None or early.ratio(0.05).high == math.inf  # type: ignore[union-attr]


def test_a_figure_that_never_differs_says_nothing_and_fails_nothing() -> None:
    same = compared([(0.0, at % 2 == 0) for at in range(500)])

    assert same.ratio(0.05) is None
    assert same.difference(0.05) is None
