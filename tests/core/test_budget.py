import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget
from agora.errors import SettingError


@given(st.floats(0, 1), st.integers(0, 10**9))
def test_a_ratio_never_allows_more_than_there_is(ratio: float, total: int) -> None:
    assert 0 <= Budget(keep_ratio=ratio).of(total) <= total


@given(st.floats(0, 1), st.integers(0, 10**6), st.integers(0, 10**6))
def test_of_what_lies_outside_the_floor_a_least_share_stays(
    ratio: float, floor: int, outside: int
) -> None:
    budget = Budget(keep_ratio=ratio, min_ratio=0.2).of(floor + outside, floor=floor)

    assert floor + int(0.2 * outside) <= budget <= floor + outside


def test_a_limit_has_no_least_share() -> None:
    assert Budget(limit=7, min_ratio=0.5).of(1_000, floor=500) == 7


def test_a_limit_is_the_same_for_every_prompt() -> None:
    assert Budget(limit=7).of(3) == Budget(limit=7).of(10**6) == 7


def test_a_quarter_is_kept_when_nothing_is_said() -> None:
    assert Budget().of(1_000) == 250


@pytest.mark.parametrize(
    ("ratio", "limit", "says"),
    [
        (0.5, 10, "both"),
        (1.5, None, "share"),
        (-0.1, None, "share"),
        (float("nan"), None, "share"),
        (None, -1, "whole number"),
    ],
)
def test_a_budget_that_means_nothing_is_refused_with_its_reason(
    ratio: float | None, limit: int | None, says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        Budget(keep_ratio=ratio, limit=limit)


def test_a_min_ratio_that_means_nothing_is_refused() -> None:
    with pytest.raises(SettingError, match="min_ratio"):
        Budget(min_ratio=2.0)
