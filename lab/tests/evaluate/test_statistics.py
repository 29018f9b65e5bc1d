import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agora_lab.evaluate.statistics import (
    holm,
    mean,
    ratio_of_means,
    wilcoxon,
)

FEW = settings(max_examples=25, deadline=None)
rewards = st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=2, max_size=40)


@FEW
@given(values=rewards)
def test_an_interval_lies_around_its_value_and_within_what_was_seen(values: list[float]) -> None:
    estimate = mean(values).estimate

    assert estimate.low - 1e-6 <= estimate.value <= estimate.high + 1e-6
    assert min(values) - 1e-6 <= estimate.low <= estimate.high <= max(values) + 1e-6
    assert estimate.n == len(values)


def test_the_interval_is_the_bootstrap_of_scipy() -> None:
    values = np.random.default_rng(3).random(200)
    ours = mean(list(values)).estimate
    theirs = stats.bootstrap((values,), np.mean, method="percentile", rng=1).confidence_interval

    assert ours.low == pytest.approx(theirs.low, abs=0.003)
    assert ours.high == pytest.approx(theirs.high, abs=0.003)


@FEW
@given(values=rewards.filter(lambda v: sum(v) > 0))
def test_what_is_compared_with_itself_is_retained_whole(values: list[float]) -> None:
    ratio = ratio_of_means(values, values)

    assert ratio is not None
    assert (ratio.estimate.value, ratio.estimate.low, ratio.estimate.high) == (1, 1, 1)


def test_nothing_can_be_retained_of_no_reward() -> None:
    assert ratio_of_means([0.5], [0.0]) is None


@FEW
@given(st.lists(st.integers(-9, 9), min_size=5, max_size=13).filter(any))
def test_few_pairs_are_tested_exactly_as_scipy_does_with_every_sign(values: list[int]) -> None:
    differences = [float(value) for value in values]
    there = [value for value in differences if value]
    ways = np.array(np.meshgrid(*[[1, -1]] * len(there))).reshape(len(there), -1)
    ranks = stats.rankdata(np.abs(there))
    sums = (ways > 0).T @ ranks
    reached = ranks[np.array(there) > 0].sum()
    p = min(1.0, 2 * min((sums <= reached).mean(), (sums >= reached).mean()))

    assert wilcoxon(differences, [0.0] * len(differences)) == pytest.approx(p, rel=1e-4)


def test_many_pairs_are_tested_as_scipy_does() -> None:
    differences = np.random.default_rng(0).normal(0.1, 1, 120)
    expected = stats.wilcoxon(differences, method="asymptotic").pvalue

    assert wilcoxon(list(differences), [0.0] * 120) == pytest.approx(expected, rel=1e-4)


@FEW
@given(st.lists(st.floats(0, 1), max_size=30))
def test_a_corrected_p_value_is_never_below_its_own_and_keeps_the_order(p: list[float]) -> None:
    corrected = holm(p)

    assert all(new >= old - 1e-6 and new <= 1 for new, old in zip(corrected, p, strict=True))
    order = sorted(range(len(p)), key=lambda at: p[at])
    assert [corrected[at] for at in order] == sorted(corrected)
